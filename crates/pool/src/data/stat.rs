//! One object in detail.

use crate::data::shards::{Member, ObjectShards};
use crate::{Key, Listed, data::reader::ObjectReader, layout::Body};
use kiln_stripe::{PoolError, Result};
use serde::Serialize;

/// An object and the state of its files, as far as headers and trailers tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StatReport {
    /// Contents of its manifest.
    #[serde(flatten)]
    pub object: Listed,
    /// Parity shards: the most that may be lost.
    pub m: usize,
    /// True if the whole shards give the object back.
    pub recoverable: bool,
    /// Sub-chunks of a chunk.
    pub alpha: usize,
    /// Bytes of a sub-chunk.
    pub sub_chunk: u64,
    /// Stripes.
    pub stripes: u64,
    /// The shards, by index.
    pub shards: Vec<ShardState>,
    /// Nodes whose copy of the manifest is the newest.
    pub copies: Vec<String>,
}

/// One shard of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShardState {
    /// Its index.
    pub index: usize,
    /// The node that should have it.
    pub node: String,
    /// Damage of it, if any.
    #[serde(rename = "trouble")]
    pub problem: Option<String>,
    /// Its node cannot be asked: no damage, as far as can be told.
    #[serde(rename = "away", skip_serializing_if = "std::ops::Not::not")]
    pub is_away: bool,
}

impl ObjectReader<'_> {
    /// Looks at one object's manifest and at the ends of its shards.
    /// Errors: [`PoolError::NoObject`]; as [`ObjectReader::get`].
    pub fn stat(&self, name: &str) -> Result<StatReport> {
        let found = self.manifests.look(&Key::of(name)?, name)?;
        let Some(manifest) = found.data() else {
            return Err(PoolError::NoObject { name: name.to_owned() });
        };
        let object = Listed::of(manifest);
        let mut report = StatReport { object, recoverable: true, ..StatReport::default() };
        let id = |at: &usize| self.map.nodes[*at].config.id.clone();
        report.copies = found.copies.iter().map(id).collect();
        if let Body::Shards(placed) = &manifest.body {
            let shards = ObjectShards::open(self.map, manifest)?;
            report.m = placed.shape().m;
            report.alpha = placed.shape().alpha;
            report.sub_chunk = u64::from(placed.sub_chunk);
            report.stripes = shards.layout.stripes();
            let state = |(index, place): (usize, &crate::layout::Place)| ShardState {
                index,
                node: place.node.clone(),
                problem: shards.problem(index).map(str::to_owned),
                is_away: matches!(shards.member(index), Member::Unavailable(_)),
            };
            report.shards = placed.places.iter().enumerate().map(state).collect();
            let lost = report.shards.iter().filter(|shard| shard.problem.is_some());
            let lost: Vec<usize> = lost.map(|shard| shard.index).collect();
            report.recoverable = shards.codec.tolerates(&lost);
        }
        Ok(report)
    }
}
