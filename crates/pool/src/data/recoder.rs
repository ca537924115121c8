//! The interface through which nodes recode the shards that they have.
//!
//! If k and the length of a chunk are the same in two codes, so are the data chunks: every code is
//! systematic. So each node writes its data shard anew from its own file, and only what makes
//! parity crosses links. Whole segments are written this way; what is left, digests and trailers
//! are the client's, by the same code as those of a put.

use std::sync::{Arc, Mutex, PoisonError};

use kiln_code::Codec;
use kiln_store::{Capability, Digest, Layout, ShardInfo, segment_stripes};
use kiln_stripe::{PoolError, Result, chunks::Shards, node::Part};

use crate::data::capacity::WithRoom;
use crate::data::shards::{Member, ObjectShards};
use crate::data::writer::ObjectWriter;
use crate::map::presence::Asked;
use crate::{Key, NodeFile};

/// New shards to write from the data shards of another code.
#[derive(Debug, Clone)]
pub struct Recoding {
    /// The new code.
    pub codec: Arc<Codec>,
    /// Information of the new shards; the index is the first one's.
    pub info: ShardInfo,
    /// Information of the old shards; the index is the first one's.
    pub old: ShardInfo,
    /// Digests of all old shards.
    pub digests: Vec<Digest>,
    /// Files of the k old data shards, by index: their nodes are those of the new ones.
    pub sources: Vec<String>,
    /// For each new shard the id of its node, and the file to write.
    pub parts: Vec<(String, String)>,
    /// Stripes to write, from the first on: whole segments.
    pub stripes: u64,
}

/// Chunk bytes that nodes moved.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes read from their disks.
    pub read: u64,
    /// Bytes written to their disks.
    pub written: u64,
    /// Bytes sent to each other.
    pub sent: u64,
}

/// Nodes that recode the shards that they have.
pub trait Recoder: Sync {
    /// Writes the stripes that are asked for. The files hold nothing else then, are durable, and
    /// nobody writes to them any more.
    /// Errors: it cannot be done; the reason in words. Files may be there, and may still be written
    /// to.
    fn write(&self, ask: &Recoding) -> std::result::Result<Written, String>;
}

/// Data shards that stay on their nodes.
pub(crate) struct InPlace<'a> {
    by: &'a dyn Recoder,
    old: &'a ObjectShards,
    sources: Vec<String>,
    /// Bytes that the nodes moved.
    pub moved: Mutex<Written>,
}

impl<'a> InPlace<'a> {
    /// The data shards of an object, if all of them are sound.
    pub fn new(by: &'a dyn Recoder, old: &'a ObjectShards) -> Option<InPlace<'a>> {
        let (k, run) = (usize::from(old.placed.k), old.manifest.run);
        let sound = |index| matches!(old.member(index), Member::Here { damage: None, .. });
        let key = Key::of_shards(&old.manifest.name).ok()?;
        let name = |index| NodeFile::Shard { key, run, index }.name();
        let sources = (0..k as u16).map(name).collect();
        let moved = Mutex::default();
        (0..k).all(sound).then_some(InPlace { by, old, sources, moved })
    }

    /// Returns the stripes of a segment of new shards, and the stripes that nodes write: whole
    /// segments, whose chunks are the old ones. `None`: there are none.
    pub fn segments(&self, new: &ShardInfo) -> Option<(u32, u64)> {
        common_segments(&self.old.layout, self.old.placed.k, (new.k, new.alpha, new.sub_chunk))
    }

    /// Has the nodes write them.
    pub fn write(
        &self,
        codec: &Arc<Codec>,
        info: &ShardInfo,
        parts: Vec<(String, String)>,
        stripes: u64,
    ) -> Result<()> {
        let ask = Recoding {
            codec: Arc::clone(codec),
            info: info.clone(),
            old: self.old.info_of(0),
            digests: self.old.digests(),
            sources: self.sources.clone(),
            parts,
            stripes,
        };
        let moved = self.by.write(&ask).map_err(|what| PoolError::Refused { what })?;
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = moved;
        Ok(())
    }

    /// The nodes of n new shards, by position: data stays where it is.
    /// Errors: one of them leaves or has no room, or there are too few others.
    pub fn places(
        &self,
        writer: &ObjectWriter<'_>,
        (key, n, bytes): (&Key, usize, u64),
        asked: &Asked,
    ) -> Result<Vec<usize>> {
        let map = writer.map;
        let refused = || PoolError::Refused { what: "data shards do not stay".to_owned() };
        let mut nodes = Vec::with_capacity(n);
        for place in &self.old.placed.places[..self.sources.len()] {
            let at = map.config.position(&place.node).ok_or_else(refused)?;
            if map.nodes[at].config.is_leaving() || !writer.has_room(at, bytes)? {
                return Err(refused());
            }
            nodes.push(at);
        }
        let taken: Vec<&str> = nodes.iter().map(|&at| &map.nodes[at].config.domain[..]).collect();
        let WithRoom { chosen, .. } =
            writer.place_with_room(key, n - nodes.len(), &taken, bytes, asked)?;
        nodes.extend(chosen);
        if nodes.len() == n { Ok(nodes) } else { Err(refused()) }
    }
}

/// Refuses parts that nodes cannot write in pieces.
pub(crate) fn check_parts(parts: &[Option<Part<'_>>]) -> Result<()> {
    let appends = |part: &Option<Part<'_>>| {
        let store = part.as_ref().map(|part| part.store.capabilities());
        store.is_some_and(|all| all.has(Capability::Append) && all.has(Capability::Rename))
    };
    match parts.iter().all(appends) {
        true => Ok(()),
        false => Err(PoolError::Refused { what: "a node cannot append".to_owned() }),
    }
}

/// As [`InPlace::segments`], for new shards of this k, alpha and sub-chunk. Tables are per segment,
/// so the number of stripes of one is chosen to leave few stripes over.
pub(crate) fn common_segments(
    old: &Layout,
    old_k: u16,
    (k, alpha, sub_chunk): (u16, u32, u32),
) -> Option<(u32, u64)> {
    let chunk = u64::from(alpha) * u64::from(sub_chunk);
    let whole = old.size()? / (u64::from(k) * chunk).max(1);
    if whole == 0 || old_k != k || old.chunk_len(0) as u64 != chunk {
        return None;
    }
    let usual = u64::from(segment_stripes(alpha, sub_chunk));
    let most = usual.min(whole);
    let least = (usual / 4).clamp(1, most);
    let each = (least..=most).rev().min_by_key(|each| whole % each)?;
    Some((each as u32, whole - whole % each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_store::SumKind;

    #[test]
    fn few_stripes_are_left_over() {
        // Bytes, code before and after as k, alpha, sub-chunk; stripes of a segment, and stripes.
        let mib = 1 << 20;
        let (rs, clay, other) = ((4, 1, mib), (4, 256, 4096), (4, 3, 1 << 18));
        let cases = [
            (0, rs, clay, None),
            (4 * u64::from(mib) - 1, rs, clay, None),
            (4 * u64::from(mib), rs, clay, Some((1, 1))),
            (37 * 4 * u64::from(mib) + 5, rs, clay, Some((12, 36))),
            (48 * 4 * u64::from(mib), rs, clay, Some((16, 48))),
            (37 * 4 * u64::from(mib), clay, rs, Some((37, 37))),
            (1 << 30, rs, other, None),
            (1 << 30, (5, 1, mib), clay, None),
        ];
        for (size, old, new, expected) in cases {
            let layout = Layout::new(old.0, old.1, old.2, 1, Some(size), SumKind::Crc32c).unwrap();
            let found = common_segments(&layout, old.0, new);
            assert_eq!(found, expected, "{size} {old:?} {new:?}");
        }
    }
}
