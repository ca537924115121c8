//! Rot, cuts, and other shards' bytes: never a wrong byte, and all of it repaired or said.

use kiln_files::RepairRequest;
use kiln_stripe::PoolError;

use crate::helpers::*;

fn small(spec: &str) -> (World, Vec<u8>) {
    let world = World::new(spec, 16);
    let bytes = data(3 * world.stripe() + 100);
    world.encode(&bytes);
    (world, bytes)
}

#[test]
fn a_flip_anywhere_in_any_shard_is_found_and_healed() {
    let (world, bytes) = small("clay:4+2");
    let shards = world.all();
    for index in 0..world.n() {
        let len = shards[index].len();
        // A step that meets header, data, table and trailer.
        for offset in (0..len).step_by(509).chain([len - 1, len - 40, 4096, 4095]) {
            world.flip(index, offset, 1 << (offset % 8));
            let (out, _) = world.decode().unwrap();
            assert!(out == bytes, "decode: shard {index} at {offset}");
            let report = world.verify(Depth::Data).unwrap();
            // The header block's rest is padding that no field covers.
            if !report.clean {
                assert_eq!(report.lost, [index], "shard {index} at {offset}: {report:?}");
                assert!(report.recoverable && report.damaged_count > 0);
                let report = world.repair(&RepairRequest::default()).unwrap();
                assert_eq!(report.lost, [index]);
                assert!(report.verified);
            } else {
                assert!(offset < 4096, "shard {index} at {offset} was not found");
                world.put(index, shards[index].clone());
            }
            assert!(world.all() == shards, "repair: shard {index} at {offset}");
        }
    }
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
fn rot_in_different_stripes_of_more_than_m_shards_is_healed() {
    for spec in ["rs:4+2", "clay:4+2"] {
        let world = World::new(spec, 16);
        let bytes = data(world.n() * world.stripe());
        world.encode(&bytes);
        let shards = world.all();
        let chunk = 16 * world.codec.shape().alpha;
        for index in 0..world.n() {
            world.flip(index, 4096 + index * chunk + 3, 0x10);
        }
        assert!(world.decode().unwrap().0 == bytes);
        let report = world.verify(Depth::Parity).unwrap();
        assert!(report.recoverable && report.lost.len() == world.n(), "{report:?}");
        let report = world.repair(&RepairRequest::default()).unwrap();
        assert_eq!(report.damaged_count, world.n() as u64);
        assert!(world.all() == shards);
    }
}

#[test]
fn too_much_rot_in_one_stripe_is_said_and_touches_nothing() {
    let (world, bytes) = small("rs:4+2");
    for index in [0, 2, 5] {
        world.flip(index, 4096 + 20, 1);
    }
    let shards = world.all();
    let report = world.verify(Depth::Parity).unwrap();
    assert_eq!((report.recoverable, report.unrecoverable_stripes), (false, vec![1]));
    for error in [world.decode().unwrap_err(), world.repair(&RepairRequest::default()).unwrap_err()]
    {
        let PoolError::StripeLost { stripe, lost, m, .. } = &error else { panic!("{error}") };
        assert_eq!((*stripe, lost, *m), (1, &vec![0, 2, 5], 2));
    }
    assert!(world.all() == shards && world.files().len() == 6);
    drop(bytes);
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

#[test]
fn a_streamed_object_without_any_trailer_is_not_recoverable() {
    let world = World::new("rs:4+2", 16);
    world.encode_stream(&data(1000));
    for index in 0..6 {
        let shard = world.shard(index);
        world.put(index, shard[..shard.len() - 30].to_vec());
    }
    let error = world.decode().unwrap_err();
    assert!(error.to_string().contains("size is unknown"), "{error}");
}

#[test]
fn foreign_bytes_are_no_shards() {
    let (world, bytes) = small("rs:4+2");
    world.put(1, data(5000));
    world.put(2, Vec::new());
    world.stores[0].put("README", b"hands off".to_vec());
    assert!(world.decode().unwrap().0 == bytes);
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!(report.lost, [1, 2]);
    assert!(report.damaged.len() == 2, "{report:?}");
    assert_eq!(world.stores[0].bytes("README").unwrap(), b"hands off");
    assert!(world.verify(Depth::Parity).unwrap().clean);
}
