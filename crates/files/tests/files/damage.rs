//! Rot and cuts: never a wrong byte, and all of it repaired or said. Sessions of the program
//! (`damage.txt`, `mixed.txt`) have more.

use crate::helpers::*;
use kiln_files::RepairRequest;

fn small(spec: &str) -> (World, Vec<u8>) {
    let world = World::new(spec, 16);
    let bytes = data(3 * world.stripe() + 100);
    world.encode(&bytes);
    (world, bytes)
}

#[test]
fn a_corrupt_helper_is_replaced_reported_and_healed() {
    for spec in ["clay:4+2", "rs:4+2", "rep:3", "clay:5+3,d=6"] {
        let (world, bytes) = small(spec);
        let shards = world.all();
        for lost in 0..world.n() {
            for helper in (0..world.n()).filter(|&i| i != lost) {
                let len = shards[helper].len();
                for offset in [4096, 4096 + len / 3, len - len / 3, len - 10] {
                    world.flip(helper, offset, 0x40);
                    world.lose(lost);
                    let report = world.repair(&RepairRequest::default()).unwrap();
                    assert!(world.decode().unwrap().0 == bytes);
                    assert!(report.lost.contains(&lost) && report.verified);
                    assert!(world.shard(lost) == shards[lost], "{spec} {lost} {helper} {offset}");
                    // Rebuilt in the same repair if it was read at all, else found by a scan.
                    if world.shard(helper) != shards[helper] {
                        assert!(!report.lost.contains(&helper));
                        let req = RepairRequest { scan: true, ..RepairRequest::default() };
                        assert_eq!(world.repair(&req).unwrap().lost, [helper]);
                    } else {
                        assert!(report.damaged.iter().any(|d| d.index == Some(helper)));
                    }
                    assert!(world.all() == shards);
                }
            }
        }
    }
}

#[test]
fn truncated_shards_help_as_far_as_they_reach() {
    // Segments of 4096 stripes: three of them.
    let world = World::new("rs:4+2", 16);
    let bytes = data(9_000 * world.stripe());
    world.encode(&bytes);
    let shards = world.all();
    let len = shards[0].len();
    // Four of six are cut, but each stripe has at least four readable chunks.
    for (index, cut) in [(0, len - 1), (1, len - 20_000), (2, len - 3000)] {
        world.put(index, shards[index][..cut].to_vec());
    }
    world.put(0, shards[0].clone());
    assert!(world.decode().unwrap().0 == bytes);
    let report = world.verify(Depth::Headers).unwrap();
    assert_eq!((report.clean, report.recoverable, report.lost), (false, true, vec![1, 2]));
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!(report.lost, [1, 2]);
    assert!(world.all() == shards);
    for cut in [0, 1, 100, 4095, 4096, 4097, len / 2, len - 60] {
        world.put(3, shards[3][..cut].to_vec());
        assert!(world.decode().unwrap().0 == bytes, "{cut}");
        assert_eq!(world.repair(&RepairRequest::default()).unwrap().lost, [3], "{cut}");
        assert!(world.all() == shards, "{cut}");
    }
}

#[test]
fn all_trailers_lost_is_no_loss_while_headers_know_the_size() {
    let (world, bytes) = small("clay:4+2");
    let shards = world.all();
    for index in 0..6 {
        world.put(index, shards[index][..shards[index].len() - 30].to_vec());
    }
    assert!(world.decode().unwrap().0 == bytes);
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!((report.lost.len(), report.verified), (6, false));
    assert!(world.all() == shards);
}
