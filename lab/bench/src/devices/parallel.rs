//! Helpers read at the same time against one after the other: the real program, every shard on an
//! emulated disk of its own.

use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::disk::{Disk, Limits};
use super::{Options, Section, skipped};
use crate::BenchError;

const NAME: &str = "parallel";
const TITLE: &str = "Helpers at the same time";
/// Every disk: so slow that a chunk takes longer than a slice of 0.1 s, within which the emulation
/// gives at once whatever the limit allows. A disk that is faster than that would be read one by
/// one without any waiting, which no real disk is.
const LIMITS: Limits = Limits { reads: 150, bytes: 8 << 20 };
const N: usize = 9;

/// One operation on one code.
#[derive(Debug, Serialize)]
struct Row {
    code: String,
    operation: &'static str,
    helpers: usize,
    /// Seconds of each repetition, as the program says.
    one_by_one: Vec<f64>,
    together: Vec<f64>,
    /// What the busiest disk must take for the bytes and reads that it was asked for.
    least: f64,
}

/// Decodes and repairs from nine disks.
pub fn run(options: &Options) -> Result<Section, BenchError> {
    if !options.kiln.exists() {
        let why = format!("there is no {}; build kiln, or name it", options.kiln.display());
        return Ok(skipped(NAME, TITLE, &why));
    }
    let mut disks = Vec::new();
    let mut folders = Vec::new();
    for _ in 0..N {
        let bytes = if options.tiny { 24 << 20 } else { 64 << 20 };
        let limits = if options.tiny { None } else { Some(LIMITS) };
        let mounted = Disk::new(bytes, limits).and_then(|mut disk| {
            folders.push(disk.mount()?.join("shards"));
            Ok(disk)
        });
        match mounted {
            Ok(disk) => disks.push(disk),
            Err(error) => return Ok(skipped(NAME, TITLE, &format!("no emulated disk: {error}"))),
        }
    }
    let mut rows = Vec::new();
    for code in ["rs:6+3", "clay:6+3,order=gray"] {
        let found = measured(options, code, &folders, &disks);
        rows.extend(found.map_err(|error| BenchError::Failed {
            engine: "kiln".into(),
            reason: error.to_string(),
        })?);
    }
    Ok(section(&rows))
}

fn measured(
    options: &Options,
    code: &str,
    folders: &[PathBuf],
    disks: &[Disk],
) -> io::Result<Vec<Row>> {
    encode(options, code, folders)?;
    let lost = folders[0].join("x.00.kiln");
    // In memory, so that writing takes no time from reading.
    let memory = PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let decoded = place.join(format!("kiln-bench-{}-decoded", std::process::id()));
    let (mut rows, rounds) = (Vec::new(), if options.tiny { 1 } else { 3 });
    for operation in ["decode", "repair"] {
        let mut row = Row {
            code: code.into(),
            operation,
            helpers: 0,
            one_by_one: Vec::new(),
            together: Vec::new(),
            least: 0.0,
        };
        for _ in 0..rounds {
            for readers in ["1", "32"] {
                let _ = fs::remove_file(&lost);
                let before = counted(disks)?;
                let mut command = Command::new(&options.kiln);
                // One worker: it is the helpers of a stripe that are compared.
                command.args([operation, "--direct", "--json", "--threads", "1"]);
                command.args(["--readers", readers]).args(folders);
                match operation {
                    "decode" => command.args(["--force", "-o"]).arg(&decoded),
                    _ => command.arg("--as-runs"),
                };
                let output = command.output()?;
                let _ = fs::remove_file(&decoded);
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr);
                    return Err(io::Error::other(said.trim().to_string()));
                }
                let report: Value = serde_json::from_slice(&output.stdout)?;
                let seconds = report["seconds"].as_f64().unwrap_or(0.0);
                let times = if readers == "1" { &mut row.one_by_one } else { &mut row.together };
                times.push(seconds);
                let asked: Vec<f64> =
                    counted(disks)?.iter().zip(before).map(|(now, then)| now - then).collect();
                row.least = asked.iter().copied().fold(0.0, f64::max);
                row.helpers = asked.iter().filter(|&&seconds| seconds > 0.1 * row.least).count();
            }
        }
        rows.push(row);
    }
    for folder in folders {
        fs::remove_dir_all(folder)?;
    }
    Ok(rows)
}

/// For every disk the seconds that its limits ask for what it was read since it exists.
fn counted(disks: &[Disk]) -> io::Result<Vec<f64>> {
    let seconds = |disk: &Disk| {
        let counted = disk.counted()?;
        let reads = counted.reads as f64 / LIMITS.reads as f64;
        Ok(reads.max(counted.bytes as f64 / LIMITS.bytes as f64))
    };
    disks.iter().map(seconds).collect()
}

fn encode(options: &Options, code: &str, folders: &[PathBuf]) -> io::Result<()> {
    let mut command = Command::new(&options.kiln);
    command.args(["encode", "-", "--name", "x", "-q", "-c", code]).stdin(Stdio::piped());
    command.args(if code.starts_with("rs") { ["--chunk", "2MiB"] } else { ["--chunk", "6912KiB"] });
    for folder in folders {
        command.arg("-o").arg(folder);
    }
    let mut encode = command.spawn()?;
    if let Some(mut input) = encode.stdin.take() {
        let bytes = if options.tiny { 6 << 20 } else { 6 * (20 << 20) };
        let words: Vec<u8> = (0..(1 << 20) / 8u64)
            .flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect();
        for _ in 0..bytes >> 20 {
            input.write_all(&words)?;
        }
    }
    match encode.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("kiln encode failed")),
    }
}

fn section(rows: &[Row]) -> Section {
    Section { name: NAME.into(), title: TITLE.into(), json: serde_json::json!(rows) }
}
