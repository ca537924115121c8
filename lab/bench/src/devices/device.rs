//! Experiments 1 to 5 and 7 of the paper: time of one helper's reads for every lost chunk, on
//! emulated disks, by order of the sub-chunks, chunk size and way of reading.

mod measure;
mod whole;
mod report;

use kiln_store::device::DeviceModel;
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
pub(super) struct ReadCosts {
    pub name: &'static str,
    /// Order of Clay's layers; `None`: Reed-Solomon, which reads the whole chunk.
    pub order: Option<&'static str>,
    /// Reads are planned by the model that was measured.
    pub planned: bool,
    /// Windows of many stripes are read at once, as a repair by kiln does; else single stripes, as
    /// in the paper.
    pub windows: bool,
    /// Reads of a chunk are submitted together, not one after the other.
    pub together: bool,
}

const fn way(name: &'static str, order: Option<&'static str>) -> ReadCosts {
    ReadCosts { name, order, planned: false, windows: false, together: true }
}

const fn in_windows(name: &'static str, order: Option<&'static str>) -> ReadCosts {
    ReadCosts { windows: true, ..way(name, order) }
}

pub(super) const NATURAL: ReadCosts = way("natural", Some("natural"));
pub(super) const GRAY: ReadCosts = way("gray", Some("gray"));
/// Gray a second time: how far apart two measurements of the same reads are.
pub(super) const AGAIN: ReadCosts = way("gray, again", Some("gray"));
pub(super) const WHOLE: ReadCosts = way("RS, whole chunk", None);
pub(super) const PLANNED: ReadCosts =
    ReadCosts { planned: true, ..in_windows("gray, planned", Some("gray")) };
/// What planned reads are compared with, beside single stripes: the same windows read simply.
pub(super) const WINDOWS: [ReadCosts; 3] = [
    in_windows("natural, windows", Some("natural")),
    in_windows("gray, windows", Some("gray")),
    in_windows("RS, windows", None),
];
pub(super) const NATURAL_SERIAL: ReadCosts =
    ReadCosts { together: false, ..way("natural, one by one", Some("natural")) };
pub(super) const GRAY_SERIAL: ReadCosts =
    ReadCosts { together: false, ..way("gray, one by one", Some("gray")) };
/// Table IV of the paper has two codes of its recursive generator; these have the same runs.
const SPECIAL1: ReadCosts = way("special 1", Some("recursive:4:2:165"));
const SPECIAL2: ReadCosts = way("special 2", Some("recursive:128004:3"));
const BALANCED: ReadCosts = way("balanced", Some("balanced"));

/// Cells of one experiment: codes x chunk sizes x ways.
#[derive(Clone)]
pub(super) struct Plan {
    pub experiment: &'static str,
    pub code: (usize, usize),
    pub chunk: u64,
    pub ways: Vec<ReadCosts>,
    /// Lost chunks that are measured.
    pub lost: Vec<usize>,
    /// Share of the time of an experiment.
    pub share: f64,
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
    /// Their sum: the median of all repetitions.
    pub overall: f64,
    /// The sum in each repetition.
    pub repetitions: Vec<f64>,
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
    let main = |chunk: u64, experiment: &'static str, ways: &[ReadCosts]| Plan {
        experiment,
        code: (16, 2),
        chunk,
        ways: ways.to_vec(),
        lost: (0..18).collect(),
        share: 1.0,
    };
    const MIB: u64 = 1 << 20;
    let mut ways = vec![NATURAL, GRAY, AGAIN, PLANNED, WHOLE];
    ways.extend(WINDOWS);
    let by_k = ways.clone();
    if device == "fast" {
        ways.extend([NATURAL_SERIAL, GRAY_SERIAL]);
    }
    if options.tiny {
        let (code, lost) = ((4, 2), (0..6).collect());
        return vec![Plan { experiment: "7", code, chunk: 64 << 10, ways, lost, share: 1.0 }];
    }
    let sizes: &[u64] = match options.quick {
        true => &[MIB / 4, 2 * MIB, 16 * MIB],
        false => &[MIB / 4, MIB / 2, MIB, 2 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB],
    };
    let mut plans: Vec<Plan> = sizes.iter().map(|&chunk| main(chunk, "7", &ways)).collect();
    let sub = 4096;
    plans.push(Plan {
        experiment: "4",
        code: (9, 3),
        chunk: 81 * sub,
        ways: ways.clone(),
        lost: (0..12).collect(),
        share: 1.0,
    });
    if !options.quick {
        let orders = [NATURAL, GRAY, SPECIAL1, SPECIAL2, BALANCED, WHOLE];
        plans.push(main(2 * MIB, "3", &orders));
        plans.push(main(32 * MIB, "3", &orders));
    }
    let sub_chunks: &[u64] =
        if options.quick { &[16 << 10] } else { &[2048, 16 << 10, 128 << 10, 512 << 10] };
    for k in [4, 6, 8, 12, 16] {
        for sub in sub_chunks {
            plans.push(Plan {
                experiment: "5",
                code: (k, 2),
                chunk: sub << (k / 2 + 1),
                ways: by_k.clone(),
                lost: (0..k + 2).collect(),
                share: 0.2,
            });
        }
    }
    plans
}
/// Measures everything. Limited devices are measured at the same time, since a limit holds whatever
/// else goes on; the others alone, after them.
pub fn run(options: &Options) -> Result<Section, BenchError> {
    let one = options.only.split(':').nth(1).unwrap_or("");
    let asked = || DEVICES.iter().filter(|device| device.name.contains(one));
    let (limited, free): (Vec<_>, Vec<_>) = asked().partition(|device| device.limits.is_some());
    let mut found = Vec::new();
    for group in [limited, free] {
        let results: Vec<_> = std::thread::scope(|scope| {
            let start = |device| scope.spawn(move || measured(options, device));
            let running: Vec<_> = group.into_iter().map(start).collect();
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for result in results {
            let panicked = |_| BenchError::Failed {
                engine: NAME.into(),
                reason: "a measurement panicked".into(),
            };
            match result.map_err(panicked)?? {
                Some(result) => found.push(result),
                None => return Ok(skipped(NAME, TITLE, "no emulated disk, see above")),
            }
        }
    }
    let models: Vec<_> = found.iter().map(|(device, model, _)| (*device, model.clone())).collect();
    let rows: Vec<Row> = found.into_iter().flat_map(|(.., rows)| rows).collect();
    let whole = whole::rows(options, &rows)?;
    Ok(report::section(NAME, TITLE, &models, &rows, &whole))
}

type Found = (&'static Device, DeviceModel, Vec<Row>);

/// All rows of a device; `None` where it cannot be emulated.
fn measured(options: &Options, device: &'static Device) -> Result<Option<Found>, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Failed {
        engine: format!("device {}", device.name),
        reason: error.to_string(),
    };
    let disk = match Disk::new(bytes(options), device.limits) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("{}: no emulated disk: {error}", device.name);
            return Ok(None);
        }
    };
    let bench = Bench::new(&disk, device, options, None).map_err(|error| failed(&error))?;
    eprintln!("{}: {:?}", device.name, bench.model());
    // A limit is one of a device, so experiments on two of them need not wait for each other; with
    // more of them the machine itself is what limits.
    let number = options.only.split(':').nth(2);
    let asked = |plan: &Plan| number.is_none_or(|number| plan.experiment == number);
    let both = plans(options, device.name).into_iter().filter(asked);
    let (sizes, others): (Vec<Plan>, Vec<Plan>) =
        both.partition(|plan| plan.experiment == "7" || device.limits.is_none());
    let lanes = [sizes, others];
    let model = bench.model();
    let found: Vec<Result<Vec<Row>, BenchError>> = std::thread::scope(|scope| {
        let start = |plans: &'_ [Plan]| -> Result<Vec<Row>, BenchError> {
            let disk = Disk::new(bytes(options), device.limits).map_err(|error| failed(&error))?;
            let bench = Bench::new(&disk, device, options, Some(model.clone()))
                .map_err(|error| failed(&error))?;
            let mut rows = Vec::new();
            for plan in plans {
                rows.extend(bench.rows(plan).map_err(|error| failed(&error))?);
            }
            Ok(rows)
        };
        let lanes = lanes.iter().filter(|lane| !lane.is_empty());
        let running: Vec<_> = lanes.map(|lane| scope.spawn(move || start(lane))).collect();
        let panicked = |_| Err(failed(&"a measurement panicked"));
        running.into_iter().map(|lane| lane.join().unwrap_or_else(panicked)).collect()
    });
    let mut rows = Vec::new();
    for lane in found {
        rows.extend(lane?);
    }
    Ok(Some((device, bench.model().clone(), rows)))
}

fn bytes(options: &Options) -> u64 {
    match (options.tiny, options.quick) {
        (true, _) => 16 << 20,
        (_, true) => 128 << 20,
        _ => 512 << 20,
    }
}
