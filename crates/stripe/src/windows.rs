//! Windows of adjacent stripes: what they read of each shard, by what its device costs.

use crate::chunks::Chunks;
use kiln_store::device::{Combine, DeviceModel, Devices, ReadPlan};
use std::sync::{Mutex, PoisonError};
use std::{collections::VecDeque, ops::Range};

/// Bytes of all windows in memory together, about; larger chunks are read stripe by stripe.
const WINDOWS_BYTES: u64 = 64 << 20;
/// Most stripes of a window.
const WINDOW_STRIPES_MAX: u64 = 64;
/// Windows whose reads are remembered.
const READ_PLANS_KEPT: usize = 4;

/// Adjacent stripes of a shard that a repair reads at once, where a device's costs are known: of n
/// chunks of so many bytes.
#[must_use]
pub fn window_stripes(n: usize, chunk: u64) -> u64 {
    // Two windows of each shard are in memory when workers cross from one to the next.
    let stripe_bytes = (2 * n as u64).saturating_mul(chunk).max(1);
    (WINDOWS_BYTES / stripe_bytes).clamp(1, WINDOW_STRIPES_MAX)
}

/// The windows of shards that are all on devices of known costs.
pub struct Windows<'a> {
    chunks: &'a dyn Chunks,
    devices: &'a Devices,
    /// The device of each chunk's shard.
    device_of: Vec<Option<usize>>,
    first: u64,
    window: u64,
    read_plans: Mutex<VecDeque<Planned>>,
}

/// Reads that were planned for ranges, as if the first began at the file's start.
struct Planned {
    device: usize,
    alignment: u64,
    wanted: Vec<Range<u64>>,
    read_plan: ReadPlan,
}

impl<'a> Windows<'a> {
    /// For these chunks from stripe `first` on, if all of them have devices.
    pub fn new(
        chunks: &'a dyn Chunks,
        devices: Option<&'a Devices>,
        first: u64,
    ) -> Option<Windows<'a>> {
        let devices = devices?;
        let n = chunks.codec().shape().n();
        let device_of: Vec<Option<usize>> =
            (0..n).map(|chunk| devices.of(&chunks.node_name(chunk))).collect();
        let stripes = first..chunks.stripes();
        if stripes.is_empty()
            || (0..n).any(|chunk| device_of[chunk].is_none() && chunks.read_plans(chunk, first))
        {
            return None;
        }
        let window = window_stripes(n, chunks.chunk_capacity() as u64);
        Some(Windows { chunks, devices, device_of, first, window, read_plans: Mutex::default() })
    }

    /// The number of the window that holds a stripe.
    pub fn number(&self, stripe: u64) -> u64 {
        (stripe - self.first) / self.window
    }

    pub fn devices(&self) -> &Devices {
        self.devices
    }

    pub fn device_of(&self, chunk: usize) -> Option<usize> {
        self.device_of[chunk]
    }

    pub fn window_stripes(&self) -> u64 {
        self.window
    }

    /// Stripes that this reader will read.
    pub fn stripes(&self) -> u64 {
        self.chunks.stripes() - self.first
    }

    /// The reads of a shard for the window with this number, and the stripes in it.
    pub fn read_plan(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> (ReadPlan, u64) {
        let (wanted, count) = self.wanted(chunk, number, runs);
        let alignment = self.chunks.alignment(chunk);
        let Some(device) = self.device_of[chunk] else {
            // Only shards that are gone have none, and nobody reads them.
            let none = DeviceModel::new(1.0, 1.0, Combine::Sum);
            return (ReadPlan::as_runs(&wanted, alignment, &none), count);
        };
        // Helpers of one loss mostly read the same ranges of their files, and windows the same
        // ranges after one another: planned once, from where they begin. Whoever comes while they
        // are being planned waits, instead of planning them too.
        let base = wanted.first().map_or(0, |range| range.start / alignment * alignment);
        let wanted = moved(&wanted, |at| at - base);
        let back = |read_plan: &ReadPlan| ReadPlan {
            reads: moved(&read_plan.reads, |at| at + base),
            ..read_plan.clone()
        };
        let mut read_plans = self.read_plans.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&Planned| {
            known.device == device && known.alignment == alignment && known.wanted == wanted
        };
        if let Some(known) = read_plans.iter().find(same) {
            return (back(&known.read_plan), count);
        }
        let read_plan = ReadPlan::best(&wanted, alignment, self.devices.model(device));
        if read_plans.len() >= READ_PLANS_KEPT {
            read_plans.pop_front();
        }
        let planned = back(&read_plan);
        read_plans.push_back(Planned { device, alignment, wanted, read_plan });
        (planned, count)
    }

    /// One read a run instead.
    pub fn runs_as_reads(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> ReadPlan {
        let (wanted, _) = self.wanted(chunk, number, runs);
        let model = self.device_of[chunk].map(|device| self.devices.model(device).clone());
        let model = model.unwrap_or_else(|| DeviceModel::new(1.0, 1.0, Combine::Sum));
        ReadPlan::as_runs(&wanted, self.chunks.alignment(chunk), &model)
    }

    /// Returns what runs are in a shard's file for all stripes of a window, and the number of
    /// those.
    fn wanted(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> (Vec<Range<u64>>, u64) {
        let start = self.first + number * self.window;
        let stripes = start..(start + self.window).min(self.chunks.stripes());
        let mut wanted = Vec::new();
        let mut count = 0;
        for stripe in stripes.filter(|&stripe| self.chunks.read_plans(chunk, stripe)) {
            wanted.extend(self.chunks.ranges(chunk, stripe, runs));
            count += 1;
        }
        (wanted, count)
    }
}

fn moved(ranges: &[Range<u64>], to: impl Fn(u64) -> u64) -> Vec<Range<u64>> {
    ranges.iter().map(|range| to(range.start)..to(range.end)).collect()
}
