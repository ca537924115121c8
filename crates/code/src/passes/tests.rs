//! The schedule of every XOR code against its DAG: exactly, by sets of inputs.

use super::{proof::prove, resident, share};
use crate::combinations::{others, sample};
use crate::schedule::{Op, sums};
use crate::{CODES, Codec, Dag, Shape};

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
        let left = others(k + m, &lost);
        dags.push(codec.decode_plan(&lost, &left).unwrap().dag().clone());
        dags.push(codec.repair_plan(&lost, &left).unwrap().dag().clone());
    }
    dags
}

#[test]
fn the_schedule_of_every_xor_code_is_proved() {
    let mut state = 1;
    for spec in xor_codes() {
        for dag in dags(spec, &mut state) {
            let shared = share(&dag).unwrap();
            assert_eq!(shared.inputs(), dag.inputs(), "{spec}");
            assert!(shared.work().1 <= dag.work().1, "{spec}: sharing costs nothing");
            let made = resident(&dag).unwrap();
            prove(&made, &dag).unwrap_or_else(|error| panic!("{spec}: {error}"));
            let xors = made.ops.iter().filter(|op| matches!(op, Op::Xor { .. })).count();
            assert_eq!(xors, dag.work().1, "{spec}");
            prove(&resident(&shared).unwrap(), &dag).unwrap();
        }
    }
}

#[test]
fn no_schedule_of_the_dag_is_refused() {
    let plan = Codec::new(&"rdp:4+2".parse().unwrap()).unwrap().encode_plan().unwrap();
    let good = resident(plan.dag()).unwrap();
    for change in 0..good.ops.len() {
        let mut bad = good.clone();
        bad.ops.remove(change);
        assert!(prove(&bad, plan.dag()).is_err());
    }
    let mut bad = good.clone();
    bad.ops.push(Op::Zero { to: 0 });
    assert!(prove(&bad, plan.dag()).is_err());
    let rs = Codec::new(&"rs:4+2".parse().unwrap()).unwrap().encode_plan().unwrap();
    let error = resident(rs.dag()).unwrap_err();
    assert!(error.to_string().contains("multiplies"), "{error}");
}
