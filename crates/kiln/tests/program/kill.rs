//! `kill -9` at random moments: afterwards every command finishes the job or starts clean, and no
//! half-written shard passes verify.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::rig::{Random, Rig, data, say, seed, shard};

const SPEC: &str = "-c clay:4+2 --sub-chunk 64";
/// Three segments and a bit, so that a resumed run has something to keep.
const BYTES: usize = 3_500_000;

fn rounds() -> u64 {
    let given = std::env::var("KILN_KILL_ROUNDS").ok();
    let all = given.map_or(200_u64, |text| text.parse().expect("KILN_KILL_ROUNDS is a number"));
    all.div_ceil(2)
}

/// Kills after a random part of `usual`, a little more than the whole included.
/// Returns whether the child had ended before.
fn kill(mut child: Child, random: &mut Random, usual: Duration) -> bool {
    let micros = usual.as_micros() as u64;
    std::thread::sleep(Duration::from_micros(random.below(micros + micros / 10)));
    let done = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    done
}

/// Time that a command takes.
fn usual(rig: &Rig, words: &str, undo: impl Fn()) -> Duration {
    let mut times = [(); 3].map(|()| {
        let start = Instant::now();
        rig.kiln(words).ok();
        undo();
        start.elapsed()
    });
    times.sort();
    times[1]
}

#[test]
fn encode_survives_kills() {
    let seed = seed("encode_survives_kills");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    let data = rig.data("object", BYTES, seed);
    let words = format!("encode object {SPEC} -o shards --json");
    let usual = usual(&rig, &words, || rig.remove("shards"));
    let (mut finished, mut resumed) = (0, 0);
    for round in 0..rounds() {
        let done = kill(rig.start(&words), &mut random, usual);
        finished += u64::from(done);
        let verify = rig.path("shards").exists().then(|| rig.kiln("verify shards").code);
        // 0 or 1: the encode had been committed, so the object must be there in full.
        match verify {
            Some(0 | 1) => rig.decodes_to(&data),
            // No shards, or parts of them.
            Some(2 | 7) | None => {}
            Some(code) => panic!("round {round}: verify said {code}"),
        }
        let again = rig.kiln(&words);
        match again.code {
            0 => resumed += u64::from(again.json()["resumed_bytes"].as_u64().unwrap() > 0),
            5 => assert!(matches!(verify, Some(0 | 1)), "round {round}: {}", again.stderr),
            code => panic!("round {round}: the second encode said {code}: {}", again.stderr),
        }
        if again.code == 5 {
            rig.kiln("repair shards").ok();
        }
        rig.kiln("verify shards --deep").ok();
        rig.decodes_to(&data);
        assert_eq!(rig.names("shards").len(), 6, "round {round}: {:?}", rig.names("shards"));
        rig.remove("shards");
    }
    let total = rounds();
    say(&format!("encode: {total} kills, {finished} came too late, {resumed} runs resumed"));
}

#[test]
fn repair_survives_kills() {
    let seed = seed("repair_survives_kills");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 64", BYTES);
    let whole = rig.snapshot("shards");
    let lose = |random: &mut Random| {
        let first = random.below(6) as usize;
        rig.remove(shard(first));
        if random.below(2) == 0 {
            rig.remove(shard((first + 1) % 6));
        }
    };
    rig.remove(shard(0));
    let usual = usual(&rig, "repair shards", || rig.remove(shard(0)));
    rig.kiln("repair shards").ok();
    let (mut finished, mut resumed) = (0, 0);
    for round in 0..rounds() {
        lose(&mut random);
        let done = kill(rig.start("repair shards"), &mut random, usual);
        finished += u64::from(done);
        let verify = rig.kiln("verify shards").code;
        assert!(verify <= 1, "round {round}: verify said {verify}");
        if verify == 0 {
            assert!(rig.snapshot("shards").len() >= whole.len(), "round {round}");
            rig.kiln("verify shards --deep").ok();
        }
        rig.decodes_to(&data);
        let report = rig.kiln("repair shards --json").ok().json();
        resumed += u64::from(report["resumed_bytes"].as_u64().unwrap() > 0);
        rig.kiln("verify shards --deep").ok();
        assert!(rig.snapshot("shards") == whole, "round {round}: {:?}", rig.names("shards"));
    }
    let total = rounds();
    say(&format!("repair: {total} kills, {finished} came too late, {resumed} runs resumed"));
}

#[test]
fn decode_survives_kills() {
    let mut random = Random::new(seed("decode_survives_kills"));
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 64", BYTES);
    rig.remove(shard(0));
    let usual = usual(&rig, "decode shards -o back -q", || rig.remove("back"));
    for round in 0..rounds().div_ceil(5) {
        kill(rig.start("decode shards -o back -q"), &mut random, usual);
        if rig.path("back").exists() {
            assert!(rig.read("back") == data, "round {round}: a half file under the final name");
            rig.remove("back");
        }
        rig.kiln("decode shards -o back -q").ok();
        assert!(rig.read("back") == data);
        rig.remove("back");
        let hidden = rig.names(".").into_iter().filter(|name| name.starts_with('.')).count();
        assert_eq!(hidden, 0, "round {round}: a temporary file stays");
    }
}

/// Waits until the unfinished parts in "shards" hold so many bytes.
fn wait_for_parts(rig: &Rig, bytes: u64) {
    let held = || {
        let entries = fs::read_dir(rig.path("shards")).into_iter().flatten();
        let sizes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
        sizes.sum::<u64>()
    };
    for _ in 0..4000 {
        if held() >= bytes {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the parts did not grow to {bytes} bytes");
}

#[test]
fn an_interrupted_encode_resumes() {
    let rig = Rig::new();
    let size = 8 << 20;
    let data = rig.data("object", size, 5);
    let words = format!("encode object {SPEC} -o shards");
    let mut child = rig.start(&format!("{words} --limit-rate 8MiB"));
    wait_for_parts(&rig, size as u64);
    child.kill().unwrap();
    child.wait().unwrap();
    rig.kiln("verify shards").fails(7, &["no shards"]);
    let report = rig.kiln(&format!("{words} --json")).ok().json();
    let resumed = report["resumed_bytes"].as_u64().unwrap();
    assert!(resumed > size as u64 / 4, "only {resumed} bytes were kept");
    rig.kiln("verify shards --deep").ok();
    rig.decodes_to(&data);
}

#[test]
fn a_changed_input_does_not_resume() {
    let rig = Rig::new();
    let size = 8 << 20;
    rig.data("object", size, 5);
    let words = format!("encode object {SPEC} -o shards");
    let mut child = rig.start(&format!("{words} --limit-rate 8MiB"));
    wait_for_parts(&rig, size as u64);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(rig.path("object"), data(size, 6)).unwrap();
    let report = rig.kiln(&format!("{words} --json")).ok().json();
    assert_eq!(report["resumed_bytes"], 0);
    rig.decodes_to(&data(size, 6));
    assert_eq!(rig.names("shards").len(), 6);
}

#[test]
fn a_forced_encode_survives_kills() {
    let seed = seed("a_forced_encode_survives_kills");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    let old = rig.data("old", 600_000, seed);
    let new = rig.data("new", 700_000, seed + 1);
    let encode = |name: &str| format!("encode {name} --name object {SPEC} -o shards -q --force");
    let usual = usual(&rig, &encode("new"), || ());
    for round in 0..rounds().div_ceil(3) {
        rig.kiln(&encode("old")).ok();
        kill(rig.start(&encode("new")), &mut random, usual);
        rig.kiln("decode shards -o back --force -q").ok();
        let back = rig.read("back");
        assert!(back == old || back == new, "round {round}: neither the old nor the new bytes");
        rig.kiln(&encode("new")).ok();
        rig.kiln("verify shards --deep").ok();
        rig.decodes_to(&new);
        assert_eq!(rig.names("shards").len(), 6, "round {round}: {:?}", rig.names("shards"));
    }
}

#[test]
fn raw_commands_survive_kills() {
    let mut random = Random::new(seed("raw_commands_survive_kills"));
    let rig = Rig::new();
    let data = rig.data("object", 2_000_000, 8);
    let raw = "--format raw -c clay:4+2 --chunk 4KiB";
    let words = format!("encode object {raw} -o chunks --force -q");
    let usual = usual(&rig, &words, || rig.remove("chunks"));
    rig.kiln(&words).ok();
    let whole = rig.snapshot("chunks");
    for round in 0..rounds().div_ceil(3) {
        rig.remove("chunks");
        kill(rig.start(&words), &mut random, usual);
        // Whatever has its final name must be whole.
        for (path, bytes) in rig.snapshot("chunks") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                assert!(whole.contains(&(path, bytes)), "round {round}: {name} is half written");
            }
        }
        rig.kiln(&words).ok();
        rig.remove("chunks/object.2");
        kill(rig.start(&format!("repair chunks {raw}")), &mut random, usual / 2);
        rig.kiln(&format!("repair chunks {raw}")).ok();
        assert!(rig.snapshot("chunks") == whole, "round {round}: {:?}", rig.names("chunks"));
        rig.kiln(&format!("decode chunks {raw} --size {} -o back --force -q", data.len())).ok();
        assert!(rig.read("back") == data);
    }
}

#[test]
fn a_killed_stream_leaves_nothing_in_the_way() {
    let mut random = Random::new(seed("a_killed_stream_leaves_nothing_in_the_way"));
    let rig = Rig::new();
    let data = data(1_000_000, 4);
    for _ in 0..rounds().div_ceil(5) {
        let words = format!("encode - --name object {SPEC} -o shards -q");
        let mut child = rig.command(&words).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let part = data[..random.below(data.len() as u64) as usize].to_vec();
        // The pipe stays open: the program waits for more when it is killed.
        std::io::Write::write_all(&mut stdin, &part).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stdin);
        rig.kiln_with_input(&words, &data).ok();
        rig.kiln("verify shards --deep").ok();
        rig.decodes_to(&data);
        assert_eq!(rig.names("shards").len(), 6);
        rig.remove("shards");
    }
}
