//! Objects that are written in another code: pairs of codes, with losses, and what is refused.

use crate::world::*;
use kiln_pool::{RecodeRequest, layout::Body};
use kiln_store::Backend;
use kiln_stripe::PoolError;

const CODES: [&str; 8] = [
    "rs:4+2", "clay:4+2", "less:4+2,alpha=2", "rs:6+3", "rep:4", "evenodd:5+2", "lrc:4+2+2",
    "cauchy:3+3",
];

/// Bytes of objects: one short stripe, some whole ones, some and a short one.
const SIZES: [usize; 3] = [101, 12_000, 50_001];

/// Removes so many shards of each object, others of each.
fn lose(world: &World, count: usize, seed: usize) {
    for (at, size) in SIZES.iter().enumerate() {
        let shards = world.shards(&size.to_string());
        for lost in (0..count).map(|nth| (seed + at + nth) % shards.len()) {
            let (node, file) = &shards[&(lost as u16)];
            world.disks[*node].memory.remove(file).unwrap();
        }
    }
}

/// Bytes come back, nothing is damaged or left over, and all is of one code.
fn is_whole(world: &World, code: &str, what: &str) {
    for size in SIZES {
        let name = size.to_string();
        assert!(world.get(&name).unwrap() == data(size, 1), "{what}: {name}");
        let manifest = world.pool().manifest(&name).unwrap();
        assert_eq!(manifest.created_ms, 1_000, "{what}: {name}");
        let Body::Shards(placed) = manifest.body else { panic!("{what}: {name}") };
        let spec: kiln_code::CodeSpec = code.parse().unwrap();
        assert_eq!(placed.spec, spec.explicit(), "{what}: {name}");
    }
    let report = world.scrub(&world.index(), &at_once(9_000));
    assert!(report.clean && report.leftovers == 0, "{what}: {report:#?}");
}

#[test]
fn every_pair_of_codes_with_losses() {
    for (at, from) in CODES.iter().enumerate() {
        let start = World::new(from, 12);
        SIZES.iter().for_each(|size| drop(start.put(&size.to_string(), &data(*size, 1)).unwrap()));
        // Small ones have the plain code of their pool: here all begin with one.
        start.recode(&start.pool(), &start.index(), "", from).unwrap();
        let losses = kiln_code::Codec::new(&from.parse().unwrap()).unwrap().margin(&[]) as usize;
        for (seed, to) in CODES.iter().enumerate().filter(|(seed, _)| *seed != at) {
            let what = format!("{from} to {to}");
            let (world, lost) = (start.copy(), (at + seed) % (losses + 1));
            lose(&world, lost, seed);
            let pool = world.pool();
            let copies = pool.config().policy.manifest_copies;
            let codec = kiln_code::Codec::new(&to.parse().unwrap()).unwrap();
            let safe = codec.margin(&[]) as usize >= losses;
            match world.recode(&pool, &world.index(), "", to) {
                Ok(report) => {
                    assert!(safe && codec.shape().m < copies, "{what}");
                    assert_eq!((report.recoded, report.failed_count), (3, 0), "{what}: {report:?}");
                    assert_eq!(report.moved.written, report.planned.written, "{what}");
                    let same = report.moved.read == report.planned.read;
                    assert!(lost > 0 || same, "{what}: {report:?}");
                    assert!(lost > 0 || report.degraded == 0, "{what}: {report:?}");
                    is_whole(&world, to, &what);
                    let again = world.recode(&pool, &world.index(), "", to).unwrap();
                    assert_eq!((again.already, again.recoded), (3, 0), "{what}");
                }
                Err(PoolError::Refused { .. }) => {
                    assert!(!safe || codec.shape().m >= copies, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn what_would_be_less_safe_is_refused() {
    let mut world = World::new("rs:3+2", 6);
    world.put("a/x", &data(9_000, 1)).unwrap();
    world.put("small", &data(50, 2)).unwrap();
    // With a node away the new shards would be one less than those that are there now.
    let away = world.pool().stat("a/x").unwrap().shards.into_iter().map(|shard| shard.node);
    let away: Vec<usize> = away.map(|id| world.config.position(&id).unwrap()).collect();
    let idle = (0..6).find(|at| !away.contains(at)).unwrap();
    world.away.insert(idle);
    let (pool, index) = (world.pool(), world.index());
    let report = world.recode(&pool, &index, "a", "rs:4+2").unwrap();
    assert!(report.failed[0].1.contains("1 of its new shards"), "{report:?}");
    let all = RecodeRequest {
        names: &[String::new()],
        skip: &|name| name == "skipped",
        to: Some("rs:4+1"),
        lower_safety: true,
        at_most: u64::MAX,
        dry_run: true,
        nodes: None,
        fresh: &|| (world.run(), 1_000),
    };
    let dry = pool.writer().recode(&index, &all, &settings()).unwrap();
    assert_eq!((dry.recoded, dry.inline, dry.moved.written), (1, 1, 0));
    // 4 chunks of 2,256 bytes, and one more; the stripes before had 3 of 64.
    assert_eq!((dry.planned.read, dry.bound.read, dry.bound.written), (9_024, 9_000, 2_250));
    let real = RecodeRequest { dry_run: false, ..all };
    let done = pool.writer().recode(&index, &real, &settings()).unwrap();
    assert_eq!((done.recoded, done.planned), (1, dry.planned));
    assert!(world.get("a/x").unwrap() == data(9_000, 1));
}
