//! Rebuilding the chunks of some indices, stripe by stripe: for shards and for bare chunks.

use kiln_store::device::Devices;

use crate::engine::ahead::Ahead;
use crate::engine::chunks::Chunks;
use crate::engine::frame::Frame;
use crate::engine::lanes::{Lane, Lanes};
use crate::engine::pipeline;
use crate::engine::stripe::{Planner, StripeReader, frames};
use crate::engine::tally::Tally;
use crate::{Result, Settings};

/// What to rebuild from what.
pub(crate) struct Rebuild<'a> {
    /// Where chunks are read.
    pub chunks: &'a dyn Chunks,
    /// Indices to rebuild, ascending; there is one lane for each.
    pub targets: &'a [usize],
    /// Targets of which nothing is to be read.
    pub discard: &'a [usize],
    /// The first stripe to rebuild.
    pub first: u64,
    /// Devices to plan reads for.
    pub devices: Option<&'a Devices>,
}

impl Rebuild<'_> {
    /// Appends the targets' chunks of all stripes to the lanes.
    pub(crate) fn run<L: Lane>(
        &self,
        lanes: &mut Lanes<L>,
        settings: &Settings<'_>,
    ) -> Result<Tally> {
        let chunks = self.chunks;
        let n = chunks.codec().shape().n();
        let ahead = Ahead::new(chunks, self.devices, self.first);
        let reader = StripeReader::new(chunks, Planner::Repair, self.discard).planned(ahead);
        let mut tally = Tally::new(n);
        let stripes = chunks.stripes();
        settings.observer.begin("repair", Some(self.total_bytes()));
        pipeline::run(
            frames(chunks, 0, settings),
            settings.threads(),
            self.first,
            |stripe, _| Ok(stripe < stripes),
            |stripe, frame: &mut Frame| {
                reader.begin(stripe, frame);
                reader.read_whole(stripe, frame, self.targets.iter().copied());
                reader.rebuild(stripe, frame, self.targets)?;
                self.targets.iter().for_each(|&index| frame.checksum(index));
                Ok(())
            },
            |stripe, frame| {
                let rebuilt: Vec<(&[u8], &[u32])> =
                    self.targets.iter().map(|&i| (frame.chunk(i), &frame.sums[i][..])).collect();
                lanes.append(&rebuilt)?;
                settings.observer.advance((frame.chunk_len * self.targets.len()) as u64);
                tally.add(stripe, frame);
                Ok(())
            },
        )?;
        tally.reads = reader.reads_report();
        Ok(tally)
    }

    /// Chunk bytes that a run writes.
    pub(crate) fn total_bytes(&self) -> u64 {
        chunk_bytes(self.chunks, self.first) * self.targets.len() as u64
    }
}

/// Chunk bytes of one shard from stripe `first` on.
pub(crate) fn chunk_bytes(chunks: &dyn Chunks, first: u64) -> u64 {
    let stripes = chunks.stripes();
    if first >= stripes {
        return 0;
    }
    let alpha = chunks.codec().shape().alpha as u64;
    let len = |stripe| chunks.sub_len(stripe) as u64 * alpha;
    // All stripes but the last are as long as the first.
    (stripes - 1 - first) * len(0) + len(stripes - 1)
}

/// What each index receives in a central repair: the first target's node gets all that helpers
/// send, and sends the others theirs.
pub(crate) fn received(targets: &[usize], sent: u64, index: usize, written: u64, own: u64) -> u64 {
    match targets.iter().position(|&target| target == index) {
        Some(0) => sent,
        Some(_) => written.saturating_sub(own),
        None => 0,
    }
}
