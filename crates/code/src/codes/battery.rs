//! One battery for every code: all loss patterns, exact matrices, bytes against the oracle.

use crate::combinations::{combinations, others, sample};
use crate::{CODES, CodeError, Codec, RepairPlan, Result, Shape, codes::codec, dag::At, seed};
use kiln_gf::{Matrix, TemporalHint};

/// Every row's codes that are small enough for exhaustive patterns; more of Clay's are below.
fn small() -> impl Iterator<Item = &'static str> {
    CODES.iter().flat_map(|family| family.examples).copied()
}

/// Returns what a code plans, or a failure that names the code and the loss.
fn planned<T>(codec: &Codec, lost: &[usize], plan: Result<T>) -> T {
    plan.unwrap_or_else(|error| panic!("{} lost {lost:?}: {error}", codec.spec()))
}

/// One byte a sub-chunk of a whole random codeword, n * alpha bytes.
fn codeword(codec: &Codec, state: &mut u64) -> Vec<u8> {
    let Shape { k, alpha, .. } = codec.shape();
    let mut word: Vec<u8> = (0..k * alpha).map(|_| seed::next(state) as u8).collect();
    let plan = planned(codec, &[], codec.encode_plan());
    let parity = plan.dag().eval(&pick(plan.dag().inputs(), &word, alpha)).unwrap();
    word.extend(parity);
    word
}

fn pick(places: &[At], word: &[u8], alpha: usize) -> Vec<u8> {
    places.iter().map(|at| word[at.chunk as usize * alpha + at.position as usize]).collect()
}

/// The plan's DAG rebuilds the lost chunks of the word, and reads only what is available.
fn assert_rebuilds(codec: &Codec, plan: &RepairPlan, available: &[usize], word: &[u8]) {
    let alpha = codec.shape().alpha;
    let inputs = pick(plan.dag().inputs(), word, alpha);
    let wanted: Vec<u8> = plan
        .lost()
        .iter()
        .flat_map(|&c| word[c * alpha..(c + 1) * alpha].iter().copied())
        .collect();
    assert_eq!(plan.dag().outputs().len(), wanted.len());
    let got = plan.dag().eval(&inputs).unwrap();
    assert!(got == wanted, "{} lost {:?} available {available:?}", codec.spec(), plan.lost());
    for hint in [TemporalHint::Temporal, TemporalHint::NonTemporal] {
        // Large programs for memory take long to make: some of them will do.
        let sum: usize = plan.lost().iter().sum();
        if hint == TemporalHint::NonTemporal && alpha > 16 && !sum.is_multiple_of(8) {
            continue;
        }
        let run = plan.program().eval_on(&inputs, hint).unwrap();
        let (spec, lost) = (codec.spec(), plan.lost());
        assert!(run == wanted, "{spec} lost {lost:?} program, {hint:?}, {available:?}");
    }
    assert!(plan.helpers().iter().all(|h| available.contains(&h.chunk)));
    assert!(plan.sub_chunks_read() <= codec.shape().k * alpha, "never dearer than decode");
}

/// No plan is made for what cannot be decoded.
fn refuse(codec: &Codec, lost: &[usize], available: &[usize]) {
    for plan in [codec.repair_plan(lost, available), codec.decode_plan(lost, available)] {
        let error = plan.unwrap_err();
        assert!(matches!(error, CodeError::NotRecoverable { .. }), "{} {error}", codec.spec());
    }
    assert!(codec.margin(lost) < 0, "{} lost {lost:?}", codec.spec());
}

/// Calls for every loss of 1 to `most` of n chunks.
fn every_loss(n: usize, most: usize, mut with: impl FnMut(&[usize])) {
    for failures in 1..=most {
        for lost in combinations(n, failures) {
            with(&lost);
        }
    }
}

/// Every loss of 1 to m chunks: repair with all survivors, with a random readable subset, decode.
fn exhaust(spec: &str, state: &mut u64) {
    let codec = codec(spec);
    let Shape { k, m, alpha } = codec.shape();
    let word = codeword(&codec, state);
    every_loss(k + m, m, |lost| {
        let available = others(k + m, lost);
        if !codec.tolerates(lost) {
            assert!(!codec.is_mds(), "{spec} lost {lost:?}");
            return refuse(&codec, lost, &available);
        }
        let repair = planned(&codec, lost, codec.repair_plan(lost, &available));
        assert_rebuilds(&codec, &repair, &available, &word);
        // A part of it gives a sub-chunk of each from some of what the whole one reads.
        let mut place = |&lost: &usize| (lost, (seed::next(state) % alpha as u64) as u32);
        let places: Vec<(usize, u32)> = lost.iter().map(&mut place).collect();
        let runs: Vec<_> = places.iter().map(|&(chunk, at)| (chunk, at..at + 1)).collect();
        let part = planned(&codec, lost, codec.part_plan(&runs, &available));
        let made = part.program().eval(&pick(part.dag().inputs(), &word, alpha)).unwrap();
        let right = places.iter().map(|&(chunk, at)| word[chunk * alpha + at as usize]);
        assert!(made.into_iter().eq(right), "{spec} {places:?}");
        let read = |at| repair.dag().inputs().binary_search(at).is_ok();
        assert!(part.dag().inputs().iter().all(read), "{spec} {places:?}");
        let spare = available.len() - k;
        let drop = (seed::next(state) % (spare as u64 + 1)) as usize;
        let keep: Vec<usize> = sample(available.len(), available.len() - drop, state)
            .into_iter()
            .map(|i| available[i])
            .collect();
        if !codec.tolerates(&others(k + m, &keep)) {
            return;
        }
        // With nothing dropped it is the plan above, which is a function of its arguments.
        if keep != available {
            let repair = planned(&codec, lost, codec.repair_plan(lost, &keep));
            assert_rebuilds(&codec, &repair, &keep, &word);
        }
        if lost.len() == m || seed::next(state).is_multiple_of(4) {
            let decode = planned(&codec, lost, codec.decode_plan(lost, &keep));
            assert_rebuilds(&codec, &decode, &keep, &word);
        }
    });
}

#[test]
fn every_pattern_of_small_codes() {
    let mut state = 1;
    for spec in small() {
        exhaust(spec, &mut state);
    }
}

fn clay_specs(n: usize) -> Vec<String> {
    let mut specs = Vec::new();
    for k in 1..n {
        specs.extend((k..n).map(|d| format!("clay:{k}+{},d={d}", n - k)));
    }
    specs
}

#[test]
fn every_pattern_of_every_clay_up_to_8_chunks() {
    let mut state = 2;
    for spec in (2..=8).flat_map(clay_specs) {
        exhaust(&spec, &mut state);
    }
}

#[test]
fn every_pattern_of_every_clay_of_9_chunks() {
    let mut state = 3;
    for spec in clay_specs(9) {
        exhaust(&spec, &mut state);
    }
}

#[test]
fn every_pattern_of_every_clay_of_10_chunks() {
    let mut state = 4;
    for spec in clay_specs(10) {
        exhaust(&spec, &mut state);
    }
}

#[test]
fn every_pattern_of_10_4() {
    let mut state = 5;
    for spec in ["rs:10+4", "clay:10+4,d=10", "clay:10+4,d=11", "clay:10+4,d=12"] {
        exhaust(spec, &mut state);
    }
}

#[test]
fn every_pattern_of_10_4_with_13_helpers() {
    exhaust("clay:10+4", &mut 6);
}

#[test]
fn random_large_codes() {
    let mut state = 7;
    let mut seen = 0;
    while seen < 24 {
        let n = 11 + (seed::next(&mut state) % 30) as usize;
        let m = 1 + (seed::next(&mut state) % (n as u64 / 2)) as usize;
        let k = n - m;
        let d = k + (seed::next(&mut state) % m as u64) as usize;
        let Ok(codec) = Codec::new(&format!("clay:{k}+{m},d={d}").parse().unwrap()) else {
            continue; // alpha too large
        };
        if codec.shape().alpha > 4096 {
            continue;
        }
        seen += 1;
        let word = codeword(&codec, &mut state);
        for failures in [1, 1 + (seed::next(&mut state) % m as u64) as usize, m] {
            let lost = sample(n, failures, &mut state);
            let available = others(n, &lost);
            let plan = planned(&codec, &lost, codec.repair_plan(&lost, &available));
            assert_rebuilds(&codec, &plan, &available, &word);
        }
    }
}

/// One row for every sub-chunk of every chunk: what it is of the data.
fn generator(codec: &Codec) -> Matrix {
    let Shape { k, alpha, .. } = codec.shape();
    let parity = planned(codec, &[], codec.encode_plan()).dag().matrix().unwrap();
    Matrix::identity(k * alpha).stack(&parity).unwrap()
}

/// Codes whose matrices are small.
fn smallest() -> impl Iterator<Item = &'static str> {
    small().filter(|spec| {
        let shape = codec(spec).shape();
        shape.n() <= 8 && shape.n() * shape.alpha <= 112
    })
}

/// The matrix of every repair, times what the helpers hold, is what was lost: for all data.
#[test]
fn matrices_are_exact() {
    for spec in smallest() {
        let codec = codec(spec);
        let Shape { k, m, alpha } = codec.shape();
        let whole = generator(&codec);
        every_loss(k + m, m, |lost| {
            if !codec.tolerates(lost) {
                return;
            }
            let plan = planned(&codec, lost, codec.repair_plan(lost, &others(k + m, lost)));
            let row = |at: &At| at.chunk as usize * alpha + at.position as usize;
            let rows =
                |places: &[At]| whole.select_rows(&places.iter().map(row).collect::<Vec<_>>());
            let outputs: Vec<At> = plan.dag().outputs().iter().map(|&(at, _)| at).collect();
            let computed = plan.dag().matrix().unwrap().mul(&rows(plan.dag().inputs()));
            assert_eq!(computed.unwrap(), rows(&outputs), "{spec} {lost:?}");
            let fused = crate::passes::fuse(plan.dag()).unwrap();
            assert_eq!(fused.matrix(), plan.dag().matrix(), "{spec} {lost:?} fused");
        });
    }
}

/// A loss is tolerated exactly if what is left determines all data, and a margin is exactly what
/// every further loss leaves of it.
#[test]
fn tolerance_is_what_the_generator_has() {
    for spec in smallest() {
        let codec = codec(spec);
        let Shape { k, m, alpha } = codec.shape();
        let whole = generator(&codec);
        every_loss(k + m, (m + 1).min(k + m - 1), |lost| {
            let left = others(k + m, lost).into_iter();
            let rows: Vec<usize> = left.flat_map(|c| c * alpha..(c + 1) * alpha).collect();
            let decodable = whole.select_rows(&rows).rank() == k * alpha;
            assert_eq!(codec.tolerates(lost), decodable, "{spec} {lost:?}");
            let margin = codec.margin(lost);
            assert_eq!(margin >= 0, decodable, "{spec} {lost:?}: {margin}");
            let next = |more: usize| [lost, &[more]].concat();
            let after = others(k + m, lost).into_iter().map(|more| codec.margin(&next(more)));
            if let (Some(least), 0..) = (after.min(), margin) {
                assert_eq!(least, margin - 1, "{spec} {lost:?}");
            }
        });
    }
}

/// The executor writes what the oracle says, byte by byte, on every kernel, for odd
/// lengths, over dirty buffers.
#[test]
fn programs_run_what_dags_say() {
    let more = ["rs:3+2", "clay:4+2", "clay:5+3,d=6", "clay:10+4,order=gray", "clay:6+2"];
    let examples = CODES.iter().map(|family| family.example).chain(["butterfly:4+2"]);
    let specs: Vec<&str> = examples.chain(more).collect();
    for kernel in kiln_gf::available() {
        for spec in &specs {
            let codec = Codec::with_kernel(&spec.parse().unwrap(), kernel).unwrap();
            for sub_len in [1, 3, 64, 100, 513] {
                run_and_compare(&codec, sub_len, 5);
            }
        }
        run_and_compare(
            &Codec::with_kernel(&"clay:4+2".parse().unwrap(), kernel).unwrap(),
            9_001,
            3,
        );
    }
}

/// Long enough that a kernel which makes machine code for busy products has made it.
#[test]
fn programs_run_what_dags_say_when_busy() {
    let cases = [("rs:10+4", 200_003), ("clay:4+2", 70_001), ("clay:5+3,d=6", 40_001)];
    for (spec, sub_len) in cases.into_iter().chain([("clay:10+4", 20_001)]) {
        let codec = codec(spec);
        for _ in 0..2 {
            run_and_compare(&codec, sub_len, 4);
        }
    }
}

fn run_and_compare(codec: &Codec, sub_len: usize, columns: usize) {
    let Shape { k, m, alpha } = codec.shape();
    let chunk = alpha * sub_len;
    let mut state = (sub_len * 31 + k) as u64;
    let mut random = |len| (0..len).map(|_| seed::next(&mut state) as u8).collect::<Vec<u8>>();
    let mut chunks: Vec<Vec<u8>> = (0..k).map(|_| random(chunk)).collect();
    let mut parity: Vec<Vec<u8>> = (0..m).map(|_| random(chunk)).collect();
    let data: Vec<&[u8]> = chunks.iter().map(|c| &c[..]).collect();
    let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|c| &mut c[..]).collect();
    planned(codec, &[], codec.encode(&data, &mut out));
    chunks.append(&mut parity);
    // The oracle, on a few byte columns.
    for column in (0..columns).map(|i| i * (sub_len - 1) / columns.max(2)) {
        let byte = |at: &At| chunks[at.chunk as usize][at.position as usize * sub_len + column];
        let plan = planned(codec, &[], codec.encode_plan());
        let inputs: Vec<u8> = plan.dag().inputs().iter().map(byte).collect();
        let wanted = plan.dag().eval(&inputs).unwrap();
        let got: Vec<u8> = plan.dag().outputs().iter().map(|(at, _)| byte(at)).collect();
        assert!(got == wanted, "encode {} sub_len {sub_len} column {column}", codec.spec());
    }
    // Decode and repair give the chunks back.
    let losses = [vec![0], vec![k + m - 1], (k..k + m).collect(), (0..m.min(k)).collect()];
    for lost in losses.into_iter().filter(|lost| codec.tolerates(lost)) {
        let available = others(k + m, &lost);
        let plan = planned(codec, &lost, codec.repair_plan(&lost, &available));
        let inputs: Vec<Vec<u8>> = plan
            .helpers()
            .iter()
            .map(|helper| {
                let run = |run: &std::ops::Range<u32>| {
                    let bytes = run.start as usize * sub_len..run.end as usize * sub_len;
                    chunks[helper.chunk][bytes].to_vec()
                };
                helper.runs.iter().flat_map(run).collect()
            })
            .collect();
        for hint in [TemporalHint::Temporal, TemporalHint::NonTemporal] {
            let mut outputs: Vec<Vec<u8>> = lost.iter().map(|_| random(chunk)).collect();
            let sources = inputs.iter().map(|c| &c[..]).collect::<Vec<_>>();
            let mut results = outputs.iter_mut().map(|c| &mut c[..]).collect::<Vec<_>>();
            plan.run_on(&sources, &mut results, hint).unwrap();
            for (lost, output) in lost.iter().zip(&outputs) {
                let spec = codec.spec();
                assert!(*output == chunks[*lost], "{spec} chunk {lost} {sub_len} {hint:?}");
            }
        }
    }
}

#[test]
fn bad_buffers_are_refused_and_untouched() {
    let codec = codec("clay:4+2");
    let good = vec![7_u8; 8 * 4];
    let short = vec![7_u8; 8 * 3];
    let odd = vec![7_u8; 13];
    let mut parity = [vec![9_u8; 32], vec![9_u8; 32]];
    let mut encode = |data: &[&[u8]]| {
        let [p0, p1] = &mut parity;
        codec.encode(data, &mut [p0, p1])
    };
    assert!(encode(&[&good, &good, &good]).is_err());
    assert!(encode(&[&good, &good, &good, &short]).is_err());
    assert!(encode(&[&odd, &odd, &odd, &odd]).is_err());
    assert!(encode(&[&[], &[], &[], &[]]).is_err());
    assert!(parity.iter().flatten().all(|&byte| byte == 9));
}

#[test]
fn bad_chunk_lists_are_refused() {
    let codec = codec("rs:4+2");
    assert!(codec.repair_plan(&[], &[0, 1, 2, 3]).is_err());
    assert!(codec.repair_plan(&[6], &[0, 1, 2, 3]).is_err());
    assert!(codec.repair_plan(&[0], &[0, 1, 2, 3]).is_err());
    assert!(codec.repair_plan(&[0], &[1, 1, 2, 3]).is_err());
    let error = codec.repair_plan(&[0], &[1, 2, 3]).unwrap_err().to_string();
    assert!(error.contains("3 chunks are available, 4 are needed"), "{error}");
}

#[test]
fn plans_are_cached_and_the_cache_is_bounded() {
    let codec = codec("rs:10+4");
    let first = codec.repair_plan(&[0], &others(14, &[0])).unwrap();
    let again = codec.repair_plan(&[0], &others(14, &[0])).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    for a in 0..14 {
        for b in a + 1..14 {
            codec.repair_plan(&[a, b], &others(14, &[a, b])).unwrap();
        }
    }
    let evicted = codec.repair_plan(&[0], &others(14, &[0])).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first, &evicted));
}
