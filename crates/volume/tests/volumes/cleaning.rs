//! Cost of cleaning once a volume has been written over many times.

use crate::common::*;
use kiln_volume::{CreateRequest, Op, Volume};

const BLOCKS: u64 = 2048;
const SEGMENT: u64 = 64;

/// Bytes that cleaning moved for each byte that became a segment, after the volume was written
/// over six times, while it is written over six times more: 4 KiB at a time, where `pick` says.
fn moved(pick: impl Fn(&mut Random) -> u64) -> f64 {
    let cluster = Cluster::new("rs:2+1", 3);
    let rim = cluster.rim(&[], 1);
    let size = BLOCKS * BLOCK as u64;
    let segment = SEGMENT * BLOCK as u64;
    let create = CreateRequest { size, segment, log: 4 * segment };
    Volume::create(&rim, "v", &create).unwrap();
    let volume = open(&rim);
    let mut random = Random(3);
    let bytes = random.bytes(BLOCK);
    let mut write = |block: u64| {
        volume.write(&[Op::Write { offset: block * BLOCK as u64, bytes: &bytes }]).unwrap();
        while volume.seal().unwrap() != kiln_volume::Worked::Nothing {}
        while volume.keep().unwrap() != kiln_volume::Worked::Nothing {}
    };
    (0..BLOCKS).for_each(&mut write);
    let mut over = |times: u64| {
        (0..times * BLOCKS).for_each(|_| write(pick(&mut random)));
        volume.status().statistics
    };
    let (before, after) = (over(6), over(6));
    let gained = |number: fn(&kiln_volume::Statistics) -> u64| number(&after) - number(&before);
    let (moved, sealed) = (gained(|s| s.moved_bytes), gained(|s| s.sealed_bytes));
    assert!(sealed > 4 * size, "{sealed} bytes became segments");
    moved as f64 / sealed as f64
}

#[test]
fn cleaning_a_volume_that_is_written_over_everywhere_costs_what_theory_says() {
    // Of segments that are live to 70% on average, all overwritten alike, the emptiest is live to
    // u where 0.7 = (u - 1) / ln u (Menon's formula): 0.47. Each byte that is made room for costs
    // u / (1 - u) = 0.88; segments that are whole, and few, cost a little more.
    let moved = moved(|random| random.below(BLOCKS));
    assert!((0.5..0.95).contains(&moved), "{moved}");
}

#[test]
fn cleaning_a_volume_with_a_hot_part_costs_less() {
    // Nine of ten writes go to a tenth of the volume.
    let moved = moved(|random| match random.below(10) {
        0 => random.below(BLOCKS),
        _ => random.below(BLOCKS / 10),
    });
    assert!((0.1..0.5).contains(&moved), "{moved}");
}
