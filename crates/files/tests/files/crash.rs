//! Power cuts at sampled moments of encode and repair: a rerun always ends well.

use std::{io::ErrorKind, sync::Arc};

use kiln_files::{EncodeRequest, RepairRequest, discover, encode, recode, repair};
use kiln_stripe::{Node, PoolError};

use crate::helpers::*;
use kiln_store::{Backend, MemoryBackend};
use kiln_testkit::{Fault, FaultAction, FaultyBackend};

/// One disk that can lose power.
struct Disk {
    memory: Arc<MemoryBackend>,
    faulty: FaultyBackend,
    nodes: Vec<Node>,
}

impl Disk {
    fn new(memory: MemoryBackend) -> Disk {
        let memory = Arc::new(memory);
        let faulty = FaultyBackend::new(memory.clone());
        let nodes = vec![Node::new("disk", Arc::new(faulty.clone()))];
        Disk { memory, faulty, nodes }
    }

    /// From this operation on nothing happens any more.
    fn cut_power_after(&self, operations: u64) {
        let fault = Fault::new(FaultAction::Fail(ErrorKind::Other));
        self.faulty.inject(fault.after(operations).always());
    }

    /// The disk after power came back.
    fn reboot(&self, seed: u64) -> World {
        let memory = Arc::new(self.memory.crash(seed));
        World {
            codec: codec(SPEC),
            sub_chunk: SUB_CHUNK,
            nodes: nodes_over(std::slice::from_ref(&memory)),
            stores: vec![memory],
        }
    }
}

/// 256 sub-chunks: 16 stripes to a segment.
const SPEC: &str = "clay:10+4";
const SUB_CHUNK: u32 = 16;
const STRIPE: usize = 10 * 256 * 16;

fn object() -> Vec<u8> {
    data(40 * STRIPE + 123)
}

fn request<'a>(codec: &'a kiln_code::Codec, run: u8, replace: bool) -> EncodeRequest<'a> {
    EncodeRequest { codec, object: NAME, run: [run; 16], sub_chunk: Some(SUB_CHUNK), replace }
}

/// All operations near the ends of a run, where commits are, and a sample between.
fn moments(all: u64) -> Vec<u64> {
    let mut moments: Vec<u64> = (0..all).step_by((all / 25).max(1) as usize).collect();
    moments.extend(all.saturating_sub(66)..all);
    moments
}

#[test]
fn an_encode_is_finished_or_started_clean() {
    let (codec, bytes) = (codec(SPEC), object());
    let run = |disk: &Disk| {
        encode(&request(&codec, 1, false), &mut Known::new(&bytes), &disk.nodes, &settings())
    };
    let disk = Disk::new(MemoryBackend::new());
    run(&disk).unwrap();
    let mut resumed = 0;
    for (seed, moment) in moments(disk.faulty.operations()).into_iter().enumerate() {
        let disk = Disk::new(MemoryBackend::new());
        disk.cut_power_after(moment);
        let end = run(&disk);
        let world = disk.reboot(seed as u64);
        // No reader takes half an object for a whole one.
        if let Ok((out, _)) = world.decode() {
            assert!(out == bytes);
        }
        let req = request(&codec, 2, false);
        let again = encode(&req, &mut Known::new(&bytes), &world.nodes, &settings());
        match again {
            Ok(report) => resumed += u64::from(report.resumed_bytes > 0),
            // Only where everything was in place.
            Err(PoolError::Refused { what }) => assert!(what.contains("already"), "{what}"),
            Err(error) => panic!("at {moment}, first {end:?}: {error}"),
        }
        world.assert_whole(&bytes);
    }
    assert!(resumed > 10, "{resumed}");
}

#[test]
fn a_killed_encode_keeps_whole_segments() {
    // Killed, not powered off: what was written is there.
    let (codec, bytes) = (codec(SPEC), object());
    let world = World::new(SPEC, SUB_CHUNK);
    let failing = FaultyBackend::new(world.stores[0].clone());
    let fault = Fault::new(FaultAction::Fail(ErrorKind::Other));
    failing.inject(fault.after(14 * 42).always());
    let nodes = [Node::new("disk", Arc::new(failing))];
    let req = request(&codec, 1, false);
    encode(&req, &mut Known::new(&bytes), &nodes, &settings()).unwrap_err();
    assert_eq!(world.files().len(), 14);
    let report =
        encode(&request(&codec, 2, false), &mut Known::new(&bytes), &world.nodes, &settings());
    let report = report.unwrap();
    assert_eq!(report.resumed_bytes, 32 * STRIPE as u64);
    assert_eq!(report.run, "01".repeat(16));
    world.assert_whole(&bytes);
}

#[test]
fn another_input_does_not_resume() {
    let (codec, bytes) = (codec(SPEC), object());
    let disk = Disk::new(MemoryBackend::new());
    disk.cut_power_after(14 * 37);
    let req = request(&codec, 1, false);
    encode(&req, &mut Known::new(&bytes), &disk.nodes, &settings()).unwrap_err();
    disk.faulty.heal();
    let other = data(bytes.len()).iter().map(|byte| byte ^ 0x55).collect::<Vec<_>>();
    let mut source = Known { identity: [3; 16], ..Known::new(&other) };
    let req = request(&codec, 2, false);
    let report = encode(&req, &mut source, &disk.nodes, &settings()).unwrap();
    assert_eq!(report.resumed_bytes, 0);
    disk.reboot(0).assert_whole(&other);
}

#[test]
fn a_replacing_encode_leaves_the_old_or_the_new_object() {
    let codec = codec(SPEC);
    let (old, new) = (data(3 * STRIPE), data(2 * STRIPE + 9));
    let start = || {
        let disk = Disk::new(MemoryBackend::new());
        let req = request(&codec, 1, false);
        encode(&req, &mut Known::new(&old), &disk.nodes, &settings()).unwrap();
        disk
    };
    let replace = |nodes: &[Node], run: u8| {
        let mut source = Known { identity: [5; 16], ..Known::new(&new) };
        encode(&request(&codec, run, true), &mut source, nodes, &settings())
    };
    let disk = start();
    let before = disk.faulty.operations();
    replace(&disk.nodes, 2).unwrap();
    let (mut olds, mut news) = (0, 0);
    for (seed, moment) in moments(disk.faulty.operations() - before).into_iter().enumerate() {
        let disk = start();
        disk.cut_power_after(moment);
        let _ = replace(&disk.nodes, 2);
        let world = disk.reboot(seed as u64);
        let out = world.decode().unwrap_or_else(|error| panic!("at {moment}: {error}")).0;
        assert!(out == old || out == new, "at {moment}");
        olds += u64::from(out == old);
        news += u64::from(out == new);
        // A repair finishes the renames, or finds nothing to do.
        world.repair(&RepairRequest::default()).unwrap();
        assert!(world.decode().unwrap().0 == out);
        replace(&world.nodes, 3).unwrap();
        world.assert_whole(&new);
    }
    assert!(olds > 5 && news > 5, "{olds} {news}");
}

#[test]
fn a_repair_is_finished_or_started_clean() {
    let (codec, bytes) = (codec(SPEC), object());
    let lost = [3usize, 12];
    let start = || {
        let disk = Disk::new(MemoryBackend::new());
        let req = request(&codec, 1, false);
        encode(&req, &mut Known::new(&bytes), &disk.nodes, &settings()).unwrap();
        let whole = World { stores: vec![disk.memory.clone()], ..disk.reboot(0) };
        lost.iter().for_each(|&index| disk.memory.remove(&name(index)).unwrap());
        (disk, whole)
    };
    let run = |disk: &Disk| {
        let set = discover(&disk.nodes, None)?;
        repair(&set, &RepairRequest::default(), &settings())
    };
    let (disk, _) = start();
    let before = disk.faulty.operations();
    run(&disk).unwrap();
    for (seed, moment) in moments(disk.faulty.operations() - before).into_iter().enumerate() {
        let (disk, _) = start();
        disk.cut_power_after(moment);
        let end = run(&disk);
        let world = disk.reboot(seed as u64);
        assert!(world.decode().unwrap().0 == bytes, "at {moment}, first {end:?}");
        world.repair(&RepairRequest::default()).unwrap();
        world.assert_whole(&bytes);
    }
}

#[test]
fn a_killed_repair_keeps_whole_segments() {
    let (codec, bytes) = (codec(SPEC), object());
    let world = World::new(SPEC, SUB_CHUNK);
    world.encode(&bytes);
    let shards = world.all();
    world.lose(4);
    let failing = FaultyBackend::new(world.stores[0].clone());
    let nodes = [Node::new("disk", Arc::new(failing.clone()))];
    let set = discover(&nodes, None).unwrap();
    let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).named("04.kiln.repair");
    // Chunks of 37 stripes, then the disk is gone.
    failing.inject(fault.after(40).always());
    repair(&set, &RepairRequest::default(), &settings()).unwrap_err();
    assert_eq!(world.files().len(), 14, "{:?}", world.files());
    let report = world.repair(&RepairRequest::default()).unwrap();
    let chunk = 256 * u64::from(SUB_CHUNK);
    assert_eq!(report.resumed_bytes % (16 * chunk), 0);
    assert!(report.resumed_bytes >= 16 * chunk, "{}", report.resumed_bytes);
    assert_eq!(report.bytes_written + report.resumed_bytes, 41 * chunk);
    assert!(world.all() == shards);
    drop(codec);
}

#[test]
fn a_recode_leaves_the_old_shards_or_the_new_ones() {
    let (old, new, bytes) = (codec(SPEC), codec("rs:8+5"), object());
    let start = Disk::new(MemoryBackend::new());
    let req = request(&old, 1, false);
    encode(&req, &mut Known::new(&bytes), &start.nodes, &settings()).unwrap();
    start.memory.remove(&kiln_stripe::names::shard(NAME, 3)).unwrap();
    let run = |nodes: &[Node]| {
        let set = discover(nodes, Some(NAME))?;
        recode(&set, &new, [2; 16], &settings())
    };
    let disk = Disk::new(start.memory.crash(0));
    let (report, read) = run(&disk.nodes).unwrap().unwrap();
    assert_eq!((report.margin, read), (5, 10 * disk_bytes(&bytes)));
    assert!(run(&disk.nodes).unwrap().is_none());
    let all = disk.faulty.operations();
    for (seed, moment) in moments(all).into_iter().enumerate() {
        let disk = Disk::new(start.memory.crash(0));
        disk.cut_power_after(moment);
        let _ = run(&disk.nodes);
        let mut world = disk.reboot(seed as u64);
        let (out, report) = world.decode().unwrap_or_else(|e| panic!("at {moment}: {e}"));
        assert!(out == bytes && ["rs:8+5", SPEC].contains(&&report.code[..]), "at {moment}");
        run(&world.nodes).unwrap();
        world.codec = codec("rs:8+5");
        world.assert_whole(&bytes);
    }
}

/// Bytes of a chunk of every stripe of an object.
fn disk_bytes(object: &[u8]) -> u64 {
    let full = object.len() / STRIPE;
    let rest = (object.len() % STRIPE).div_ceil(10 * 256).next_multiple_of(16) * 256;
    (full * STRIPE / 10 + rest) as u64
}
