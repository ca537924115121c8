//! Bare chunks.

use kiln_files::RepairRequest;
use kiln_files::raw::{RawRequest, decode_raw, encode_raw, repair_raw, verify_raw};
use kiln_stripe::StreamSource;

use crate::helpers::*;
use crate::round_trip::losses;
use kiln_store::Backend;

fn request<'a>(world: &'a World, chunk: Option<u64>, size: usize) -> RawRequest<'a> {
    let size = Some(size as u64);
    RawRequest { codec: &world.codec, object: Some("in"), chunk, size, replace: false }
}

fn all(world: &World) -> Vec<Vec<u8>> {
    (0..world.n()).map(|i| world.stores[0].bytes(&format!("in.{i}")).unwrap()).collect()
}

#[test]
fn bare_chunks_come_back_after_any_loss() {
    for (spec, chunk) in [("rs:4+2", 100), ("clay:4+2", 160)] {
        for size in [0, 1, 399, 400, 401, 2000] {
            let world = World::new(spec, 1);
            let bytes = data(size);
            let settings = settings();
            let req = request(&world, Some(chunk), size);
            let source = &mut StreamSource::new(&bytes[..]);
            let report = encode_raw(&req, source, &world.nodes, &settings).unwrap();
            let stripes = size.div_ceil(4 * chunk as usize);
            let chunks = all(&world);
            assert!(chunks.iter().all(|file| file.len() == stripes * chunk as usize));
            assert_eq!(report.bytes_written, (6 * stripes) as u64 * chunk);
            for lost in losses(6, 2) {
                for index in &lost {
                    world.stores[0].remove(&format!("in.{index}")).unwrap();
                }
                let mut out = Vec::new();
                let any = RawRequest { object: None, ..req };
                let report = decode_raw(&any, &world.nodes, &mut out, &settings).unwrap();
                assert!(out == bytes && report.lost == lost);
                let unsized_ = RawRequest { size: None, ..req };
                let repair = RepairRequest::default();
                let report = repair_raw(&unsized_, &repair, &world.nodes, &settings).unwrap();
                assert_eq!((report.lost, report.verified), (lost, false));
                assert!(all(&world) == chunks);
            }
            assert!(verify_raw(&req, &world.nodes, &settings).unwrap().clean);
        }
    }
}

#[test]
fn data_chunks_hold_the_input_as_it_is() {
    let world = World::new("rs:4+2", 1);
    let bytes = data(1000);
    let req = request(&world, Some(50), 1000);
    let source = &mut StreamSource::new(&bytes[..]);
    encode_raw(&req, source, &world.nodes, &settings()).unwrap();
    for (index, file) in all(&world)[..4].iter().enumerate() {
        for (stripe, chunk) in file.chunks(50).enumerate() {
            assert!(*chunk == bytes[(stripe * 4 + index) * 50..][..50]);
        }
    }
}

#[test]
fn without_a_chunk_size_small_objects_are_one_small_stripe() {
    let world = World::new("clay:4+2", 1);
    let bytes = data(1000);
    let settings = settings();
    let req = request(&world, None, 1000);
    // A stream and a file of known size give the same.
    encode_raw(&req, &mut StreamSource::new(&bytes[..]), &world.nodes, &settings).unwrap();
    let streamed = all(&world);
    assert!(streamed.iter().all(|file| file.len() == 256));
    let again = RawRequest { replace: true, ..req };
    encode_raw(&again, &mut Known::new(&bytes), &world.nodes, &settings).unwrap();
    assert!(all(&world) == streamed);
    let mut out = Vec::new();
    decode_raw(&req, &world.nodes, &mut out, &settings).unwrap();
    assert!(out == bytes);
    let report = verify_raw(&RawRequest { size: None, ..req }, &world.nodes, &settings).unwrap();
    assert!(report.clean);
}
