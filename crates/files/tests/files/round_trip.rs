//! Input equals output, for all codes, sizes and losses.

use crate::helpers::*;
use kiln_files::RepairRequest;
use kiln_stripe::PoolError;

/// Every family's example and some more, with sub-chunks that make small stripes.
pub fn codes() -> impl Iterator<Item = (&'static str, u32)> {
    let more = [("rs:4+2", 1000), ("rep:3", 500), ("clay:4+2", 48), ("clay:5+3,d=6", 32)];
    kiln_code::CODES.iter().map(|family| (family.example, 16)).chain(more)
}

fn sizes(world: &World) -> Vec<usize> {
    let (k, stripe) = (world.codec.shape().k, world.stripe());
    vec![0, 1, k - 1, k, stripe - 1, stripe, stripe + 1, 2 * stripe + stripe / 3, 3 * stripe]
}

#[test]
fn files_and_streams_come_back() {
    for (spec, sub_chunk) in codes() {
        for size in sizes(&World::new(spec, sub_chunk)) {
            let bytes = data(size);
            let world = World::new(spec, sub_chunk);
            let report = world.encode(&bytes);
            assert_eq!((report.size, report.shards.len()), (size as u64, world.n()));
            world.assert_whole(&bytes);
            let streamed = World::spread(spec, sub_chunk);
            assert_eq!(streamed.encode_stream(&bytes).size, size as u64);
            streamed.assert_whole(&bytes);
        }
    }
}

/// All sets of at most `most` indices below n.
pub fn losses(n: usize, most: u32) -> impl Iterator<Item = Vec<usize>> {
    (0u32..1 << n)
        .filter(move |set| set.count_ones() <= most)
        .map(move |set| (0..n).filter(|i| set & (1 << i) != 0).collect())
}

#[test]
fn every_loss_decodes_and_repairs() {
    let codes =
        [("rs:4+2", 100), ("clay:4+2", 16), ("clay:5+3,d=6", 16), ("rep:3", 9), ("lrc:4+2+2", 50)];
    for (spec, sub_chunk) in codes {
        let world = World::new(spec, sub_chunk);
        let bytes = data(2 * world.stripe() + 31);
        world.encode(&bytes);
        let shards = world.all();
        for lost in losses(world.n(), world.codec.shape().m as u32) {
            lost.iter().for_each(|&index| world.lose(index));
            if !world.codec.tolerates(&lost) {
                let error = world.decode().unwrap_err();
                assert!(matches!(error, PoolError::NotRecoverable { .. }), "{error}");
                lost.iter().for_each(|&index| world.put(index, shards[index].clone()));
                continue;
            }
            let (out, report) = world.decode().unwrap();
            assert!(out == bytes, "{spec} {lost:?}");
            assert_eq!(report.lost, lost);
            assert!(report.verified);
            let report = world.repair(&RepairRequest::default()).unwrap();
            assert_eq!(report.lost, lost);
            assert!(report.verified);
            assert!(world.all() == shards, "{spec} {lost:?}");
        }
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new("rs:4+2", 100);
    for (object, sub_chunk) in [("", 16), (".x", 16), ("a/b", 16), ("x", 0), ("x", u32::MAX)] {
        let req =
            kiln_files::EncodeRequest { object, sub_chunk: Some(sub_chunk), ..world.request() };
        let settings = settings();
        let end = kiln_files::encode(&req, &mut Known::new(b"abc"), &world.nodes, &settings);
        assert!(end.is_err(), "{object:?} {sub_chunk}");
    }
    let world = World { nodes: memory_nodes(5).1, ..world };
    let error = world.try_encode(b"abc").unwrap_err();
    assert!(error.to_string().contains("6 folders, not 5"), "{error}");
}
