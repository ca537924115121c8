use super::*;
use kiln_code::{CodeSpec, Codec};
use kiln_net::proto::assignment::Assignment;
use kiln_store::{Digest, ShardInfo, SumKind};

const TASK: TaskId = [9; 16];

/// Node i of `n + 1` has shard i, but for the lost one, which the last node gets.
fn repair<'a>(codec: &'a Codec, lost: usize, strategy: &'a str) -> PlacedRepair<'a> {
    let shape = codec.shape();
    let digest = Digest::new(SumKind::Crc32c, &[0; 16]).unwrap();
    let info = ShardInfo {
        spec: codec.spec().to_string(),
        object: "object".to_owned(),
        run: [1; 16],
        source: [0; 16],
        index: 0,
        k: shape.k as u16,
        n: shape.n() as u16,
        alpha: shape.alpha as u32,
        sub_chunk: 64,
        segment_stripes: 4,
        size: Some(100_000),
        sums: SumKind::Crc32c,
    };
    let node = |node: usize| Helper {
        address: format!("kiln://h{node}:1"),
        shards: (node < shape.n() && node != lost)
            .then(|| (node, format!("shard.{node}")))
            .into_iter()
            .collect(),
    };
    PlacedRepair {
        codec,
        geometry: Geometry::of(&info, 100_000, &vec![digest; shape.n()]),
        nodes: (0..=shape.n()).map(node).collect(),
        targets: vec![(lost, shape.n(), "part".to_owned(), "name".to_owned())],
        strategy,
        first: None,
        prices: None,
        copies: false,
        in_place: false,
        slice: 64,
        windows: 4,
        rate: 0,
        seed: 1,
        moves: 20_000,
    }
}

fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse::<CodeSpec>().unwrap()).unwrap()
}

fn late() -> NetError {
    NetError::Late { what: "an answer".to_owned(), place: "somewhere".to_owned() }
}

#[test]
fn each_attempt_is_without_who_failed_until_too_few_are_left() {
    let codec = codec("rs:3+2");
    let repair = repair(&codec, 1, "central");
    let mut attempts = Attempts::new(&repair, TASK).unwrap();
    let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
    assert_eq!((attempt.task, &attempt.ready.helpers[..]), (TASK, &[0, 2, 3][..]));
    // Any one of the four that have a shard could be done without.
    assert_eq!(attempt.spared, [0, 1, 2, 3, 4]);
    assert!(
        attempts.failed(RepairFailure::Node(2, late())).unwrap().contains("without kiln://h2:1")
    );
    let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
    assert_ne!(attempt.task, TASK, "late fragments of the first belong to nobody");
    assert_eq!((&attempt.ready.helpers[..], &attempt.spared[..]), (&[0, 3, 4][..], &[1, 2][..]));
    assert!(attempt.shares.iter().all(|share| share.node != 2));
    let why = attempts.failed(RepairFailure::Chunk(4, 7, "rot".to_owned())).unwrap();
    assert!(why.contains("shard 4") && why.contains("stripe 7"), "{why}");
    // Two chunks are no three; but the agent may come back.
    let failure = attempts.plan().unwrap_err();
    assert!(failure.passing, "{failure:?}");
    assert_eq!(attempts.end(*failure).given_up.len(), 2);
}

#[test]
fn a_chunk_that_leaves_is_copied_and_rebuilt_where_it_cannot_be() {
    let codec = codec("clay:3+2");
    let mut repair = repair(&codec, 1, "hub");
    repair.nodes[1].shards = vec![(1, "shard.1".to_owned())];
    // It is not on its way elsewhere: no agent may read the shard that is to be rebuilt.
    let attempts = Attempts::new(&repair, TASK).unwrap();
    assert_eq!(attempts.plan().unwrap().helpers, [0, 2, 3, 4]);
    repair.copies = true;
    for failure in [RepairFailure::Node(1, late()), RepairFailure::Chunk(1, 2, "rot".to_owned())] {
        let mut attempts = Attempts::new(&repair, TASK).unwrap();
        let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
        assert_eq!((&attempt.ready.helpers[..], attempt.ready.strategy), (&[1][..], COPIED));
        assert_eq!(attempt.spared, [0, 1, 2, 3, 4]);
        let shares: Vec<usize> = attempt.shares.iter().map(|share| share.node).collect();
        assert_eq!(shares, [1, 5], "nobody else has anything to do");
        assert_eq!(attempt.ready.costs.bandwidth(), codec.shape().alpha);
        attempts.failed(failure).unwrap();
        let ready = attempts.plan().unwrap();
        assert_eq!((&ready.helpers[..], ready.strategy), (&[0, 2, 3, 4][..], "hub"));
    }
}

#[test]
fn a_given_plan_is_what_it_begins_with_and_no_more() {
    let codec = codec("clay:3+2");
    let mut repair = repair(&codec, 1, "hub");
    repair.first = {
        let (problem, mut budget) = (repair.problem().unwrap(), SearchBudget::new(1));
        Some(kiln_plan::strategy("central").unwrap().plan(&problem, &mut budget).unwrap())
    };
    let mut attempts = Attempts::new(&repair, TASK).unwrap();
    let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
    let done = attempts.done(attempt, Vec::new());
    assert_eq!((done.strategy, done.given), ("central", true));
    attempts.failed(RepairFailure::Node(4, late())).unwrap();
    let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
    let done = attempts.done(attempt, Vec::new());
    assert_eq!((done.strategy, done.given), ("hub", false));
    // Without a first plan one is made.
    repair.first = None;
    let mut attempts = Attempts::new(&repair, TASK).unwrap();
    let attempt = attempts.begin(attempts.plan().unwrap(), [0]);
    assert!(!attempts.done(attempt, Vec::new()).given);
    repair.nodes[0].shards.clear();
    repair.nodes[2].shards.clear();
    assert!(repair.problem().is_err(), "two chunks are no three");
}

#[test]
fn no_other_plan_helps_when_the_new_node_fails_or_the_repair_itself() {
    let codec = codec("rs:3+2");
    let repair = repair(&codec, 0, "pipeline");
    let fail = |failure: RepairFailure| {
        let mut attempts = Attempts::new(&repair, TASK).unwrap();
        *attempts.failed(failure).unwrap_err()
    };
    let failure = fail(RepairFailure::Node(5, late()));
    assert_eq!((failure.node, failure.passing), (Some(5), true));
    let failure = fail(RepairFailure::Disk(5, late()));
    assert_eq!((failure.node, failure.passing), (Some(5), false));
    assert_eq!(fail(RepairFailure::Failed(late())).node, None);
    // What was left out already cannot fail again.
    let mut attempts = Attempts::new(&repair, TASK).unwrap();
    assert!(attempts.failed(RepairFailure::Chunk(3, 0, String::new())).is_ok());
    assert!(attempts.failed(RepairFailure::Chunk(3, 0, String::new())).is_err());
}

#[test]
fn an_attempt_goes_on_at_the_segment_that_one_target_lacks() {
    let codec = codec("clay:2+2");
    let mut repair = repair(&codec, 0, "hub");
    repair.targets.push((1, 4, "part1".to_owned(), "name1".to_owned()));
    repair.nodes[1].shards.clear();
    let attempts = Attempts::new(&repair, TASK).unwrap();
    let stripes = attempts.layout.stripes();
    assert!(stripes > 12);
    for (kept, first) in [([stripes, stripes], (stripes - 1) / 4 * 4), ([11, 9], 8), ([3, 99], 0)] {
        let attempt = attempts.begin(attempts.plan().unwrap(), kept);
        assert_eq!(attempt.kept, (attempts.bytes(0..first), attempts.bytes(0..stripes)));
        let share = Assignment::decode(&attempt.shares.last().unwrap().assignment).unwrap();
        assert_eq!((share.first, share.end, share.targets.len()), (first, stripes, 2));
        let done = attempts.bytes(first..stripes) / 2;
        let alpha = codec.shape().alpha as u64;
        let (kept, mut attempts) = (attempt.kept.0, Attempts::new(&repair, TASK).unwrap());
        let repaired = attempts.done(attempt, Vec::new());
        assert_eq!((repaired.resumed, repaired.sub_bytes * alpha), (kept, done));
    }
}
