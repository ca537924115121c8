//! The codes: one file and one row of [`CODES`] each.

mod replication;
mod scalar;
mod reed_solomon;
mod xor;
mod blaum_roth;
mod butterfly;
mod cauchy;
mod evenodd;
mod less;
mod liber8tion;
mod liberation;
mod lrc;
mod rdp;
mod star;
mod xcode;
mod clay;

#[cfg(test)]
mod battery;

/// The codec of a code that there is.
#[cfg(test)]
pub(crate) fn codec(spec: &str) -> crate::Codec {
    crate::Codec::new(&spec.parse().unwrap()).unwrap()
}

use crate::order::Layers;
use crate::profile::ReadProfile;
use crate::spec::{ChunkNumbers, Param, Words};
use crate::{CodeError, CodeSpec, Dag, Packets, RebuildMethod, Result, Shape};

/// A family of codes: its name, what it is good for, and how its spec reads.
#[derive(Debug)]
pub struct CodeFamily {
    /// The name that starts a spec.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// The grammar of its spec.
    pub syntax: &'static str,
    /// A spec that works.
    pub example: &'static str,
    /// More of them, small enough that tests try every loss.
    pub examples: &'static [&'static str],
    /// Meaning of the numbers after the name.
    pub(crate) numbers: ChunkNumbers,
    /// Reads a profile of Ceph's plugin of this name.
    pub(crate) profile: Option<ReadProfile>,
    /// Turns the words of a spec into its complete, ordered parameters.
    pub(crate) resolve: fn(&mut Words<'_>) -> Result<Vec<Param>>,
    pub(crate) build: fn(&CodeSpec) -> Result<Box<dyn Code>>,
}

/// All code families.
pub static CODES: &[CodeFamily] = &[
    reed_solomon::FAMILY,
    clay::FAMILY,
    replication::FAMILY,
    cauchy::FAMILY,
    liberation::FAMILY,
    blaum_roth::FAMILY,
    liber8tion::FAMILY,
    rdp::FAMILY,
    evenodd::FAMILY,
    star::FAMILY,
    xcode::FAMILY,
    butterfly::FAMILY,
    less::FAMILY,
    lrc::FAMILY,
];

/// Chunks that a repair or a decode reads; made by [`crate::Codec::choose`] and
/// [`crate::Codec::decode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// True if less than k chunks are read.
    pub strategy: RebuildMethod,
    /// Wanted chunks, ascending.
    pub lost: Vec<usize>,
    /// Chunks that are read, whole or in part, ascending.
    pub helpers: Vec<usize>,
    /// Result of the search for the fewest reads, so that it is made once: only XOR codes search.
    pub(crate) recovery: Option<xor::Recovery>,
}

impl Choice {
    /// A choice that no search is behind.
    pub(crate) fn new(strategy: RebuildMethod, lost: &[usize], helpers: Vec<usize>) -> Choice {
        Choice { strategy, lost: lost.to_vec(), helpers, recovery: None }
    }
}

/// A code: which chunks to ask, and the DAG that computes the lost from what they give.
///
/// Callers have checked that `lost` and `available` are ascending, disjoint and in range, and that
/// `lost` is not empty.
pub(crate) trait Code: Send + Sync {
    fn shape(&self) -> Shape;

    /// The order of the sub-chunks on disk.
    fn order(&self) -> &str {
        "natural"
    }

    /// The layers that an order permutes, for codes whose sub-chunks have one.
    fn layers(&self) -> Option<&Layers> {
        None
    }

    /// The shard that each chunk is in Ceph, for codes that Ceph numbers otherwise.
    fn mapping(&self) -> Vec<usize> {
        (0..self.shape().n()).collect()
    }

    /// The packets of codes that work on blocks of packets (Jerasure's `packetsize`), each block
    /// alone: so many sub-chunks one after the other hold the blocks. Without them a packet is a
    /// sub-chunk. With them sub-chunks are read so many together.
    fn packets(&self) -> Option<Packets> {
        None
    }

    /// Returns whether any k chunks give all others. The defaults of `tolerates` and `decode` say
    /// what follows from that; a code that is not MDS answers all three.
    fn is_mds(&self) -> bool {
        true
    }

    /// The number of losses that are tolerated whichever they are, as far as it is proved.
    fn tolerates_any(&self) -> usize {
        self.shape().m
    }

    /// Returns whether these chunks can be computed from all others.
    fn tolerates(&self, lost: &[usize]) -> bool {
        lost.len() <= self.shape().m
    }

    /// The whole chunks that a decode of `lost` reads, data before parity.
    fn decode(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        decode_from_any(self.shape(), lost, available)
    }

    /// The way to rebuild `lost` that reads the fewest bytes.
    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        self.decode(lost, available)
    }

    /// The DAG of a choice. A code with sub-chunks may read less than whole chunks.
    fn emit(&self, choice: &Choice) -> Result<Dag>;
}

/// Decode of an MDS code: from the k lowest available chunks, so data before parity.
fn decode_from_any(shape: Shape, lost: &[usize], available: &[usize]) -> Result<Choice> {
    if available.len() < shape.k {
        return Err(CodeError::NotRecoverable {
            lost: lost.to_vec(),
            available: available.len(),
            independent: available.len(),
            needed: shape.k,
        });
    }
    let helpers = available[..shape.k].to_vec();
    Ok(Choice::new(RebuildMethod::Decode, lost, helpers))
}

pub(crate) fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    (family(spec.family())?.build)(spec)
}

pub(crate) fn family(name: &str) -> Result<&'static CodeFamily> {
    CODES.iter().find(|family| family.name == name).ok_or_else(|| {
        let known: Vec<&str> = CODES.iter().map(|family| family.name).collect();
        CodeError::UnknownFamily { name: name.into(), known: known.join(", ") }
    })
}
