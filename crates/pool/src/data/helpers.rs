//! The interface through which nodes rebuild lost chunks for a reader.
//!
//! A reader that rebuilds a lost chunk pulls all that the cheapest plan reads through its own link.
//! Nodes that can compute send it little more than what it wants. A caller that can have them do so
//! passes [`Helpers`] to [`ObjectReader::read_with`]; the rest is rebuilt here.

use std::{ops::Range, sync::Arc};

use kiln_code::Codec;
use kiln_store::{Digest, DigestBuilder, ShardInfo, SumKind, checksums};
use kiln_stripe::chunks::{Chunks, Shards};
use kiln_stripe::{Result, stripe::are_parts};

use crate::data::shards::{Member, ObjectShards};
use crate::{Key, NodeFile};

/// Sub-chunks that are wanted of chunks that are gone, the same ones of several stripes.
///
/// See [`Helpers`] for an example.
#[derive(Debug, Clone)]
pub struct Degraded {
    /// The code.
    pub codec: Arc<Codec>,
    /// Information of the object's shards; the index is the first one's.
    pub info: ShardInfo,
    /// Digests of all shards.
    pub digests: Vec<Digest>,
    /// Shards that can be read: index, id of the node, file.
    pub sources: Vec<(u16, String, String)>,
    /// The stripes, adjacent ones.
    pub stripes: Range<u64>,
    /// For each lost chunk the sub-chunks that are wanted of it, by their positions.
    pub wanted: Vec<(usize, Range<u32>)>,
    /// Bytes that the reader would receive to rebuild them by itself.
    pub here: u64,
}

/// Clients of helpers: they have lost chunks rebuilt by others.
pub trait Helpers {
    /// Begins to rebuild.
    /// Errors: it cannot be done, or is not worth it; the reason in words. The reader does it then.
    fn begin(&self, ask: &Degraded) -> std::result::Result<Box<dyn Rebuilt + '_>, String>;

    /// Returns whether they are also to be asked where a reader needs no more bytes without them,
    /// as when it wants whole stripes.
    fn insists(&self) -> bool {
        false
    }
}

/// Lost sub-chunks on their way. Dropping it ends the work of the helpers.
pub trait Rebuilt {
    /// Returns what is wanted of the next stripe: the sub-chunks of each lost chunk, in order.
    /// Errors: the helpers failed, and nothing more will come; the reason in words.
    fn next(&mut self) -> std::result::Result<Vec<Vec<u8>>, String>;

    /// Bytes of chunks, and of what makes them, that the reader has received so far.
    fn received(&self) -> u64;

    /// Name of the plan's strategy.
    fn strategy(&self) -> &str;
}

/// Report of helpers for a reader.
#[derive(Debug, Default)]
pub(crate) struct Helped {
    /// Bytes that they sent to the reader.
    pub received: u64,
    /// Bytes of lost chunks that they rebuilt.
    pub rebuilt: u64,
    /// Strategy of their last plan, whether it came to its end or not.
    pub strategy: Option<String>,
    /// Why they did not do it, or not to the end.
    pub notes: Vec<String>,
}

/// Compares shards that are read as a whole with their recorded digests.
pub(crate) struct DigestCheck {
    digests: Vec<Option<(DigestBuilder, Digest)>>,
    sums: SumKind,
    last: u64,
}

impl DigestCheck {
    /// A witness of what is rebuilt for this.
    pub fn new(ask: &Degraded, stripes: u64) -> DigestCheck {
        let alpha = ask.codec.shape().alpha as u32;
        let whole = |run: &Range<u32>| ask.stripes == (0..stripes) && *run == (0..alpha);
        let digest_check = |(chunk, run): &(usize, Range<u32>)| {
            whole(run).then(|| (ask.info.digest_builder(), ask.digests[*chunk]))
        };
        let digests = ask.wanted.iter().map(digest_check).collect();
        let last = ask.stripes.end.saturating_sub(1);
        DigestCheck { digests, sums: ask.info.sums, last }
    }

    /// Sees the next stripe; the rank of a chunk that is complete and not what was recorded.
    pub fn sees(&mut self, stripe: u64, sub_len: usize, parts: &[Vec<u8>]) -> Option<usize> {
        for (rank, (digest, part)) in self.digests.iter_mut().zip(parts).enumerate() {
            let Some((builder, recorded)) = digest else { continue };
            let mut sums = Vec::new();
            checksums(self.sums, part, sub_len, &mut sums);
            builder.add(&sums);
            if stripe == self.last && builder.digest() != *recorded {
                return Some(rank);
            }
        }
        None
    }
}

impl ObjectShards {
    /// Returns what is to be asked of helpers.
    /// Errors: the object's name is none.
    pub(crate) fn degraded(
        &self,
        stripes: Range<u64>,
        wanted: Vec<(usize, Range<u32>)>,
        here: u64,
    ) -> Result<Degraded> {
        let (key, run) = (Key::of_shards(&self.manifest.name)?, self.manifest.run);
        let sound = |index: &u16| {
            let member = self.member(usize::from(*index));
            matches!(member, Member::Here { damage: None, .. })
        };
        let source = |index: u16| {
            let node = self.placed.places[usize::from(index)].node.clone();
            (index, node, NodeFile::Shard { key, run, index }.name())
        };
        let all = 0..self.count() as u16;
        Ok(Degraded {
            codec: Arc::clone(&self.codec),
            info: self.info_of(0),
            digests: self.digests(),
            sources: all.filter(sound).map(source).collect(),
            stripes,
            wanted,
            here,
        })
    }

    /// Bytes that rebuilding chunks of a stripe here reads beside chunks that are read whole.
    pub(crate) fn bytes_here(
        &self,
        stripe: u64,
        wanted: &[(usize, Range<u32>)],
        whole: &[usize],
    ) -> Option<u64> {
        let lost: Vec<usize> = wanted.iter().map(|(chunk, _)| *chunk).collect();
        let there: Vec<usize> = (0..self.count())
            .filter(|&chunk| !lost.contains(&chunk) && self.read_plans(chunk, stripe))
            .collect();
        let plan = match are_parts(&self.codec, wanted) {
            true => self.codec.part_plan(wanted, &there),
            false => self.codec.repair_plan(&lost, &there),
        };
        let plan = plan.ok()?;
        let read = plan.helpers().iter().filter(|helper| !whole.contains(&helper.chunk));
        let sub_chunks: usize = read.map(|helper| helper.sub_chunks()).sum();
        Some(sub_chunks as u64 * self.sub_len(stripe) as u64)
    }
}
