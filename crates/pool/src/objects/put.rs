//! Put: a source becomes an object, or nothing changes.

use std::io::{self, Read};

use kiln_store::{ShardInfo, segment_stripes};
use serde::Serialize;

use super::Pool;
use super::commit::{Change, StagedShard};
use super::pool::PoolNode;
use super::room::WithRoom;
use crate::engine::encode::{check_unchanged, encode_shards};
use crate::engine::names;
use crate::engine::node::Part;
use crate::{
    Body, Class, Key, Manifest, NodeFile, Place, Placed, PoolError, Result, Settings, Source,
    default_sub_chunk, place,
};

/// What to put.
///
/// ```
/// let put = kiln_pool::PutRequest { name: "a/b", run: [9; 16], now_ms: 0, replace: true };
/// assert!(put.replace);
/// ```
#[derive(Copy, Clone, Debug)]
pub struct PutRequest<'a> {
    /// The object's name: a relative path of at most 1024 bytes.
    pub name: &'a str,
    /// A fresh random identity for the data.
    pub run: [u8; 16],
    /// The time, in ms since 1970.
    pub now_ms: u64,
    /// Replace an object of that name.
    pub replace: bool,
}

/// What a put did.
///
/// ```
/// assert_eq!(kiln_pool::PutReport::default().size, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PutReport {
    /// The object.
    pub object: String,
    /// Its size in bytes.
    pub size: u64,
    /// Version of its manifest.
    pub version: u64,
    /// Identity of the data, 32 hex digits.
    pub run: String,
    /// The code, or `inline`.
    pub code: String,
    /// Ids of the nodes with its shards, by index; empty for `inline`.
    pub nodes: Vec<String>,
    /// Ids of the nodes with its manifest.
    pub manifests: Vec<String>,
    /// Indices not written because their nodes are unavailable; a repair adds them.
    pub missing: Vec<usize>,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// A source of which the start was read to see how long it is.
struct Peeked<'a> {
    start: io::Cursor<Vec<u8>>,
    /// The start was all.
    complete: bool,
    size: Option<u64>,
    rest: &'a mut dyn Source,
}

impl<'a> Peeked<'a> {
    /// Reads up to `limit` bytes of a source whose size is not known.
    fn new(source: &'a mut dyn Source, limit: u64) -> Result<Peeked<'a>> {
        let size = source.size();
        let mut start = Vec::new();
        let wanted = if size.is_some() { 0 } else { limit };
        let read = source.take(wanted).read_to_end(&mut start);
        let got = read.map_err(|source| PoolError::Input { source })? as u64;
        let complete = size.is_none() && got < limit;
        let size = if complete { Some(got) } else { size };
        Ok(Peeked { start: io::Cursor::new(start), complete, size, rest: source })
    }
}

impl Read for Peeked<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.start.read(buf)? {
            0 if !self.complete => self.rest.read(buf),
            got => Ok(got),
        }
    }
}

impl Source for Peeked<'_> {
    fn size(&self) -> Option<u64> {
        self.size
    }

    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn changed(&mut self) -> io::Result<bool> {
        self.rest.changed()
    }
}

impl Pool {
    /// Puts an object: readers see the old version (or nothing) until the new one is complete and
    /// durable. Two puts of one name at a time are safe; the one that commits last stays.
    ///
    /// # Errors
    /// [`PoolError::Refused`] when the object is there and `replace` is not set, or when too few
    /// domains can be used; [`PoolError::Changed`]; input and store errors. Nothing is then
    /// changed, except with [`PoolError::UnderReplicated`].
    pub fn put(
        &self,
        req: &PutRequest<'_>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        let key = Key::of(req.name)?;
        let found = self.look(&key, req.name)?;
        refuse_existing(req, found.data())?;
        let mut source = Peeked::new(source, self.config.policy.largest_limit())?;
        let class = self.config.policy.class_of(source.size.unwrap_or(u64::MAX)).clone();
        let manifest = match class.is_inline() {
            true => self.put_inline(req, key, &mut source, settings)?,
            false => self.put_shards(req, key, &class, &mut source, settings)?,
        };
        let (code, nodes, missing) = match &manifest.body {
            Body::Shards(placed) => {
                let nodes: Vec<String> = placed.places.iter().map(|p| p.node.clone()).collect();
                let away = |i: &usize| self.store(&nodes[*i]).is_none();
                let missing = (0..nodes.len()).filter(away).collect();
                let spec: kiln_code::CodeSpec = placed.spec.parse()?;
                (spec.to_string(), nodes, missing)
            }
            _ => (crate::INLINE.to_owned(), Vec::new(), Vec::new()),
        };
        Ok(PutReport {
            object: manifest.name,
            size: manifest.size,
            version: manifest.version,
            run: names::hex(&manifest.run),
            code,
            nodes,
            manifests: manifest.copies,
            missing,
            seconds: 0.0,
        })
    }

    fn put_inline(
        &self,
        req: &PutRequest<'_>,
        key: Key,
        source: &mut Peeked<'_>,
        settings: &Settings<'_>,
    ) -> Result<Manifest> {
        let size = source.size.unwrap_or(0);
        settings.observer.begin("put", Some(size));
        let mut bytes = Vec::with_capacity(size as usize);
        let read = source.take(size + 1).read_to_end(&mut bytes);
        read.map_err(|source| PoolError::Input { source })?;
        if bytes.len() as u64 != size {
            return Err(PoolError::Changed { object: req.name.to_owned() });
        }
        check_unchanged(source, req.name)?;
        settings.observer.advance(size);
        let body = Body::Inline(bytes);
        self.finish_put(req, key, size, body, &[], settings)
    }

    fn put_shards(
        &self,
        req: &PutRequest<'_>,
        key: Key,
        class: &Class,
        source: &mut Peeked<'_>,
        settings: &Settings<'_>,
    ) -> Result<Manifest> {
        let codec = self.codec(&class.code)?;
        let (shape, spec) = (codec.shape(), codec.spec().explicit());
        let sub_chunk = class.sub_chunk.unwrap_or_else(|| default_sub_chunk(shape));
        let info = ShardInfo {
            spec: spec.clone(),
            object: req.name.to_owned(),
            run: req.run,
            source: [0; 16],
            index: 0,
            k: shape.k as u16,
            n: shape.n() as u16,
            alpha: shape.alpha as u32,
            sub_chunk,
            segment_stripes: segment_stripes(shape.alpha as u32, sub_chunk),
            size: source.size,
        };
        info.check()?;
        // Of a stream it is known only that it did not end where the last class begins.
        let least = Some(source.size.unwrap_or(self.config.policy.largest_limit()));
        let bytes = ShardInfo { size: least, ..info.clone() }.layout()?.trailer_offset();
        let nodes = self.places_for(&key, shape.n(), bytes)?;
        let parts = self.parts(req, key, &nodes);
        let staged_shard = |part: &Part<'_>| {
            let name = NodeFile::Shard { key, run: req.run, index: part.index as u16 }.name();
            StagedShard { node: nodes[part.index], part: part.name.clone(), name }
        };
        let staged_shards: Vec<StagedShard> = parts.iter().flatten().map(staged_shard).collect();
        let result = encode_shards(&codec, &info, &parts, 0, source, &self.settings(settings));
        let result = result.and_then(|(size, digests)| {
            let digests = digests.into_iter();
            let places = nodes
                .iter()
                .zip(digests)
                .map(|(&at, digest)| Place { node: self.nodes[at].config.id.clone(), digest });
            let body = Body::Shards(Placed {
                spec,
                k: info.k,
                alpha: info.alpha,
                sub_chunk,
                segment_stripes: info.segment_stripes,
                places: places.collect(),
            });
            self.finish_put(req, key, size, body, &staged_shards, settings)
        });
        result.inspect_err(|error| {
            if !matches!(error, PoolError::UnderReplicated { .. }) {
                self.remove_staged_shards(&staged_shards);
            }
        })
    }

    fn finish_put(
        &self,
        req: &PutRequest<'_>,
        key: Key,
        size: u64,
        body: Body,
        staged_shards: &[StagedShard],
        settings: &Settings<'_>,
    ) -> Result<Manifest> {
        let change =
            Change { key, name: req.name, now_ms: req.now_ms, thorough: false, staged_shards };
        let committed = self.commit(&change, settings, |found| {
            // Somebody else may have put it meanwhile.
            refuse_existing(req, found.data())?;
            Ok(Some(Manifest {
                pool: self.config.id_bytes(),
                name: req.name.to_owned(),
                version: 0,
                run: req.run,
                created_ms: req.now_ms,
                size,
                copies: Vec::new(),
                body,
            }))
        })?;
        committed.ok_or_else(|| PoolError::Internal { what: "a put without a manifest".into() })
    }

    /// Nodes for n shards of so many bytes, by position: those that can be used and have room
    /// first, then at most as many that are unavailable as the policy allows.
    fn places_for(&self, key: &Key, n: usize, bytes: u64) -> Result<Vec<usize>> {
        let WithRoom { mut chosen, full } =
            self.place_with_room(key, n, &[], bytes, PoolNode::is_here)?;
        let short = n - chosen.len();
        if short > 0 {
            let taken: Vec<&str> =
                chosen.iter().map(|&at| &self.nodes[at].config.domain[..]).collect();
            let (gone, candidates) = self.candidates(|node| !node.is_here());
            let more = place(key, &candidates, short, &taken);
            let allowed = self.config.policy.missing_at_put;
            if more.len() < short || short > allowed {
                let what = format!(
                    "{n} shards need nodes in {n} failure domains; {} are available, and at most \
                    {allowed} shards may be left out{}",
                    n - short,
                    self.without_room(&full)
                );
                return Err(PoolError::Refused { what });
            }
            chosen.extend(more.into_iter().map(|at| gone[at]));
        }
        Ok(chosen)
    }

    /// Where the shards of a put are written; nowhere, where nodes are unavailable.
    fn parts(&self, req: &PutRequest<'_>, key: Key, nodes: &[usize]) -> Vec<Option<Part<'_>>> {
        let (run, started) = (req.run, req.now_ms);
        let part = |(index, &node): (usize, &usize)| {
            let store = &**self.nodes[node].store().ok()?;
            let name = NodeFile::ShardPart { key, run, index: index as u16, started }.name();
            Some(Part { index, store, name })
        };
        nodes.iter().enumerate().map(part).collect()
    }

    /// Removes the shards of a put that failed, whatever they are called by now.
    fn remove_staged_shards(&self, staged_shards: &[StagedShard]) {
        for staged_shard in staged_shards {
            if let Ok(store) = self.nodes[staged_shard.node].store() {
                // The failure itself is what the user must see.
                let _ = store.remove(&staged_shard.part);
                let _ = store.remove(&staged_shard.name);
            }
        }
    }
}

fn refuse_existing(req: &PutRequest<'_>, there: Option<&Manifest>) -> Result<()> {
    match there {
        Some(there) if !req.replace => {
            let what = format!(
                "object {:?} exists already (version {}); ask to replace it",
                req.name, there.version
            );
            Err(PoolError::Refused { what })
        }
        _ => Ok(()),
    }
}
