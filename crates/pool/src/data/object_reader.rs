//! An object that is read many times, a few bytes each.
//!
//! For callers that have checksums of their own, such as volumes: where a byte lies follows from
//! the manifest, so a read is one read of one shard's file, without headers and tables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, ops::Range};

use kiln_code::{Codec, HelperReads};
use kiln_store::{Layout, ReadAt, SumKind};
use kiln_stripe::{PoolError, Purpose, Result, Settings, default_sub_chunk};

use crate::data::{cells::decrypted, range, reader::ObjectReader, shards::ObjectShards};
use crate::map::cluster_map::{ClusterMap, PoolNode};
use crate::{GetRequest, Key, Manifest, NodeFile, layout::Body};

/// Parts of sub-chunks that are read to rebuild what one read lacks, at most: each is a read of its
/// own, and beyond that whole sub-chunks, in runs, and once for all of them, are cheaper.
const MOST_PARTS: usize = 64;

/// An object whose manifest was looked up; its shards are opened when they are first read.
pub struct OpenObject {
    manifest: Arc<Manifest>,
    /// Layout of its bytes in shards; `None`: they lie in the manifest.
    layout: Option<Layout>,
    /// Chunks with data; they are the first ones.
    data: usize,
    shards: Vec<Shard>,
    /// Findings of a read that had to look at all of them.
    found: Mutex<Option<Arc<ObjectShards>>>,
}

#[derive(Default)]
struct Shard {
    /// Its file, once it was asked for; `None`: there is none that can be read.
    file: Arc<OnceLock<Option<Box<dyn ReadAt>>>>,
    /// A read failed, and none is tried any more.
    failed: AtomicBool,
}

impl Shard {
    fn is_gone(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for OpenObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenObject").field(&self.manifest.name).finish()
    }
}

impl ObjectReader<'_> {
    /// Bytes of a whole stripe of an object that has so many; `None`: it would lie in its manifest.
    /// If the last stripe of an object is a whole one, too, its chunks begin where blocks of
    /// disks do.
    pub fn stripe_bytes(&self, size: u64) -> Result<Option<u64>> {
        let class = self.map.config.policy.class_of(size);
        if class.is_inline() {
            return Ok(None);
        }
        let shape = self.map.codec(&class.code)?.shape();
        let sub_chunk = class.sub_chunk.unwrap_or_else(|| default_sub_chunk(shape));
        Ok(Some(shape.k as u64 * shape.alpha as u64 * u64::from(sub_chunk)))
    }

    /// Looks an object up, to read it many times.
    pub fn open_object(&self, name: &str) -> Result<OpenObject> {
        let manifest = Arc::new(self.manifests.manifest(name)?);
        // Of an encrypted object no byte can be read alone; one that should be is no object.
        let is_encrypted = self.map.config.object_key(&manifest)?.is_some();
        let (layout, data, n) = match (&manifest.body, manifest.shard_info(0)) {
            (Body::Shards(placed), Some(info)) if !is_encrypted => {
                (Some(info.layout()?), usize::from(placed.k), placed.places.len())
            }
            _ => (None, 0, 0),
        };
        Ok(OpenObject { manifest, layout, data, shards: unopened(n), found: Mutex::default() })
    }
}

/// Shards that were not asked for yet.
fn unopened(n: usize) -> Vec<Shard> {
    (0..n).map(|_| Shard::default()).collect()
}

impl OpenObject {
    /// The same object with no file open, and nothing known of failures: for who has many of them.
    /// Nothing is looked up for it.
    #[must_use]
    pub fn closed(&self) -> OpenObject {
        let (manifest, layout) = (Arc::clone(&self.manifest), self.layout.clone());
        let shards = unopened(self.shards.len());
        OpenObject { manifest, layout, data: self.data, shards, found: Mutex::default() }
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.manifest.size
    }

    /// Returns whether its shards have hashes that cannot be forged, under a seal: then bytes that
    /// only have a caller's checksum should not be trusted, and [`OpenObject::read`] is to be used.
    pub fn is_sealed(&self) -> bool {
        matches!(&self.manifest.body, Body::Shards(placed) if placed.sums == SumKind::Blake3)
    }

    /// Fills `buf` from byte `offset` of the object on, as the bytes lie on the nodes of its data
    /// chunks: nothing is checked, nothing rebuilt. `false`: some node cannot be read, or the range
    /// does not lie within the object; `buf` is then undefined. A caller that wants bytes that are
    /// right checks these and otherwise asks [`OpenObject::read`].
    #[must_use]
    pub fn read_unchecked(&self, pool: &ClusterMap, offset: u64, buf: &mut [u8]) -> bool {
        let Some(end) = offset.checked_add(buf.len() as u64) else { return false };
        if end > self.manifest.size {
            return false;
        }
        let Some(layout) = &self.layout else {
            let (Body::Inline(bytes), None) = (&self.manifest.body, &self.manifest.key) else {
                return false;
            };
            let part = bytes.get(offset as usize..end as usize);
            return part.map(|part| buf.copy_from_slice(part)).is_some();
        };
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let piece = self.piece(layout, at);
            let len = rest.len().min((piece.file.end - piece.file.start) as usize);
            let (now, later) = rest.split_at_mut(len);
            if !self.read_shard(pool, piece.chunk, Purpose::Wanted, piece.file.start, now) {
                return false;
            }
            (at, rest) = (at + len as u64, later);
        }
        true
    }

    /// As [`OpenObject::read_unchecked`], where some shards cannot be read: their bytes are
    /// rebuilt from those at the same places of other shards' sub-chunks, which is all that a
    /// linear code needs. `false`: a shard more cannot be read, or whole sub-chunks are as good.
    #[must_use]
    pub fn rebuild_unchecked(&self, pool: &ClusterMap, offset: u64, buf: &mut [u8]) -> bool {
        let Some(end) = offset.checked_add(buf.len() as u64) else { return false };
        let (Some(layout), Body::Shards(placed)) = (&self.layout, &self.manifest.body) else {
            return false;
        };
        let Ok(codec) = pool.codec(&placed.spec) else { return false };
        if end > self.manifest.size || !codec.sliceable() {
            return false;
        }
        let (mut at, mut rest, mut parts) = (offset, buf, MOST_PARTS);
        while !rest.is_empty() {
            let slice = self.slice(layout, at);
            let len = rest.len().min(slice.len);
            let (now, later) = rest.split_at_mut(len);
            let own = layout.offset(slice.stripe, slice.sub) + slice.from;
            if !self.read_shard(pool, slice.chunk, Purpose::Wanted, own, now)
                && !self.rebuild_slice(pool, &codec, layout, &slice, &mut parts, now)
            {
                return false;
            }
            (at, rest) = (at + len as u64, later);
        }
        true
    }

    /// Rebuilds a part of a sub-chunk from the same parts of others, of which so many are left to
    /// be read.
    fn rebuild_slice(
        &self,
        pool: &ClusterMap,
        codec: &Codec,
        layout: &Layout,
        slice: &Slice,
        left: &mut usize,
        buf: &mut [u8],
    ) -> bool {
        let wanted = [(slice.chunk, slice.sub..slice.sub + 1)];
        let gone = |index: &usize| self.shards[*index].is_gone();
        let purpose = if gone(&slice.chunk) { Purpose::Wanted } else { Purpose::Around };
        let others = (0..self.shards.len()).filter(|index| *index != slice.chunk && !gone(index));
        let all: Vec<usize> = others.collect();
        let node = |index: &usize| self.node(pool, *index);
        let quick = |index: &&usize| node(index).is_some_and(|node| !pool.is_slow(&node));
        let quick: Vec<usize> = all.iter().filter(quick).copied().collect();
        let plan = codec.part_plan(&wanted, &quick).or_else(|_| codec.part_plan(&wanted, &all));
        let Ok(plan) = plan else { return false };
        let Some(rest) = left.checked_sub(plan.sub_chunks_read()) else { return false };
        *left = rest;
        let helpers: Vec<&HelperReads> = plan.helpers().iter().collect();
        let read = pool.in_parallel(helpers, |_, helper| {
            let mut parts = vec![0; helper.sub_chunks() * buf.len()];
            let subs = helper.runs.iter().cloned().flatten();
            for (sub, part) in subs.zip(parts.chunks_exact_mut(buf.len())) {
                let at = layout.offset(slice.stripe, sub) + slice.from;
                if !self.read_shard(pool, helper.chunk, purpose, at, part) {
                    return Err(());
                }
            }
            Ok(parts)
        });
        let Ok(parts) = read else { return false };
        let inputs: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        plan.run(&inputs, &mut [buf]).is_ok()
    }

    /// Reads bytes of a shard's file; where its node is far away and slow, nothing waits for it.
    fn read_shard(
        &self,
        pool: &ClusterMap,
        index: usize,
        purpose: Purpose,
        at: u64,
        buf: &mut [u8],
    ) -> bool {
        let shard = &self.shards[index];
        let (Some(node), false) = (self.node(pool, index), shard.is_gone()) else { return false };
        let (file, manifest) = (Arc::clone(&shard.file), Arc::clone(&self.manifest));
        let (id, hedge) = (node.config.id.clone(), pool.hedge().filter(|_| !node.is_folder()));
        let read = move |buf: &mut [u8]| {
            let file = file.get_or_init(|| open_shard(&node, &manifest, index));
            file.as_ref().is_some_and(|file| file.read_at(at, buf).is_ok())
        };
        let read = match hedge {
            Some(hedge) => hedge.read(&id, purpose, buf, read),
            None => Some(read(buf)),
        };
        if read == Some(false) {
            shard.failed.store(true, Ordering::Relaxed);
        }
        read.unwrap_or(false)
    }

    fn node(&self, pool: &ClusterMap, index: usize) -> Option<Arc<PoolNode>> {
        let Body::Shards(placed) = &self.manifest.body else { return None };
        Some(Arc::clone(&pool.nodes[pool.config.position(&placed.places[index].node)?]))
    }

    /// The same bytes, checked and rebuilt where that is necessary. What was found of its shards is
    /// remembered, so that many reads look once: see [`OpenObject::met_failure`].
    pub fn read(
        &self,
        pool: &ClusterMap,
        range: Range<u64>,
        settings: &Settings<'_>,
    ) -> Result<Vec<u8>> {
        let want = range.end.saturating_sub(range.start) as usize;
        if range.end <= self.manifest.size
            && matches!(self.manifest.body, Body::Shards(_))
            && let Ok(bytes) = self.read_known(pool, range.clone(), settings)
            && bytes.len() == want
        {
            return Ok(bytes);
        }
        // Its shards may have moved, or it was replaced: it is looked up.
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut bytes = Vec::with_capacity(want);
        let req = GetRequest { name: &self.manifest.name, range: Some(range) };
        ObjectReader::new(pool).get(&req, &mut bytes, settings)?;
        if bytes.len() != want {
            return Err(PoolError::Changed { object: self.manifest.name.clone() });
        }
        Ok(bytes)
    }

    /// Returns the manifest that was looked up.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// As [`OpenObject::read`], of this version of an object with shards alone, from those that
    /// were found before, or are now.
    /// Errors: its shards are elsewhere, or gone.
    pub fn read_known(
        &self,
        pool: &ClusterMap,
        range: Range<u64>,
        settings: &Settings<'_>,
    ) -> Result<Vec<u8>> {
        let settings = &pool.read_settings(settings);
        let before = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shards = match before {
            Some(shards) => shards,
            None => Arc::new(ObjectShards::open_with(pool, &self.manifest, settings)?),
        };
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let key = pool.config.object_key(&self.manifest)?;
        decrypted(self.manifest.object(), key, range, &mut bytes, |stored, out| {
            range::read(&shards, stored, None, out, settings)
        })?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(shards);
        Ok(bytes)
    }

    /// Returns whether some of its shards could not be read, which is remembered: they may be there
    /// again, or elsewhere, for who opens the object anew.
    pub fn met_failure(&self) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).is_some()
            || self.shards.iter().any(Shard::is_gone)
    }

    /// The data chunk in which a byte of the object lies, and where in the shard's file it and
    /// those after it are, up to the chunk's end.
    fn piece(&self, layout: &Layout, at: u64) -> Piece {
        // All stripes but the last have the first one's length.
        let stripe_len = layout.chunk_len(0) as u64 * self.data as u64;
        let full = (layout.stripes() > 1).then_some(stripe_len);
        let stripe = full.map_or(0, |len| at / len);
        let chunk_len = layout.chunk_len(stripe) as u64;
        let within = at - layout.stripe_start(stripe);
        let (chunk, from) = (within / chunk_len, within % chunk_len);
        let start = layout.offset(stripe, 0);
        Piece { stripe, chunk: chunk as usize, file: start + from..start + chunk_len }
    }

    /// The sub-chunk in which a byte of the object lies.
    fn slice(&self, layout: &Layout, at: u64) -> Slice {
        let Piece { stripe, chunk, file } = self.piece(layout, at);
        let (within, len) =
            (file.start - layout.offset(stripe, 0), layout.sub_len(stripe).max(1) as u64);
        let from = within % len;
        Slice { stripe, chunk, sub: (within / len) as u32, from, len: (len - from) as usize }
    }
}

fn open_shard(node: &PoolNode, manifest: &Manifest, index: usize) -> Option<Box<dyn ReadAt>> {
    let key = Key::of_shards(&manifest.name).ok()?;
    let name = NodeFile::Shard { key, run: manifest.run, index: index as u16 }.name();
    // Blocks anywhere, and those of a segment that are live: the kernel would read all of it.
    node.store().ok()?.open(&name).ok().inspect(|shard| shard.expect_random())
}

/// Adjacent bytes of an object in one sub-chunk: where they begin in it, and how many there are.
struct Slice {
    stripe: u64,
    chunk: usize,
    sub: u32,
    from: u64,
    len: usize,
}

/// Adjacent bytes of an object in one shard.
struct Piece {
    stripe: u64,
    chunk: usize,
    file: Range<u64>,
}
