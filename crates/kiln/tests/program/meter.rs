//! Counters of the kernel must agree with what kiln reports.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use crate::rig::{Rig, shard};

const BYTES: usize = 96 << 20;

/// Runs the program and returns its report and the bytes that the kernel saw it read. A process's
/// counters hold those of the children it waited for, so a shell in between keeps them; the shell
/// and cat themselves read a few KiB.
fn metered(rig: &Rig, words: &str) -> (Value, u64) {
    let command = rig.command(words);
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\" > report && exec cat /proc/self/io", "sh"]);
    shell.arg(command.get_program()).args(command.get_args().collect::<Vec<&OsStr>>());
    let output = shell.current_dir(rig.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let io = String::from_utf8(output.stdout).unwrap();
    let rchar = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    (serde_json::from_slice(&rig.read("report")).unwrap(), rchar.parse().unwrap())
}

#[test]
fn every_single_repair_of_clay_10_4_reads_3_25_chunks() {
    let rig = Rig::new();
    rig.encoded("clay:10+4", "", BYTES);
    for index in 0..14 {
        let whole = rig.read(shard(index));
        rig.remove(shard(index));
        let (report, rchar) = metered(&rig, "repair shards --json");
        assert!(rig.read(shard(index)) == whole, "shard {index} differs");
        let number = |key: &str| report[key].as_u64().unwrap();
        let (read, written) = (number("bytes_read"), number("bytes_written"));
        assert!(
            read as f64 <= 3.25 * 1.01 * written as f64,
            "shard {index}: {read} read for {written}"
        );
        let counted = rchar as f64 / read as f64;
        assert!(
            (0.98..=1.02).contains(&counted),
            "shard {index}: the kernel counted {rchar} bytes, the report says {read}"
        );
    }
}
