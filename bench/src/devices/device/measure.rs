//! One helper's reads, timed.

use std::ops::Range;
use std::time::Instant;

use kiln_code::Codec;
use kiln_pool::reads::fit::fit;
use kiln_pool::reads::measure::measure;
use kiln_pool::reads::{Cover, DeviceModel};
use kiln_store::{BatchRead, ReadAt, issued, open_device};

use super::{Device, Disk, Options, Plan, Row, Way};

type Failure = Box<dyn std::error::Error>;

/// Buffers start at one of these, so that no read takes a detour.
const PAGE: usize = 4096;
/// As a repair has it: bytes of all windows in memory.
const WINDOWS_BYTES: u64 = 64 << 20;

/// A device ready to be read.
pub(super) struct Bench<'a> {
    disk: &'a Disk,
    device: &'a Device,
    together: Box<dyn ReadAt>,
    serial: Box<dyn ReadAt>,
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

impl<'a> Bench<'a> {
    /// Opens the device and measures its cost model, as `kiln probe` does.
    pub(super) fn new(
        disk: &'a Disk,
        device: &'a Device,
        options: &Options,
    ) -> Result<Bench<'a>, Failure> {
        let together = open_device(&disk.path(), true)?;
        let serial = open_device(&disk.path(), false)?;
        let (probe, least) = match (options.tiny, options.quick) {
            (true, _) => (0.2, 0.0),
            (_, true) => (6.0, 1.5),
            _ => (10.0, 2.0),
        };
        // What is limited is granted in slices of 0.1 s: the mean of many is what counts.
        let seconds = if device.limits.is_some() { least } else { least / 4.0 };
        let start = Instant::now();
        let now = || start.elapsed().as_secs_f64();
        let measured = measure(&*together, probe, 1, &now, |_| {})?;
        let model = fit(&measured.samples, together.alignment()).ok_or("nothing was measured")?;
        Ok(Bench { disk, device, together, serial, model, seconds })
    }

    pub(super) fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Measures a cell: all lost chunks in turn, again and again until there is time enough. Limits
    /// are granted in slices of time, so only the sum over lost chunks is exact.
    pub(super) fn row(&self, plan: &Plan, way: Way) -> Result<Row, Failure> {
        let (k, m) = plan.code;
        let reads: Vec<Reads> =
            (0..k + m).map(|lost| self.reads(plan, way, lost)).collect::<Result<_, _>>()?;
        let file = if way.together { &self.together } else { &self.serial };
        let most = reads.iter().map(|r| total(&r.ranges)).max().unwrap_or(0) as usize;
        let mut buf = vec![0; most + PAGE];
        let skip = buf.as_ptr().align_offset(PAGE).min(PAGE);
        let buf = &mut buf[skip..skip + most];
        self.warm(&*self.together)?;
        let before = self.disk.counted()?;
        let (start, mut rounds) = (Instant::now(), 0u32);
        let (mut issued_reads, mut issued_bytes) = (0, 0);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); k + m];
        let mut place = 0;
        while rounds == 0 || start.elapsed().as_secs_f64() < self.seconds {
            for (lost, reads) in reads.iter().enumerate() {
                let window = reads.stripes * plan.chunk;
                if (place + 1) * window > file.len() {
                    place = 0;
                }
                let began = Instant::now();
                issued_reads += read(&**file, &reads.ranges, place * window, buf)?;
                issued_bytes += total(&reads.ranges);
                times[lost].push(began.elapsed().as_secs_f64() / reads.stripes as f64);
                place += 1;
            }
            rounds += 1;
        }
        let seconds: Vec<f64> =
            times.into_iter().map(|t| self.device.scale * self.typical(t)).collect();
        let after = self.disk.counted()?;
        let per_stripe = |f: &dyn Fn(&Reads) -> f64| reads.iter().map(f).sum::<f64>();
        let asked = per_stripe(&|r| total(&r.ranges) as f64 / r.stripes as f64);
        let wanted = per_stripe(&|r| r.wanted_bytes as f64 / r.stripes as f64);
        Ok(Row {
            experiment: plan.experiment,
            device: self.device.name,
            k,
            m,
            chunk: plan.chunk,
            way: way.name,
            overall: seconds.iter().sum(),
            seconds,
            issued_reads,
            counted_reads: after.reads - before.reads,
            issued_bytes,
            counted_bytes: after.bytes - before.bytes,
            longest: reads
                .iter()
                .flat_map(|r| &r.ranges)
                .map(|r| r.end - r.start)
                .max()
                .unwrap_or(0),
            reads_per_stripe: per_stripe(&|r| r.ranges.len() as f64 / r.stripes as f64),
            read_amplification: asked / wanted,
        })
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
            true => (WINDOWS_BYTES / (2 * (k + m) as u64 * plan.chunk)).clamp(1, 64),
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

    /// Uses up what a throttled device grants after a rest, with reads that queue up there.
    fn warm(&self, file: &dyn ReadAt) -> Result<(), Failure> {
        let start = Instant::now();
        let seconds = if self.device.limits.is_some() { self.seconds.min(0.3) } else { 0.0 };
        while start.elapsed().as_secs_f64() < seconds {
            let page = PAGE as u64;
            let pages: Vec<Range<u64>> = (0..64).map(|at| at * page..(at + 1) * page).collect();
            read(file, &pages, 0, &mut vec![0; 64 * PAGE])?;
        }
        Ok(())
    }
}

/// Reads ranges, moved by `start`, as one batch; gives the number of reads.
fn read(
    file: &dyn ReadAt,
    ranges: &[Range<u64>],
    start: u64,
    buf: &mut [u8],
) -> Result<u64, Failure> {
    let mut batch = Vec::with_capacity(ranges.len());
    let mut rest = buf;
    for range in ranges {
        let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
        batch.push(BatchRead::new(start + range.start, now));
        rest = later;
    }
    file.read_batch(&mut batch)?;
    Ok(ranges.len() as u64)
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
