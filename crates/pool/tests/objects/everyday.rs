//! Everyday operations: put, get, ranges, overwrite, remove, with and without nodes lost.

use crate::world::*;
use kiln_pool::{Pool, PutRequest};
use kiln_stripe::{ErrorKind, PoolError, StreamSource};

const SIZES: [usize; 12] =
    [0, 1, 99, 100, 1_000, 4_999, 5_000, 16_383, 16_384, 16_385, 70_001, 300_000];

#[test]
pub fn objects_of_all_sizes_come_back_whole_and_in_ranges() {
    for code in ["clay:4+2", "rs:3+2", "rep:3", "rdp:4+2"] {
        let world = World::new(code, 8);
        for (at, size) in SIZES.into_iter().enumerate() {
            let (name, bytes) = (format!("a/{code}/{size}"), data(size, at as u64));
            let report = world.put(&name, &bytes).unwrap();
            assert_eq!((report.size, report.version), (size as u64, 1));
            assert_eq!(report.code == "inline", size < 100, "{code} {size}");
            assert!(world.get(&name).unwrap() == bytes);
            let size = size as u64;
            for (start, end) in
                [(0, 1), (size / 2, size / 2 + 100), (size / 3, size), (size, size + 9), (5, 5)]
            {
                let (part, _) = world.part_of(&name, Some(start..end)).unwrap();
                let range = start.min(size) as usize..end.min(size) as usize;
                assert!(part == bytes[range.clone()], "{name} {range:?}");
            }
        }
    }
}

#[test]
pub fn a_range_reads_only_the_sub_chunks_that_it_needs() {
    let world = World::new("clay:4+2", 6);
    let bytes = data(200_000, 1);
    world.put("x", &bytes).unwrap();
    // Chunks of 8 sub-chunks of 64 bytes: the last of chunk 1, the first two of chunk 2.
    let (part, report) = world.part_of("x", Some(1000..1100)).unwrap();
    assert!(part == bytes[1000..1100]);
    assert_eq!((report.bytes_read, report.read_runs, report.degraded), (3 * 64, 2, false));
}

#[test]
pub fn a_lost_range_is_rebuilt_by_the_cheapest_plan() {
    let mut world = World::new("clay:4+2", 6);
    let bytes = data(200_000, 2);
    let put = world.put("x", &bytes).unwrap();
    let lost = world.config.position(&put.nodes[0]).unwrap();
    world.away.insert(lost);
    // Chunk 0 of stripe 0 is 8 sub-chunks of 64 bytes; its repair reads half of 5 others, that of
    // its second sub-chunk 6 of these 20: four in its layer, and two companions.
    for (range, sub_chunks) in [(100..110, 6), (0..512, 5 * 4)] {
        let (part, report) = world.part_of("x", Some(range.clone())).unwrap();
        assert!(part == bytes[range.start as usize..range.end as usize]);
        assert_eq!((report.bytes_read, report.degraded), (sub_chunks * 64, true));
        assert_eq!(report.lost, [0]);
    }
    assert!(world.get("x").unwrap() == bytes);
}

#[test]
pub fn any_m_nodes_may_be_lost_for_data_and_manifests() {
    let mut world = World::new("clay:3+2", 5);
    let objects: Vec<(String, Vec<u8>)> =
        [10, 3_000, 60_000].map(|size| (format!("object-{size}"), data(size, size as u64))).into();
    objects.iter().for_each(|(name, bytes)| drop(world.put(name, bytes).unwrap()));
    for a in 0..5 {
        for b in 0..5 {
            world.away = [a, b].into();
            for (name, bytes) in &objects {
                assert!(world.get(name).unwrap() == *bytes, "{name} without {a} and {b}");
            }
        }
    }
    world.away = [0, 1, 2].into();
    for (name, _) in &objects {
        let error = world.get(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotRecoverable, "{error}");
    }
}

#[test]
pub fn an_overwrite_replaces_and_leaves_nothing_behind() {
    let world = World::new("clay:4+2", 9);
    for (round, size) in [60_000, 50, 3_000, 70_000, 0].into_iter().enumerate() {
        let bytes = data(size, round as u64);
        assert_eq!(world.put("x", &bytes).unwrap().version, round as u64 + 1);
        assert!(world.get("x").unwrap() == bytes);
        let files: usize = (0..9).map(|node| world.files(node).len()).sum();
        // 3 manifests, and 6 shards unless it is inline.
        assert_eq!(files, if size < 100 { 3 } else { 9 }, "round {round}");
    }
    world.remove("x").unwrap();
    let left: Vec<String> = (0..9).flat_map(|node| world.files(node)).collect();
    assert!(left.len() == 3 && left.iter().all(|name| name.ends_with(".manifest")), "{left:?}");
    assert!(matches!(world.get("x"), Err(PoolError::NoObject { .. })));
    assert!(matches!(world.remove("x"), Err(PoolError::NoObject { .. })));
    assert_eq!(world.put("x", b"again").unwrap().version, 7);
    assert_eq!(world.get("x").unwrap(), b"again");
}

#[test]
pub fn replacing_must_be_asked_for() {
    let world = World::new("rs:2+1", 3);
    world.put("x", b"first").unwrap();
    let req = PutRequest { name: "x", run: [1; 16], now_ms: 0, replace: false };
    let end = world.pool().put(&req, &mut StreamSource::new(&b"second"[..]), &settings());
    assert_eq!(end.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(world.get("x").unwrap(), b"first");
}

#[test]
pub fn a_put_goes_on_with_few_nodes_away_and_refuses_with_more() {
    let mut world = World::new("clay:4+2", 6);
    let bytes = data(50_000, 3);
    world.away = [2].into();
    let report = world.put("x", &bytes).unwrap();
    assert_eq!(report.missing.len(), 1);
    assert!(world.get("x").unwrap() == bytes);
    world.away = [2, 3].into();
    let error = world.put("y", &bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    world.away.clear();
    assert!(matches!(world.get("y"), Err(PoolError::NoObject { .. })));
    assert!(world.get("x").unwrap() == bytes);
}

#[test]
pub fn an_empty_mount_point_is_no_node_and_a_strange_disk_is_refused() {
    let mut world = World::new("rs:2+1", 3);
    world.put("x", &data(3_000, 1)).unwrap();
    world.disks[1] = Disk::new(kiln_store::MemoryBackend::new());
    let pool = world.pool();
    let away = pool.away();
    assert_eq!(away.len(), 1);
    assert!(away[0].1.contains("no node of this pool"), "{away:?}");
    assert!(world.get("x").unwrap() == data(3_000, 1));
    // Disks swapped by mistake are noticed.
    world.disks.swap(0, 2);
    let error = world.get("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    world.disks.swap(0, 2);
    world.config.node[1].id = "other".into();
    world.config.id = "0".repeat(32);
    let end = Pool::create(world.config.clone(), &|node| world.open_node(node));
    assert_eq!(end.unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
pub fn two_writers_of_one_name_leave_one_whole_object() {
    let world = World::new("clay:4+2", 8);
    let versions: Vec<Vec<u8>> = (0..4).map(|at| data(40_000 + at, at as u64)).collect();
    std::thread::scope(|scope| {
        for bytes in &versions {
            let world = &world;
            scope.spawn(move || {
                for _ in 0..5 {
                    world.put("x", bytes).unwrap();
                    let seen = world.get("x").unwrap();
                    assert!(seen.len() >= 40_000);
                }
            });
        }
    });
    let last = world.get("x").unwrap();
    assert!(versions.contains(&last));
}
