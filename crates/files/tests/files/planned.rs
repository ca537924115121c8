//! Repairs whose reads are planned for devices.

use kiln_files::RepairRequest;
use kiln_stripe::RepairReport;

use crate::helpers::*;
use kiln_store::Operation;
use kiln_store::device::{Combine, DeviceModel, Devices};
use kiln_testkit::{Fault, FaultAction, FaultyBackend};
use std::sync::Arc;

/// Devices from one that only bytes cost to one that only reads cost.
fn models() -> Vec<DeviceModel> {
    let mut models = Vec::new();
    for combine in [Combine::Sum, Combine::Larger] {
        for bytes_of_a_read in [1e-3, 40.0, 700.0, 1e9] {
            models.push(DeviceModel::new(bytes_of_a_read * 1e-9, 1e-9, combine));
        }
    }
    models
}

/// Every node on a device of its own, or all on one.
fn devices(world: &World, model: &DeviceModel, shared: bool) -> Devices {
    let mut devices = Devices::default();
    let mut device = devices.add(model.clone());
    for node in &world.nodes {
        devices.place(node.name.clone(), device);
        if !shared {
            device = devices.add(model.clone());
        }
    }
    devices
}

fn request(devices: Devices, dry_run: bool) -> RepairRequest {
    RepairRequest { dry_run, devices: Some(devices), ..RepairRequest::default() }
}

/// Not every family's example: of `cauchy:10+4,w=8` a device's reads take 4% longer than its runs.
const CODES: &[(&str, u32)] = &[
    ("rs:4+2", 1000),
    ("rs:10+4", 64),
    ("rep:3", 500),
    ("clay:4+2", 48),
    ("clay:10+4", 16),
    ("clay:5+3,d=6", 32),
];

#[test]
fn any_device_gets_its_reads_and_every_byte_comes_back() {
    for &(spec, sub_chunk) in CODES {
        let world = World::spread(spec, sub_chunk);
        let bytes = data(7 * world.stripe() + world.stripe() / 5);
        world.encode(&bytes);
        for model in models() {
            for shared in [false, true] {
                for lost in [vec![0], vec![world.n() - 1], vec![0, world.n() - 1]] {
                    lost.iter().for_each(|&index| world.lose(index));
                    let req = |dry| request(devices(&world, &model, shared), dry);
                    let expected = world.repair(&req(true)).unwrap();
                    let report = world.repair(&req(false)).unwrap();
                    let case = format!("{spec} {lost:?} {model:?} shared {shared}");
                    assert_eq!(numbers(&report), numbers(&expected), "{case}");
                    let planned = |report: &RepairReport| {
                        let why = report.reads.as_ref().unwrap().why.clone();
                        (report.device_bytes_read, report.device_reads, why)
                    };
                    assert_eq!(planned(&report), planned(&expected), "{case}");
                    assert!(report.device_reads <= report.read_runs, "{case}");
                    assert!(report.device_bytes_read >= report.bytes_read, "{case}");
                    // By the model it is never slower than either simple way.
                    let reads = report.reads.unwrap();
                    let least =
                        reads.expected_seconds_as_runs.min(reads.expected_seconds_whole_chunks);
                    assert!(reads.expected_seconds <= least * (1.0 + 1e-9), "{case}: {reads:?}");
                }
            }
        }
        world.assert_whole(&bytes);
    }
}

#[test]
fn a_seek_bound_device_gets_few_reads_and_a_fast_one_few_bytes() {
    let world = World::spread("clay:4+2", 64);
    world.encode(&data(4 * world.stripe()));
    world.lose(5);
    let plain = world.repair(&RepairRequest { dry_run: true, ..RepairRequest::default() }).unwrap();
    assert_eq!((plain.read_runs, plain.device_reads), (5 * 4 * 4, 5 * 4 * 4));
    assert!(plain.reads.is_none());
    let ask = |model| world.repair(&request(devices(&world, &model, false), true)).unwrap();
    // A read costs a little more than a gap: all stripes of a helper in one read, without its ends.
    let seeks = ask(DeviceModel::new(80e-9, 1e-9, Combine::Sum));
    assert_eq!((seeks.device_reads, seeks.read_runs), (5, plain.read_runs));
    assert_eq!(seeks.bytes_read, plain.bytes_read);
    assert!(seeks.reads.as_ref().unwrap().why.contains("gaps up to"), "{:?}", seeks.reads);
    let fast = ask(DeviceModel::new(0.0, 1e-9, Combine::Sum));
    assert_eq!(fast.device_bytes_read, plain.bytes_read);
    // Where all would be read, four whole chunks are as fast as five and less work.
    let whole = ask(DeviceModel::new(1.0, 1e-9, Combine::Sum));
    assert_eq!((whole.strategy.as_str(), whole.device_reads), ("decode", 4));
    // Helpers that share a seek-bound device: four whole chunks cost less than five.
    let shared = devices(&world, &DeviceModel::new(1.0, 1e-9, Combine::Sum), true);
    let shared = world.repair(&request(shared, true)).unwrap();
    assert_eq!((shared.strategy.as_str(), shared.device_reads), ("decode", 4));
    assert!(shared.reads.unwrap().why.contains("whole chunks of 4 helpers"));
}

#[test]
fn a_node_without_a_device_means_no_planning() {
    let world = World::spread("clay:4+2", 64);
    world.encode(&data(2 * world.stripe()));
    world.lose(1);
    let mut some = Devices::default();
    let device = some.add(DeviceModel::new(1.0, 1e-9, Combine::Sum));
    some.place("n0", device);
    let report = world.repair(&request(some, false)).unwrap();
    assert!(report.reads.is_none() && report.device_reads == report.read_runs);
}

#[test]
fn damage_is_found_in_windows_and_not_in_gaps() {
    let world = World::spread("clay:4+2", 64);
    let bytes = data(6 * world.stripe());
    world.encode(&bytes);
    let model = DeviceModel::new(80e-9, 1e-9, Combine::Sum);
    // Shard 5 needs positions 1, 3, 5, 7 of each chunk: position 0 is in a gap.
    for (sub, found) in [(1, 1), (0, 0)] {
        world.lose(5);
        world.flip(2, 4096 + 512 * 3 + 64 * sub + 9, 4);
        let report = world.repair(&request(devices(&world, &model, false), false)).unwrap();
        assert_eq!(report.damaged_count, found, "{report:?}");
        assert_eq!(report.lost.contains(&2), found == 1);
    }
    let scan = RepairRequest { scan: true, ..RepairRequest::default() };
    assert_eq!(world.repair(&scan).unwrap().damaged_count, 1);
    world.assert_whole(&bytes);
}

#[test]
fn a_window_that_cannot_be_read_costs_only_its_bad_stripes() {
    let mut world = World::spread("clay:4+2", 64);
    let bytes = data(6 * world.stripe());
    world.encode(&bytes);
    world.lose(5);
    let faulty = FaultyBackend::new(world.stores[3].clone());
    world.nodes[3].store = Arc::new(faulty.clone());
    let model = DeviceModel::new(1.0, 1e-9, Combine::Sum);
    // Opening takes three reads; the next is the window.
    let broken = Fault::new(FaultAction::Fail(std::io::ErrorKind::Other)).on(Operation::Read);
    faulty.inject(broken.named("object.03").after(3));
    let report = world.repair(&request(devices(&world, &model, false), false)).unwrap();
    assert_eq!((report.lost, report.damaged_count), (vec![5], 0));
    world.assert_whole(&bytes);
}
