//! Rebuilding the chunks of some indices, stripe by stripe, for shards and for bare chunks; and the
//! shards that are made of them.

use kiln_store::{Capability, Digest, ShardWriter, device::Devices, digest_of, valid_segments};

use crate::chunks::{Chunks, Shards};
use crate::sinks::{ShardSink, ShardSinks, in_parallel};
use crate::stripe::{Planner, StripeReader, frames};
use crate::{
    PoolError, Result, Settings, frame::Frame, node::Part, pipeline, read_ahead::ReadAhead,
    stripe_statistics::StripeStatistics,
};

/// Request to rebuild chunks from others.
pub struct Rebuild<'a> {
    /// Source of chunks.
    pub chunks: &'a dyn Chunks,
    /// Indices to rebuild, ascending; there is one sink for each.
    pub targets: &'a [usize],
    /// Targets of which nothing is to be read.
    pub discard: &'a [usize],
    /// The first stripe to rebuild.
    pub first: u64,
    /// Devices to plan reads for.
    pub devices: Option<&'a Devices>,
}

impl Rebuild<'_> {
    /// Appends the targets' chunks of all stripes to the sinks.
    pub fn run<L: ShardSink>(
        &self,
        sinks: &mut ShardSinks<'_, L>,
        settings: &Settings<'_>,
    ) -> Result<StripeStatistics> {
        let chunks = self.chunks;
        let n = chunks.codec().shape().n();
        let read_ahead = ReadAhead::new(chunks, self.devices, self.first);
        let reader =
            StripeReader::new(chunks, Planner::Repair, self.discard, settings).planned(read_ahead);
        let mut statistics = StripeStatistics::new(n);
        let stripes = chunks.stripes();
        settings.observer.begin("repair", Some(self.total_bytes()));
        pipeline::run(
            frames(chunks, 0, settings),
            settings,
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
                let rebuilt: Vec<(&[u8], &[u8])> =
                    self.targets.iter().map(|&i| (frame.chunk(i), &frame.sums[i][..])).collect();
                sinks.append(&rebuilt)?;
                settings.observer.advance((frame.chunk_len * self.targets.len()) as u64);
                statistics.add(stripe, frame);
                Ok(())
            },
        )?;
        statistics.reads = reader.reads_report();
        Ok(statistics)
    }

    /// Chunk bytes that a run writes.
    pub fn total_bytes(&self) -> u64 {
        chunk_bytes(self.chunks, self.first) * self.targets.len() as u64
    }
}

/// Cost and findings of rebuilding some shards.
pub struct Rebuilt {
    /// Sums over stripes.
    pub statistics: StripeStatistics,
    /// Chunk bytes written for each shard.
    pub written_each: u64,
    /// Chunk bytes of each that an interrupted rebuild had written.
    pub kept_each: u64,
}

/// Rebuilds shards under the names of their parts, side by side: for every repair of shards. They
/// are then durable, have their recorded digests (where none is left, they get those that they
/// have) and were read back; what is left is to commit them. Nothing is read of those in `discard`.
///
/// An interrupted rebuild goes on where all its parts have verified segments. After a failure the
/// parts are gone.
/// Errors: [`PoolError::StripeLost`], [`PoolError::Mismatch`]; stores.
pub fn rebuild_shards(
    shards: &impl Shards,
    parts: &[Part<'_>],
    discard: &[usize],
    devices: Option<&Devices>,
    settings: &Settings<'_>,
) -> Result<Rebuilt> {
    let result = write_parts(shards, parts, discard, devices, settings);
    result.inspect_err(|_| {
        // The failure itself is what the user must see. Where a file appears only when it is
        // complete there is no part: what has the name is what the part was to replace.
        let appends = |part: &&Part<'_>| part.store.capabilities().has(Capability::Append);
        parts.iter().filter(appends).for_each(|part| drop(part.store.remove(&part.name)));
    })
}

fn write_parts(
    shards: &impl Shards,
    parts: &[Part<'_>],
    discard: &[usize],
    devices: Option<&Devices>,
    settings: &Settings<'_>,
) -> Result<Rebuilt> {
    let each = || parts.iter().collect::<Vec<_>>();
    let kept = in_parallel(settings.sequence, each(), |_, part: &Part<'_>| {
        valid_segments(part.store, &part.name, &shards.info_of(part.index))
    })?;
    let first = kept.into_iter().min().unwrap_or(0) * shards.layout().segment_stripes();
    let writers = in_parallel(settings.sequence, each(), |_, part: &Part<'_>| {
        ShardWriter::at(part.store, &part.name, &shards.info_of(part.index), first)
    })?;
    let targets: Vec<usize> = parts.iter().map(|part| part.index).collect();
    let mut sinks = ShardSinks::new(writers, settings);
    let rebuild = Rebuild { chunks: shards, targets: &targets, discard, first, devices };
    let statistics = rebuild.run(&mut sinks, settings)?;
    let mut writers = sinks.into_inner();
    let sealed = writers.iter_mut().map(ShardWriter::seal).collect::<Result<Vec<_>, _>>()?;
    let digests = shards.recorded().map_or_else(|| digests(shards, &targets, &sealed), Ok)?;
    in_parallel(
        settings.sequence,
        writers.into_iter().zip(parts).collect(),
        |_, (writer, part)| {
            let finished =
                writer.finish_rebuilt(part.store, Shards::object_bytes(shards), &digests);
            finished.map_err(|error| PoolError::rebuilt(error, Shards::object(shards), part.index))
        },
    )?;
    let (all, written_each) = (chunk_bytes(shards, 0), chunk_bytes(shards, first));
    Ok(Rebuilt { statistics, written_each, kept_each: all - written_each })
}

/// Digests of all shards where none are recorded: of those rebuilt, and as the others have them.
fn digests(shards: &impl Shards, targets: &[usize], sealed: &[Digest]) -> Result<Vec<Digest>> {
    let digest = |index| match targets.iter().position(|&target| target == index) {
        Some(at) => Ok(sealed[at]),
        None => Ok(digest_of(shards.reader(index)?)?),
    };
    (0..Shards::codec(shards).shape().n()).map(digest).collect()
}

/// Chunk bytes of one shard from stripe `first` on.
pub fn chunk_bytes(chunks: &dyn Chunks, first: u64) -> u64 {
    let stripes = chunks.stripes();
    if first >= stripes {
        return 0;
    }
    let alpha = chunks.codec().shape().alpha as u64;
    let len = |stripe| chunks.sub_len(stripe) as u64 * alpha;
    // All stripes but the last are as long as the first.
    (stripes - 1 - first) * len(0) + len(stripes - 1)
}

/// Returns what each index receives in a central repair: the first target's node gets all that
/// helpers send, and sends the others theirs.
pub fn received(targets: &[usize], sent: u64, index: usize, written: u64, own: u64) -> u64 {
    match targets.iter().position(|&target| target == index) {
        Some(0) => sent,
        Some(_) => written.saturating_sub(own),
        None => 0,
    }
}
