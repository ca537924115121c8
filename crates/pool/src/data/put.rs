//! Put: sources become objects, or nothing changes.

use std::collections::BTreeSet;
use std::io::{self, Read};

use kiln_code::Codec;
use kiln_store::{ShardInfo, segment_stripes};
use kiln_stripe::encode::{check_unchanged, encode_shards};
use kiln_stripe::geometry::shared_sub_chunk;
use kiln_stripe::node::Part;
use kiln_stripe::sinks::in_parallel;
use kiln_stripe::{PoolError, Result, Settings, Source, StreamSource, names};
use serde::Serialize;

use crate::data::recoder::{InPlace, check_parts};
use crate::layout::{Body, Class, Place, Placed, place};
use crate::manifest::commit::{Change, StagedShard};
use crate::{
    Key, Manifest, NodeFile, data::capacity::WithRoom, data::cells::EncryptedSource,
    data::writer::ObjectWriter, layout::data_key::ObjectKey, map::cluster_map::PoolNode,
    map::presence::Asked,
};

/// Request to put.
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

/// Report of a put.
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
    /// The time of its manifest, in ms since 1970.
    #[serde(skip)]
    pub created_ms: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// Data that a put may replace: as [`PutRequest::replace`] says, or what the caller knows, if any.
pub type Over = Option<Option<[u8; 16]>>;

/// Most objects that are put, or removed, together.
pub const MAX_TOGETHER: usize = 1024;

/// An object to put, over what is known of it.
pub(crate) type Put<'a, 's> = (PutRequest<'a>, Before<'a>, &'s mut dyn Source);

/// An object whose data is durable where it goes, or here where that is its manifest.
struct Staged<'a> {
    req: PutRequest<'a>,
    before: Before<'a>,
    key: Key,
    size: u64,
    body: Body,
    /// The key of its data, in an encrypted pool.
    object_key: Option<ObjectKey>,
    shards: Vec<StagedShard>,
    /// Indices without one: their nodes cannot be used.
    missing: Vec<usize>,
    /// Announcement that the put has begun, where shards have their names already.
    announced: Option<(usize, String)>,
}

/// Knowledge of the object that is replaced.
#[derive(Copy, Clone)]
pub(crate) enum Before<'a> {
    /// As [`PutRequest::replace`] says.
    AsAsked,
    /// An object with data of just this identity, or none.
    Run(Option<[u8; 16]>),
    /// As [`PutRequest::replace`] says, and what is there was looked at.
    Seen(Option<&'a Manifest>),
    /// An object whose data is written anew by the code of a class: it stays as old as it is.
    Recode(&'a Rewrite<'a>),
}

/// Data that is written in another code.
pub(crate) struct Rewrite<'a> {
    pub manifest: &'a Manifest,
    pub class: &'a Class,
    /// Losses to survive, at least.
    pub least: i32,
    /// Data shards that stay on their nodes.
    pub in_place: Option<InPlace<'a>>,
}

impl<'a> Before<'a> {
    /// Data shards that stay where they are, and the stripes that their nodes write: in segments of
    /// another length.
    fn in_place(self, info: &mut ShardInfo) -> Result<Option<(&'a InPlace<'a>, u64)>> {
        let Before::Recode(Rewrite { in_place: Some(kept), .. }) = self else {
            return Ok(None);
        };
        let what = || PoolError::Refused { what: "the codes have other chunks".to_owned() };
        let (each, stripes) = kept.segments(info).ok_or_else(what)?;
        info.segment_stripes = each;
        Ok(Some((kept, stripes)))
    }
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
        let start = self.start.get_ref().len() as u64 - self.start.position();
        let here = bytes.min(start);
        self.start.set_position(self.start.position() + here);
        if here == bytes { Ok(()) } else { self.rest.skip(bytes - here) }
    }

    fn changed(&mut self) -> io::Result<bool> {
        self.rest.changed()
    }
}

impl ObjectWriter<'_> {
    /// Puts an object: readers see the old version (or nothing) until the new one is complete and
    /// durable. Two puts of one name at a time are safe; the one that commits last stays.
    ///
    /// # Errors
    /// [`PoolError::Exists`] when the object is there and `replace` is not set;
    /// [`PoolError::Refused`] when too few domains can be used; [`PoolError::Changed`]; input and
    /// store errors. Nothing is then changed, except with [`PoolError::UnderReplicated`].
    pub fn put(
        &self,
        req: &PutRequest<'_>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        self.put_one(req, Before::AsAsked, source, settings)
    }

    /// As [`ObjectWriter::put`], but only over the data that the caller knows (`None`: none), by
    /// its identity: of several who change an object, each knowing what the others did, one
    /// succeeds. A repair that moves an object leaves its identity as it is.
    /// [`PutRequest::replace`] is of no account.
    ///
    /// # Errors
    /// [`PoolError::Conflict`]: it is other data; as [`ObjectWriter::put`].
    pub fn put_over(
        &self,
        req: &PutRequest<'_>,
        over: Option<[u8; 16]>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        self.put_one(req, Before::Run(over), source, settings)
    }

    /// As [`ObjectWriter::put`], by a caller who looked which object is there: it is not asked for
    /// again before the data is written. Before the new object takes its place it is, as ever.
    pub fn put_seen(
        &self,
        req: &PutRequest<'_>,
        seen: Option<&Manifest>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        self.put_one(req, Before::Seen(seen), source, settings)
    }

    fn put_one<'a>(
        &self,
        req: &PutRequest<'a>,
        before: Before<'a>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        only(self.put_each(vec![(*req, before, source)], settings)?)
    }

    /// Puts several objects, as [`ObjectWriter::put`] does each of them or, where it is said what
    /// each replaces, [`ObjectWriter::put_over`]. Small ones are much faster this way: they share
    /// locks, questions and syncs. All are done when this returns, each with its own end, in order.
    /// Their data may be held in memory, so they should be small, or few.
    ///
    /// # Errors
    /// [`PoolError::Usage`] for more than [`MAX_TOGETHER`] objects, or a name that is there twice;
    /// what keeps all of them from being put, as a place that stays locked. Then nothing is
    /// changed.
    pub fn put_all(
        &self,
        puts: Vec<(PutRequest<'_>, Over, &mut dyn Source)>,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<PutReport>>> {
        let before = |over: Over| over.map_or(Before::AsAsked, Before::Run);
        let puts = puts.into_iter().map(|(req, over, source)| (req, before(over), source));
        self.put_each(puts.collect(), settings)
    }

    /// As [`ObjectWriter::put_all`], of bytes that are at hand.
    pub fn put_bytes(
        &self,
        puts: &[(PutRequest<'_>, Over, &[u8])],
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<PutReport>>> {
        let bytes = puts.iter().map(|(.., bytes)| *bytes);
        let mut sources: Vec<_> =
            bytes.map(|bytes| StreamSource::new(bytes).with_size(bytes.len() as u64)).collect();
        let puts = puts.iter().zip(&mut sources);
        let puts = puts.map(|((req, over, _), source)| (*req, *over, source as &mut dyn Source));
        self.put_all(puts.collect(), settings)
    }

    /// Puts objects together, each over what is known of it.
    pub(crate) fn put_each(
        &self,
        puts: Vec<Put<'_, '_>>,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<PutReport>>> {
        check_together(puts.iter().map(|(req, ..)| req.name))?;
        let count = puts.len().max(1);
        let each = self.map.settings(settings);
        let each = Settings {
            // One after the other has all threads, many have one each.
            threads: if count == 1 { each.threads } else { 1 },
            memory: each.memory / count as u64,
            ..each
        };
        let asked = self.map.asked();
        let staged = in_parallel(each.sequence, puts, |_, (req, before, source)| {
            Ok::<_, PoolError>(self.stage(req, before, source, &asked, &each))
        })?;
        let good: Vec<&Staged<'_>> = staged.iter().filter_map(|end| end.as_ref().ok()).collect();
        let ends = self.commit_staged(&good, settings).inspect_err(|_| {
            good.iter().for_each(|staged| self.remove_staged_shards(&staged.shards));
            good.iter().for_each(|staged| self.manifests.withdraw(staged.announced.as_ref()));
        })?;
        good.iter().for_each(|staged| self.manifests.withdraw(staged.announced.as_ref()));
        let mut ends = ends.into_iter();
        let end = |staged: Result<Staged<'_>>| {
            let staged = staged?;
            let end = ends.next().unwrap_or(Ok(None)).inspect_err(|error| {
                if !matches!(error, PoolError::UnderReplicated { .. }) {
                    self.remove_staged_shards(&staged.shards);
                }
            })?;
            let manifest =
                end.ok_or_else(|| PoolError::Internal { what: "a put without a manifest".into() })?;
            self.report(manifest, staged.missing)
        };
        Ok(staged.into_iter().map(end).collect())
    }

    /// Reads an object's data, and writes it where it goes, all but its manifest.
    fn stage<'a>(
        &self,
        req: PutRequest<'a>,
        before: Before<'a>,
        source: &mut dyn Source,
        asked: &Asked,
        settings: &Settings<'_>,
    ) -> Result<Staged<'a>> {
        let key = Key::of_object(req.name)?;
        // A recode moves what is stored.
        let object_key = match before {
            Before::Recode(..) => None,
            _ => self.map.config.new_object_key()?,
        };
        let mut source = Peeked::new(source, self.map.config.policy.largest_limit())?;
        let class = match before {
            Before::Recode(rewrite) => rewrite.class,
            _ => self.map.config.policy.class_of(source.size.unwrap_or(u64::MAX)),
        };
        // Before much is written. Data that lies in the manifest is looked for only once, when that
        // is replaced.
        match before {
            Before::Recode(..) => {}
            _ if class.is_inline() => {}
            Before::Seen(there) => refuse_existing(&req, before, there)?,
            _ => refuse_existing(&req, before, self.manifests.look(&key, req.name)?.data())?,
        }
        let object = (req, before, key);
        let stage = |source: &mut dyn Source| match class.is_inline() {
            true => stage_inline(object, source, settings),
            false => self.stage_shards(object, class, source, asked, settings),
        };
        let Some(object_key) = object_key else { return stage(&mut source) };
        let mut encrypted = EncryptedSource::new(&mut source, &object_key);
        let staged = stage(&mut encrypted)?;
        Ok(Staged { size: encrypted.taken, object_key: Some(object_key), ..staged })
    }

    fn stage_shards<'a>(
        &self,
        (req, before, key): (PutRequest<'a>, Before<'a>, Key),
        class: &Class,
        source: &mut dyn Source,
        asked: &Asked,
        settings: &Settings<'_>,
    ) -> Result<Staged<'a>> {
        let codec = self.map.codec(&class.code)?;
        let (shape, spec) = (codec.shape(), codec.spec().explicit());
        let sub_chunk = class.sub_chunk.unwrap_or_else(|| shared_sub_chunk(shape, settings));
        let mut info = ShardInfo {
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
            size: source.size(),
            sums: self.map.config.sums(),
        };
        info.check()?;
        let in_place = before.in_place(&mut info)?;
        // Of a stream it is known only that it did not end where the last class begins.
        let least = Some(source.size().unwrap_or(self.map.config.policy.largest_limit()));
        let bytes = ShardInfo { size: least, ..info.clone() }.layout()?.trailer_offset();
        let nodes = match &in_place {
            Some((kept, _)) => kept.places(self, (&key, shape.n(), bytes), asked)?,
            None => self.places_for(&key, shape.n(), bytes, asked)?,
        };
        let parts = self.parts(&req, key, &nodes, asked);
        let staged_shard = |part: &Part<'_>| {
            let name = NodeFile::Shard { key, run: req.run, index: part.index as u16 }.name();
            StagedShard { node: nodes[part.index], part: part.name.clone(), name }
        };
        let shards: Vec<StagedShard> = parts.iter().flatten().map(staged_shard).collect();
        let missing: Vec<usize> =
            (0..parts.len()).filter(|index| parts[*index].is_none()).collect();
        refuse_less_safe(&req, before, &codec, &missing)?;
        let announced =
            self.manifests.announce(key, (req.run, req.now_ms), nodes.iter().copied(), asked)?;
        let id = |at: usize| self.map.nodes[at].config.id.clone();
        let first = in_place.map_or(Ok(0), |(kept, stripes)| {
            check_parts(&parts)?;
            let files = shards.iter().map(|shard| (id(shard.node), shard.part.clone()));
            kept.write(&codec, &info, files.collect(), stripes).map(|()| stripes)
        });
        let result =
            first.and_then(|first| encode_shards(&codec, &info, &parts, first, source, settings));
        let (size, digests) = result.inspect_err(|_| {
            self.remove_staged_shards(&shards);
            self.manifests.withdraw(announced.as_ref());
        })?;
        let (places, object_key) = (nodes.iter().zip(digests), None);
        let places = places.map(|(&at, digest)| Place { node: id(at), digest });
        let body = Body::Shards(Placed {
            spec,
            k: info.k,
            alpha: info.alpha,
            sub_chunk,
            segment_stripes: info.segment_stripes,
            sums: info.sums,
            places: places.collect(),
        });
        Ok(Staged { req, before, key, size, body, object_key, shards, missing, announced })
    }

    /// Makes what was staged the newest versions.
    fn commit_staged<'s>(
        &self,
        staged: &[&'s Staged<'s>],
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<Option<Manifest>>>> {
        if staged.is_empty() {
            return Ok(Vec::new());
        }
        let change = |staged: &&'s Staged<'s>| Change {
            key: staged.key,
            name: staged.req.name,
            now_ms: staged.req.now_ms,
            thorough: false,
            keeps: !matches!(staged.before, Before::Recode(..)),
            staged_shards: &staged.shards,
        };
        let changes: Vec<Change<'_>> = staged.iter().map(change).collect();
        self.manifests.commit_all(&changes, settings, |of, found| {
            let (staged, req) = (staged[of], &staged[of].req);
            // Another client may have put it meanwhile.
            refuse_existing(req, staged.before, found.data())?;
            let config = &self.map.config;
            let (created_ms, size, key) = match (staged.before, &staged.object_key) {
                (Before::Recode(rewrite), _) => {
                    let old = rewrite.manifest;
                    (old.created_ms, old.size, old.key.clone())
                }
                (_, Some(key)) => {
                    let wrapped = config.wrap(key, req.name, staged.size)?;
                    (req.now_ms, staged.size, Some(wrapped))
                }
                (_, None) => (req.now_ms, staged.size, None),
            };
            Ok(Some(Manifest {
                pool: config.id_bytes(),
                name: req.name.to_owned(),
                version: 0,
                run: req.run,
                created_ms,
                size,
                copies: Vec::new(),
                body: staged.body.clone(),
                kept: None,
                key,
            }))
        })
    }

    fn report(&self, manifest: Manifest, missing: Vec<usize>) -> Result<PutReport> {
        let (code, nodes) = match &manifest.body {
            Body::Shards(placed) => {
                let nodes: Vec<String> = placed.places.iter().map(|p| p.node.clone()).collect();
                let spec: kiln_code::CodeSpec = placed.spec.parse()?;
                (spec.to_string(), nodes)
            }
            _ => (crate::layout::INLINE.to_owned(), Vec::new()),
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
            created_ms: manifest.created_ms,
            seconds: 0.0,
        })
    }

    /// Nodes for n shards of so many bytes, by position: those that can be used and have room
    /// first, then at most as many that are unavailable as the policy allows.
    fn places_for(&self, key: &Key, n: usize, bytes: u64, asked: &Asked) -> Result<Vec<usize>> {
        let stays = |at: &usize| !self.map.nodes[*at].config.is_leaving();
        self.map.enter((0..self.map.nodes.len()).filter(stays));
        let WithRoom { mut chosen, full, gone } =
            self.place_with_room(key, n, &[], bytes, asked)?;
        let short = n - chosen.len();
        if short > 0 {
            let taken: Vec<&str> =
                chosen.iter().map(|&at| &self.map.nodes[at].config.domain[..]).collect();
            let gone: Vec<&str> =
                gone.iter().map(|at| &self.map.nodes[*at].config.id[..]).collect();
            let is_away = |node: &PoolNode| !node.is_here() || gone.contains(&&node.config.id[..]);
            let (away, candidates) = self.map.candidates(is_away);
            let more = place(key, &candidates, short, &taken);
            let allowed = self.map.config.policy.missing_at_put;
            if more.len() < short || short > allowed {
                let what = format!(
                    "{n} shards need nodes in {n} failure domains; {} are available, and at most \
                    {allowed} shards may be left out{}",
                    n - short,
                    self.without_room(&full)
                );
                return Err(match full.is_empty() {
                    true => PoolError::Refused { what },
                    false => PoolError::Full { what },
                });
            }
            chosen.extend(more.into_iter().map(|at| away[at]));
        }
        Ok(chosen)
    }

    /// Returns where the shards of a put are written; nowhere, where nodes are unavailable.
    fn parts(
        &self,
        req: &PutRequest<'_>,
        key: Key,
        nodes: &[usize],
        asked: &Asked,
    ) -> Vec<Option<Part<'_>>> {
        let (run, started) = (req.run, req.now_ms);
        let part = |(index, &node): (usize, &usize)| {
            self.map.is_still(node, asked).then_some(())?;
            let store = &**self.map.nodes[node].store().ok()?;
            let index16 = index as u16;
            let name = match self.manifests.is_direct(node) {
                true => NodeFile::Shard { key, run, index: index16 }.name(),
                false => NodeFile::ShardPart { key, run, index: index16, started }.name(),
            };
            Some(Part { index, store, name })
        };
        nodes.iter().enumerate().map(part).collect()
    }

    /// Removes the shards of a put that failed, whatever they are called by now.
    fn remove_staged_shards(&self, staged_shards: &[StagedShard]) {
        for staged_shard in staged_shards {
            if let Ok(store) = self.map.nodes[staged_shard.node].store() {
                // The failure itself is what the user must see.
                let _ = store.remove(&staged_shard.part);
                let _ = store.remove(&staged_shard.name);
            }
        }
    }
}

/// Refuses to recode an object that then would survive fewer losses than it must.
fn refuse_less_safe(
    req: &PutRequest<'_>,
    before: Before<'_>,
    codec: &Codec,
    missing: &[usize],
) -> Result<()> {
    match before {
        Before::Recode(rewrite) if codec.margin(missing) < rewrite.least => {
            let what = format!(
                "object {:?}: nodes of {} of its new shards are unavailable; bring them back, or \
                 give --lower-safety",
                req.name,
                missing.len()
            );
            Err(PoolError::Refused { what })
        }
        _ => Ok(()),
    }
}

/// Reads data that is to lie in the manifest.
fn stage_inline<'a>(
    (req, before, key): (PutRequest<'a>, Before<'a>, Key),
    source: &mut dyn Source,
    settings: &Settings<'_>,
) -> Result<Staged<'a>> {
    let size = source.size().unwrap_or(0);
    settings.observer.begin("put", Some(size));
    let mut bytes = Vec::with_capacity(size as usize);
    let read = source.take(size + 1).read_to_end(&mut bytes);
    read.map_err(|source| PoolError::Input { source })?;
    if bytes.len() as u64 != size {
        return Err(PoolError::Changed { object: req.name.to_owned() });
    }
    check_unchanged(source, req.name)?;
    settings.observer.advance(size);
    let (body, shards, missing) = (Body::Inline(bytes), Vec::new(), Vec::new());
    let (object_key, announced) = (None, None);
    Ok(Staged { req, before, key, size, body, object_key, shards, missing, announced })
}

/// Returns how a change of one object ended.
pub(crate) fn only<T>(ends: Vec<Result<T>>) -> Result<T> {
    let none = || Err(PoolError::Internal { what: "a change without an end".into() });
    ends.into_iter().next().unwrap_or_else(none)
}

/// Refuses what cannot be changed together.
pub(crate) fn check_together<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<()> {
    if names.len() > MAX_TOGETHER {
        let what = format!("{} objects at once, the limit is {MAX_TOGETHER}", names.len());
        return Err(PoolError::Usage { what });
    }
    let mut seen = BTreeSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => {
            let what = format!("{name:?} is there twice among objects to change together");
            Err(PoolError::Usage { what })
        }
        None => Ok(()),
    }
}

fn refuse_existing(
    req: &PutRequest<'_>,
    before: Before<'_>,
    there: Option<&Manifest>,
) -> Result<()> {
    let expected = match before {
        Before::Run(expected) => Some(expected),
        Before::Recode(rewrite) => Some(Some(rewrite.manifest.run)),
        Before::AsAsked | Before::Seen(_) => None,
    };
    match (expected, there) {
        (None, Some(there)) if !req.replace => {
            let what = format!("object {:?} exists already (version {})", req.name, there.version);
            Err(PoolError::Exists { what })
        }
        (Some(expected), there) if expected != there.map(|there| there.run) => {
            Err(PoolError::Conflict { name: req.name.to_owned() })
        }
        _ => Ok(()),
    }
}
