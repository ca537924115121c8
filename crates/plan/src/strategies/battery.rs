//! Tests of every strategy, for every row of the table.

use super::STRATEGIES;
use crate::{Cluster, Node, Plan, PlanError, Problem, SearchBudget, strategy};
use kiln_code::{CodeSpec, Codec, Dag, Program, active, seed::below};
use std::{collections::HashMap, sync::Arc};

/// The smaller codes of all families, one of each numbers.
fn codes() -> Vec<Codec> {
    let mut codes: Vec<Codec> = Vec::new();
    for spec in kiln_code::CODES.iter().flat_map(|family| family.examples) {
        let codec = codec(spec);
        let name = |spec: &str| spec.split(',').next().map(str::to_owned);
        let known = codes.iter().any(|known| name(&known.spec().to_string()) == name(spec));
        if !known && codec.shape().n() <= 9 && codec.shape().alpha <= 27 {
            codes.push(codec);
        }
    }
    codes
}

fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse().unwrap()).unwrap()
}

fn all_but(codec: &Codec, lost: &[usize]) -> Vec<usize> {
    (0..codec.shape().n()).filter(|index| !lost.contains(index)).collect()
}

fn dag(codec: &Codec, lost: &[usize]) -> Dag {
    codec.repair_dag(lost, &all_but(codec, lost)).unwrap().1
}

/// A random cluster of nodes with unequal links, and a random layout on it: some chunks share a
/// node, new nodes are outside of the stripe or helpers.
fn random_problem(codec: &Codec, state: &mut u64) -> Problem {
    let n = codec.shape().n();
    let losses = 1 + below(state, codec.shape().m);
    let mut lost: Vec<usize> = Vec::new();
    while lost.len() < losses {
        let chunk = below(state, n);
        if !lost.contains(&chunk) {
            lost.push(chunk);
        }
        if !codec.tolerates(&lost) {
            lost.clear();
        }
    }
    lost.sort_unstable();
    let count = n + below(state, 5);
    let nodes = (0..count).map(|i| {
        let mut rate = || 1e8 * (1 + below(state, 10)) as f64;
        let (up, down) = (rate(), rate());
        Node::new(format!("n{i}")).in_domain(format!("rack{}", i % 3)).with_link(up, down)
    });
    let cluster = Cluster::new(nodes.collect()).unwrap();
    let mut homes: Vec<usize> = (0..count).collect();
    for i in 0..count {
        homes.swap(i, i + below(state, count - i));
    }
    if below(state, 3) == 0 {
        homes[1] = homes[0];
    }
    let homes: Vec<(usize, usize)> = (0..n).map(|chunk| (chunk, homes[chunk])).collect();
    let targets: Vec<(usize, usize)> =
        lost.iter().map(|&chunk| (chunk, below(state, count))).collect();
    Problem::new(Arc::new(dag(codec, &lost)), Arc::new(cluster), &homes, &targets).unwrap()
}

fn quick(seed: u64) -> SearchBudget<'static> {
    SearchBudget::new(seed).with_moves(3_000)
}

#[test]
fn every_plan_is_proved_and_keeps_its_promise() {
    let mut state = 3;
    for codec in codes() {
        let spec = codec.spec();
        let mut problems: Vec<Problem> = (0..codec.shape().n())
            .map(|lost| Problem::on_own_nodes(dag(&codec, &[lost])).unwrap())
            .collect();
        problems.extend((0..6).map(|_| random_problem(&codec, &mut state)));
        for problem in &problems {
            for row in STRATEGIES {
                let plan = row.plan(problem, &mut quick(5)).unwrap();
                plan.check().unwrap_or_else(|error| panic!("{} of {spec}: {error}", row.name));
                let costs = plan.costs();
                assert!((row.promise)(problem, &costs), "{} of {spec}: {costs:?}", row.name);
            }
        }
    }
}

/// A random code of a random family, with parameters that a small DAG comes from.
fn random_code(state: &mut u64) -> Codec {
    loop {
        let (k, m) = (2 + below(state, 5), 1 + below(state, 3));
        let family = kiln_code::CODES[below(state, kiln_code::CODES.len())].name;
        let spec = match below(state, 4) {
            0 => {
                let d = k + 1 + below(state, m);
                format!("clay:{k}+{m},d={}", d.min(k + m - 1)).parse()
            }
            _ => CodeSpec::of_family(family, k, m),
        };
        let Ok(codec) = spec.and_then(|spec| Codec::new(&spec)) else { continue };
        if codec.shape().alpha <= 32 {
            return codec;
        }
    }
}

/// Random codes, losses of any number, unequal links, racks, shared nodes, new nodes anywhere:
/// every strategy's plan is proved, and a part of a chunk as well.
#[test]
fn every_plan_of_random_codes_on_random_clusters_is_proved() {
    let mut state = 77;
    for round in 0..40 {
        let codec = random_code(&mut state);
        let mut problem = random_problem(&codec, &mut state);
        if round % 4 == 3 {
            let end = 1 + below(&mut state, codec.shape().alpha) as u32;
            problem = problem.of_range(|at| at.position < end).unwrap();
        }
        for row in STRATEGIES {
            let plan = row.plan(&problem, &mut quick(round)).unwrap();
            let spec = codec.spec();
            plan.check().unwrap_or_else(|error| panic!("{} of {spec}: {error}", row.name));
            assert!((row.promise)(&problem, &plan.costs()), "{} of {spec}", row.name);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let codec = codec("clay:4+2");
    let problem = Problem::on_own_nodes(dag(&codec, &[1])).unwrap();
    for row in STRATEGIES {
        let places = || -> Vec<Option<usize>> {
            let plan = row.plan(&problem, &mut quick(9)).unwrap();
            (0..plan.dag().vertices()).map(|v| plan.node_of(v as u32)).collect()
        };
        assert_eq!(places(), places(), "{}", row.name);
    }
}

#[test]
fn a_range_needs_less() {
    let codec = codec("clay:4+2");
    let problem = Problem::on_own_nodes(dag(&codec, &[0])).unwrap();
    let range = problem.of_range(|at| at.position < 2).unwrap();
    for row in STRATEGIES {
        let plan = row.plan(&range, &mut quick(2)).unwrap();
        plan.check().unwrap();
        assert!(plan.costs().read() < problem.dag().inputs().len(), "{}", row.name);
    }
    assert!(problem.of_range(|_| false).is_err());
}

/// Placements that no strategy would choose: every vertex anywhere.
#[test]
fn random_placements_are_proved() {
    let mut state = 8;
    for codec in codes() {
        let spec = codec.spec();
        for _ in 0..4 {
            let problem = random_problem(&codec, &mut state);
            let plan = scattered(&problem, &mut state);
            plan.check().unwrap_or_else(|error| panic!("{spec}: {error}"));
            executes(&plan);
        }
    }
}

fn scattered(problem: &Problem, state: &mut u64) -> Plan {
    let dag = problem.dag().clone();
    let count = problem.cluster().nodes().len();
    let place = (dag.inputs().len()..dag.vertices()).map(|_| below(state, count)).collect();
    Plan::new(problem, dag, place, "scattered").unwrap()
}

/// Executes a plan with the real executor on bytes, as nodes would, and counts the traffic.
fn executes(plan: &Plan) {
    const BYTES: usize = 24;
    let repair = plan.problem().dag();
    let byte = |chunk: u32, position: u32, i: usize| {
        (chunk as usize * 31 + position as usize * 7 + i * 3 + i * i) as u8
    };
    let execution = plan.execution().unwrap();
    let mut work: Vec<_> = execution
        .execution()
        .iter()
        .flat_map(|node_execution| {
            node_execution.rounds.iter().map(move |round| (round.round, node_execution.node, round))
        })
        .collect();
    work.sort_by_key(|&(number, node, _)| (number, node));
    let mut has: HashMap<(usize, u32), Vec<u8>> = HashMap::new();
    let mut rebuilt: HashMap<(u32, u32), Vec<u8>> = HashMap::new();
    let (mut sent, mut received) = (0, 0);
    for (_, node, round) in work {
        for &piece in &round.reads {
            let crate::Source::Disk { chunk, runs } = &execution.pieces()[piece as usize].source
            else {
                panic!("piece {piece} is not on a disk");
            };
            let positions = runs.iter().cloned().flatten();
            let bytes = positions.flat_map(|p| (0..BYTES).map(move |i| byte(*chunk as u32, p, i)));
            has.insert((node, piece), bytes.collect());
        }
        received += round.receives.len();
        assert!(round.receives.iter().all(|&piece| has.contains_key(&(node, piece))));
        if let Some(dag) = &round.dag {
            let program = Program::compile(dag, active().unwrap()).unwrap();
            let inputs: Vec<&[u8]> = round.inputs.iter().map(|&p| &has[&(node, p)][..]).collect();
            let lengths = round.outputs.iter().map(|&p| execution.pieces()[p as usize].sub_chunks);
            let mut outputs: Vec<Vec<u8>> =
                lengths.map(|count| vec![0xaa; count * BYTES]).collect();
            let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(|o| &mut o[..]).collect();
            program.run(&inputs, &mut slices).unwrap();
            for (&piece, bytes) in round.outputs.iter().zip(outputs) {
                has.insert((node, piece), bytes);
            }
        }
        for &(piece, to) in &round.sends {
            sent += 1;
            let bytes = has[&(node, piece)].clone();
            assert!(has.insert((to, piece), bytes).is_none(), "sent twice");
        }
        for persist in &round.persists {
            let bytes = has[&(node, persist.piece)].chunks(BYTES);
            for (&position, bytes) in persist.positions.iter().zip(bytes) {
                rebuilt.insert((persist.chunk as u32, position), bytes.to_vec());
            }
        }
    }
    assert_eq!(sent, received);
    let same = |i: usize| {
        let inputs = repair.inputs().iter().map(|at| byte(at.chunk, at.position, i));
        let wanted = repair.eval(&inputs.collect::<Vec<u8>>()).unwrap();
        let got = repair.outputs().iter().map(|(at, _)| rebuilt[&(at.chunk, at.position)][i]);
        wanted == got.collect::<Vec<u8>>()
    };
    assert!((0..BYTES).all(same));
    let moved = execution.pieces().iter().map(|piece| piece.sub_chunks * piece.to.len());
    assert_eq!(moved.sum::<usize>(), plan.costs().bandwidth());
}

#[test]
fn a_wrong_plan_is_found() {
    let codec = codec("clay:4+2");
    let problem = Problem::on_own_nodes(dag(&codec, &[0])).unwrap();
    // The DAG of another code with the same inputs and outputs.
    let other = Codec::new(&"clay:4+2,coupling=ceph".parse().unwrap()).unwrap();
    let other = Arc::new(dag(&other, &[0]));
    let place = vec![0; other.vertices() - other.inputs().len()];
    let plan = Plan::new(&problem, other.clone(), place, "wrong").unwrap();
    assert!(matches!(plan.check(), Err(PlanError::Wrong { .. })));
    // A DAG that reads more than the repair.
    let (_, whole) =
        Codec::new(&"clay:4+2".parse().unwrap()).unwrap().repair_dag(&[0], &[1, 2, 3, 4]).unwrap();
    let whole = Arc::new(whole);
    let place = vec![0; whole.vertices() - whole.inputs().len()];
    let plan = Plan::new(&problem, whole, place, "wrong").unwrap();
    assert!(matches!(plan.check(), Err(PlanError::Reads { .. })));
    // A part of the outputs.
    let half = problem.of_range(|at| at.position % 2 == 0).unwrap().dag().clone();
    let place = vec![0; half.vertices() - half.inputs().len()];
    let plan = Plan::new(&problem, half, place, "wrong").unwrap();
    assert!(matches!(plan.check(), Err(PlanError::Delivery { .. })));
    assert!(Plan::new(&problem, other, vec![0], "short").is_err());
    assert!(strategy("luck").is_err());
}
