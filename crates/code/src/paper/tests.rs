//! Every schedule of every XOR code against its DAG: exactly, by sets of inputs, and by bytes.

use super::{Op, SCHEDULES, WordKernel, schedule};
use crate::combinations::sample;
use crate::passes::share;
use crate::schedule::sums;
use crate::seed;
use crate::{CODES, Codec, Dag, Shape};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Codes of every row whose encode only XORs, shortened ones too, up to a size.
fn xor_codes() -> Vec<&'static str> {
    let all = CODES.iter().flat_map(|row| row.examples.iter().copied().chain([row.example]));
    let by_xor = |spec: &&str| {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let small = codec.shape().n() * codec.shape().alpha <= 150;
        small && sums(codec.encode_plan().unwrap().dag()).is_ok()
    };
    let specs: Vec<&str> = all.filter(by_xor).collect();
    assert!(specs.len() >= 17, "{specs:?}");
    specs
}

/// The DAGs of an encode, of decodes and repairs of random losses.
fn dags(spec: &str, state: &mut u64) -> Vec<Dag> {
    let codec = Codec::new(&spec.parse().unwrap()).unwrap();
    let Shape { k, m, .. } = codec.shape();
    let mut dags = vec![codec.encode_plan().unwrap().dag().clone()];
    for failures in (1..=m).chain([1, m]) {
        let mut lost = sample(k + m, failures, state);
        while !codec.tolerates(&lost) {
            lost = sample(k + m, failures, state);
        }
        let others: Vec<usize> = (0..k + m).filter(|i| !lost.contains(i)).collect();
        dags.push(codec.decode_plan(&lost, &others).unwrap().dag().clone());
        dags.push(codec.repair_plan(&lost, &others).unwrap().dag().clone());
    }
    dags
}

#[test]
fn every_schedule_of_every_xor_code_is_proved() {
    let mut state = 1;
    for spec in xor_codes() {
        for dag in dags(spec, &mut state) {
            let shared = share(&dag).unwrap();
            assert_eq!(shared.inputs(), dag.inputs(), "{spec}");
            assert!(shared.work().1 <= dag.work().1, "{spec}: sharing costs nothing");
            for row in SCHEDULES {
                let made = (row.make)(&dag).unwrap();
                made.prove(&dag).unwrap_or_else(|error| panic!("{spec} {}: {error}", row.name));
                assert_eq!(made.xors(), dag.work().1, "{spec} {}", row.name);
                (row.make)(&shared).unwrap().prove(&dag).unwrap();
            }
        }
    }
}

/// The same with bytes, by the loops that measure the paper's orders.
#[test]
fn word_kernels_make_the_bytes_of_the_dag() {
    let mut state = 2;
    for spec in xor_codes() {
        let dags = dags(spec, &mut state);
        for (dag, row) in dags.iter().flat_map(|dag| SCHEDULES.iter().map(move |row| (dag, row))) {
            let schedule = (row.make)(dag).unwrap();
            let buffers = schedule.buffers().clone();
            let packet = 3;
            let mut regions: Vec<Vec<AtomicU64>> = Vec::new();
            let units = buffers.inputs.iter().chain(&buffers.outputs).chain([&buffers.scratch]);
            for &units in units {
                // Outputs and temporary words are dirty.
                regions.push((0..units * packet).map(|_| seed::next(&mut state).into()).collect());
            }
            let slices: Vec<&[AtomicU64]> = regions.iter().map(|region| &region[..]).collect();
            WordKernel::new(&schedule).run(&slices).unwrap();
            for x in 0..packet {
                let byte = |word: usize| {
                    let place = schedule.place(word as u32);
                    let at = place.unit as usize * packet + x;
                    regions[place.region as usize][at].load(Relaxed).to_le_bytes()[x]
                };
                let inputs: Vec<u8> = (0..schedule.inputs()).map(byte).collect();
                let made = (0..schedule.outputs()).map(|o| byte(schedule.inputs() + o));
                let made: Vec<u8> = made.collect();
                assert!(dag.eval(&inputs).unwrap() == made, "{spec} {}", row.name);
            }
            let short = &slices[1..];
            assert!(WordKernel::new(&schedule).run(short).is_err());
        }
    }
}

/// The paper's toy code and its Tables 2 and 3, with the first use as a copy.
#[test]
fn the_toy_code_of_the_paper() {
    use crate::dag::{At, DagBuilder, Hint};
    let mut builder = DagBuilder::new();
    let data = [0, 1].map(|chunk| builder.input(At { chunk, position: 0 }, Hint::default()));
    let ones = builder.matrix(&kiln_gf::Matrix::new(1, 2, vec![1, 1]).unwrap());
    for chunk in 2..4 {
        let sum = builder.step(ones, &data, &[Hint::default()]).unwrap();
        builder.output(At { chunk, position: 0 }, sum.symbol(0));
    }
    let dag = builder.finish().unwrap();
    let (copy, xor) = (|from, to| Op::Copy { from, to }, |from, to| Op::Xor { from, to });
    let groups = |name: &str| (schedule(name).unwrap().make)(&dag).unwrap().groups().to_vec();
    let traditional = [vec![copy(0, 2)], vec![xor(1, 2)], vec![copy(0, 3)], vec![xor(1, 3)]];
    assert_eq!(groups("traditional"), traditional);
    let by_word = [vec![copy(0, 2), copy(0, 3)], vec![xor(1, 2), xor(1, 3)]];
    assert_eq!(groups("by-data-word"), by_word);
}

#[test]
fn what_is_no_schedule_of_the_dag_is_refused() {
    let plan = Codec::new(&"rdp:4+2".parse().unwrap()).unwrap().encode_plan().unwrap();
    let good = (schedule("by-data-word").unwrap().make)(plan.dag()).unwrap();
    for change in 0..good.groups.len() {
        let mut bad = good.clone();
        bad.groups[change].pop();
        assert!(bad.prove(plan.dag()).is_err());
        bad.groups.remove(change);
        assert!(bad.prove(plan.dag()).is_err());
    }
    let mut bad = good.clone();
    bad.groups.push(vec![Op::Zero { to: 0 }]);
    assert!(bad.prove(plan.dag()).is_err());
    let rs = Codec::new(&"rs:4+2".parse().unwrap()).unwrap().encode_plan().unwrap();
    let error = (schedule("resident").unwrap().make)(rs.dag()).unwrap_err();
    assert!(error.to_string().contains("multiplies"), "{error}");
    assert!(schedule("fastest").unwrap_err().to_string().contains("by-data-word"));
}
