//! Bytes that somebody changed so that their checksums hold: a deep scrub finds them, blames the
//! right shard, and a repair rebuilds that one.

use kiln_pool::{Index, ScrubReport, ScrubRequest};
use kiln_store::checksum;
use kiln_stripe::Depth;

use crate::recover::recover;
use crate::world::{World, data, settings};

/// Five bytes that change no CRC-32C when they are XORed into a message: its polynomial, the first
/// bit of each byte being the lowest.
fn silent_change() -> [u8; 5] {
    let polynomial: u64 = 0x1_1EDC_6F41;
    let mut bytes = [0; 5];
    for bit in 0..33 {
        bytes[bit / 8] |= ((polynomial >> (32 - bit) & 1) as u8) << (bit % 8);
    }
    bytes
}

fn forge(world: &World, name: &str, index: usize) {
    let (at, file) = world.shards(name)[&(index as u16)].clone();
    let disk = &world.disks[at].memory;
    let mut bytes = disk.bytes(&file).unwrap();
    let before = checksum(&bytes[4096..4160]);
    // Not at the same bytes of all shards: two changes could look like one elsewhere then.
    for (byte, change) in bytes[4100 + 6 * index..].iter_mut().zip(silent_change()) {
        *byte ^= change;
    }
    assert_eq!(checksum(&bytes[4096..4160]), before, "nobody sees it");
    disk.put(&file, bytes);
}

pub fn scrub(world: &World, index: &Index, depth: Depth) -> ScrubReport {
    world.scrub(index, &ScrubRequest { now_ms: 5_000, depth, ..ScrubRequest::default() })
}

#[test]
fn the_forged_shard_is_blamed_and_rebuilt() {
    for code in ["rs:4+2", "clay:3+2", "cauchy:4+3", "lrc:4+2+2", "rep:3"] {
        let world = World::new(code, 9);
        let bytes = data(20_000, 3);
        let nodes = world.put("x", &bytes).unwrap().nodes.len();
        for forged in 0..nodes {
            forge(&world, "x", forged);
            let index = world.index();
            assert!(scrub(&world, &index, Depth::Data).clean, "checksums hold");
            let report = scrub(&world, &index, Depth::Parity);
            let lost: Vec<_> = report.findings.iter().map(|finding| &finding.lost).collect();
            assert_eq!(lost, [&vec![forged as u16]], "{code}: {report:#?}");
            let repaired = recover(&world.pool(), &index, (6_000, false), &settings()).unwrap();
            assert_eq!((repaired.repaired, repaired.failed_count), (1, 0), "{repaired:#?}");
            assert!(scrub(&world, &index, Depth::Parity).clean, "{code} {forged}");
            assert!(world.get("x").unwrap() == bytes, "{code} {forged}");
        }
    }
}

#[test]
fn nobody_is_blamed_where_it_cannot_be_told() {
    // One parity: any chunk may be the wrong one. Two wrong chunks of six: as well.
    for (code, forged) in [("rs:3+1", vec![1]), ("rs:4+2", vec![0, 5]), ("cauchy:4+2", vec![2, 3])]
    {
        let world = World::new(code, 8);
        world.put("x", &data(20_000, 3)).unwrap();
        forged.iter().for_each(|index| forge(&world, "x", *index));
        let files: Vec<_> = (0..8).map(|node| world.files(node)).collect();
        let index = world.index();
        let report = scrub(&world, &index, Depth::Parity);
        assert_eq!((report.unreadable, report.clean), (1, false), "{code}: {report:#?}");
        assert_eq!(report.findings[0].lost, Vec::<u16>::new());
        assert!(report.findings[0].notes.join(" ").contains("cannot be told"), "{report:#?}");
        assert_eq!(files, (0..8).map(|node| world.files(node)).collect::<Vec<_>>());
    }
}
