//! Sources of the chunks of an object's stripes, whatever holds them.

use std::{ops::Range, sync::Arc};

use kiln_code::Codec;
use kiln_store::{Digest, Layout, ReadCost, Result, ShardInfo, ShardReader, SumKind};

/// Source of the chunks of an object's stripes: shards, or bare chunk files.
pub trait Chunks: Sync {
    /// Name of the object.
    fn object(&self) -> &str;
    /// The code.
    fn codec(&self) -> &Codec;
    /// Bytes of the object.
    fn object_bytes(&self) -> u64;
    /// Number of stripes.
    fn stripes(&self) -> u64;
    /// Bytes of a sub-chunk of this stripe; stripe 0 has the longest.
    fn sub_len(&self, stripe: u64) -> usize;
    /// Bytes of the object in this stripe.
    fn stripe_bytes(&self, stripe: u64) -> u64;
    /// Stripes from the first on of which the chunk can be read: 0 where there is no shard, fewer
    /// than all where one is cut short. Told by the lengths of files, not by what they say.
    fn stripes_there(&self, chunk: usize) -> u64;
    /// Reads runs of sub-chunks, verified where there are checksums.
    fn read(
        &self,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
        buf: &mut [u8],
    ) -> Result<ReadCost>;

    /// Returns what reading these runs asks of the device, without what is only metadata.
    fn cost_of(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost;

    /// Name of the node that holds a chunk's shard.
    fn node_name(&self, chunk: usize) -> String;
    /// The bytes of a shard's file that runs of a stripe lie in, a range for each.
    fn ranges(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> Vec<Range<u64>>;
    /// Returns what offsets of reads of a shard's file are multiples of.
    fn alignment(&self, chunk: usize) -> u64;
    /// Reads ranges of a shard's file as they are; what is used must pass [`Chunks::check`].
    fn read_ranges(&self, chunk: usize, ranges: &[Range<u64>], bytes: &mut [u8]) -> Result<()>;
    /// Checks runs that were read in this way, where there are checksums; gives the bytes of
    /// metadata read for that.
    fn check(&self, chunk: usize, stripe: u64, runs: &[Range<u32>], bytes: &[u8]) -> Result<u64>;

    /// Returns the reader of a chunk for a read that may outlast its caller; `None`: every read of
    /// it is waited for.
    fn shared(&self, _chunk: usize) -> Option<Arc<ShardReader>> {
        None
    }

    /// Waits for one more of the chunks whose nodes have not answered yet; false: there is none.
    fn wait_for_late(&self) -> bool {
        false
    }

    /// Returns how sub-chunks that are written are checked.
    fn sums(&self) -> SumKind {
        SumKind::default()
    }

    /// The first stripe from this one on of which the chunk may be readable; the number of all
    /// where there is none. Only where segments begin it may be another one than was asked for.
    fn next_stripe(&self, chunk: usize, stripe: u64) -> u64 {
        if stripe < self.stripes_there(chunk) { stripe } else { self.stripes() }
    }

    /// Stripes from one for which [`Chunks::next_stripe`] must be asked to the next such.
    fn segment_stripes(&self) -> u64 {
        self.stripes().max(1)
    }

    /// Returns whether the chunk can be read at all.
    fn read_plans(&self, chunk: usize, stripe: u64) -> bool {
        stripe < self.stripes_there(chunk)
    }

    /// Bytes of the longest chunk.
    fn chunk_capacity(&self) -> usize {
        if self.stripes() == 0 { 0 } else { self.sub_len(0) * self.codec().shape().alpha }
    }
}

/// The shards of one object, each read by a [`ShardReader`]; all of them are [`Chunks`].
pub trait Shards: Sync {
    /// Name of the object.
    fn object(&self) -> &str;
    /// The code.
    fn codec(&self) -> &Codec;
    /// Bytes of the object.
    fn object_bytes(&self) -> u64;
    /// Returns where stripes lie in every shard.
    fn layout(&self) -> &Layout;
    /// Reads the shard of an index; an error says why there is none.
    fn reader(&self, index: usize) -> Result<&ShardReader>;
    /// Returns what the shard of an index says of itself.
    fn info_of(&self, index: usize) -> ShardInfo;
    /// Digests of all shards, where they are recorded.
    fn recorded(&self) -> Option<Vec<Digest>>;
    /// Name of the node that holds an index.
    fn node_name(&self, index: usize) -> String;
    /// See [`Chunks::shared`].
    fn shared(&self, _index: usize) -> Option<Arc<ShardReader>> {
        None
    }
    /// See [`Chunks::wait_for_late`].
    fn wait_for_late(&self) -> bool {
        false
    }
}

impl<S: Shards> Chunks for S {
    fn object(&self) -> &str {
        Shards::object(self)
    }

    fn codec(&self) -> &Codec {
        Shards::codec(self)
    }

    fn object_bytes(&self) -> u64 {
        Shards::object_bytes(self)
    }

    fn stripes(&self) -> u64 {
        self.layout().stripes()
    }

    fn sub_len(&self, stripe: u64) -> usize {
        self.layout().sub_len(stripe)
    }

    fn stripe_bytes(&self, stripe: u64) -> u64 {
        self.layout().stripe_bytes(stripe)
    }

    fn stripes_there(&self, chunk: usize) -> u64 {
        // Without its segment's table a chunk cannot be verified, so it is as good as lost.
        self.reader(chunk).map_or(0, |reader| self.layout().stripes_within(reader.file_len()))
    }

    fn shared(&self, chunk: usize) -> Option<Arc<ShardReader>> {
        Shards::shared(self, chunk)
    }

    fn wait_for_late(&self) -> bool {
        Shards::wait_for_late(self)
    }

    fn sums(&self) -> SumKind {
        self.layout().sums()
    }

    fn next_stripe(&self, chunk: usize, stripe: u64) -> u64 {
        let all = self.layout().stripes();
        self.reader(chunk).map_or(all, |reader| reader.next_stripe(stripe).min(all))
    }

    fn segment_stripes(&self) -> u64 {
        self.layout().segment_stripes()
    }

    fn read(
        &self,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
        buf: &mut [u8],
    ) -> Result<ReadCost> {
        self.reader(chunk)?.read_runs(stripe, runs, buf)
    }

    fn cost_of(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
        let reader = self.reader(chunk);
        reader.map_or_else(|_| ReadCost::default(), |reader| reader.cost_of(stripe, runs))
    }

    fn node_name(&self, chunk: usize) -> String {
        Shards::node_name(self, chunk)
    }

    fn ranges(&self, _chunk: usize, stripe: u64, runs: &[Range<u32>]) -> Vec<Range<u64>> {
        self.layout().ranges(stripe, runs)
    }

    fn alignment(&self, chunk: usize) -> u64 {
        self.reader(chunk).map_or(1, ShardReader::alignment)
    }

    fn read_ranges(&self, chunk: usize, ranges: &[Range<u64>], bytes: &mut [u8]) -> Result<()> {
        self.reader(chunk)?.read_unchecked(ranges, bytes)
    }

    fn check(&self, chunk: usize, stripe: u64, runs: &[Range<u32>], bytes: &[u8]) -> Result<u64> {
        self.reader(chunk)?.check_runs(stripe, runs, bytes)
    }
}
