//! Choice of the plan that suits the devices that it reads from.

use crate::windows::Windows;
use kiln_code::RepairPlan;
use serde::Serialize;
use std::collections::BTreeMap;

/// Decision of the read planner for an operation, and why. Times are the model's, for reading all
/// stripes with every device on its own: the slowest device counts. Where costs add up over devices
/// ([`kiln_store::device::Devices::adding_up`]) they are the sum of all, in whatever is paid.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadsReport {
    /// The decision and its reason.
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
    /// Largest deviation of a device's probe from its model, root of the mean square.
    pub model_error: f64,
    /// At worst, over all models that the probes allow: how many times as long the reads take as
    /// the faster of one read a run and one read of everything.
    pub risk: f64,
}

/// The choice between two plans.
pub(super) struct Choice {
    /// Whole chunks are read.
    pub decode: bool,
    /// Why.
    pub report: ReadsReport,
}

/// Record of what a plan costs on the devices, a window of stripes.
#[derive(Default)]
struct Load {
    /// Reads (their pieces) and bytes for each device: as planned, and one read a run.
    planned: BTreeMap<usize, (u64, u64)>,
    as_runs: BTreeMap<usize, (u64, u64)>,
    /// As planned, for each device: the reads by every model that its probe allows, and bytes.
    plausible: BTreeMap<usize, (Vec<u64>, u64)>,
    runs: usize,
    reads: usize,
    widest_gap: u64,
    risk: f64,
}

impl Load {
    fn of(plan: &RepairPlan, windows: &Windows<'_>) -> Load {
        let mut load = Load::default();
        for helper in plan.helpers() {
            let Some(device) = windows.device_of(helper.chunk) else { continue };
            let (read_plan, stripes) = windows.read_plan(helper.chunk, 0, &helper.runs);
            let runs = windows.runs_as_reads(helper.chunk, 0, &helper.runs);
            for (loads, reads) in [(&mut load.planned, &read_plan), (&mut load.as_runs, &runs)] {
                let sum = loads.entry(device).or_default();
                sum.0 += reads.operations;
                sum.1 += reads.bytes;
            }
            let models = windows.devices().plausible(device);
            let sum = load.plausible.entry(device).or_insert((vec![0; models.len()], 0));
            for (sum, model) in sum.0.iter_mut().zip(models) {
                let pieces =
                    read_plan.reads.iter().map(|read| model.operations(read.end - read.start));
                *sum += pieces.sum::<u64>();
            }
            sum.1 += read_plan.bytes;
            load.risk = load.risk.max(read_plan.risk);
            load.runs += helper.runs.len() * stripes as usize;
            load.reads += read_plan.reads.len();
            load.widest_gap = load.widest_gap.max(read_plan.widest_gap);
        }
        load
    }

    fn times(loads: &BTreeMap<usize, (u64, u64)>, windows: &Windows<'_>) -> Times {
        let devices = windows.devices();
        let each =
            loads.iter().map(|(&at, &(reads, bytes))| devices.model(at).seconds(reads, bytes));
        let times = each.fold(Times::default(), |times, seconds| Times {
            slowest: times.slowest.max(seconds),
            all: times.all + seconds,
        });
        if devices.add_up() { Times { slowest: times.all, ..times } } else { times }
    }
}

/// Returns which of two loads the slowest device is done with sooner, where the costs are
/// uncertain: how many times as long the first takes as the second, at worst, over all models that
/// probes allow. Devices have their first alternatives together, then their second ones, and so on.
fn at_worst(of: &Load, against: &Load, windows: &Windows<'_>) -> f64 {
    let devices = windows.devices();
    let slowest = |load: &Load, number: usize| {
        let seconds = load.plausible.iter().map(|(&device, (reads, bytes))| {
            let models = devices.plausible(device);
            let number = if number < models.len() { number } else { 0 };
            models[number].seconds(reads[number], *bytes)
        });
        if devices.add_up() { seconds.sum() } else { seconds.fold(0.0, f64::max) }
    };
    let both = of.plausible.keys().chain(against.plausible.keys());
    let scenarios = both.map(|&device| devices.plausible(device).len()).max().unwrap_or(1);
    let over = (0..scenarios).map(|number| {
        let other = slowest(against, number);
        if other > 0.0 { slowest(of, number) / other } else { 1.0 }
    });
    over.fold(0.0, f64::max)
}

/// A way that takes so much longer is as fast as another one: less than a model can be trusted.
const AS_FAST: f64 = 1.02;

/// Times for which devices are busy.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    pub slowest: f64,
    /// All of them together.
    pub all: f64,
}

impl Times {
    /// Faster, or as fast with less work.
    pub(super) fn better_than(&self, other: &Times) -> bool {
        let as_fast = |a: &Times, b: &Times| a.slowest <= AS_FAST * b.slowest;
        match (as_fast(self, other), as_fast(other, self)) {
            (true, true) => self.all < other.all,
            (faster, _) => faster,
        }
    }
}

impl Choice {
    /// The plan with the fewest bytes, read with its gaps where that is cheaper, unless whole
    /// chunks are cheaper still.
    ///
    /// With every helper on a device of its own a repair is never slower, since it may read through
    /// all its gaps. But then whole chunks of fewer helpers do as well, with less work; and where
    /// helpers share a device, the fewer are faster.
    pub(super) fn between(
        repair: &RepairPlan,
        decode: &RepairPlan,
        windows: &Windows<'_>,
    ) -> Choice {
        let (few, whole) = (Load::of(repair, windows), Load::of(decode, windows));
        let planned = Load::times(&few.planned, windows);
        let as_decode = Load::times(&whole.planned, windows);
        // Where each of both is faster by some model that the probe allows, the one that can
        // lose less.
        let worst = (at_worst(&whole, &few, windows), at_worst(&few, &whole, windows));
        let use_decode = match worst {
            (decode, repair) if decode > AS_FAST && repair > AS_FAST => decode < repair,
            _ => as_decode.better_than(&planned),
        };
        let expected = if use_decode { as_decode } else { planned };
        let chosen = if use_decode { &whole } else { &few };
        let count =
            windows.stripes() as f64 / windows.window_stripes().min(windows.stripes()) as f64;
        let mut report = ReadsReport {
            why: String::new(),
            window_stripes: windows.window_stripes(),
            widest_gap: chosen.widest_gap,
            expected_seconds: count * expected.slowest,
            expected_seconds_as_runs: count * Load::times(&few.as_runs, windows).slowest,
            expected_seconds_whole_chunks: count * Load::times(&whole.as_runs, windows).slowest,
            model_error: windows.devices().model_error(),
            risk: chosen.risk,
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
        if windows.devices().are_doubtful() {
            report.why += &format!(
                "; a probe was off by {:.0}% and more, so gaps are read only where every model it \
                 allows gains",
                100.0 * report.model_error
            );
        }
        Choice { decode: use_decode, report }
    }
}
