//! Random damage of all kinds at once: right bytes or a clear refusal, and a repair never makes
//! lost what was readable before.

use std::fs;

use crate::rig::{Random, Rig, seed, shard};

/// KILN_HAVOC_ROUNDS, else few enough for every day.
fn rounds() -> u64 {
    let given = std::env::var("KILN_HAVOC_ROUNDS").ok();
    given.map_or(60, |text| text.parse().expect("KILN_HAVOC_ROUNDS is a number"))
}

/// Four shards of the other run would rightly decode to the other object.
const MAX_FOREIGN: u32 = 3;

/// One random damage_something to one random shard.
fn damage_something(rig: &Rig, random: &mut Random, foreign: &mut u32) -> String {
    let index = random.below(6) as usize;
    let path = rig.path(shard(index));
    let Ok(mut bytes) = fs::read(&path) else { return "nothing".into() };
    let len = bytes.len() as u64;
    let (from, to) = (random.below(len) as usize, random.below(len) as usize);
    let span = random.below(5000) as usize;
    let kind = random.below(9);
    match kind {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => bytes.truncate(from),
        3 => {
            let end = (from + span).min(bytes.len());
            bytes[from..end].fill(0);
        }
        4 => {
            let end = (from + span).min(bytes.len());
            let to = to.min(bytes.len() - (end - from));
            bytes.copy_within(from..end, to);
        }
        5 => bytes.extend_from_slice(&bytes.clone()[..span.min(bytes.len())]),
        6 => {
            fs::remove_file(path).unwrap();
            return format!("shard {index} removed");
        }
        7 => {
            let other = rig.path(shard(random.below(6) as usize));
            if other.exists() && other != path {
                let parked = rig.path("parked");
                fs::rename(&path, &parked).unwrap();
                fs::rename(&other, &path).unwrap();
                fs::rename(&parked, &other).unwrap();
            }
            return format!("shard {index} swapped");
        }
        _ if *foreign < MAX_FOREIGN => {
            *foreign += 1;
            bytes = rig.read(format!("other/object.{index:02}.kiln"));
        }
        _ => return "nothing".into(),
    }
    fs::write(path, bytes).unwrap();
    format!("shard {index}: kind {kind} from {from} to {to} span {span}")
}

#[test]
fn random_damage_never_gives_a_wrong_byte() {
    let seed = seed("random_damage_never_gives_a_wrong_byte");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    rig.data("object", 200_000, 44);
    rig.kiln("encode object -c clay:4+2 --sub-chunk 512 -o other").ok();
    let (mut had, mut lost) = (0, 0);
    for round in 0..rounds() {
        let _ = fs::remove_dir_all(rig.path("shards"));
        let data = rig.encoded("clay:4+2", "--sub-chunk 512", 200_000);
        let count = 1 + random.below(6);
        let mut foreign = 0;
        let story: Vec<String> =
            (0..count).map(|_| damage_something(&rig, &mut random, &mut foreign)).collect();
        let what = format!("round {round}: {}", story.join("; "));

        let decode = rig.kiln("decode shards -o back --force -q");
        match decode.code {
            0 => assert!(rig.read("back") == data, "{what}: wrong bytes"),
            2 | 5 => {}
            code => panic!("{what}: decode said {code}: {}", decode.stderr),
        }
        let repair = rig.kiln("repair shards --scan -q");
        assert!(matches!(repair.code, 0 | 2 | 5), "{what}: repair: {}", repair.stderr);
        if decode.code != 0 {
            lost += 1;
            assert_ne!(repair.code, 0, "{what}: repaired the unrecoverable");
            continue;
        }
        had += 1;
        rig.decodes_to(&data);
        assert_eq!(repair.code, 0, "{what}: {}", repair.stderr);
        let verify = rig.kiln("verify shards --deep");
        assert_eq!(verify.code, 0, "{what}: {}", verify.stdout);
    }
    assert!(had > 0 && lost > 0, "both outcomes must occur: {had} {lost}");
}
