//! The real program on a file system: runs of the plan, reads it asked for, reads the device saw.

use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::disk::Disk;
use super::{Options, Section, skipped};
use crate::BenchError;

const NAME: &str = "process";
const TITLE: &str = "Runs of the plan, reads issued, reads of the device";

/// One repair, counted in four places.
#[derive(Debug, Serialize)]
struct Row {
    code: String,
    lost: usize,
    /// Runs that `kiln repair --dry-run` promised.
    planned_runs: u64,
    /// Reads of chunk data that the repair reports.
    device_reads: u64,
    /// All reads that it asked for: chunk data, headers, checksum tables, trailers.
    issued_reads: u64,
    issued_bytes: u64,
    /// What the block device's own statistics say.
    counted_reads: u64,
    counted_bytes: u64,
    /// Places where a shard's file goes on elsewhere on the device: a read across one is two.
    breaks: u64,
}

/// Repairs shards on a loop device with ext4.
pub fn run(options: &Options) -> Result<Section, BenchError> {
    let bytes = if options.tiny { 64 << 20 } else { 512 << 20 };
    if !options.kiln.exists() {
        let why = format!("there is no {}; build kiln, or name it", options.kiln.display());
        return Ok(skipped(NAME, TITLE, &why));
    }
    let mut disk = match Disk::new(bytes, None) {
        Ok(disk) => disk,
        Err(error) => return Ok(skipped(NAME, TITLE, &format!("no emulated disk: {error}"))),
    };
    let folder = match disk.mount() {
        Ok(folder) => folder,
        Err(error) => return Ok(skipped(NAME, TITLE, &format!("no file system: {error}"))),
    };
    let codes: &[(&str, &str, &[usize])] = match options.tiny {
        true => &[("clay:4+2,order=gray", "128KiB", &[0, 5])],
        false => &[
            ("clay:16+2", "2MiB", &[0, 9, 17]),
            ("clay:16+2,order=gray", "2MiB", &[0, 9, 17]),
            ("clay:9+3,order=gray", "324KiB", &[0, 11]),
            ("rs:16+2", "1MiB", &[0]),
        ],
    };
    let mut rows = Vec::new();
    for (code, chunk, lost) in codes {
        for &lost in *lost {
            let row = repair(options, &disk, &folder, (code, chunk), lost);
            rows.push(row.map_err(|error| BenchError::Failed {
                engine: "kiln".into(),
                reason: error.to_string(),
            })?);
        }
    }
    Ok(section(&rows))
}

fn section(rows: &[Row]) -> Section {
    // Reads become two where a file goes on elsewhere on the device.
    let same = rows.iter().all(|r| {
        (r.issued_reads..=r.issued_reads + r.breaks).contains(&r.counted_reads)
            && r.planned_runs == r.device_reads
            && r.issued_bytes == r.counted_bytes
    });
    let json = serde_json::json!({ "rows": rows, "agree": same });
    Section { name: NAME.into(), title: TITLE.into(), json }
}

fn repair(
    options: &Options,
    disk: &Disk,
    folder: &Path,
    (code, chunk): (&str, &str),
    lost: usize,
) -> io::Result<Row> {
    let shards = folder.join("shards");
    let words = ["encode", "-", "--name", "x", "-q", "-c", code, "--chunk", chunk, "-o"];
    let mut encode =
        Command::new(&options.kiln).args(words).arg(&shards).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = encode.stdin.take() {
        let bytes = if options.tiny { 4 << 20 } else { 96 << 20 };
        for word in 0..bytes / 8u64 {
            input.write_all(&word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())?;
        }
    }
    if !encode.wait()?.success() {
        return Err(io::Error::other("kiln encode failed"));
    }
    fs::remove_file(shards.join(format!("x.{lost:02}.kiln")))?;
    let kiln = |words: &[&str]| -> io::Result<Value> {
        let output = Command::new(&options.kiln)
            .args(["repair", "--direct", "--json"])
            .args(words)
            .arg(&shards)
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(said.trim().to_string()));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let dry = kiln(&["--dry-run"])?;
    let breaks = breaks(&shards)?;
    let before = disk.counted()?;
    let done = kiln(&[])?;
    let after = disk.counted()?;
    fs::remove_dir_all(&shards)?;
    let number = |report: &Value, key: &str| report[key].as_u64().unwrap_or(0);
    Ok(Row {
        code: code.into(),
        lost,
        planned_runs: number(&dry, "read_runs"),
        device_reads: number(&done, "device_reads"),
        issued_reads: number(&done, "issued_reads"),
        issued_bytes: number(&done, "issued_bytes"),
        counted_reads: after.reads + after.merged - before.reads - before.merged,
        counted_bytes: after.bytes - before.bytes,
        breaks,
    })
}

/// Pieces of the files in a folder beyond one each; 0 where nobody can tell.
fn breaks(folder: &Path) -> io::Result<u64> {
    let files: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let Ok(output) = Command::new("filefrag").args(files).output() else { return Ok(0) };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pieces = text.lines().filter_map(|line| {
        let (_, said) = line.rsplit_once(": ")?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(pieces.map(|pieces| pieces.saturating_sub(1)).sum())
}
