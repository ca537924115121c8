//! Recode: objects that are stored in one code are written in another one, which takes its place.
//!
//! An object is decoded a few stripes ahead of the encoder, written as a new run, and committed
//! over the run that was read. A client that puts or removes it meanwhile wins. A crash leaves the
//! old run, or the new one; what was recoded is skipped the next time.

use std::collections::BTreeMap;

use kiln_code::{Codec, Shape};
use kiln_store::{Layout, segment_stripes};
use kiln_stripe::decode::DecodedSource;
use kiln_stripe::{PoolError, Quiet, Result, Settings, Silent, default_sub_chunk};
use serde::Serialize;

use crate::data::put::{Before, Put, PutReport, PutRequest, Rewrite};
use crate::data::recoder::{InPlace, Recoder, common_segments};
use crate::index::{Index, Listed};
use crate::layout::{Body, Class, place, tier};
use crate::{Key, Manifest, data::shards::ObjectShards, data::writer::ObjectWriter};

/// Most objects that are recoded together, and most bytes of them.
const TOGETHER: usize = 256;
const TOGETHER_BYTES: u64 = 16 << 20;
/// Failures told one by one.
const MOST_TOLD: usize = 1000;

/// Request to recode objects.
pub struct RecodeRequest<'a> {
    /// Names of objects and folders; an empty one is that of the whole pool.
    pub names: &'a [String],
    /// Names of objects that are left alone.
    pub skip: &'a dyn Fn(&str) -> bool,
    /// Spec of the code; `None`: the one that the pool gives an object of the size and age.
    pub to: Option<&'a str>,
    /// Bytes of objects after which to stop.
    pub at_most: u64,
    /// Allows a code that survives fewer losses than the one before.
    pub lower_safety: bool,
    /// Write nothing, tell what would be done.
    pub dry_run: bool,
    /// Nodes that recode the shards that they have, where the codes have the same data chunks.
    pub nodes: Option<&'a dyn Recoder>,
    /// Gives a fresh random identity, and the time in ms since 1970.
    pub fresh: &'a dyn Fn() -> ([u8; 16], u64),
}

/// Bytes of chunks that a conversion moves.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Moved {
    fn add(&mut self, more: Moved) {
        self.read += more.read;
        self.written += more.written;
    }
}

/// Report of recoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecodeReport {
    /// Objects of these names and in these folders.
    pub objects: u64,
    /// Of these, those that have the code already.
    pub already: u64,
    /// Of these, those that lie in their manifests and stay there.
    pub inline: u64,
    /// Objects recoded (in a dry run, that would be).
    pub recoded: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these objects, those that were rebuilt from what was left of them.
    pub degraded: u64,
    /// Objects that were replaced or removed meanwhile, and are as that left them.
    pub changed: u64,
    /// Recoded objects by the code that they had.
    pub from: BTreeMap<String, u64>,
    /// Chunk bytes moved.
    pub moved: Moved,
    /// Chunk bytes that the plans of recoded objects move.
    pub planned: Moved,
    /// Least that moves where no parity follows from the old ones and data stays in place: data
    /// read once, parity written once.
    pub bound: Moved,
    /// Recoded objects whose data stayed on its nodes, which wrote its shards anew.
    pub in_place: u64,
    /// Chunk bytes that passed the client.
    pub client: Moved,
    /// Bytes that nodes sent to each other.
    pub sent: u64,
    /// Why nodes were asked, and the client did it all the same: that of the last object.
    pub not_in_place: Option<String>,
    /// Objects that could not be recoded, and why; at most 1000.
    pub failed: Vec<(String, String)>,
    /// Number that could not be recoded.
    pub failed_count: u64,
    /// A dry run.
    pub dry_run: bool,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// An object that is recoded.
struct Job {
    manifest: Manifest,
    class: Class,
    /// Bytes of all new chunks of the stripes that nodes can write.
    common: u64,
    /// Its share of the report.
    done: RecodeReport,
}

impl ObjectWriter<'_> {
    /// Writes objects in another code. Each is as old as before, and has the same bytes, under
    /// another identity. The index must be fresh.
    ///
    /// # Errors
    /// [`PoolError::NoObject`] where there is none of a name; [`PoolError::Refused`] for a code
    /// that the pool has no place for, or that survives fewer losses. Nothing is then written. An
    /// object that cannot be recoded is in the report, and the others are recoded.
    pub fn recode(
        &self,
        index: &Index,
        req: &RecodeRequest<'_>,
        settings: &Settings<'_>,
    ) -> Result<RecodeReport> {
        let mut report = RecodeReport { dry_run: req.dry_run, ..RecodeReport::default() };
        let todo = self.selected(index, req, &mut report)?;
        settings.observer.begin("recode", Some(todo.iter().map(|(_, size)| size).sum()));
        let mut rest = &todo[..];
        while !rest.is_empty() && report.bytes < req.at_most {
            let mut bytes = 0;
            let fits = |(_, size): &&(String, u64)| {
                bytes += size;
                bytes <= TOGETHER_BYTES
            };
            let count = rest.iter().take(TOGETHER).take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let names: Vec<&str> = now.iter().map(|(name, _)| &name[..]).collect();
            let ends = match self.recode_together(&names, req, settings) {
                Err(_) if names.len() > 1 => {
                    let one = |name: &&str| match self.recode_together(&[name], req, settings) {
                        Ok(mut ends) => ends.pop().unwrap_or(Ok(None)),
                        Err(error) => Err(error),
                    };
                    names.iter().map(one).collect()
                }
                Err(error) => vec![Err(error)],
                Ok(ends) => ends,
            };
            for (name, end) in names.into_iter().zip(ends) {
                report.count(name, end);
            }
            rest = later;
        }
        Ok(report)
    }

    /// Returns names and sizes of objects with another code, once all of them may be recoded.
    fn selected(
        &self,
        index: &Index,
        req: &RecodeRequest<'_>,
        report: &mut RecodeReport,
    ) -> Result<Vec<(String, u64)>> {
        let mut todo = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for name in req.names {
            let (below, mut none) = (format!("{name}/"), true);
            index.each(name, None, |listed| {
                let inside = listed.name.starts_with(&below);
                if !(inside || listed.name == *name || name.is_empty()) || (req.skip)(&listed.name)
                {
                    return Ok(true);
                }
                none = false;
                if todo.contains_key(&listed.name) {
                    return Ok(true);
                }
                let class = self.wanted(req, listed.size, listed.created_ms)?;
                let wanted = match listed.k == 0 || class.is_inline() {
                    true => {
                        report.inline += 1;
                        false
                    }
                    false => self.check_pair(&listed, &class, req, &mut seen)?,
                };
                todo.insert(listed.name, wanted.then_some(listed.size));
                Ok(true)
            })?;
            if none && !name.is_empty() {
                return Err(PoolError::NoObject { name: name.clone() });
            }
        }
        report.objects = todo.len() as u64;
        let todo: Vec<_> =
            todo.into_iter().filter_map(|(name, size)| Some((name, size?))).collect();
        report.already = report.objects - report.inline - todo.len() as u64;
        Ok(todo)
    }

    /// The class of an object of this size in the wanted code.
    fn wanted(&self, req: &RecodeRequest<'_>, size: u64, created_ms: u64) -> Result<Class> {
        let config = &self.map.config;
        let own = config.policy.class_of(size);
        let Some(spec) = req.to else {
            let age_ms = (req.fresh)().1.saturating_sub(created_ms);
            return Ok(tier::class_of(&config.policy, &config.tier, size, age_ms));
        };
        let wanted = self.map.codec(spec)?.spec().explicit();
        if !own.is_inline() && self.map.codec(&own.code)?.spec().explicit() == wanted {
            return Ok(own.clone());
        }
        Ok(Class { below: None, code: spec.to_owned(), sub_chunk: None })
    }

    /// Returns whether an object has another code than that of a class, which must have its place
    /// here and be as safe. Pairs of codes that were `seen` are not looked at again.
    fn check_pair(
        &self,
        listed: &Listed,
        class: &Class,
        req: &RecodeRequest<'_>,
        seen: &mut BTreeMap<(String, String), bool>,
    ) -> Result<bool> {
        let pair = (listed.code.clone(), class.code.clone());
        if let Some(differs) = seen.get(&pair) {
            return Ok(*differs);
        }
        let (old, new) = (self.map.codec(&listed.code)?, self.map.codec(&class.code)?);
        let differs = old.spec().explicit() != new.spec().explicit();
        if differs {
            self.check_place(&new)?;
            let (before, after) = (old.margin(&[]), new.margin(&[]));
            if after < before && !req.lower_safety {
                let what = format!(
                    "code {}: it survives fewer losses than {} of {:?} ({after}, not {before}); \
                     --lower-safety allows that",
                    new.spec(),
                    old.spec(),
                    listed.name
                );
                return Err(PoolError::Refused { what });
            }
        }
        seen.insert(pair, differs);
        Ok(differs)
    }

    /// Refuses a code that has more shards than the pool domains, or needs more copies of
    /// manifests.
    fn check_place(&self, codec: &Codec) -> Result<()> {
        let Shape { k, m, .. } = codec.shape();
        let (_, members) = self.map.candidates(|node| node.config.state.is_in());
        let domains = place(&Key::of("any")?, &members, members.len(), &[]).len();
        let copies = self.map.config.policy.manifest_copies;
        let (spec, n) = (codec.spec(), k + m);
        let what = if domains < n {
            format!("code {spec}: it needs nodes in {n} distinct domains, there are {domains}")
        } else if copies <= m {
            format!(
                "code {spec}: {m} shards may be lost, and with them the {copies} copies of a \
                 manifest; kiln pool recode --new-objects --to {spec} has more copies made first"
            )
        } else {
            return Ok(());
        };
        Err(PoolError::Refused { what })
    }

    /// Recodes objects together; `None`: it was replaced or removed meanwhile.
    fn recode_together(
        &self,
        names: &[&str],
        req: &RecodeRequest<'_>,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<Option<Job>>>> {
        let found = self.manifests.manifests(names)?;
        let mut ends: Vec<Result<Option<Job>>> = names.iter().map(|_| Ok(None)).collect();
        let mut todo = Vec::new();
        for (at, manifest) in found.into_iter().enumerate() {
            ends[at] = manifest.map_or(Ok(None), |manifest| self.job(manifest, req));
            match &mut ends[at] {
                Ok(Some(job)) if req.dry_run => settings.observer.advance(job.manifest.size),
                Ok(job) => todo.extend(job.take().map(|job| (at, job))),
                Err(_) => {}
            }
        }
        let opened = self.map.in_parallel(todo, |_, (at, job)| {
            Ok::<_, PoolError>((at, ObjectShards::open(self.map, &job.manifest), job))
        })?;
        let mut jobs = Vec::with_capacity(opened.len());
        for (at, shards, mut job) in opened {
            match shards {
                Ok(shards) => match self.recode_in_place(&mut job, &shards, req, settings) {
                    Some(Ok(true)) => ends[at] = Ok(Some(job)),
                    Some(Ok(false)) => {}
                    Some(Err(error)) => ends[at] = Err(error),
                    None => jobs.push((at, job, shards)),
                },
                Err(error) => ends[at] = Err(error),
            }
        }
        self.recode_here(jobs, &mut ends, req, settings)?;
        Ok(ends)
    }

    /// Has the nodes of an object recode it: whether they did, or it was replaced meanwhile.
    /// `None`: they cannot, and nothing is left of what they did.
    fn recode_in_place(
        &self,
        job: &mut Job,
        shards: &ObjectShards,
        req: &RecodeRequest<'_>,
        settings: &Settings<'_>,
    ) -> Option<Result<bool>> {
        let nodes = req.nodes.filter(|_| job.common > 0)?;
        let in_place = Some(InPlace::new(nodes, shards)?);
        let least = if req.lower_safety { 0 } else { shards.codec.margin(&[]) };
        let (manifest, class) = (&job.manifest, &job.class);
        let rewrite = Rewrite { manifest, class, least, in_place };
        let (run, now_ms) = (req.fresh)();
        let put = PutRequest { name: &job.manifest.name, run, now_ms, replace: true };
        let half = Settings { memory: settings.memory / 2, ..*settings };
        let reads = Settings { observer: &Silent, ..self.map.settings(&half) };
        let writes = Settings { observer: &Quiet(settings.observer), ..half };
        let mut source = DecodedSource::new(shards, &reads);
        let ends = self.put_each(vec![(put, Before::Recode(&rewrite), &mut source)], &writes);
        match ends.map(|mut ends| ends.pop()) {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(PoolError::Conflict { .. }))) => return Some(Ok(false)),
            // Its shards are those of a put: the commit may yet become the one that counts.
            Ok(Some(Err(error @ PoolError::UnderReplicated { .. }))) => return Some(Err(error)),
            Ok(Some(Err(error))) | Err(error) => {
                job.done.not_in_place = Some(error.to_string());
                return None;
            }
            Ok(None) => return None,
        }
        let moved = rewrite.in_place.map(|kept| kept.moved.into_inner());
        let moved = moved.and_then(std::result::Result::ok).unwrap_or_default();
        let (here, done) = (source.bytes_read, &mut job.done);
        let written = done.planned.written.saturating_sub(job.common);
        done.client = Moved { read: here, written };
        done.moved = Moved { read: here + moved.read, written: written + moved.written };
        (done.in_place, done.sent) = (1, moved.sent);
        settings.observer.advance(job.manifest.size.saturating_sub(here));
        Some(Ok(true))
    }

    /// Recodes objects through this client.
    fn recode_here(
        &self,
        jobs: Vec<(usize, Job, ObjectShards)>,
        ends: &mut [Result<Option<Job>>],
        req: &RecodeRequest<'_>,
        settings: &Settings<'_>,
    ) -> Result<()> {
        let settings = Settings { memory: settings.memory / 2, ..*settings };
        let count = jobs.len().max(1);
        let reads = Settings {
            observer: &Silent,
            memory: settings.memory / count as u64,
            threads: if count == 1 { settings.threads } else { 1 },
            ..self.map.settings(&settings)
        };
        let writes = Settings { observer: &Quiet(settings.observer), ..settings };
        let mut sources: Vec<DecodedSource<'_>> =
            jobs.iter().map(|(_, _, shards)| DecodedSource::new(shards, &reads)).collect();
        let mut rewrites = Vec::with_capacity(jobs.len());
        for (_, job, shards) in &jobs {
            let least = match req.lower_safety {
                true => 0,
                false => shards.codec.margin(&shards.gone()),
            };
            let (manifest, class) = (&job.manifest, &job.class);
            rewrites.push(Rewrite { manifest, class, least, in_place: None });
        }
        let all = rewrites.iter().zip(&mut sources);
        let puts = all.map(|(rewrite, source)| -> Put<'_, '_> {
            let before = Before::Recode(rewrite);
            let (run, now_ms) = (req.fresh)();
            let name = &rewrite.manifest.name;
            (PutRequest { name, run, now_ms, replace: true }, before, source)
        });
        let puts = self.put_each(puts.collect(), &writes)?;
        drop(rewrites);
        let read = |source: DecodedSource<'_>| (source.bytes_read, source.degraded, source.error);
        let read: Vec<_> = sources.into_iter().map(read).collect();
        for (((at, job, _), read), put) in jobs.into_iter().zip(read).zip(puts) {
            ends[at] = self.ended(job, read, put);
        }
        Ok(())
    }

    /// The way from an object's code to that of its class; `None`: it has that meanwhile.
    fn job(&self, manifest: Manifest, req: &RecodeRequest<'_>) -> Result<Option<Job>> {
        let Body::Shards(placed) = &manifest.body else { return Ok(None) };
        let class = self.wanted(req, manifest.size, manifest.created_ms)?;
        let codec = self.map.codec(&class.code)?;
        if class.is_inline() || placed.spec == codec.spec().explicit() {
            return Ok(None);
        }
        let shape = codec.shape();
        let (k, alpha) = (shape.k as u16, shape.alpha as u32);
        let sub_chunk = class.sub_chunk.unwrap_or_else(|| default_sub_chunk(shape));
        let stripes = segment_stripes(alpha, sub_chunk);
        let (size, sums) = (Some(manifest.stored_size()), self.map.config.sums());
        let new = Layout::new(k, alpha, sub_chunk, stripes, size, sums)?;
        let old = manifest.shard_info(0).map(|info| info.layout()).transpose()?;
        let chunks = |layout: &Layout, count: u64| layout.data_bytes().saturating_mul(count);
        let planned = Moved {
            read: old.as_ref().map_or(0, |old| chunks(old, placed.k.into())),
            written: chunks(&new, shape.n() as u64),
        };
        let parity = manifest.size.saturating_mul(shape.m as u64).div_ceil(shape.k as u64);
        let bound = Moved { read: manifest.size, written: parity };
        let from = BTreeMap::from([(self.map.codec(&placed.spec)?.spec().to_string(), 1)]);
        let segments = old.and_then(|old| common_segments(&old, placed.k, (k, alpha, sub_chunk)));
        let chunk = u64::from(alpha) * u64::from(sub_chunk);
        let common = segments.map_or(0, |(_, stripes)| stripes * chunk * shape.n() as u64);
        let bytes = manifest.size;
        let done = RecodeReport { from, planned, bound, bytes, ..RecodeReport::default() };
        Ok(Some(Job { manifest, class, common, done }))
    }

    fn ended(
        &self,
        mut job: Job,
        (read, degraded, why): (u64, bool, Option<PoolError>),
        put: Result<PutReport>,
    ) -> Result<Option<Job>> {
        match put {
            Ok(put) => {
                let (n, missing) = (put.nodes.len() as u64, put.missing.len() as u64);
                let written = job.done.planned.written / n.max(1) * (n - missing);
                job.done.degraded = u64::from(degraded);
                job.done.moved = Moved { read, written };
                job.done.client = job.done.moved;
                Ok(Some(job))
            }
            Err(PoolError::Conflict { .. }) => Ok(None),
            Err(error) => {
                // Its shards may be gone because it was replaced.
                let name = &job.manifest.name;
                let now = self.manifests.look(&Key::of(name)?, name)?;
                match now.data().is_some_and(|now| now.run == job.manifest.run) {
                    true => Err(why.unwrap_or(error)),
                    false => Ok(None),
                }
            }
        }
    }
}

impl RecodeReport {
    fn count(&mut self, name: &str, end: Result<Option<Job>>) {
        match end {
            Ok(Some(Job { done, .. })) => {
                self.recoded += 1;
                self.bytes += done.bytes;
                self.degraded += done.degraded;
                done.from
                    .into_iter()
                    .for_each(|(code, _)| *self.from.entry(code).or_default() += 1);
                self.moved.add(done.moved);
                self.planned.add(done.planned);
                self.bound.add(done.bound);
                self.client.add(done.client);
                self.in_place += done.in_place;
                self.sent += done.sent;
                self.not_in_place = done.not_in_place.or(self.not_in_place.take());
            }
            Ok(None) => self.changed += 1,
            Err(error) => {
                self.failed_count += 1;
                if self.failed.len() < MOST_TOLD {
                    self.failed.push((name.to_owned(), error.to_string()));
                }
            }
        }
    }
}
