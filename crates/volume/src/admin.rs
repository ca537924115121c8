//! Administration of volumes: describe, remove, resize, snapshots, clones, checks.

use std::{collections::BTreeSet, sync::Arc};

use kiln_stripe::PoolError;
use serde::Serialize;

use crate::description::{Held, look_up, name_of, swap};
use crate::descriptor::{Descriptor, SnapshotEntry, check_sizes};
use crate::generation::remove_logs;
use crate::kept::lock;
use crate::map::{BYTES_PER_BLOCK, memory_at_most};
use crate::open::{close_logs, create_from, load};
use crate::queue::HELD;
use crate::state::{MAX_CLOSED, Stage};
use crate::{BLOCK, DATA, NAMES, OpenRequest, Result, Rim, Statistics, Volume, VolumeError};

/// Lists the names of a pool's objects that begin with a prefix.
pub type Objects<'a> = &'a dyn Fn(&str) -> Result<Vec<String>, PoolError>;

/// A volume as the pool describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its id, 32 hex digits.
    pub id: String,
    /// Bytes that it has for its users.
    pub size: u64,
    /// Bytes of a segment.
    pub segment: u64,
    /// Bytes of each copy of the log.
    pub log: u64,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// Its writer, now or when it was last seen; empty: it was closed.
    pub writer: String,
    /// Nodes with its log; none where it was closed.
    pub log_nodes: Vec<String>,
    /// The snapshot that it was cloned from, as VOLUME@SNAPSHOT.
    pub origin: String,
    /// Its snapshots.
    pub snapshots: Vec<SnapshotInfo>,
    /// Bytes of memory that the map takes of who serves it, at most: all blocks are mapped.
    pub map_bytes_most: u64,
    /// Bytes of memory that wait for the log or the pool there, at most.
    pub buffer_bytes_most: u64,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// Bytes that the volume had.
    pub size: u64,
    /// Volumes that were cloned from it.
    pub clones: Vec<String>,
}

/// State of an open volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VolumeStatus {
    /// Bytes that it has for its users.
    pub size: u64,
    /// Bytes that are not zeros.
    pub mapped_bytes: u64,
    /// Bytes of segments, without parity; and those of them that are still needed.
    pub segment_bytes: u64,
    /// Of those, what is needed.
    pub live_bytes: u64,
    /// Bytes of the log that are not yet in segments.
    pub log_used: u64,
    /// Bytes of memory that the map takes, and for a block of 4096 bytes at most.
    pub map_bytes: u64,
    /// Bytes for each block that is mapped, at most.
    pub map_bytes_per_block: u64,
    /// Counters since it was opened.
    pub statistics: Statistics,
}

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Blocks that were read.
    pub blocks: u64,
    /// Offsets of bytes that cannot be read, or are not what was written; at most 1000.
    pub damaged: Vec<u64>,
    /// Number of damaged blocks.
    pub damaged_count: u64,
    /// Objects that nothing needed, which were removed.
    pub removed: Vec<String>,
}

/// Segments in memory: one grows, some wait, two are long, and cleaning fills one.
const BUFFERS: u64 = MAX_CLOSED as u64 + 4;
/// Retries of the description of a clone's origin because others changed it.
const CLONE_TRIES: usize = 10;
/// Most entries of a list of damage.
const MAX_DAMAGED: usize = 1000;

/// The name of the volume that an object describes; `None`: it is another object.
#[must_use]
pub fn volume_of(object: &str) -> Option<&str> {
    object.strip_prefix(NAMES)?.strip_prefix('/')
}

/// Refuses to use a snapshot's name that cannot be one.
pub(crate) fn check_snapshot(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= 255 && !name.contains(['/', '@', '\0', '\n']);
    let what = || format!("{name:?} cannot be a snapshot's name: give one without '/' and '@'");
    if fits { Ok(()) } else { Err(VolumeError::Usage { what: what() }) }
}

impl Volume {
    /// A volume as the pool describes it.
    /// Errors: [`VolumeError::NoVolume`].
    pub fn info(rim: &Rim, name: &str) -> Result<VolumeInfo> {
        let found = look_up(rim, name)?.descriptor;
        let snapshot = |entry: &SnapshotEntry| SnapshotInfo {
            name: entry.name.clone(),
            created_ms: entry.created_ms,
            size: entry.size,
            clones: entry.clones.clone(),
        };
        Ok(VolumeInfo {
            name: name.to_owned(),
            size: found.size,
            segment: found.segment,
            log: found.log_size,
            created_ms: found.created_ms,
            log_nodes: found.log.iter().map(|copy| copy.node.clone()).collect(),
            snapshots: found.snapshot.iter().map(snapshot).collect(),
            map_bytes_most: memory_at_most(found.size / BLOCK as u64),
            buffer_bytes_most: BUFFERS * found.segment + HELD as u64,
            id: found.id,
            writer: found.writer,
            origin: found.origin,
        })
    }

    /// A volume that is closed, with a map in the pool of all that it holds; one that was not
    /// closed is first.
    pub(crate) fn settled(rim: &Arc<Rim>, name: &str, writer: &str) -> Result<Held> {
        let held = look_up(rim, name)?;
        held.descriptor.check_stays(name)?;
        if held.descriptor.log.is_empty() && held.descriptor.checkpoint.is_some() {
            return Ok(held);
        }
        Volume::open(rim, name, &OpenRequest::of(writer))?.close()?;
        look_up(rim, name)
    }

    /// Keeps the volume as it is now under a name. It takes no space but for what is overwritten
    /// later.
    /// Errors: [`VolumeError::InUse`]; there is a snapshot of that name.
    pub fn snapshot(rim: &Arc<Rim>, name: &str, snapshot: &str, writer: &str) -> Result<()> {
        check_snapshot(snapshot)?;
        let held = Volume::settled(rim, name, writer)?;
        let mut new = held.descriptor.clone();
        if new.has_snapshot(snapshot) {
            return Err(there_is(name, snapshot));
        }
        let map = new.checkpoint.clone().unwrap_or_default();
        let (created_ms, size, clones) = (rim.now_ms(), new.size, Vec::new());
        new.snapshot.push(SnapshotEntry { name: snapshot.into(), created_ms, size, map, clones });
        swap(rim, name, Some(held.run), &new).map(drop)
    }

    /// Removes a snapshot; what only it needed is removed when the volume is next written to.
    /// Errors: [`VolumeError::InUse`]; there is no such snapshot, or a volume was cloned from it.
    pub fn remove_snapshot(rim: &Arc<Rim>, name: &str, snapshot: &str, writer: &str) -> Result<()> {
        let held = Volume::settled(rim, name, writer)?;
        let mut new = held.descriptor.clone();
        let at = removable(rim, &new, name, snapshot)?;
        let map = new.snapshot.remove(at).map;
        swap(rim, name, Some(held.run), &new)?;
        if new.frees(&map) {
            rim.remove(&map)?;
        }
        Ok(())
    }

    /// Makes a new volume of a snapshot. Both share what neither overwrites.
    /// Errors: there is no such snapshot; [`VolumeError::Exists`].
    pub fn clone_snapshot(rim: &Rim, name: &str, snapshot: &str, clone: &str) -> Result<()> {
        name_of(clone)?;
        if !matches!(look_up(rim, clone), Err(VolumeError::NoVolume { .. })) {
            return Err(VolumeError::Exists { name: clone.to_owned() });
        }
        // First of all its needs are kept from removal.
        let (origin, map) = change_origin(rim, name, |found| {
            found.check_stays(name)?;
            let at = position(found, name, snapshot)?;
            found.snapshot[at].clones.push(clone.to_owned());
            Ok((found.clone(), found.snapshot[at].map.clone()))
        })?;
        let head = load(rim, name, &map)?.head;
        let (segment, log_size) = (origin.segment, origin.log_size);
        let mut new = Descriptor::new(rim.id(), head.size, segment, log_size, rim.now_ms());
        (new.checkpoint, new.next_number) = (Some(map), head.next_number);
        new.origin = format!("{name}@{snapshot}");
        create_from(rim, clone, &new)?;
        // Who removes the snapshot takes a clone that is not there for one that will never be.
        confirm(rim, name, snapshot, clone).or_else(|error| {
            rim.remove(&name_of(clone)?)?;
            Err(error)
        })
    }

    /// Changes the size. Blocks past a smaller one are gone; `allow` is asked before with the
    /// number of those that were written.
    /// Errors: [`VolumeError::InUse`]; sizes that cannot be; the error of `allow`, and nothing was
    /// changed.
    pub fn resize(
        rim: &Arc<Rim>,
        name: &str,
        size: u64,
        writer: &str,
        allow: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        let found = look_up(rim, name)?.descriptor;
        check_sizes(size, found.segment, found.log_size)?;
        let volume = Volume::open(rim, name, &OpenRequest::of(writer))?;
        volume.seal_all()?;
        let block = BLOCK as u64;
        let past = lock(&volume.state).map.mapped_in(size / block..found.size / block).count();
        let allowed = if past > 0 { allow(past as u64) } else { Ok(()) };
        if allowed.is_ok() {
            lock(&volume.state).resize(size);
        }
        volume.close().and(allowed)
    }

    /// Removes a volume and all that it is made of. It takes no room, so a full pool is no
    /// hindrance. One that was interrupted is ended by the next call: the description goes last.
    /// Errors: [`VolumeError::InUse`]; it has snapshots that others were cloned from.
    pub fn remove(rim: &Arc<Rim>, name: &str, objects: Objects<'_>, writer: &str) -> Result<()> {
        let held = look_up(rim, name)?;
        let found = held.descriptor;
        // Its writer, if there is one, acknowledges nothing more.
        close_logs(rim, name, &OpenRequest::of(writer), &found).map(drop).or_else(|error| {
            match error {
                VolumeError::NoLog { .. } if found.removing => Ok(()),
                error => Err(error),
            }
        })?;
        for entry in &found.snapshot {
            let clones = clones_of(rim, name, entry)?.join(", ");
            if !clones.is_empty() {
                let snapshot = &entry.name;
                let what = format!("{clones}: cloned from {name}@{snapshot}; remove that first");
                return Err(VolumeError::Usage { what });
            }
        }
        // A process that opens it now loses, or this one does.
        let mut last = found.clone();
        last.generation += 1;
        (last.removing, last.writer) = (true, writer.to_owned());
        swap(rim, name, Some(held.run), &last)?;
        for object in objects(&format!("{DATA}/{}/", found.id))? {
            rim.remove(&object)?;
        }
        remove_logs(rim, found.log.iter());
        rim.remove(&name_of(name)?)?;
        if let Some((origin, snapshot)) = found.origin.split_once('@') {
            release_origin(rim, origin, snapshot, name)?;
        }
        Ok(())
    }

    /// Returns its state.
    pub fn status(&self) -> VolumeStatus {
        let state = lock(&self.state);
        let block = BLOCK as u64;
        let (live, total) = state.in_segments();
        VolumeStatus {
            size: state.size,
            mapped_bytes: state.map.mapped() * block,
            segment_bytes: total * block,
            live_bytes: live * block,
            log_used: state.ring.used(),
            map_bytes: state.map.memory(),
            map_bytes_per_block: BYTES_PER_BLOCK,
            statistics: lock(&self.statistics).clone(),
        }
    }

    /// Reads everything that was written, and removes what nothing needs.
    ///
    /// `observer` hears of blocks as they are read.
    /// Errors: the pool cannot be read; damage is in the report.
    pub fn check(
        &self,
        objects: Objects<'_>,
        observer: &dyn kiln_stripe::Observer,
    ) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let (blocks, mapped) = {
            let state = lock(&self.state);
            (state.size / BLOCK as u64, state.map.mapped())
        };
        observer.begin("check", Some(mapped * BLOCK as u64));
        let page = crate::map::PAGE as u64;
        let mut bytes = vec![0; crate::map::PAGE * BLOCK];
        for start in (0..blocks).step_by(crate::map::PAGE) {
            let end = (start + page).min(blocks);
            let there: Vec<u64> = lock(&self.state).map.mapped_in(start..end).collect();
            report.blocks += there.len() as u64;
            let whole = &mut bytes[..(end - start) as usize * BLOCK];
            // All at once, and one by one where that fails.
            let wrong = match there.is_empty() || self.read(start * BLOCK as u64, whole).is_ok() {
                true => Vec::new(),
                false => self.damaged(&there),
            };
            let missing = self.rim.pool().missing();
            if let (false, Some(node)) = (wrong.is_empty(), missing.first()) {
                let why = "blocks cannot be read without it, which is no damage".to_owned();
                return Err(PoolError::Unavailable { node: node.clone(), why }.into());
            }
            report.damaged_count += wrong.len() as u64;
            let room = MAX_DAMAGED - report.damaged.len();
            report.damaged.extend(wrong.into_iter().take(room));
            observer.advance((there.len() * BLOCK) as u64);
        }
        report.removed = self.remove_strays(objects)?;
        Ok(report)
    }

    /// Offsets of those blocks that cannot be read.
    fn damaged(&self, blocks: &[u64]) -> Vec<u64> {
        let mut bytes = vec![0; BLOCK];
        let offsets = blocks.iter().map(|block| block * BLOCK as u64);
        offsets.filter(|offset| self.read(*offset, &mut bytes).is_err()).collect()
    }

    /// Removes objects of this volume that neither its map nor a snapshot needs.
    fn remove_strays(&self, objects: Objects<'_>) -> Result<Vec<String>> {
        let _keeper = lock(&self.keeper);
        let held = lock(&self.held).descriptor.clone();
        let mut strays = objects(&format!("{DATA}/{}/", held.id))?;
        // What became a segment since was not yet listed, and what was listed is known by now.
        let mut needed: BTreeSet<String> = {
            let state = lock(&self.state);
            let known = state.slots.iter().filter(|slot| slot.stage != Stage::Removed);
            known.map(|slot| slot.id.name()).collect()
        };
        needed.extend(held.checkpoint.clone());
        for entry in &held.snapshot {
            needed.insert(entry.map.clone());
            let map = load(&self.rim, &self.name, &entry.map)?;
            needed.extend(map.segments.iter().map(|segment| segment.id.name()));
        }
        strays.retain(|name| !needed.contains(name));
        // Only as its one writer.
        self.describe(|_| Ok(None))?;
        for object in &strays {
            self.rim.remove(object)?;
        }
        strays.extend(self.remove_left_logs(&held));
        Ok(strays)
    }

    /// Removes logs of writers that are no more: who died while it made them, or whose description
    /// was never known to be in force. This one is in force now, so none of theirs ever will be.
    fn remove_left_logs(&self, held: &Descriptor) -> Vec<String> {
        let pool = self.rim.pool();
        let mut removed = Vec::new();
        for node in &pool.config().node {
            let Some(store) = pool.place(&node.id) else { continue };
            let names = store.list().unwrap_or_default();
            for name in names.iter().filter(|name| is_left(held, &node.id, name)) {
                if store.remove(name).is_ok() {
                    removed.push(format!("{} of node {}", name, node.id));
                }
            }
        }
        removed
    }
}

/// Returns whether a file of a node is a log of a volume's that its description has no use for.
/// Logs of later generations belong to a process that is about to take the volume over.
fn is_left(held: &Descriptor, node: &str, file: &str) -> bool {
    let log = file.strip_suffix(".closed").unwrap_or(file);
    let rest = log.strip_prefix(&held.id[..]).and_then(|rest| rest.strip_prefix('.'));
    let Some(rest) = rest.and_then(|rest| rest.strip_suffix(".log")) else { return false };
    let generation = rest.split('.').next().and_then(|text| u64::from_str_radix(text, 16).ok());
    let named = held.log.iter().any(|copy| copy.node == node && copy.file == log);
    !named && generation.is_some_and(|generation| generation <= held.generation)
}

fn position(found: &Descriptor, name: &str, snapshot: &str) -> Result<usize> {
    let at = found.snapshot.iter().position(|entry| entry.name == snapshot);
    at.ok_or_else(|| {
        let known: Vec<&str> = found.snapshot.iter().map(|entry| &entry.name[..]).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let what = format!("volume {name:?} has no snapshot {snapshot:?}; there are: {known}");
        VolumeError::Usage { what }
    })
}

/// Returns the position of a snapshot that may be removed: no existing volume was cloned from it.
pub(crate) fn removable(
    rim: &Rim,
    found: &Descriptor,
    name: &str,
    snapshot: &str,
) -> Result<usize> {
    let at = position(found, name, snapshot)?;
    match clones_of(rim, name, &found.snapshot[at])?.first() {
        None => Ok(at),
        Some(clone) => {
            let what = format!("volume {clone:?} is a clone of {name}@{snapshot}; remove it first");
            Err(VolumeError::Usage { what })
        }
    }
}

/// Those clones of a snapshot that are there: a clone is named before it is made, and still after
/// it was removed, and either may have been cut off.
fn clones_of(rim: &Rim, name: &str, entry: &SnapshotEntry) -> Result<Vec<String>> {
    let origin = format!("{name}@{}", entry.name);
    let mut there = Vec::new();
    for clone in &entry.clones {
        match look_up(rim, clone) {
            Err(VolumeError::NoVolume { .. }) => {}
            found => {
                if found?.descriptor.origin == origin {
                    there.push(clone.clone());
                }
            }
        }
    }
    Ok(there)
}

/// Refuses a size that a volume in use cannot get.
pub(crate) fn check_growth(found: &Descriptor, name: &str, size: u64) -> Result<()> {
    check_sizes(size, found.segment, found.log_size)?;
    if size >= found.size {
        return Ok(());
    }
    let what = format!(
        "volume {name:?} is in use and has {} bytes: it can be made larger now, but smaller only \
         when nobody uses it",
        found.size
    );
    Err(VolumeError::Usage { what })
}

/// A clone was made: it stands if its snapshot does. What is said of the origin is replaced by the
/// same, so that who wants to remove the snapshot looks again at its clones.
fn confirm(rim: &Rim, origin: &str, snapshot: &str, clone: &str) -> Result<()> {
    change_origin(rim, origin, |found| {
        let at = position(found, origin, snapshot)?;
        match found.snapshot[at].clones.iter().any(|name| name == clone) {
            true => Ok(()),
            false => {
                let what = format!("{origin}@{snapshot} was replaced while it was cloned");
                Err(VolumeError::Usage { what })
            }
        }
    })
}

/// A clone is gone: its origin's snapshot may go, too.
fn release_origin(rim: &Rim, origin: &str, snapshot: &str, clone: &str) -> Result<()> {
    let released = change_origin(rim, origin, |found| {
        if let Some(entry) = found.snapshot.iter_mut().find(|entry| entry.name == snapshot) {
            entry.clones.retain(|other| other != clone);
        }
        Ok(())
    });
    match released {
        Err(VolumeError::NoVolume { .. }) => Ok(()),
        end => end,
    }
}

/// Replaces what is said of a volume that clones were made of; its writer changes it now
/// and then, too.
fn change_origin<T>(
    rim: &Rim,
    origin: &str,
    change: impl Fn(&mut Descriptor) -> Result<T>,
) -> Result<T> {
    let mut tries = 0;
    loop {
        let held = look_up(rim, origin)?;
        let mut new = held.descriptor;
        let changed = change(&mut new)?;
        match swap(rim, origin, Some(held.run), &new) {
            Err(VolumeError::Deposed { .. }) if tries < CLONE_TRIES => tries += 1,
            end => return end.map(|_| changed),
        }
    }
}

pub(crate) fn there_is(name: &str, snapshot: &str) -> VolumeError {
    let what = format!("volume {name:?} has a snapshot {snapshot:?} already");
    VolumeError::Usage { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::LogCopy;

    #[test]
    fn logs_that_no_description_names_are_left_ones() {
        let mut held = Descriptor::new([3; 16], 1 << 30, 16 << 20, 64 << 20, 5);
        held.generation = 0x1f;
        let id = held.id.clone();
        let file = format!("{id}.0000001f.aabbccdd.log");
        held.log.push(LogCopy { node: "a".into(), file: file.clone() });
        let left = |node, file: &str| is_left(&held, node, file);
        assert!(!left("a", &file) && left("b", &file));
        assert!(!left("a", &format!("{file}.closed")) && left("b", &format!("{file}.closed")));
        assert!(left("a", &format!("{id}.0000001e.aabbccdd.log")));
        assert!(left("a", &format!("{id}.0000001f.aabbccde.log.closed")));
        for other in [
            format!("{id}.00000020.aabbccdd.log"),
            format!("{}.00000001.aabbccdd.log", "04".repeat(16)),
            format!("{id}.xyz.log"),
            format!("{id}.00000001.aabbccdd.logs"),
            id,
        ] {
            assert!(!left("a", &other), "{other}");
        }
    }
}
