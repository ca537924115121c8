//! Encrypted pools: nodes hold no byte of any object in clear, and never have something else read
//! in its place. All that holds in clear holds in them too. Repairs without the key and exchanges
//! of it are sessions of the program.

use crate::world::{DISKS, Disks, World, data, manifest, settings};
use kiln_pool::{GetRequest, Manifest, Policy, PoolConfig, layout::Body};
use kiln_stripe::PoolError;

/// Runs a test of another file in encrypted pools.
fn over<T>(test: impl FnOnce() -> T) -> T {
    DISKS.set(Disks::Encrypted);
    let end = test();
    DISKS.set(Disks::Files);
    end
}

macro_rules! hold {
    ($($file:ident::$test:ident,)*) => {
        $(#[test] fn $test() { over(crate::$file::$test); })*
    };
}

hold! {
    everyday::objects_of_all_sizes_come_back_whole_and_in_ranges,
    everyday::any_m_nodes_may_be_lost_for_data_and_manifests,
    everyday::an_overwrite_replaces_and_leaves_nothing_behind,
    space::shards_move_to_nodes_that_joined_and_no_others_do,
    kept::any_m_nodes_may_be_lost_for_all_that_is_kept,
    together::objects_put_together_have_their_own_ends,
    trust::a_snapshot_brings_nothing_back,
    vanish::whole_means_that_any_m_nodes_may_vanish,
}

fn world(code: &str, count: usize) -> World {
    over(|| World::new(code, count))
}

#[test]
fn no_byte_lies_in_clear_and_a_range_reads_little_more_than_it_needs() {
    // All of them in shards, and many in their manifests.
    for sharded in [true, false] {
        let world = over(|| match sharded {
            true => World::of_class("rs:4+2", 64, 6),
            false => World::with_policy(Policy::for_code("rep:3").unwrap(), 6),
        });
        for size in [0, 20, 16_384, 50_000, 400_000] {
            let bytes = data(size, 3);
            assert_eq!(world.put("x", &bytes).unwrap().size, size as u64);
            let pool = world.pool();
            assert_eq!(pool.stat("x").unwrap().object.size, size as u64);
            let clear = bytes.get(size / 2..size / 2 + 10).filter(|clear| !clear.is_empty());
            for (disk, file) in
                (0..6).flat_map(|at| world.files(at).into_iter().map(move |f| (at, f)))
            {
                let found = world.disks[disk].memory.bytes(&file).unwrap();
                let is_clear = |clear: &[u8]| found.windows(10).any(|part| part == clear);
                assert!(!clear.is_some_and(is_clear), "{file} of {size}");
            }
            let (part, report) = world.part_of("x", Some(200_000..200_010)).unwrap();
            let wanted = 200_000.min(size)..200_010.min(size);
            assert!(part == bytes[wanted.clone()] && world.get("x").unwrap() == bytes, "{size}");
            // One cell with its tag, in whole sub-chunks.
            let most = if report.code == "rs:4+2" { 16_400 + 2 * 64 } else { u64::MAX };
            assert!(report.bytes_read <= most, "{size}: {}", report.bytes_read);
            let (object, mut raw) = (pool.open_object("x").unwrap(), vec![0; size.min(1)]);
            let wanted = size as u64 / 3..size as u64;
            let part = object.read(&pool, wanted.clone(), &settings()).unwrap();
            assert!(part == bytes[size / 3..], "{size} {wanted:?}");
            assert!(!object.read_unchecked(&pool, 0, &mut raw), "encrypted bytes");
            assert!(!object.rebuild_unchecked(&pool, 0, &mut raw), "encrypted bytes");
        }
    }
}

/// An object by another's key, data or size, or one that is in clear, is an error, never data.
#[test]
fn what_is_exchanged_on_the_nodes_is_never_read() {
    for size in [80, 40_000] {
        let world = world("rs:4+2", 8);
        world.put("other", &data(size, 9)).unwrap();
        world.put("x", &data(size, 1)).unwrap();
        let [first, other] = ["x", "other"].map(|name| world.pool().manifest(name).unwrap());
        world.put("x", &data(size, 2)).unwrap();
        let right = world.pool().manifest("x").unwrap();
        let clear = Body::Inline(b"fake".into());
        let body = other.body.clone();
        for (what, forged) in [
            ("in clear", Manifest { size: 4, body: clear, key: None, ..right.clone() }),
            ("without its key", Manifest { size: right.stored_size(), key: None, ..right.clone() }),
            ("by another's key", Manifest { key: other.key.clone(), ..right.clone() }),
            ("another", Manifest { body, key: other.key, run: other.run, ..right.clone() }),
            ("by its key of before", Manifest { key: first.key, ..right.clone() }),
        ] {
            let world = world.copy();
            let forged = Manifest { version: right.version + 1, ..forged };
            let file = manifest("x");
            world.disks.iter().for_each(|disk| disk.memory.put(&file, forged.to_bytes()));
            let (mut out, req) = (Vec::new(), GetRequest { name: "x", range: None });
            let error = world.pool().get(&req, &mut out, &settings()).unwrap_err();
            let named = matches!(&error, PoolError::Forged { object, offset: 0 } if object == "x");
            assert!(named && out.is_empty(), "{size} {what}: {error}");
        }
        // Nor is a map of a node by which the pool is in clear, although it is a newer one.
        let change = |next: &mut PoolConfig| {
            (next.version, next.encrypted) = (2, Vec::new());
            Ok(())
        };
        world.pool().members().change(false, &settings(), change).unwrap();
        assert!(world.pool().config().is_encrypted());
    }
}
