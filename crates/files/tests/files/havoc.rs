//! Random damage to at most m shards never costs a byte.

use crate::helpers::*;
use kiln_files::RepairRequest;
use proptest::prelude::*;

/// Damage that can happen to a shard.
#[derive(Clone, Debug)]
enum Blow {
    Lose,
    Cut(usize),
    Flip(usize, u8),
    Zero(usize, usize),
    Grow(usize),
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        Just(Blow::Lose),
        any::<usize>().prop_map(Blow::Cut),
        (any::<usize>(), 1..=255u8).prop_map(|(at, mask)| Blow::Flip(at, mask)),
        (any::<usize>(), 1..9000usize).prop_map(|(at, len)| Blow::Zero(at, len)),
        (1..5000usize).prop_map(Blow::Grow),
    ]
}

fn strike(shard: &mut Vec<u8>, blow: &Blow) {
    let len = shard.len();
    match *blow {
        Blow::Lose => shard.clear(),
        Blow::Cut(at) => shard.truncate(at % (len + 1)),
        Blow::Flip(at, mask) if len > 0 => shard[at % len] ^= mask,
        Blow::Flip(..) => {}
        Blow::Zero(at, count) => {
            let at = at % (len + 1);
            shard[at..(at + count).min(len)].fill(0);
        }
        Blow::Grow(by) => shard.extend(data(by)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn damage_to_at_most_m_shards_is_healed(
        code in 0..3usize,
        size in 0..9000usize,
        first in 0..14usize,
        step in 1..5usize,
        blows in prop::collection::vec(prop::collection::vec(blow(), 1..3), 1..=2),
    ) {
        let world = World::new(["rs:4+2", "clay:4+2", "rep:3"][code], 16);
        let bytes = data(size);
        world.encode(&bytes);
        let shards = world.all();
        for (at, blows) in blows.iter().enumerate() {
            let index = (first + at * step) % world.n();
            let mut shard = world.shard(index);
            blows.iter().for_each(|blow| strike(&mut shard, blow));
            if shard.is_empty() { world.lose(index) } else { world.put(index, shard) }
            // The same index may be struck twice, unless it is gone.
            if world.stores[0].bytes(&name(index)).is_none() { break }
        }
        prop_assert!(world.decode().unwrap().0 == bytes);
        let scan = RepairRequest { scan: true, ..RepairRequest::default() };
        world.repair(&scan).unwrap();
        prop_assert!(world.decode().unwrap().0 == bytes);
        let report = world.verify(Depth::Parity).unwrap();
        prop_assert!(report.clean, "{report:?}");
        // All that a checksum covers is as it was; the header block's padding is not covered.
        for (index, shard) in shards.iter().enumerate() {
            prop_assert!(world.shard(index)[4096..] == shard[4096..], "{index}");
        }
    }
}
