//! Sorting files into encode runs, and choosing one.

use std::collections::{BTreeMap, BTreeSet};

use kiln_store::{Digest, ShardInfo, ShardReader, ShardState, StoreError};
use kiln_stripe::names::{self, Kind};
use kiln_stripe::{Damage, Node, PoolError, Result};

use super::scan::{Found, Opened, Scan};
use super::{ForeignFile, Member, ShardSet, codec_of};

/// Files of one encode run.
#[derive(Debug, Default)]
pub(crate) struct EncodeRun {
    /// Shards in place; parts too, when the run's commit has begun.
    pub shards: Vec<(Found, ShardReader)>,
    /// Some of them are parts.
    pub pending: bool,
    /// Parts of a run whose commit has not begun: nothing to readers.
    pub parts: Vec<(Found, ShardReader)>,
}

impl EncodeRun {
    /// The info on which most shards agree, index and size apart.
    fn info(&self) -> Option<ShardInfo> {
        let same = |info: &ShardInfo| ShardInfo { index: 0, size: None, ..info.clone() };
        let mut votes: Vec<(ShardInfo, usize)> = Vec::new();
        for (_, reader) in &self.shards {
            let info = same(reader.info());
            match votes.iter_mut().find(|(seen, _)| *seen == info) {
                Some((_, count)) => *count += 1,
                None => votes.push((info, 1)),
            }
        }
        majority(votes)
    }

    /// The different indices it has, as far as they agree.
    fn indices(&self) -> BTreeSet<usize> {
        let Some(info) = self.info() else { return BTreeSet::new() };
        let same = |other: &&ShardInfo| agrees(&info, other);
        let infos = self.shards.iter().map(|(_, reader)| reader.info());
        infos.filter(same).map(|other| usize::from(other.index)).collect()
    }

    /// Returns whether its shards give the object back. Of a code that cannot be had as many are
    /// enough as the code has data, so that the code is what is complained about.
    fn is_decodable(&self) -> bool {
        let (Some(info), indices) = (self.info(), self.indices()) else { return false };
        let lost = (0..usize::from(info.n)).filter(|index| !indices.contains(index));
        match codec_of(&info) {
            Ok(codec) => codec.tolerates(&lost.collect::<Vec<_>>()),
            Err(_) => indices.len() >= usize::from(info.k),
        }
    }

    fn describe(&self) -> String {
        let Some(info) = self.info() else { return "a run without shards".to_owned() };
        let (here, n, k) = (self.indices().len(), info.n, info.k);
        let more = if here >= usize::from(k) { " of others" } else { "" };
        format!("run {}: {here} of {n} shards, needs {k}{more}", names::hex(&info.run))
    }
}

fn agrees(info: &ShardInfo, other: &ShardInfo) -> bool {
    ShardInfo { index: 0, size: None, ..other.clone() } == *info && other.index < info.n
}

/// The most frequent; the earlier one of two equally frequent.
fn majority<T>(votes: Vec<(T, usize)>) -> Option<T> {
    votes.into_iter().rev().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

/// All runs of one object.
#[derive(Debug)]
pub(crate) struct EncodeRuns {
    pub object: String,
    /// By run identifier.
    pub runs: BTreeMap<[u8; 16], EncodeRun>,
    /// Files named like shards that are none.
    pub broken: Vec<(Found, StoreError)>,
    /// Notes so far.
    pub notes: Vec<String>,
}

impl EncodeRuns {
    /// Sorts what was found; `object` as for [`super::discover`].
    pub(crate) fn new(scan: Scan, nodes: &[Node], object: Option<&str>) -> Result<EncodeRuns> {
        let object = match object {
            Some(object) => object.to_owned(),
            None => only_object(&scan)?,
        };
        let failures = scan.failures.iter();
        let notes =
            failures.map(|(node, error)| format!("node {}: {error}", nodes[*node].name)).collect();
        let mut runs = EncodeRuns { object, runs: BTreeMap::new(), broken: Vec::new(), notes };
        for (found, opened) in scan.found {
            match opened {
                Ok(reader) if reader.info().object != runs.object => {}
                Ok(reader) => {
                    let run = runs.runs.entry(reader.info().run).or_default();
                    match found.kind {
                        Kind::Final => run.shards.push((found, reader)),
                        Kind::Part => run.parts.push((found, reader)),
                        Kind::RepairPart => {}
                    }
                }
                Err(error) if found.kind == Kind::Final => runs.broken.push((found, error)),
                Err(_) => {}
            }
        }
        for run in runs.runs.values_mut() {
            run.begin_commit();
        }
        let has_shards = runs.runs.values().any(|run| !run.shards.is_empty());
        if !has_shards && runs.broken.iter().all(|(f, _)| !names_object(f, &runs.object)) {
            let object = Some(runs.object);
            return Err(PoolError::NotFound { object, places: scan.places });
        }
        Ok(runs)
    }

    /// Chooses the run to work with; with `any`, the one with most shards where none is decodable.
    pub(crate) fn choose(mut self, nodes: &[Node], any: bool) -> Result<ShardSet> {
        let decodable: Vec<[u8; 16]> =
            (self.runs.iter()).filter(|(_, run)| run.is_decodable()).map(|(id, _)| *id).collect();
        let lines = |ids: &mut dyn Iterator<Item = &EncodeRun>| {
            ids.filter(|r| !r.shards.is_empty())
                .map(EncodeRun::describe)
                .collect::<Vec<_>>()
                .join("; ")
        };
        // A run whose commit has begun is the one that replaces the other.
        let pending: Vec<_> =
            decodable.iter().copied().filter(|id| self.runs[id].pending).collect();
        let id = match (&decodable[..], &pending[..]) {
            ([only], _) | (_, [only]) => *only,
            ([], _) if any && self.fullest().is_some() => self.fullest().unwrap_or_default(),
            ([], _) => {
                let mut detail = lines(&mut self.runs.values());
                if detail.is_empty() {
                    detail = format!("{} damaged files and no usable shard", self.broken.len());
                }
                return Err(PoolError::NotRecoverable { object: self.object, detail });
            }
            _ => {
                let which = lines(&mut decodable.iter().map(|id| &self.runs[id]));
                let what = format!(
                    "object {:?} is here twice, from two encode runs ({which}); \
                     move the shards of one of them away",
                    self.object
                );
                return Err(PoolError::Refused { what });
            }
        };
        let run = self.runs.remove(&id).unwrap_or_default();
        Builder::new(run, self)?.build(nodes)
    }

    /// The run with most shards.
    fn fullest(&self) -> Option<[u8; 16]> {
        let there = self.runs.iter().filter(|(_, run)| !run.shards.is_empty());
        there.max_by_key(|(_, run)| run.indices().len()).map(|(id, _)| *id)
    }
}

fn names_object(found: &Found, object: &str) -> bool {
    found.named.as_ref().is_some_and(|(named, _)| named == object)
}

fn only_object(scan: &Scan) -> Result<String> {
    let finals = || scan.found.iter().filter(|(found, _)| found.kind == Kind::Final);
    let told = |opened: &Opened| opened.1.as_ref().ok().map(|r| r.info().object.clone());
    let mut objects: Vec<String> = finals().filter_map(told).collect();
    if objects.is_empty() {
        objects = finals().filter_map(|(f, _)| f.named.clone().map(|named| named.0)).collect();
    }
    objects.sort();
    objects.dedup();
    match objects.len() {
        0 => Err(PoolError::NotFound { object: None, places: scan.places.clone() }),
        1 => Ok(objects.remove(0)),
        _ => Err(PoolError::SeveralObjects { objects }),
    }
}

impl EncodeRun {
    /// Renames begin only when every part is complete and durable. So when one shard is in place,
    /// the complete parts are shards as good, which only lack their name.
    fn begin_commit(&mut self) {
        if self.shards.is_empty() {
            return;
        }
        let complete = |(_, reader): &(Found, ShardReader)| reader.state() == ShardState::Complete;
        let (shards, parts) = std::mem::take(&mut self.parts).into_iter().partition(complete);
        self.parts = parts;
        self.pending = !Vec::is_empty(&shards);
        self.shards.extend(shards);
    }
}

/// Facts of all shards in one: the object's size and, in its trailer, everybody's digests.
type Told<'a> = (u64, Option<&'a [Digest]>);

/// Makes a set from the files of one run.
struct Builder {
    shards: Vec<(Found, ShardReader)>,
    others: EncodeRuns,
    info: ShardInfo,
    damage: Vec<Damage>,
    notes: Vec<String>,
    foreign: Vec<ForeignFile>,
}

impl Builder {
    fn new(run: EncodeRun, mut others: EncodeRuns) -> Result<Builder> {
        let no_info = || PoolError::NotRecoverable {
            object: others.object.clone(),
            detail: "no shard says what it is".into(),
        };
        let info = run.info().ok_or_else(no_info)?;
        let notes = std::mem::take(&mut others.notes);
        Ok(Builder {
            shards: run.shards,
            others,
            info,
            damage: Vec::new(),
            notes,
            foreign: Vec::new(),
        })
    }

    fn build(mut self, nodes: &[Node]) -> Result<ShardSet> {
        let codec = codec_of(&self.info)?;
        let n = usize::from(self.info.n);
        let metadata_bytes = self.shards.iter().map(|(_, reader)| ends_len(reader)).sum();
        self.drop_disagreeing();
        let (size, digests) = self.vote()?;
        self.info.size = Some(size);
        let layout = self.info.layout()?;
        let mut members: Vec<Option<Member>> = (0..n).map(|_| None).collect();
        // The best of each index comes first and stays.
        self.shards.sort_by_key(|(found, reader)| rank(found, reader));
        for (found, reader) in std::mem::take(&mut self.shards) {
            let index = usize::from(reader.info().index);
            if let Some(kept) = &members[index] {
                self.notes.push(format!(
                    "duplicate: shard {index} is {} on {} and also {} on {}",
                    kept.name, nodes[kept.node].name, found.name, nodes[found.node].name
                ));
            } else {
                members[index] = self.member(found, reader, size, digests.as_deref())?;
            }
        }
        let misnamed = self.note_places(nodes, &members);
        self.note_others(nodes, &members);
        Ok(ShardSet {
            nodes: nodes.to_vec(),
            codec,
            info: self.info,
            layout,
            digests,
            members,
            damage: self.damage,
            notes: self.notes,
            foreign: self.foreign,
            misnamed,
            metadata_bytes,
        })
    }

    fn drop_disagreeing(&mut self) {
        let info = self.info.clone();
        let (good, bad) = std::mem::take(&mut self.shards)
            .into_iter()
            .partition(|(_, reader)| agrees(&info, reader.info()));
        self.shards = good;
        for (found, reader) in Vec::<(Found, ShardReader)>::into_iter(bad) {
            let reason = format!("{}: its geometry differs from its siblings'", found.name);
            let index = Some(usize::from(reader.info().index));
            self.damage.push(Damage { index, stripe: None, reason });
        }
    }

    /// The size and digests on which most shards agree.
    fn vote(&self) -> Result<(u64, Option<Vec<Digest>>)> {
        let mut votes: Vec<(Told<'_>, usize)> = Vec::new();
        for (_, reader) in &self.shards {
            let Some(size) = reader.size() else { continue };
            let vote = (size, reader.digests());
            match votes.iter_mut().find(|(seen, _)| *seen == vote) {
                Some((_, count)) => *count += 1,
                None => votes.push((vote, 1)),
            }
        }
        // A trailer knows more than any number of headers.
        let trailers: Vec<_> =
            votes.iter().filter(|((_, digests), _)| digests.is_some()).copied().collect();
        let answer = majority(trailers).or_else(|| majority(votes));
        let Some((size, digests)) = answer else {
            return Err(PoolError::NotRecoverable {
                object: self.info.object.clone(),
                detail: "its size is unknown: it was streamed and no trailer is left".into(),
            });
        };
        Ok((size, digests.map(<[Digest]>::to_vec)))
    }

    fn member(
        &mut self,
        found: Found,
        mut reader: ShardReader,
        size: u64,
        digests: Option<&[Digest]>,
    ) -> Result<Option<Member>> {
        let index = usize::from(reader.info().index);
        let mut reasons = Vec::new();
        if reader.state() != ShardState::Complete {
            reasons.push(reader.damage().unwrap_or("one end of it is damaged").to_owned());
        }
        match reader.size() {
            None => reader.with_size(size)?,
            Some(other) if other != size => {
                let reason = format!("{}: it says {other} bytes, others say {size}", found.name);
                self.damage.push(Damage { index: Some(index), stripe: None, reason });
                return Ok(None);
            }
            Some(_) => {}
        }
        if reader.digests().is_some() && reader.digests() != digests {
            reasons.push("trailer: its digests differ from its siblings'".to_owned());
        }
        let damaged = !reasons.is_empty();
        for reason in reasons {
            let reason = format!("{}: {reason}", found.name);
            self.damage.push(Damage { index: Some(index), stripe: None, reason });
        }
        let pending = found.kind == Kind::Part;
        Ok(Some(Member { node: found.node, name: found.name, reader, damaged, pending }))
    }

    fn note_places(&mut self, nodes: &[Node], members: &[Option<Member>]) -> Vec<usize> {
        let mut misnamed = Vec::new();
        for (index, member) in members.iter().enumerate() {
            let Some(member) = member else { continue };
            let (node, name) = (&nodes[member.node].name, &member.name);
            let right = names::shard(&self.info.object, index);
            if member.pending {
                let note = format!("shard {index} on {node} is complete, only to be renamed");
                self.notes.push(note);
                misnamed.push(index);
            } else if *name != right {
                self.notes.push(format!("misplaced: shard {index} is {name} on {node}"));
                misnamed.push(index);
            } else if nodes.len() == members.len() && member.node != index {
                self.notes.push(format!(
                    "shard {index} is on {node}, given as node {}, not as node {index}",
                    member.node
                ));
            }
        }
        misnamed
    }

    fn note_others(&mut self, nodes: &[Node], members: &[Option<Member>]) {
        for (id, run) in &self.others.runs {
            for (found, reader) in &run.shards {
                self.notes.push(format!(
                    "foreign: {} on {} is shard {} of another encode run, {}",
                    found.name,
                    nodes[found.node].name,
                    reader.info().index,
                    names::hex(id)
                ));
                let (node, name) = (found.node, found.name.clone());
                let mark = names::hex(id)[..8].to_owned();
                self.foreign.push(ForeignFile { node, name, mark });
            }
        }
        for (found, error) in &self.others.broken {
            if matches!(error, StoreError::Version { .. }) {
                let (node, name) = (found.node, found.name.clone());
                self.foreign.push(ForeignFile { node, name, mark: "later".to_owned() });
            }
            let index = (found.named.as_ref())
                .filter(|(object, _)| *object == self.info.object)
                .map(|(_, index)| *index)
                .filter(|&index| members.get(index).is_some_and(Option::is_none));
            match index {
                Some(_) => {
                    self.damage.push(Damage { index, stripe: None, reason: error.to_string() });
                }
                None => self.notes.push(error.to_string()),
            }
        }
    }
}

/// Bytes of header and trailer.
fn ends_len(reader: &ShardReader) -> u64 {
    const HEADER: u64 = 4096;
    match reader.state() {
        ShardState::Complete | ShardState::NoHeader => {
            HEADER + reader.file_len().saturating_sub(reader.layout().trailer_offset())
        }
        ShardState::NoTrailer => HEADER,
    }
}

/// Lower is better: whole, in place, rightly named; then by place and name, to be deterministic.
fn rank(found: &Found, reader: &ShardReader) -> (bool, bool, bool, usize, String) {
    let info = reader.info();
    let right = names::shard(&info.object, usize::from(info.index));
    (
        reader.state() != ShardState::Complete,
        found.kind != Kind::Final,
        found.name != right,
        found.node,
        found.name.clone(),
    )
}
