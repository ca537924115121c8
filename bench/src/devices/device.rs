//! Experiments 1 to 5 and 7 of the paper: time of one helper's reads for every lost chunk, on
//! emulated disks, by order of the sub-chunks, chunk size and way of reading.

mod measure;
mod report;

use serde::Serialize;

use super::disk::{Disk, Limits};
use super::{Options, Section, skipped};
use crate::BenchError;
use measure::Bench;

const NAME: &str = "device";
const TITLE: &str = "Disk-read time of repairs";

/// An emulated disk.
#[derive(Debug)]
pub(super) struct Device {
    pub name: &'static str,
    pub about: &'static str,
    pub limits: Option<Limits>,
    /// It runs so many times as fast as what it stands for; times are given as of that.
    pub scale: f64,
}

/// The disks.
pub(super) static DEVICES: &[Device] = &[
    Device {
        name: "seek",
        about: "150 reads a second, each of 448 KiB at most, and 150 MiB a second; emulated twice \
                as fast",
        limits: Some(Limits { reads: 300, bytes: 300 << 20 }),
        scale: 2.0,
    },
    Device {
        name: "volume",
        about: "a cloud's volume of 3000 reads and 125 MiB a second, emulated twice as fast",
        limits: Some(Limits { reads: 6000, bytes: 250 << 20 }),
        scale: 2.0,
    },
    Device {
        name: "fast",
        about: "memory behind a loop device, without limits",
        limits: None,
        scale: 1.0,
    },
];

/// A way to store and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub name: &'static str,
    /// Order of Clay's layers; `None`: Reed-Solomon, which reads the whole chunk.
    pub order: Option<&'static str>,
    /// Reads are planned by the model that was measured.
    pub planned: bool,
    /// Reads of a chunk are submitted together, not one after the other.
    pub together: bool,
}

const fn way(name: &'static str, order: Option<&'static str>) -> Way {
    Way { name, order, planned: false, together: true }
}

pub(super) const NATURAL: Way = way("natural", Some("natural"));
pub(super) const GRAY: Way = way("gray", Some("gray"));
pub(super) const WHOLE: Way = way("RS, whole chunk", None);
pub(super) const PLANNED: Way = Way { planned: true, ..way("gray, planned", Some("gray")) };
pub(super) const NATURAL_SERIAL: Way =
    Way { together: false, ..way("natural, one by one", Some("natural")) };
pub(super) const GRAY_SERIAL: Way =
    Way { together: false, ..way("gray, one by one", Some("gray")) };
/// Table IV of the paper has two codes of its recursive generator; these have the same runs.
const SPECIAL1: Way = way("special 1", Some("recursive:4:2:165"));
const SPECIAL2: Way = way("special 2", Some("recursive:128004:3"));
const BALANCED: Way = way("balanced", Some("balanced"));

/// Cells of one experiment: codes x chunk sizes x ways.
pub(super) struct Plan {
    pub experiment: &'static str,
    pub code: (usize, usize),
    pub chunk: u64,
    pub ways: Vec<Way>,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub experiment: &'static str,
    pub device: &'static str,
    pub k: usize,
    pub m: usize,
    pub chunk: u64,
    pub way: &'static str,
    /// Seconds to read one helper's part, for each lost chunk.
    pub seconds: Vec<f64>,
    /// Their sum.
    pub overall: f64,
    /// What the probed model says of each, and their sum.
    pub expected_seconds: Vec<f64>,
    /// See `expected_seconds`.
    pub expected: f64,
    /// Reads asked for in the measurement, long ones in pieces.
    pub issued_reads: u64,
    /// Reads that the device counted, with those that the block layer merged into others.
    pub counted_reads: u64,
    /// Bytes asked for, and bytes that the device counted.
    pub issued_bytes: u64,
    pub counted_bytes: u64,
    /// Reads for each chunk, summed over lost chunks: S_total where no gaps are read.
    pub reads_per_stripe: f64,
    /// Bytes read for each byte that a repair needs.
    pub read_amplification: f64,
}

/// What is measured on a device.
fn plans(options: &Options, device: &str) -> Vec<Plan> {
    let main = |chunk: u64, experiment: &'static str, ways: &[Way]| Plan {
        experiment,
        code: (16, 2),
        chunk,
        ways: ways.to_vec(),
    };
    const MIB: u64 = 1 << 20;
    let mut ways = vec![NATURAL, GRAY, PLANNED, WHOLE];
    if device == "fast" {
        ways.extend([NATURAL_SERIAL, GRAY_SERIAL]);
    }
    if options.tiny {
        let code = (4, 2);
        return vec![Plan { experiment: "7", code, chunk: 64 << 10, ways }];
    }
    let sizes: &[u64] = match options.quick {
        true => &[MIB / 4, 2 * MIB, 16 * MIB],
        false => &[MIB / 4, MIB / 2, MIB, 2 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB],
    };
    let mut plans: Vec<Plan> = sizes.iter().map(|&chunk| main(chunk, "7", &ways)).collect();
    let sub = 4096;
    plans.push(Plan { experiment: "4", code: (9, 3), chunk: 81 * sub, ways: ways.clone() });
    if !options.quick {
        let by_k: &[usize] = if device == "seek" { &[] } else { &[4, 6, 8, 10, 12, 14, 16] };
        let orders = [NATURAL, GRAY, SPECIAL1, SPECIAL2, BALANCED, WHOLE];
        plans.push(main(2 * MIB, "3", &orders));
        plans.push(main(32 * MIB, "3", &orders));
        // The paper's is on an SSD; on the seek-bound disk it would take long and tell nothing new.
        for &k in by_k {
            for sub in [2048u64, 16 << 10, 128 << 10, 512 << 10] {
                let chunk = sub << (k / 2 + 1);
                let ways = vec![NATURAL, GRAY, PLANNED];
                plans.push(Plan { experiment: "5", code: (k, 2), chunk, ways });
            }
        }
    }
    plans
}

/// Measures everything.
pub fn run(options: &Options) -> Result<Section, BenchError> {
    let bytes = match (options.tiny, options.quick) {
        (true, _) => 16 << 20,
        (_, true) => 128 << 20,
        _ => 512 << 20,
    };
    let mut rows = Vec::new();
    let mut models = Vec::new();
    let one = options.only.split_once(':').map_or("", |(_, device)| device);
    for device in DEVICES.iter().filter(|device| device.name.contains(one)) {
        let failed = |error: &dyn std::fmt::Display| BenchError::Failed {
            engine: format!("device {}", device.name),
            reason: error.to_string(),
        };
        let disk = match Disk::new(bytes, device.limits) {
            Ok(disk) => disk,
            Err(error) => return Ok(skipped(NAME, TITLE, &format!("no emulated disk: {error}"))),
        };
        let bench = Bench::new(&disk, device, options).map_err(|error| failed(&error))?;
        for plan in plans(options, device.name) {
            for row in bench.rows(&plan).map_err(|error| failed(&error))? {
                eprintln!(
                    "{} {}+{} chunk {} {}: {:.3} s",
                    row.device, row.k, row.m, row.chunk, row.way, row.overall
                );
                rows.push(row);
            }
        }
        models.push((device, bench.model().clone()));
    }
    Ok(report::section(NAME, TITLE, &models, &rows))
}
