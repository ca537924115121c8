//! Objects that are read many times, a few bytes each, while disks are away.

use crate::world::*;
use kiln_testkit::{Fault, FaultAction};
use std::io::ErrorKind;

/// From now on nothing on it can be had.
fn dies(disk: &Disk) {
    disk.faulty.inject(Fault::new(FaultAction::Fail(ErrorKind::TimedOut)).always());
}

/// Every pattern of up to m lost chunks, every place: what is rebuilt from a few bytes of other
/// shards is right.
#[test]
pub fn parts_of_lost_chunks_are_rebuilt_from_the_same_parts_of_others() {
    for (spec, alpha) in [("rs:4+2", 1), ("lrc:4+2+2", 1), ("clay:4+2", 8)] {
        let n = if spec.starts_with("lrc") { 8 } else { 6 };
        let world = World::of_class(spec, 4096, n);
        let bytes = data(3 * 4 * 4096 * alpha + 20_000, 3);
        let report = world.put("object", &bytes).unwrap();
        let nodes = report.nodes.iter().map(|id| world.config.position(id).unwrap());
        let nodes: Vec<usize> = nodes.collect();
        let mut rebuilt = 0;
        for lost in (0..n).flat_map(|a| (a..n).map(move |b| [a, b])) {
            let world = world.copy();
            let pool = world.pool();
            let object = pool.open_object("object").unwrap();
            lost.iter().for_each(|index| dies(&world.disks[nodes[*index]]));
            for (at, len) in [(0, 512), (4096 + 64, 1024), (12_000, 9_000), (50_000, 4_096)] {
                let mut part = vec![0; len];
                let plain = object.read_unchecked(&pool, at as u64, &mut part);
                if plain {
                    assert!(part == bytes[at..at + len], "{spec} without {lost:?}");
                    continue;
                }
                // One that is lost is found out when it is asked.
                let mut done = false;
                for _ in 0..3 {
                    done = done || object.rebuild_unchecked(&pool, at as u64, &mut part);
                }
                assert!(done, "{spec} without {lost:?}: {len} bytes at {at}");
                assert!(part == bytes[at..at + len], "{spec} without {lost:?}");
                rebuilt += 1;
            }
        }
        assert!(rebuilt > 20, "{spec}: {rebuilt}");
    }
}

/// Returns what is read for a block whose chunk is lost: that block of k others.
#[test]
pub fn a_lost_block_costs_the_same_block_of_k_others() {
    let world = World::of_class("rs:4+2", 65_536, 6);
    let bytes = data(4 * 65_536, 5);
    let report = world.put("object", &bytes).unwrap();
    let at = world.config.position(&report.nodes[0]).unwrap();
    let pool = world.pool();
    let object = pool.open_object("object").unwrap();
    dies(&world.disks[at]);
    let mut part = [0; 4096];
    assert!(!object.read_unchecked(&pool, 8192, &mut part) && object.met_failure());
    // Shards are opened once; then a block costs a read of each of k.
    assert!(object.rebuild_unchecked(&pool, 0, &mut part) && part == bytes[..4096]);
    let before = world.operations();
    assert!(object.rebuild_unchecked(&pool, 8192, &mut part));
    assert_eq!(world.operations() - before, 4);
    assert!(part == bytes[8192..8192 + 4096]);
}

/// Of a code with many sub-chunks a long read is not rebuilt part by part: each would read again
/// what another one has read.
#[test]
pub fn what_is_long_is_left_to_whole_sub_chunks() {
    let world = World::of_class("clay:6+3", 4096, 9);
    let bytes = data(6 * 27 * 4096, 7);
    let report = world.put("object", &bytes).unwrap();
    let at = world.config.position(&report.nodes[0]).unwrap();
    let pool = world.pool();
    let object = pool.open_object("object").unwrap();
    dies(&world.disks[at]);
    // Nine sub-chunks of each of eight others.
    let mut part = vec![0; 4096];
    assert!(!object.read_unchecked(&pool, 0, &mut part));
    assert!(object.rebuild_unchecked(&pool, 0, &mut part) && part == bytes[..4096]);
    let before = world.operations();
    let mut long = vec![0; 20 * 4096];
    assert!(!object.rebuild_unchecked(&pool, 0, &mut long));
    assert!(world.operations() - before <= 72, "{} reads for nothing", world.operations() - before);
    let read = object.read(&pool, 0..20 * 4096, &settings()).unwrap();
    assert!(read == bytes[..20 * 4096]);
}
