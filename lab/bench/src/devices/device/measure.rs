//! One helper's reads, timed.

use std::ops::Range;
use std::time::Instant;

use kiln_code::Codec;
use kiln_store::device::fit::fit;
use kiln_store::device::measure::{Batch, measure, steady};
use kiln_store::device::{DeviceModel, ReadPlan};
use kiln_store::{BatchRead, ReadAt, issued, longest_read, open_device};
use kiln_stripe::window_stripes;
use memmap2::MmapMut;

use super::{Device, Disk, Options, Plan, ReadCosts, Row};

type Failure = Box<dyn std::error::Error>;

/// Limits are granted in slices of 0.1 s, and what the last reads left of one is used first. So the
/// reads of one lost chunk are repeated for a while before they count, and then over some slices.
const WARM_SECONDS: f64 = 0.1;
const COUNTED_SECONDS: f64 = 0.27;
/// A batch that takes as long as this is hardly helped by what was left.
const LONG_SECONDS: f64 = 0.6;

/// A device ready to be read.
pub(super) struct Bench<'a> {
    disk: &'a Disk,
    device: &'a Device,
    together: Box<dyn ReadAt>,
    serial: Box<dyn ReadAt>,
    /// Bytes of the longest read that reaches the device as one.
    longest: u64,
    model: DeviceModel,
    /// Repetitions of an experiment, while it takes less than these seconds; two at least.
    repetitions: usize,
    seconds: f64,
    tiny: bool,
}

/// What is read for one lost chunk, relative to the start of a window of stripes.
struct Reads {
    ranges: Vec<Range<u64>>,
    wanted_bytes: u64,
    stripes: u64,
}

/// One way of an experiment while it is measured.
struct Cell {
    way: ReadCosts,
    reads: Vec<Reads>,
    /// Seconds of a stripe's reads, for each lost chunk, in each repetition.
    times: Vec<Vec<f64>>,
    /// The next window of the device to read.
    place: u64,
    issued_reads: u64,
    issued_bytes: u64,
    counted_reads: u64,
    counted_bytes: u64,
}

impl Cell {
    fn new(way: ReadCosts, reads: Vec<Reads>) -> Cell {
        let (times, place) = (vec![Vec::new(); reads.len()], 0);
        let (issued_reads, issued_bytes, counted_reads, counted_bytes) = (0, 0, 0, 0);
        Cell { way, reads, times, place, issued_reads, issued_bytes, counted_reads, counted_bytes }
    }
}

impl<'a> Bench<'a> {
    /// Opens the device and measures its cost model, as `kiln probe` does, unless it is known.
    pub(super) fn new(
        disk: &'a Disk,
        device: &'a Device,
        options: &Options,
        known: Option<DeviceModel>,
    ) -> Result<Bench<'a>, Failure> {
        let together = open_device(&disk.path(), true)?;
        let serial = open_device(&disk.path(), false)?;
        let (probe, repetitions, seconds) = match (options.tiny, options.quick) {
            (true, _) => (0.2, 2, 0.0),
            (_, true) => (10.0, 3, 60.0),
            // As long as `kiln probe` takes by itself.
            _ => (10.0, 5, 80.0),
        };
        let longest = longest_read(&disk.path());
        let start = Instant::now();
        let now = || start.elapsed().as_secs_f64();
        let model = match known {
            Some(model) => model,
            None => {
                let measured = measure(&*together, probe, 1, &now, |_| {})?;
                let model = fit(&measured.samples, together.alignment(), &[longest]);
                model.ok_or("nothing was measured")?
            }
        };
        let tiny = options.tiny;
        Ok(Bench { disk, device, together, serial, longest, model, repetitions, seconds, tiny })
    }

    pub(super) fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Measures the cells of an experiment. All ways are read in turn for each lost chunk, and all
    /// that several times: so other work on the machine falls on all of them alike, and how far
    /// repetitions are apart says how much it was.
    pub(super) fn rows(&self, plan: &Plan) -> Result<Vec<Row>, Failure> {
        let mut cells = Vec::new();
        // Where a window is one stripe, a simple way in windows is the way itself.
        let one = window_stripes(plan.code.0 + plan.code.1, plan.chunk) == 1;
        for &way in plan.ways.iter().filter(|way| way.planned || !(way.windows && one)) {
            let reads = plan.lost.iter().map(|&lost| self.reads(plan, way, lost));
            cells.push(Cell::new(way, reads.collect::<Result<_, _>>()?));
        }
        let most = cells.iter().flat_map(|cell| &cell.reads).map(|r| total(&r.ranges)).max();
        let mut buf = MmapMut::map_anon(most.unwrap_or(0).max(1) as usize)?;
        let start = Instant::now();
        for round in 0..self.repetitions {
            if round > 1 && start.elapsed().as_secs_f64() > plan.share * self.seconds {
                break;
            }
            for lost in 0..plan.lost.len() {
                for at in 0..cells.len() {
                    // Not always after the same other way.
                    let at = (at + round + lost) % cells.len();
                    self.visit(plan, &mut cells[at], lost, &mut buf)?;
                }
            }
        }
        let rows: Vec<Row> = cells.into_iter().map(|cell| self.row(plan, cell)).collect();
        for row in &rows {
            eprintln!(
                "{} {}+{} chunk {} {}: {:.4} s {:.4?}",
                row.device, row.k, row.m, row.chunk, row.way, row.overall, row.repetitions
            );
        }
        Ok(rows)
    }

    /// Reads for one lost chunk again and again, as a repair of many stripes does.
    fn visit(
        &self,
        plan: &Plan,
        cell: &mut Cell,
        lost: usize,
        buf: &mut [u8],
    ) -> Result<(), Failure> {
        let file = if cell.way.together { &self.together } else { &self.serial };
        let (warm, counted) = match (self.device.limits.is_some(), self.tiny) {
            (_, true) => (0.0, 0.0),
            (true, _) => (WARM_SECONDS, COUNTED_SECONDS),
            (false, _) => (0.005, 0.03),
        };
        let before = self.disk.counted()?;
        let reads = &cell.reads[lost];
        let window = reads.stripes * plan.chunk;
        let (start, mut batches) = (Instant::now(), Vec::new());
        loop {
            if (cell.place + 1) * window > file.len() {
                cell.place = 0;
            }
            let began = Instant::now();
            read(&**file, &reads.ranges, cell.place * window, buf)?;
            let seconds = began.elapsed().as_secs_f64();
            let lengths = reads.ranges.iter().map(|range| range.end - range.start);
            cell.issued_reads += lengths.map(|len| len.div_ceil(self.longest)).sum::<u64>();
            cell.issued_bytes += total(&reads.ranges);
            cell.place += 1;
            let passed = start.elapsed().as_secs_f64();
            if passed > warm || seconds > LONG_SECONDS {
                batches.push(Batch { reads: 1, seconds });
            }
            if passed >= warm + counted && !batches.is_empty() {
                break;
            }
        }
        cell.times[lost].push(self.typical(&batches) / reads.stripes as f64);
        let after = self.disk.counted()?;
        cell.counted_reads += after.reads + after.merged - before.reads - before.merged;
        cell.counted_bytes += after.bytes - before.bytes;
        Ok(())
    }

    /// The mean over whole slices where a limit is what is measured; else the median, which other
    /// work on the machine moves less.
    fn typical(&self, batches: &[Batch]) -> f64 {
        if self.device.limits.is_some() {
            return steady(batches);
        }
        middle(batches.iter().map(|batch| batch.seconds).collect())
    }

    fn row(&self, plan: &Plan, cell: Cell) -> Row {
        let (k, m) = plan.code;
        let reads = &cell.reads;
        let per_stripe = |f: &dyn Fn(&Reads) -> f64| reads.iter().map(f).sum::<f64>();
        let asked = per_stripe(&|r| total(&r.ranges) as f64 / r.stripes as f64);
        let wanted = per_stripe(&|r| r.wanted_bytes as f64 / r.stripes as f64);
        let scale = self.device.scale;
        let seconds: Vec<f64> =
            cell.times.iter().map(|times| scale * middle(times.clone())).collect();
        let rounds = cell.times.iter().map(Vec::len).min().unwrap_or(0);
        let repetitions: Vec<f64> = (0..rounds)
            .map(|round| scale * cell.times.iter().map(|times| times[round]).sum::<f64>())
            .collect();
        let expected = |r: &Reads| self.model.seconds_of(&r.ranges) / r.stripes as f64;
        let expected_seconds: Vec<f64> =
            reads.iter().map(|reads| scale * expected(reads)).collect();
        Row {
            experiment: plan.experiment,
            device: self.device.name,
            k,
            m,
            chunk: plan.chunk,
            way: cell.way.name,
            overall: middle(repetitions.clone()),
            repetitions,
            expected: expected_seconds.iter().sum(),
            expected_seconds,
            seconds,
            issued_reads: cell.issued_reads,
            counted_reads: cell.counted_reads,
            issued_bytes: cell.issued_bytes,
            counted_bytes: cell.counted_bytes,
            reads_per_stripe: per_stripe(&|r| r.ranges.len() as f64 / r.stripes as f64),
            read_amplification: asked / wanted,
        }
    }

    /// What a helper reads for a lost chunk.
    fn reads(&self, plan: &Plan, way: ReadCosts, lost: usize) -> Result<Reads, Failure> {
        let (k, m) = plan.code;
        let spec = match way.order {
            Some(order) => format!("clay:{k}+{m},order={order}"),
            None => format!("rs:{k}+{m}"),
        };
        let codec = Codec::new(&spec.parse()?)?;
        let sub = plan.chunk / codec.shape().alpha as u64;
        let available: Vec<usize> = (0..k + m).filter(|&chunk| chunk != lost).collect();
        let repair = codec.repair_plan(&[lost], &available)?;
        let busiest = repair.helpers().iter().max_by_key(|helper| helper.runs.len());
        let runs = &busiest.ok_or("a repair without helpers")?.runs;
        let stripes = match way.windows {
            true => window_stripes(k + m, plan.chunk),
            false => 1,
        };
        let stripes = stripes.min(self.together.len() / plan.chunk);
        let range = |stripe: u64, run: &Range<u32>| {
            let at = |position: u32| stripe * plan.chunk + u64::from(position) * sub;
            at(run.start)..at(run.end)
        };
        let wanted: Vec<Range<u64>> = (0..stripes)
            .flat_map(|stripe| runs.iter().map(move |run| range(stripe, run)))
            .collect();
        let alignment = self.together.alignment();
        let ranges = match way.planned {
            true => ReadPlan::best(&wanted, alignment, &self.model).reads,
            false => issued(&wanted, alignment),
        };
        Ok(Reads { ranges, wanted_bytes: total(&wanted), stripes })
    }
}

/// Reads ranges, moved by `start`, as one batch.
fn read(
    file: &dyn ReadAt,
    ranges: &[Range<u64>],
    start: u64,
    buf: &mut [u8],
) -> Result<(), Failure> {
    let mut batch = Vec::with_capacity(ranges.len());
    let mut rest = buf;
    for range in ranges {
        let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
        batch.push(BatchRead::new(start + range.start, now));
        rest = later;
    }
    Ok(file.read_batch(&mut batch)?)
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The median.
fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let half = times.len() / 2;
    match times.len() {
        0 => 0.0,
        count if count % 2 == 1 => times[half],
        _ => (times[half - 1] + times[half]) / 2.0,
    }
}
