//! Shards of an object and their condition.

mod scan;
mod choose;

use kiln_code::{CodeSpec, Codec};
use kiln_store::{Digest, Layout, ShardInfo, ShardReader, StoreError};

pub(crate) use choose::EncodeRuns;
pub(crate) use scan::Scan;

use kiln_stripe::chunks::Shards;
use kiln_stripe::geometry::check_stripes;
use kiln_stripe::names;
use kiln_stripe::{Condition, Damage, Node, PoolError, Result, SetReport, ShardReport};

/// A shard of a set.
#[derive(Debug)]
pub(crate) struct Member {
    /// Position among the set's nodes.
    pub node: usize,
    pub name: String,
    pub reader: ShardReader,
    /// Header, trailer or length are bad; its chunks may still be good.
    pub damaged: bool,
    /// A complete part of an encode that stopped while renaming.
    pub pending: bool,
}

/// A shard of another run, or of a later version of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignFile {
    /// Position of its node.
    pub node: usize,
    pub name: String,
    /// Mark that tells it from others.
    pub mark: String,
}

impl ForeignFile {
    /// A name for it that is not in the way of shard `index`.
    pub(crate) fn aside(&self, object: &str, index: usize) -> String {
        names::shard(&format!("{object}.{}", self.mark), index)
    }
}

/// The shards of one encode run of one object, as found by [`discover`].
#[derive(Debug)]
pub struct ShardSet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) codec: Codec,
    /// Information of all shards (index 0 stands for any); the size is known.
    pub(crate) info: ShardInfo,
    pub(crate) layout: Layout,
    pub(crate) digests: Option<Vec<Digest>>,
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) notes: Vec<String>,
    /// Foreign files: they have a shard's name but must not be overwritten.
    pub(crate) foreign: Vec<ForeignFile>,
    /// Members whose name is not the one their index asks for.
    pub(crate) misnamed: Vec<usize>,
    /// Bytes of headers and trailers read to find all this.
    pub(crate) metadata_bytes: u64,
}

/// Finds the shards of one object on the nodes.
///
/// The header of a file counts, not its name. Every file that is no hidden one is looked at; files
/// that are no shards are ignored. Damaged or misplaced shards are taken where they are of use,
/// and reported. Where there are several encode runs, the one that can be decoded is taken.
/// Errors: [`PoolError::NotFound`], [`PoolError::SeveralObjects`] when `object` is `None` and there
/// are several, [`PoolError::NotRecoverable`] when no run has k usable shards,
/// [`PoolError::Refused`] when two runs could be decoded.
pub fn discover(nodes: &[Node], object: Option<&str>) -> Result<ShardSet> {
    EncodeRuns::new(Scan::new(nodes, object)?, nodes, object)?.choose(nodes, false)
}

/// As [`discover`], but where no run has enough shards, the one that has most of them is taken: for
/// looking at what is left, and for [`crate::salvage`].
/// Errors: as [`discover`]; [`PoolError::NotRecoverable`] when not even the size of the object is
/// known.
pub fn discover_any(nodes: &[Node], object: Option<&str>) -> Result<ShardSet> {
    EncodeRuns::new(Scan::new(nodes, object)?, nodes, object)?.choose(nodes, true)
}

/// The names of all objects that have a shard on the nodes, in order: as shards tell them, or,
/// where a file is so damaged that it tells none, its own name.
/// Errors: none of the nodes can be listed.
pub fn object_names(nodes: &[Node]) -> Result<Vec<String>> {
    let scan = Scan::new(nodes, None)?;
    let finals = scan.found.iter().filter(|(found, _)| found.kind == names::Kind::Final);
    let told = |(found, opened): &scan::Opened| match opened {
        Ok(reader) => Some(reader.info().object.clone()),
        Err(_) => found.named.as_ref().map(|(object, _)| object.clone()),
    };
    let names: std::collections::BTreeSet<String> = finals.filter_map(told).collect();
    Ok(names.into_iter().collect())
}

impl ShardSet {
    /// Name of the object.
    pub fn object(&self) -> &str {
        &self.info.object
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.layout.size().unwrap_or(0)
    }

    /// The code, as the shards name it.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Returns what headers and trailers say.
    pub fn report(&self) -> SetReport {
        let shape = self.codec.shape();
        let expected = self.members.iter().flatten().find(|m| !m.damaged);
        SetReport {
            object: self.object().to_owned(),
            code: self.codec.spec().to_string(),
            spec: self.info.spec.clone(),
            order: self.codec.order().to_owned(),
            run: names::hex(&self.info.run),
            size: self.size(),
            stripes: self.layout.stripes(),
            k: shape.k,
            m: shape.m,
            alpha: shape.alpha,
            sub_chunk: u64::from(self.info.sub_chunk),
            chunk: u64::from(self.info.sub_chunk) * shape.alpha as u64,
            shard_bytes: expected.map_or(0, |m| m.reader.file_len()),
            recoverable: self.codec.tolerates(&self.missing()),
            shards: (0..shape.n()).map(|index| self.shard_report(index)).collect(),
            damaged: self.damage.clone(),
            notes: self.notes.clone(),
        }
    }

    fn shard_report(&self, index: usize) -> ShardReport {
        let member = self.members[index].as_ref();
        let state = match member {
            None => Condition::Missing,
            Some(member) if member.damaged => Condition::Damaged,
            Some(_) => Condition::Complete,
        };
        ShardReport {
            index,
            role: if index < self.codec.shape().k { "data" } else { "parity" }.to_owned(),
            state,
            node: member.map(|m| self.nodes[m.node].name.clone()),
            name: member.map(|m| m.name.clone()),
            bytes: member.map(|m| m.reader.file_len()),
        }
    }

    /// Indices without any usable shard.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|&i| self.members[i].is_none()).collect()
    }

    /// Indices whose shard is bad in its structure.
    pub(crate) fn structurally_damaged(&self) -> Vec<usize> {
        let damaged = |i: &usize| self.members[*i].as_ref().is_some_and(|m| m.damaged);
        (0..self.members.len()).filter(damaged).collect()
    }

    /// Name of the node that holds an index, or a word for none.
    pub(crate) fn node_name(&self, index: usize) -> String {
        let member = self.members[index].as_ref();
        member.map_or_else(|| "(none)".to_owned(), |m| self.nodes[m.node].name.clone())
    }
}

impl Shards for ShardSet {
    fn object(&self) -> &str {
        &self.info.object
    }

    fn codec(&self) -> &Codec {
        &self.codec
    }

    fn object_bytes(&self) -> u64 {
        self.size()
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn reader(&self, index: usize) -> Result<&ShardReader, StoreError> {
        let member = self.members[index].as_ref();
        member.map(|member| &member.reader).ok_or_else(|| StoreError::Damaged {
            place: self.node_name(index),
            name: names::shard(self.object(), index),
            part: "shard".to_owned(),
            what: "it is missing".to_owned(),
        })
    }

    fn info_of(&self, index: usize) -> ShardInfo {
        ShardInfo { index: index as u16, ..self.info.clone() }
    }

    fn recorded(&self) -> Option<Vec<Digest>> {
        self.digests.clone()
    }

    fn node_name(&self, index: usize) -> String {
        ShardSet::node_name(self, index)
    }
}

/// The codec that shards name, checked against their own numbers.
pub(crate) fn codec_of(info: &ShardInfo) -> Result<Codec> {
    let spec: CodeSpec = info.spec.parse()?;
    let codec = Codec::new(&spec)?;
    let shape = codec.shape();
    check_stripes(&info.object, shape, info.sub_chunk)?;
    let said = (usize::from(info.k), usize::from(info.n), info.alpha as usize);
    if said != (shape.k, shape.n(), shape.alpha) {
        return Err(PoolError::NotRecoverable {
            object: info.object.clone(),
            detail: format!(
                "its shards name the code {} (k={}, n={}, alpha={}) but have k={}, n={}, alpha={}",
                info.spec,
                shape.k,
                shape.n(),
                shape.alpha,
                said.0,
                said.1,
                said.2
            ),
        });
    }
    Ok(codec)
}
