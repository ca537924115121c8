//! One helper's reads, timed.

use std::ops::Range;
use std::time::Instant;

use kiln_code::Codec;
use kiln_pool::reads::fit::fit;
use kiln_pool::reads::measure::measure;
use kiln_pool::reads::{Cover, DeviceModel, window_stripes};
use kiln_store::{BatchRead, ReadAt, issued, longest_read, open_device};
use memmap2::MmapMut;

use super::{Device, Disk, Options, Plan, Row, Way};

type Failure = Box<dyn std::error::Error>;

/// What a limited device grants after a rest is used up by then.
const BURST_SECONDS: f64 = 0.5;

/// A device ready to be read.
pub(super) struct Bench<'a> {
    disk: &'a Disk,
    device: &'a Device,
    together: Box<dyn ReadAt>,
    serial: Box<dyn ReadAt>,
    /// Bytes of the longest read that reaches the device as one.
    longest: u64,
    model: DeviceModel,
    /// Seconds of a cell at least.
    seconds: f64,
}

/// What is read for one lost chunk, relative to the start of a window of stripes.
struct Reads {
    ranges: Vec<Range<u64>>,
    wanted_bytes: u64,
    stripes: u64,
}

/// One way of an experiment while it is measured.
struct Cell {
    way: Way,
    reads: Vec<Reads>,
    /// Seconds of a stripe's reads, for each lost chunk.
    times: Vec<Vec<f64>>,
    /// The next window of the device to read.
    place: u64,
    issued_reads: u64,
    issued_bytes: u64,
    counted_reads: u64,
    counted_bytes: u64,
}

impl Cell {
    fn new(way: Way, reads: Vec<Reads>) -> Cell {
        let (times, place) = (vec![Vec::new(); reads.len()], 0);
        let (issued_reads, issued_bytes, counted_reads, counted_bytes) = (0, 0, 0, 0);
        Cell { way, reads, times, place, issued_reads, issued_bytes, counted_reads, counted_bytes }
    }
}

impl<'a> Bench<'a> {
    /// Opens the device and measures its cost model, as `kiln probe` does.
    pub(super) fn new(
        disk: &'a Disk,
        device: &'a Device,
        options: &Options,
    ) -> Result<Bench<'a>, Failure> {
        let together = open_device(&disk.path(), true)?;
        let serial = open_device(&disk.path(), false)?;
        // What is limited is granted in slices of 0.1 s: the mean of many is what counts.
        let limited = device.limits.is_some();
        let (probe, seconds) = match (options.tiny, options.quick, limited) {
            (true, ..) => (0.2, 0.0),
            (_, true, true) => (20.0, 1.0),
            (_, true, false) => (6.0, 0.4),
            (_, _, true) => (25.0, 1.5),
            (_, _, false) => (10.0, 0.8),
        };
        let start = Instant::now();
        let now = || start.elapsed().as_secs_f64();
        let measured = measure(&*together, probe, 1, &now, |_| {})?;
        let longest = longest_read(&disk.path());
        let model = fit(&measured.samples, together.alignment(), &[longest]);
        let model = model.ok_or("nothing was measured")?;
        Ok(Bench { disk, device, together, serial, longest, model, seconds })
    }

    pub(super) fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Measures the cells of an experiment: all ways in turn, and again and again until there is
    /// time enough, so that other work on the machine falls on all of them alike.
    pub(super) fn rows(&self, plan: &Plan) -> Result<Vec<Row>, Failure> {
        let mut cells = Vec::new();
        for &way in &plan.ways {
            let lost = 0..plan.code.0 + plan.code.1;
            let reads = lost.map(|lost| self.reads(plan, way, lost));
            cells.push(Cell::new(way, reads.collect::<Result<_, _>>()?));
        }
        let most = cells.iter().flat_map(|cell| &cell.reads).map(|r| total(&r.ranges)).max();
        let mut buf = MmapMut::map_anon(most.unwrap_or(0).max(1) as usize)?;
        let start = Instant::now();
        let mut rounds = 0;
        // A limit holds whatever else the machine does: once round is enough there.
        let again = self.device.limits.is_none();
        let seconds = self.seconds * cells.len() as f64;
        while rounds == 0 || (again && start.elapsed().as_secs_f64() < seconds) {
            for cell in &mut cells {
                let before = self.disk.counted()?;
                self.round(plan, cell, &mut buf)?;
                let after = self.disk.counted()?;
                cell.counted_reads += after.reads + after.merged - before.reads - before.merged;
                cell.counted_bytes += after.bytes - before.bytes;
            }
            rounds += 1;
        }
        Ok(cells.into_iter().map(|cell| self.row(plan, cell)).collect())
    }

    /// Reads for every lost chunk. Limits are granted in slices of time, and after a rest more than
    /// that: so the same is read for a while before it counts, and a way that is quick does several
    /// rounds.
    fn round(&self, plan: &Plan, cell: &mut Cell, buf: &mut [u8]) -> Result<(), Failure> {
        let file = if cell.way.together { &self.together } else { &self.serial };
        let start = Instant::now();
        let limited = self.device.limits.is_some();
        let (idle, least) = if limited { (BURST_SECONDS, self.seconds) } else { (0.0, 0.0) };
        let mut all = Vec::new();
        while all.is_empty() || start.elapsed().as_secs_f64() < idle + least {
            for (lost, reads) in cell.reads.iter().enumerate() {
                let window = reads.stripes * plan.chunk;
                if (cell.place + 1) * window > file.len() {
                    cell.place = 0;
                }
                let steady = start.elapsed().as_secs_f64() >= idle;
                let began = Instant::now();
                read(&**file, &reads.ranges, cell.place * window, buf)?;
                all.push((lost, steady, began.elapsed().as_secs_f64() / reads.stripes as f64));
                let lengths = reads.ranges.iter().map(|range| range.end - range.start);
                cell.issued_reads += lengths.map(|len| len.div_ceil(self.longest)).sum::<u64>();
                cell.issued_bytes += total(&reads.ranges);
                cell.place += 1;
            }
        }
        for (lost, times) in cell.times.iter_mut().enumerate() {
            let of = |burst: bool| {
                let mine =
                    all.iter().filter(move |(at, steady, _)| *at == lost && (burst || *steady));
                mine.map(|(.., seconds)| *seconds).collect::<Vec<f64>>()
            };
            // What is so slow that one round took all the time is hardly helped by a burst.
            let steady = of(false);
            times.extend(if steady.is_empty() { of(true) } else { steady });
        }
        Ok(())
    }

    fn row(&self, plan: &Plan, cell: Cell) -> Row {
        let (k, m) = plan.code;
        let reads = &cell.reads;
        let per_stripe = |f: &dyn Fn(&Reads) -> f64| reads.iter().map(f).sum::<f64>();
        let asked = per_stripe(&|r| total(&r.ranges) as f64 / r.stripes as f64);
        let wanted = per_stripe(&|r| r.wanted_bytes as f64 / r.stripes as f64);
        let seconds: Vec<f64> = (cell.times.iter())
            .map(|times| self.device.scale * self.typical(times.clone()))
            .collect();
        let expected = |r: &Reads| self.model.seconds_of(&r.ranges) / r.stripes as f64;
        let expected_seconds: Vec<f64> =
            reads.iter().map(|reads| self.device.scale * expected(reads)).collect();
        Row {
            experiment: plan.experiment,
            device: self.device.name,
            k,
            m,
            chunk: plan.chunk,
            way: cell.way.name,
            overall: seconds.iter().sum(),
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

    /// The mean where a limit is what is measured; else the median, which other work on the
    /// machine moves less.
    fn typical(&self, mut times: Vec<f64>) -> f64 {
        if self.device.limits.is_some() {
            return times.iter().sum::<f64>() / times.len() as f64;
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// What a helper reads for a lost chunk.
    fn reads(&self, plan: &Plan, way: Way, lost: usize) -> Result<Reads, Failure> {
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
        let stripes = match way.planned {
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
            true => Cover::best(&wanted, alignment, &self.model).reads,
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
