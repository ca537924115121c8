//! Which device each node has, and which plan suits them.

use std::collections::BTreeMap;

use kiln_code::RepairPlan;
use serde::Serialize;

use super::DeviceModel;
use super::ahead::Ahead;

/// The devices of nodes. Nodes on one device wait for each other there, so whoever puts them on
/// one device here lets their costs add up.
///
/// ```
/// use kiln_pool::reads::{Combine, DeviceModel, Devices};
/// let mut devices = Devices::default();
/// let disk = devices.add(DeviceModel::new(8e-3, 1.0 / 150e6, Combine::Sum));
/// devices.place("/mnt/disk0", disk);
/// assert_eq!(devices.of("/mnt/disk0"), Some(0));
/// assert_eq!(devices.of("elsewhere"), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Devices {
    models: Vec<DeviceModel>,
    of: BTreeMap<String, usize>,
}

impl Devices {
    /// Adds a device; gives its number.
    pub fn add(&mut self, model: DeviceModel) -> usize {
        self.models.push(model);
        self.models.len() - 1
    }

    /// Says that the node of this name is on that device.
    pub fn place(&mut self, node: impl Into<String>, device: usize) {
        self.of.insert(node.into(), device);
    }

    /// The device of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<usize> {
        self.of.get(node).copied().filter(|&device| device < self.models.len())
    }

    pub(crate) fn model(&self, device: usize) -> &DeviceModel {
        &self.models[device]
    }
}

/// What the read planner decided for an operation, and why. Times are the model's, for reading all
/// stripes with every device on its own: the slowest device counts.
///
/// ```
/// assert_eq!(kiln_pool::reads::ReadsReport::default().window_stripes, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadsReport {
    /// What is done, and for which reason.
    pub why: String,
    /// Adjacent stripes of a shard that are read at once.
    pub window_stripes: u64,
    /// Bytes of the widest gap that is read through; 0 when none is.
    pub widest_gap: u64,
    /// Expected seconds of reading.
    pub expected_seconds: f64,
    /// Expected seconds with one read for every run of the repair with the fewest bytes.
    pub expected_seconds_as_runs: f64,
    /// Expected seconds of reading k whole chunks, a read a chunk.
    pub expected_seconds_whole_chunks: f64,
}

/// The choice between two plans.
pub(super) struct Choice {
    /// Whole chunks are read.
    pub decode: bool,
    /// Why.
    pub report: ReadsReport,
}

/// What a plan costs on the devices, a window of stripes.
#[derive(Default)]
struct Load {
    /// Reads and bytes for each device: as planned, and one read a run.
    planned: BTreeMap<usize, (u64, u64)>,
    as_runs: BTreeMap<usize, (u64, u64)>,
    runs: usize,
    reads: usize,
    widest_gap: u64,
}

impl Load {
    fn of(plan: &RepairPlan, ahead: &Ahead<'_>) -> Load {
        let mut load = Load::default();
        for helper in plan.helpers() {
            let Some(device) = ahead.device_of(helper.chunk) else { continue };
            let (cover, stripes) = ahead.cover(helper.chunk, 0, &helper.runs);
            let planned = load.planned.entry(device).or_default();
            planned.0 += cover.reads.len() as u64;
            planned.1 += cover.bytes;
            let as_runs = load.as_runs.entry(device).or_default();
            as_runs.0 += cover.runs as u64;
            as_runs.1 += cover.wanted_bytes;
            load.runs += helper.runs.len() * stripes as usize;
            load.reads += cover.reads.len();
            load.widest_gap = load.widest_gap.max(cover.widest_gap);
        }
        load
    }

    fn seconds(loads: &BTreeMap<usize, (u64, u64)>, ahead: &Ahead<'_>) -> f64 {
        let devices = ahead.devices();
        let times =
            loads.iter().map(|(&at, &(reads, bytes))| devices.model(at).seconds(reads, bytes));
        times.fold(0.0, f64::max)
    }
}

impl Choice {
    /// The plan with the fewest bytes, read with its gaps where that is cheaper, unless whole
    /// chunks are cheaper still.
    ///
    /// With every helper on a device of its own that cannot be: a repair may read through all its
    /// gaps, which costs no more than the whole chunk. It can be where helpers share a device,
    /// since a decode has fewer of them.
    pub(super) fn between(repair: &RepairPlan, decode: &RepairPlan, ahead: &Ahead<'_>) -> Choice {
        let (few, whole) = (Load::of(repair, ahead), Load::of(decode, ahead));
        let planned = Load::seconds(&few.planned, ahead);
        let as_decode = Load::seconds(&whole.planned, ahead);
        let use_decode = as_decode < planned;
        let chosen = if use_decode { &whole } else { &few };
        let windows = ahead.stripes() as f64 / ahead.window_stripes().min(ahead.stripes()) as f64;
        let mut report = ReadsReport {
            why: String::new(),
            window_stripes: ahead.window_stripes(),
            widest_gap: chosen.widest_gap,
            expected_seconds: windows * planned.min(as_decode),
            expected_seconds_as_runs: windows * Load::seconds(&few.as_runs, ahead),
            expected_seconds_whole_chunks: windows * Load::seconds(&whole.as_runs, ahead),
        };
        let (runs, reads) = (chosen.runs, chosen.reads);
        report.why = match (use_decode, reads < runs) {
            (true, _) => format!(
                "whole chunks of {} helpers cost the devices less than the runs of {}",
                decode.helpers().len(),
                repair.helpers().len()
            ),
            (false, false) => format!("{runs} runs are {reads} reads: no gap is worth reading"),
            (false, true) if chosen.widest_gap == 0 => {
                format!("{runs} runs are {reads} reads: runs that touch are joined")
            }
            (false, true) => format!(
                "{runs} runs are {reads} reads: gaps up to {} bytes cost less than a read",
                chosen.widest_gap
            ),
        };
        Choice { decode: use_decode, report }
    }
}
