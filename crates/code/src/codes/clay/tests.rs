//! Clay against its definition and the paper's numbers.

use super::{Clay, ScalarCode};
use crate::combinations::{combinations, others};
use crate::{CodeSpec, Codec, RebuildMethod, codes::codec, seed};
use kiln_gf::field::mul;

fn clay(spec: &str) -> Clay {
    Clay::new(&spec.parse::<CodeSpec>().unwrap()).unwrap()
}

/// The definition, without any DAG: uncouple the stored symbols pair by pair; every layer must be
/// a codeword of the scalar code (paper section 3, "Explaining Through Example").
fn assert_definition(spec: &str) {
    let (codec, clay) = (codec(spec), clay(spec));
    let grid = &clay.grid;
    let mut state = 11;
    let mut word: Vec<u8> =
        (0..grid.k * grid.alpha).map(|_| seed::next(&mut state) as u8).collect();
    let parity = codec.encode_plan().unwrap().dag().eval(&word).unwrap();
    word.extend(parity);
    let stored = |node: usize, z: usize| match grid.chunk_of(node) {
        Some(chunk) => word[chunk * grid.alpha + clay.order.position(z).unwrap()],
        None => 0,
    };
    let uncoupled = |node: usize, z: usize| {
        if grid.is_dot(node, z) {
            return stored(node, z);
        }
        let (other, layer) = grid.companion(node, z);
        let (own, its) = (stored(node, z), stored(other, layer));
        // Position 0 is the member with the larger x.
        let (row, c0, c1) = if node > other { (2, own, its) } else { (3, its, own) };
        mul(clay.pair.at(row, 0), c0) ^ mul(clay.pair.at(row, 1), c1)
    };
    let data = grid.k + grid.virtuals;
    let all: Vec<usize> = (0..data).collect();
    let parities: Vec<usize> = (data..data + grid.m).collect();
    let scalar: &ScalarCode = &clay.scalar;
    let matrix = scalar.solve(&all, &parities).unwrap();
    for z in 0..grid.alpha {
        let u: Vec<u8> = all.iter().map(|&node| uncoupled(node, z)).collect();
        let wanted: Vec<u8> = parities.iter().map(|&node| uncoupled(node, z)).collect();
        assert_eq!(matrix.mul_vec(&u).unwrap(), wanted, "{spec} layer {z}");
    }
}

#[test]
fn stored_symbols_fulfil_the_definition() {
    let specs = [
        "clay:2+2",
        "clay:4+2",
        "clay:5+3",
        "clay:4+3,d=5",
        "clay:3+4,d=5",
        "clay:10+4",
        "clay:10+4,d=11",
        "clay:10+4,mds=isa,coupling=ceph",
        "clay:6+3,mds=jerasure,coupling=ceph",
        "clay:1+3",
        "clay:5+1",
        "clay:16+4",
        "clay:10+4,order=gray",
        "clay:10+4,d=11,mds=isa,coupling=ceph,order=gray",
    ];
    for spec in specs {
        assert_definition(spec);
    }
}

/// One lost chunk, all others there: d helpers read 1/q of a chunk each; q^y runs in section y.
#[test]
fn single_repair_reads_the_optimum() {
    for k in 1..=12 {
        for m in 2..=5 {
            for d in k + 1..k + m {
                let spec = format!("clay:{k}+{m},d={d}");
                let Ok(codec) = Codec::new(&spec.parse().unwrap()) else { continue };
                let (q, alpha) = (d - k + 1, codec.shape().alpha);
                if alpha > 256 {
                    continue;
                }
                let grid = clay(&spec).grid;
                for lost in 0..k + m {
                    let plan = codec.repair_plan(&[lost], &others(k + m, &[lost])).unwrap();
                    if d == k * q {
                        // k = 1: a copy is as cheap as a repair.
                        assert_eq!(plan.strategy(), RebuildMethod::Decode);
                        continue;
                    }
                    assert_eq!(plan.helpers().len(), d, "{spec} {lost}");
                    let section = grid.section_of(grid.node_of(lost));
                    for helper in plan.helpers() {
                        assert_eq!(helper.sub_chunks(), alpha / q, "{spec} {lost}");
                        assert_eq!(helper.runs.len(), q.pow(section as u32), "{spec} {lost}");
                    }
                }
            }
        }
    }
}

/// The count of appendix A: e failures cost d helpers, or all survivors when d = n-1, times the
/// layers in which a failed node has its dot, if the pattern is repairable and that is cheaper.
fn papers_cost(spec: &str, d: usize, lost: &[usize]) -> (bool, f64) {
    let grid = clay(spec).grid;
    let n = grid.k + grid.m;
    let mut failed = vec![0; grid.t];
    for &chunk in lost {
        failed[grid.section_of(grid.node_of(chunk))] += 1;
    }
    let sections = failed.iter().filter(|&&count| count > 0).count();
    let repairable = match d == n - 1 {
        true => sections == 1 && lost.len() < grid.q,
        false => lost.len() <= n - d,
    };
    let untouched: f64 =
        failed.iter().map(|&count| 1.0 - count.min(grid.q) as f64 / grid.q as f64).product();
    let helpers = if d == n - 1 { n - lost.len() } else { d };
    let cost = helpers as f64 * (1.0 - untouched);
    match repairable && cost < grid.k as f64 {
        true => (true, cost),
        false => (false, grid.k as f64),
    }
}

/// The paper's Fig. 17: 10+4 with d = 11, 12, 13 and one to four failures, all patterns. We may
/// read less than the paper (a section with several failures needs fewer helpers), never more.
#[test]
fn average_costs_of_figure_17() {
    for d in [11, 12, 13] {
        let spec = format!("clay:10+4,d={d}");
        let codec = codec(&spec);
        for failures in 1..=4 {
            let average = codec.average_cost(failures, 0).unwrap();
            let (mut sum, mut count, mut repairable) = (0.0, 0, 0);
            for lost in combinations(14, failures) {
                let (cheap, cost) = papers_cost(&spec, d, &lost);
                sum += cost;
                repairable += u64::from(cheap);
                count += 1;
            }
            let paper = sum / count as f64;
            println!(
                "{spec} F={failures}: {:.3} chunks (paper's rule {paper:.3}), {} of {} patterns \
                 repairable, {:.1} runs",
                average.mean_chunks, average.repairable, average.patterns, average.mean_runs
            );
            assert!(average.exhaustive && average.patterns == count);
            assert!(average.repairable >= repairable);
            assert!(average.mean_chunks <= paper + 1e-9, "{spec} {failures}");
            if failures == 1 || d == 13 {
                assert!((average.mean_chunks - paper).abs() < 1e-9, "{spec} {failures}");
            }
        }
    }
}

/// A repair reads helpers x layers, whatever the pattern. In layers where the scalar code
/// knows more symbols than it needs a read can be superfluous: a few less, never more or other.
#[test]
fn multi_chunk_repairs_read_the_same_layers_everywhere() {
    for spec in ["clay:10+4,d=11", "clay:10+4,d=12", "clay:10+4", "clay:5+4,d=6", "clay:8+4,d=9"] {
        let codec = codec(spec);
        let grid = clay(spec).grid;
        for failures in 2..=3 {
            for lost in combinations(grid.k + grid.m, failures) {
                let plan = codec.repair_plan(&lost, &others(grid.k + grid.m, &lost)).unwrap();
                let nodes: Vec<usize> = lost.iter().map(|&c| grid.node_of(c)).collect();
                let layers = (0..grid.alpha).filter(|&z| grid.score(&nodes, z) > 0).count();
                let all = plan.helpers().len() * layers;
                if plan.strategy() == RebuildMethod::Repair {
                    let read = plan.sub_chunks_read();
                    assert!(read <= all && read * 100 >= all * 97, "{spec} {lost:?} {read} {all}");
                    let of_layers = |z: u32| grid.score(&nodes, z as usize) > 0;
                    let mut runs = plan.helpers().iter().flat_map(|h| h.runs.iter());
                    assert!(runs.all(|run| run.clone().all(of_layers)), "{spec} {lost:?}");
                }
            }
        }
    }
}

/// A chunk that is unavailable but not wanted stands aside where the code has room for it.
#[test]
fn unavailable_chunks_stay_non_helpers() {
    let codec = codec("clay:10+4,d=11");
    let available: Vec<usize> = (1..14).filter(|&i| i != 5 && i != 9).collect();
    let plan = codec.repair_plan(&[0], &available).unwrap();
    assert_eq!(plan.strategy(), RebuildMethod::Repair);
    assert_eq!(plan.helpers().len(), 11);
    // Its section fellow missing too: the pattern of both is repaired, one of them is delivered.
    let available: Vec<usize> = (2..14).collect();
    let plan = codec.repair_plan(&[0], &available).unwrap();
    assert_eq!(plan.lost(), [0]);
}
