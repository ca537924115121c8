//! Advice from a device's costs for a code, before there is any data: the gaps a repair would read
//! through, how long it would read, and from which size of chunks on the code is worth while.
//!
//! Every helper is taken to have a device of its own, like the one of the model. Two times count
//! then. The repair waits for its slowest helper: there the repair of a code with sub-chunks cannot
//! lose against whole chunks, since it may read through all its gaps. But it may keep more devices
//! busy for longer than a decode from k whole chunks, which is what counts when a whole machine is
//! rebuilt: so *paying* is decided by the time of all devices together.

use std::ops::Range;

use kiln_code::{RepairPlan, Shape};
use kiln_store::device::{DeviceModel, ReadPlan};
use serde::Serialize;

use crate::{choice::Times, windows::window_stripes};

/// Most sizes that are tried.
const SIZES_MAX: usize = 20;
/// Chunks of more bytes are not looked at.
const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// Sub-chunks of less bytes neither.
const SUB_CHUNK_BYTES_MIN: u64 = 64;

/// One way to read what rebuilds a stripe's lost chunks, in means of a stripe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadCosts {
    /// Helpers that are read.
    pub helpers: usize,
    /// Reads of all helpers.
    pub reads: f64,
    /// Bytes of all helpers.
    pub bytes: f64,
    /// Bytes of the widest gap between runs that is read through; 0 when none is.
    pub widest_gap: u64,
    /// Seconds until the slowest helper has read, each on a device of its own.
    pub seconds: f64,
    /// Seconds of all devices together.
    pub device_seconds: f64,
}

/// Advice on reads after a loss, on devices of one kind.
///
/// ```
/// use kiln_code::Codec;
/// use kiln_stripe::Advice;
/// use kiln_store::device::{Combine, DeviceModel};
/// let codec = Codec::new(&"clay:4+2".parse()?)?;
/// let disk = DeviceModel::new(8e-3, 1.0 / 150e6, Combine::Sum);
/// let others = [0, 1, 2, 3, 4];
/// let repair = codec.repair_plan(&[5], &others)?;
/// let decode = codec.decode_plan(&[5], &others)?;
/// // Four runs a helper in chunks of 64 KiB: a seek costs more than all the gaps.
/// let small = Advice::of(&repair, &decode, 8 << 10, codec.shape(), &disk);
/// assert!(!small.pays() && small.planned.widest_gap > 0);
/// // In chunks of 64 MiB no gap is worth reading.
/// let large = Advice::of(&repair, &decode, 8 << 20, codec.shape(), &disk);
/// assert!(large.pays() && large.planned.widest_gap == 0);
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Bytes of a sub-chunk.
    pub sub_chunk: u64,
    /// Adjacent stripes that are read at once, as `kiln repair` does.
    pub window_stripes: u64,
    /// The repair with the fewest bytes, one read for every run.
    pub as_runs: ReadCosts,
    /// The same with gaps read through where that is cheaper.
    pub planned: ReadCosts,
    /// The decode from k whole chunks; what Reed-Solomon with this k reads.
    pub decode: ReadCosts,
}

impl Advice {
    /// Returns what the model says of a repair and a decode with such sub-chunks, of a code of this
    /// shape.
    #[must_use]
    pub fn of(
        repair: &RepairPlan,
        decode: &RepairPlan,
        sub_chunk: u64,
        shape: Shape,
        model: &DeviceModel,
    ) -> Advice {
        let chunk = sub_chunk.saturating_mul(shape.alpha as u64);
        let window = window_stripes(shape.n(), chunk);
        let way = |plan: &RepairPlan, read_plan: &dyn Fn(&[Range<u64>]) -> ReadPlan| {
            way(plan, (sub_chunk, chunk), window, model, read_plan)
        };
        let alignment = model.alignment.max(1);
        let best = |wanted: &[Range<u64>]| ReadPlan::best(wanted, alignment, model);
        Advice {
            chunk,
            sub_chunk,
            window_stripes: window,
            as_runs: way(repair, &|wanted| ReadPlan::as_runs(wanted, alignment, model)),
            planned: way(repair, &best),
            decode: way(decode, &best),
        }
    }

    /// Returns whether whole chunks are the better choice: as fast, and less work for the devices.
    #[must_use]
    pub fn whole_chunks(&self) -> bool {
        let times = |way: &ReadCosts| Times { slowest: way.seconds, all: way.device_seconds };
        times(&self.decode).better_than(&times(&self.planned))
    }

    /// Returns whether the repair keeps devices busy for less time than the decode from whole
    /// chunks.
    #[must_use]
    pub fn pays(&self) -> bool {
        self.planned.device_seconds < self.decode.device_seconds
    }

    /// The sum over losses that are equally likely: of reads, bytes and times; gaps are the widest.
    #[must_use]
    pub fn sum<'a>(losses: impl IntoIterator<Item = &'a Advice>) -> Option<Advice> {
        losses.into_iter().cloned().reduce(|mut sum, one| {
            for (all, way) in [
                (&mut sum.as_runs, &one.as_runs),
                (&mut sum.planned, &one.planned),
                (&mut sum.decode, &one.decode),
            ] {
                all.reads += way.reads;
                all.bytes += way.bytes;
                all.seconds += way.seconds;
                all.device_seconds += way.device_seconds;
                all.widest_gap = all.widest_gap.max(way.widest_gap);
                all.helpers = all.helpers.max(way.helpers);
            }
            sum
        })
    }
}

/// From which size of chunks on what is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakEven {
    /// The largest chunk where some gap is read through.
    pub gaps_until: Option<u64>,
    /// The smallest chunk from which on the repair pays; `None` when it does in no size tried.
    pub pays_from: Option<u64>,
}

impl BreakEven {
    /// Finds them in advice for growing chunks.
    #[must_use]
    pub fn of(sizes: &[Advice]) -> BreakEven {
        let gaps = sizes.iter().rev().find(|advice| advice.planned.widest_gap > 0);
        let paying = sizes.iter().rev().take_while(|advice| advice.pays()).last();
        BreakEven {
            gaps_until: gaps.map(|advice| advice.chunk),
            pays_from: paying.map(|advice| advice.chunk),
        }
    }
}

/// Sizes of sub-chunks to try for a code: powers of two.
#[must_use]
pub fn sub_chunk_sizes(alpha: usize) -> Vec<u64> {
    let most = CHUNK_BYTES_MAX / (alpha as u64).max(1);
    let sizes = std::iter::successors(Some(SUB_CHUNK_BYTES_MIN), |size| Some(size * 2));
    sizes.take_while(|&size| size <= most).take(SIZES_MAX).collect()
}

fn way(
    plan: &RepairPlan,
    (sub_chunk, chunk): (u64, u64),
    window: u64,
    model: &DeviceModel,
    read_plan: &dyn Fn(&[Range<u64>]) -> ReadPlan,
) -> ReadCosts {
    let mut way = ReadCosts { helpers: plan.helpers().len(), ..ReadCosts::default() };
    let mut last: Option<(&[Range<u32>], ReadPlan)> = None;
    for helper in plan.helpers() {
        // Most helpers of a loss are read alike.
        let known = last.take().filter(|(runs, _)| *runs == &helper.runs[..]);
        let (_, read_plan) = last.insert(known.unwrap_or_else(|| {
            let range = |stripe: u64, run: &Range<u32>| {
                let at = |position: u32| stripe * chunk + u64::from(position) * sub_chunk;
                at(run.start)..at(run.end)
            };
            let wanted: Vec<Range<u64>> = (0..window)
                .flat_map(|stripe| helper.runs.iter().map(move |run| range(stripe, run)))
                .collect();
            (&helper.runs, read_plan(&wanted))
        }));
        let share = 1.0 / window as f64;
        way.reads += share * read_plan.reads.len() as f64;
        way.bytes += share * read_plan.bytes as f64;
        way.widest_gap = way.widest_gap.max(read_plan.widest_gap);
        way.seconds = way.seconds.max(share * model.seconds_of(&read_plan.reads));
        way.device_seconds += share * model.seconds_of(&read_plan.reads);
    }
    way
}
