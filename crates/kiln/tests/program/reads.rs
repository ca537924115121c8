//! Reads that the plan promises, that the program reports and that the kernel counts are the same.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::rig::{Rig, say, shard};

/// 96 stripes of clay:4+2 with sub-chunks of 4 KiB.
const BYTES: usize = 96 * 4 * 8 * 4096;

/// Counters of the kernel while a command ran.
struct DeviceCounters {
    report: Value,
    /// Calls of read and its kin.
    calls: i64,
    /// Bytes that came from a device.
    device: i64,
}

impl DeviceCounters {
    fn number(&self, key: &str) -> i64 {
        self.report[key].as_i64().unwrap()
    }
}

/// Runs the program through a shell, whose counters hold those of the children it waited for.
fn counted(rig: &Rig, words: &str, uring: &str) -> DeviceCounters {
    let command = rig.command(words);
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\" > report && exec cat /proc/self/io", "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).env("KILN_URING", uring);
    let output = shell.current_dir(rig.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let io = String::from_utf8(output.stdout).unwrap();
    let number = |key: &str| {
        io.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().parse().unwrap()
    };
    let report = serde_json::from_slice(&rig.read("report")).unwrap();
    DeviceCounters { report, calls: number("syscr:"), device: number("read_bytes:") }
}

/// Repairs one shard; checks it, and that the plan promised just these reads.
fn repaired(rig: &Rig, index: usize, flags: &str, uring: &str) -> DeviceCounters {
    let whole = rig.read(shard(index));
    rig.remove(shard(index));
    let dry = rig.kiln(&format!("repair shards --json --dry-run {flags}")).ok().json();
    let run = counted(rig, &format!("repair shards --json {flags}"), uring);
    assert!(rig.read(shard(index)) == whole, "shard {index} differs");
    for key in ["bytes_read", "read_runs", "device_bytes_read", "device_reads", "nodes"] {
        assert_eq!(dry[key], run.report[key], "{key} of shard {index} {flags}");
    }
    run
}

#[test]
fn runs_of_the_plan_are_calls_of_the_process() {
    let rig = Rig::new();
    rig.encoded("clay:4+2", "--sub-chunk 4096", BYTES);
    for flags in ["", "--direct"] {
        // Shard 0 is repaired by one run a helper and stripe, shard 5 by four. What the process
        // reads besides (its own libraries, headers, tables) is the same for both.
        let (few, many) = (repaired(&rig, 0, flags, "off"), repaired(&rig, 5, flags, "off"));
        assert_eq!((few.number("read_runs"), many.number("read_runs")), (5 * 96, 5 * 96 * 4));
        for run in [&few, &many] {
            assert_eq!(run.number("device_reads"), run.number("read_runs"));
            assert_eq!(run.number("device_bytes_read"), run.number("bytes_read"));
        }
        let more = many.number("issued_reads") - few.number("issued_reads");
        assert_eq!(more, 5 * 96 * 3, "{flags}");
        let counted = many.calls - few.calls;
        // What the system's libraries read for themselves may differ by a call or two.
        assert!((counted - more).abs() <= 8, "{flags}: the kernel counted {counted}, not {more}");
    }
}

#[test]
fn a_repair_reads_what_is_cheapest_by_a_table_of_prices() {
    let rig = Rig::new();
    rig.encoded("clay:4+2", "--sub-chunk 4096", BYTES / 4);
    let priced = |table: &str| {
        fs::write(rig.path("prices.toml"), format!("currency = \"EUR\"\n{table}")).unwrap();
        repaired(&rig, 5, "--price prices.toml", "off")
    };
    let by_runs = repaired(&rig, 5, "", "off");
    // Bytes alone cost: as few as the code allows. Requests alone: as few as there can be.
    let bytes = priced("gets_1000 = 0\ngigabyte = 1000");
    let gets = priced("gets_1000 = 1000\ngigabyte = 0");
    assert_eq!(bytes.number("device_bytes_read"), by_runs.number("device_bytes_read"));
    assert!(gets.number("device_reads") * 8 < by_runs.number("device_reads"), "{}", gets.report);
    assert!(gets.number("device_bytes_read") > bytes.number("device_bytes_read"));
    let price = |run: &DeviceCounters, key: &str| run.report["price"][key].as_f64().unwrap();
    assert_eq!(bytes.report["price"]["currency"], "EUR");
    let paid = bytes.number("device_bytes_read") as f64 / 1e6;
    assert!((price(&bytes, "planned") / paid - 1.0).abs() < 0.01, "{}", bytes.report);
    assert!(price(&bytes, "whole_chunks") > price(&bytes, "planned"));
    let paid = gets.number("device_reads") as f64;
    assert!((price(&gets, "planned") / paid - 1.0).abs() < 0.01, "{}", gets.report);
    // In between both count, and what is chosen is never dearer than either way alone.
    let both = priced("gets_1000 = 0.0004\ngigabyte = 0.09");
    assert!(price(&both, "planned") <= price(&both, "as_runs"));
    assert!(price(&both, "planned") <= price(&both, "whole_chunks") * 1.02);
    let zones = "gets_1000 = 1\ngigabyte = 1\n[zone.far]\nchunks = [0]\n";
    fs::write(rig.path("prices.toml"), zones).unwrap();
    rig.remove(shard(5));
    let refused = rig.kiln("repair shards --price prices.toml");
    refused.fails(3, &["--price", "zone \"far\"", "nodes = [...]"]);
}

/// A pool is repaired in the cheapest way, too; prices of zones add up, and a node that is dear is
/// left out where a decode can do without it.
#[test]
fn a_pool_is_repaired_by_a_table_of_prices() {
    let rig = Rig::new();
    let nodes: String = (0..6).map(|at| format!(" --node f{at},id=n{at}")).collect();
    rig.kiln(&format!("pool create -c clay:4+2{nodes}")).ok();
    // Smaller objects have another code.
    rig.data("data", 3 * BYTES, 7);
    rig.kiln("put data object").ok();
    let priced = |table: &str, flags: &str| {
        fs::write(rig.path("prices.toml"), format!("currency = \"EUR\"\n{table}")).unwrap();
        let is_shard = |name: &&String| name.ends_with(".kiln") && !name.starts_with('.');
        rig.names("f5").iter().filter(is_shard).for_each(|name| rig.remove(format!("f5/{name}")));
        rig.kiln(&format!("repair --price prices.toml --json {flags}"))
    };
    let price = |report: &serde_json::Value, key: &str| report["price"][key].as_f64().unwrap();
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.01, "{a} and {b}");
    // Bytes alone cost: what a dry run says is what is read.
    let bytes = "gets_1000 = 0\ngigabyte = 1000\n";
    let dry = priced(bytes, "--dry-run").ok().json();
    let run = priced(bytes, "").ok().json();
    assert_eq!(run["repaired"], 1);
    assert_eq!(dry["price"], run["price"]);
    close(price(&run, "planned"), run["bytes_read"].as_f64().unwrap() / 1e6);
    assert!(price(&run, "whole_chunks") > price(&run, "planned"));
    // Of five helpers one is dear: its part is a fifth of the bytes, or nothing in a decode.
    let near = price(&run, "planned");
    let some = priced(&format!("{bytes}[zone.far]\nnodes = [\"n1\"]\ngigabyte = 1500\n"), "");
    close(price(&some.ok().json(), "planned"), near * 1.1);
    let far = priced(&format!("{bytes}[zone.far]\nnodes = [\"n1\"]\ngigabyte = 1e6\n"), "");
    let far = far.ok().json();
    close(price(&far, "planned"), far["bytes_read"].as_f64().unwrap() / 1e6);
    close(price(&far, "whole_chunks"), price(&far, "planned"));
    let wrong = priced(&format!("{bytes}[zone.far]\nnodes = [\"n9\"]\n"), "");
    wrong.fails(3, &["--price", "n9", "n0, n1"]);
    rig.kiln("repair").ok();
    rig.kiln("get object -o back").ok();
    assert!(rig.read("back") == rig.read("data"));
}

#[test]
fn direct_reads_are_bytes_of_the_device() {
    let rig = Rig::new();
    // Sub-chunks of 1 KiB: no multiple of what some devices read, so there may be slack.
    rig.encoded("clay:4+2", "--sub-chunk 1024", BYTES / 4);
    for uring in ["on", "off"] {
        let run = repaired(&rig, 5, "--direct", uring);
        let (asked, issued) = (run.number("device_bytes_read"), run.number("issued_bytes"));
        assert!(run.number("bytes_read") <= asked && asked < issued, "{:?}", run.report);
        if run.device == 0 {
            say("SKIPPED: the temporary folder is on no device, so none can be counted");
            return;
        }
        // The program itself and the file system's own blocks may come from the device too.
        let beyond = run.device - issued;
        assert!((0..4 << 20).contains(&beyond), "{} counted, {issued} asked", run.device);
    }
}

#[test]
fn direct_reads_give_the_same_everywhere() {
    let rig = Rig::new();
    let data = rig.encoded("rs:3+2", "--chunk 5000", 1_000_003);
    rig.remove(shard(1));
    for flags in ["", "--direct", "--readers 1", "--direct --readers 2"] {
        rig.kiln(&format!("decode shards -o back --force -q {flags}")).ok();
        assert!(rig.read("back") == data, "{flags}");
        let report = rig.kiln(&format!("verify shards --json {flags}")).code(1).json();
        assert_eq!(report["missing"], serde_json::json!([1]));
    }
    rig.kiln("encode object -c rs:3+2 -o raw -q --format raw --chunk 5000").ok();
    let whole = rig.read("raw/object.4");
    rig.remove("raw/object.4");
    let words = "repair raw --direct --format raw -c rs:3+2 --chunk 5000 --json";
    let report = rig.kiln(words).ok().json();
    assert!(rig.read("raw/object.4") == whole);
    assert!(report["device_bytes_read"].as_u64() >= report["bytes_read"].as_u64());
}

#[test]
fn a_probed_device_gets_planned_reads() {
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 512", 40 * 4 * 8 * 512);
    let shards = rig.names("shards");
    let report = rig.kiln("probe shards --seconds 0.3 --scratch 4MiB --json").ok().json();
    let mut names = rig.names("shards");
    assert_eq!(names.remove(0), ".kiln-device");
    assert_eq!(names, shards, "no scratch file is left, no shard was touched");
    assert!(report["model"]["read_seconds"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["samples"].as_array().unwrap().len() >= 4);
    // Any device: the model is taken by itself, and what it plans is what is done.
    let run = repaired(&rig, 5, "", "on");
    let reads = &run.report["reads"];
    let seconds = |key: &str| reads[key].as_f64().unwrap();
    let simple = seconds("expected_seconds_as_runs").min(seconds("expected_seconds_whole_chunks"));
    assert!(seconds("expected_seconds") <= simple * 1.03, "{reads}");
    // A device where only reads cost anything: as few as can be. Nothing says otherwise: five
    // helpers on one device are more reads than four whole chunks.
    let model = "{\"version\":1,\"read_seconds\":1.0,\"byte_seconds\":1e-12,\"start_seconds\":0.0,\
         \"combine\":\"sum\",\"parallelism\":1.0,\"depth\":1,\"alignment\":512,\"worst_fit\":0.0}";
    std::fs::write(rig.path("slow.json"), model).unwrap();
    let run = repaired(&rig, 5, "--device-model slow.json", "on");
    assert_eq!((run.number("device_reads"), &run.report["strategy"]), (4, &"decode".into()));
    let run = repaired(&rig, 5, "--as-runs --direct", "on");
    assert!(run.report.get("reads").is_none());
    rig.decodes_to(&data);
    // Commands that find a model they cannot use say so.
    std::fs::write(rig.path("shards/.kiln-device"), model.replace("1e-12", "-1.0")).unwrap();
    rig.kiln("repair shards").fails(4, &["kiln-device", "byte_seconds", "kiln probe"]);
    rig.kiln("probe nowhere").fails(4, &["nowhere"]);
    rig.kiln("probe shards --seconds 0").fails(3, &["--seconds"]);
}

/// A disk: 8 ms to get anywhere, 150 MB/s.
const DISK: &str = "{\"version\":1,\"read_seconds\":0.008,\"byte_seconds\":6.67e-9,\
     \"start_seconds\":0.0,\"combine\":\"sum\",\"parallelism\":1.0,\"depth\":1,\
     \"alignment\":512,\"worst_fit\":0.0}";

#[test]
fn a_plan_says_which_gaps_a_device_reads_through() {
    let rig = Rig::new();
    std::fs::write(rig.path("disk"), DISK).unwrap();
    // Chunk 17 of 16+2 has 128 runs in gray order, of two layers but at the ends.
    let plan = |chunk: &str| {
        let words = "plan -c clay:16+2,order=gray --lost 17 --device-model disk --json --chunk";
        rig.kiln(&format!("{words} {chunk}")).ok().json()
    };
    let small = plan("1MiB");
    let loss = &small["losses"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    // All gaps of a chunk are bytes for 3.5 ms, a read costs 8: everything is read, so that k whole
    // chunks are less work than n-1 of them.
    assert_eq!(loss["chosen"], "decode", "{loss}");
    assert_eq!(number(&loss["as_runs"]["reads"]), 128.0 * 17.0);
    assert!(number(&loss["planned"]["reads"]) <= 17.0);
    assert!(number(&loss["planned"]["widest_gap"]) >= 4096.0);
    let large = plan("4GiB");
    let loss = &large["losses"][0];
    assert_eq!((&loss["chosen"], number(&loss["planned"]["reads"])), (&"runs".into(), 2176.0));
    // Half of every chunk, a read a run.
    let expected = 128.0 * 0.008 + (2u64 << 30) as f64 * 6.67e-9;
    assert!((number(&loss["planned"]["seconds"]) / expected - 1.0).abs() < 1e-6, "{loss}");
    // The sizes from which things change. All gaps are alike here but the ends: all are read up to
    // some size, and the repair pays from the next one on.
    let (gaps, pays) = (number(&small["gaps_until"]), number(&small["pays_from"]));
    assert!(gaps > (1 << 20) as f64 && pays <= 2.0 * gaps, "{gaps} {pays}");
    for size in small["sizes"].as_array().unwrap() {
        let (planned, runs, decode) = (&size["planned"], &size["as_runs"], &size["decode"]);
        let seconds = |way: &Value| number(&way["seconds"]);
        assert!(seconds(planned) <= 1.000_001 * seconds(runs).min(seconds(decode)), "{size}");
        let pays_now = number(&size["chunk"]) >= pays;
        assert_eq!(size["pays"].as_bool(), Some(pays_now), "{size}");
    }
    // Every single loss, and two at once; a folder that was probed is named as well as its file.
    std::fs::create_dir(rig.path("probed")).unwrap();
    std::fs::write(rig.path("probed/.kiln-device"), DISK).unwrap();
    let text = rig.kiln("plan -c clay:4+2 --device-model probed").ok().stdout;
    assert!(text.contains("gaps are read through in chunks up to"), "{text}");
    let two = rig.kiln("plan -c clay:6+3,order=gray --lost 0,1 --device-model disk --json").ok();
    assert_eq!(two.json()["losses"].as_array().unwrap().len(), 1);
}
