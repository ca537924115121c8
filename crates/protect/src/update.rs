//! Parity made, and made anew for what changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use kiln_store::in_parallel;

use crate::error::{is_absent, is_own};
use crate::folder::{Found, Parity, Place, Walk, Watch};
use crate::index::{Change, FileRecord, Head, Index, Set};
use crate::layout::{Extent, arrange, cut, set_of};
use crate::set::{Coder, Hindrance};
use crate::{Geometry, OWN, ProtectError, Report};

/// Updates that follow one during which files changed, at most.
const AGAIN: usize = 2;
const GONE: &str = "changed while it was read; run kiln protect again";

/// Options of an update.
#[derive(Debug, Clone, Default)]
pub struct Update {
    /// Shape of the sets; `None`: as before, or 10% and one loss.
    pub geometry: Option<Geometry>,
    /// Folders of the parity, on other disks; empty: as before, or in the folder itself.
    pub parity_dirs: Vec<PathBuf>,
    /// Forget files that are not there any more.
    pub prune: bool,
    /// Sets at once.
    pub threads: usize,
}

/// Protects the files below a folder, or brings their protection up to date.
/// Errors: the parity or the index cannot be written; options that do not fit.
pub fn protect(path: &Path, options: &Update, watch: &dyn Watch) -> Result<Report, ProtectError> {
    let mut place = Place::open(path, &options.parity_dirs, true)?;
    let mut report = update(&mut place, options, watch)?;
    for _ in 0..AGAIN {
        if !report.raced {
            break;
        }
        let before = std::mem::replace(&mut report, update(&mut place, options, watch)?);
        report.parity_written += before.parity_written;
        report.index_written += before.index_written;
        for (what, mut names) in before.lists {
            let known = report.lists.entry(what).or_default();
            names.retain(|name| what != "hindered" && !known.contains(name));
            known.append(&mut names);
        }
    }
    report.lists.retain(|_, names| !names.is_empty());
    Ok(report)
}

fn update(place: &mut Place, options: &Update, watch: &dyn Watch) -> Result<Report, ProtectError> {
    let path = &place.folder.path;
    let strange = !place.dirs.is_empty() && !path.join(OWN).join("index").exists();
    let index = match place.index.take() {
        Some(_) if strange => {
            let problem = "its folders of parity hold the index of another folder, or of this one \
                           before it was lost; run kiln protect --repair --parity-dir to adopt it";
            return Err(ProtectError::refused(path, problem));
        }
        Some(index) => index,
        None => begin(place, options)?,
    };
    if options.geometry.is_some_and(|geometry| geometry != index.head.geometry) {
        let problem = "is protected with another share of parity; to begin anew remove its \
                       .kiln-protect, and index and parity in its folders of parity";
        return Err(ProtectError::refused(path, problem));
    }
    if !index.sets.is_empty() && place.parity(&index.head, false)?.is_absent() {
        let problem = "lacks files of its parity (a disk that is not mounted?); kiln protect \
                       --repair writes them again";
        return Err(ProtectError::refused(path, problem));
    }
    let parity = place.parity(&index.head, true)?;
    let walk = place.folder.walk(&place.dirs);
    if walk.files.is_empty() && !index.files.is_empty() {
        let problem = "holds no file at all any more (not mounted?); kiln protect --repair brings \
                       back what the parity can";
        return Err(ProtectError::refused(path, problem));
    }
    let (members, end) = (index.members(), index.end());
    let total = walk.files.values().fold(0, |sum: u64, one| sum.saturating_add(one.size));
    let (prune, most) = (options.prune, index.head.geometry.extent(total));
    let (dirty, extents, files, changes, report) = Default::default();
    let mut work =
        Work { index, walk, prune, most, members, dirty, extents, files, changes, report };
    work.look();
    work.put_extents();
    let encoded = work.encode(place, &parity, options.threads, watch);
    if encoded.is_err() {
        // A full disk gets back the parity that no index names.
        let _ = parity.end_at(end);
    }
    encoded?;
    work.look_again(place);
    parity.sync().map_err(ProtectError::io("write", "the parity"))?;
    let Work { mut index, changes, mut report, walk, .. } = work;
    if !changes.is_empty() || index.uneven {
        report.index_written = index.commit(&place.copies, changes)?;
        parity.end_at(index.end()).map_err(ProtectError::io("shorten", "the parity"))?;
    }
    report.of_index(&index);
    report.others = walk.others;
    walk.failures.iter().for_each(|(path, why)| report.say("failed", path, why));
    place.index = Some(index);
    Ok(report)
}

fn begin(place: &Place, options: &Update) -> Result<Index, ProtectError> {
    for name in place.dirs.iter().flat_map(|dir| [dir.join("index"), dir.join("parity")]) {
        if name.exists() {
            let problem = "belongs to another folder; each has folders of parity of its own";
            return Err(ProtectError::refused(name, problem));
        }
    }
    let tenth = Geometry { group: 10, losses: 1, height: 16 };
    let geometry = options.geometry.unwrap_or(tenth);
    Ok(Index::new(Head { format: 1, geometry, parity_dirs: place.dirs.clone() }))
}

struct Work {
    index: Index,
    walk: Walk,
    prune: bool,
    /// Bytes of an extent, at most.
    most: u64,
    /// Sets and slots by file.
    members: BTreeMap<u64, Vec<(u64, usize)>>,
    /// Sets as they are to become.
    dirty: BTreeMap<u64, Set>,
    extents: Vec<Extent>,
    /// Files as they are to become; `None`: forgotten.
    files: BTreeMap<u64, Option<FileRecord>>,
    changes: Vec<Change>,
    report: Report,
}

impl Work {
    /// Compares files with the index.
    fn look(&mut self) {
        let known: BTreeSet<&PathBuf> = self.index.files.values().map(|file| &file.path).collect();
        let mut fresh = self.walk.files.clone();
        fresh.retain(|path, _| !known.contains(path));
        let renamed = self.walk.renamed(&self.index.files);
        fresh.retain(|path, _| renamed.values().all(|now| now != path));
        for (id, file) in self.index.files.clone() {
            let path = &file.path;
            let now = self.walk.files.get(path).copied();
            let record = match now {
                Some(found) if found.is(&file) && !file.mixed => {
                    let now = found.record(path.clone());
                    if now == file {
                        continue;
                    }
                    Some(now)
                }
                Some(found) if found.mtime == file.mtime && !file.mixed => {
                    let why = "damaged (another size, the same time); run kiln protect --repair";
                    self.report.say("hindered", path, why);
                    continue;
                }
                Some(found) => {
                    self.report.add("changed", path);
                    self.refit(id, &found);
                    Some(found.record(path.clone()))
                }
                None if renamed.contains_key(&id) => {
                    self.report.add("renamed", path);
                    renamed.get(&id).map(|path| FileRecord { path: path.clone(), ..file.clone() })
                }
                // In a folder that could not be looked at, which is said.
                None if self.walk.failures.iter().any(|(at, _)| path.starts_with(at)) => continue,
                None if (self.prune || file.mixed) && self.walk.failures.is_empty() => {
                    self.report.add("forgotten", path);
                    self.drop_members(id);
                    None
                }
                None => {
                    self.report.add("missing", path);
                    continue;
                }
            };
            self.files.insert(id, record);
        }
        let next = self.index.files.last_key_value().map_or(0, |(id, _)| id + 1);
        for (id, (path, found)) in (next..).zip(fresh) {
            self.report.add("added", &path);
            self.files.insert(id, Some(found.record(path)));
            self.cut(id, &found);
        }
    }

    fn cut(&mut self, file: u64, found: &Found) {
        let device = found.device;
        let extent = |(start, len)| Extent { order: (file, start), len, device };
        self.extents.extend(cut(found.size, self.most).map(extent));
    }

    fn dirty(&mut self, id: u64) -> Option<&mut Set> {
        let known = self.index.sets.get(&id)?;
        Some(self.dirty.entry(id).or_insert_with(|| known.clone()))
    }

    fn drop_members(&mut self, file: u64) {
        for (id, slot) in self.members.get(&file).cloned().unwrap_or_default() {
            if let Some(set) = self.dirty(id) {
                set.members[slot] = None;
            }
        }
    }

    /// Leaves a changed file in its sets where it fits there.
    fn refit(&mut self, file: u64, found: &Found) {
        let geometry = self.index.head.geometry;
        let places = self.members.get(&file).cloned().unwrap_or_default();
        let parts: Vec<_> = match places.len() as u64 {
            0 => Vec::new(),
            count => cut(found.size, found.size.div_ceil(count).max(1)).collect(),
        };
        let fits = parts.len() == places.len()
            && places.iter().zip(&parts).all(|((id, _), (_, len))| {
                let set = self.index.sets.get(id);
                set.is_some_and(|set| *len <= set.blocks(geometry).capacity())
            });
        if !fits || parts.is_empty() {
            self.drop_members(file);
            return self.cut(file, found);
        }
        for ((id, slot), (start, len)) in places.into_iter().zip(parts) {
            if let Some(Some(member)) = self.dirty(id).map(|set| &mut set.members[slot]) {
                (member.start, member.len, member.sums) = (start, len, Vec::new());
            }
        }
    }

    /// Puts new extents into free slots of about their size, and the others into new sets.
    fn put_extents(&mut self) {
        let geometry = self.index.head.geometry;
        let mut free = BTreeMap::<u64, Vec<(u64, usize)>>::new();
        let devices = self.devices();
        for (id, set) in &self.index.sets {
            let members = &self.dirty.get(id).unwrap_or(set).members;
            // One of which a file is missing cannot be coded again.
            let whole = members.iter().flatten().all(|one| devices.contains_key(&one.file));
            if whole && members.iter().any(Option::is_some) {
                let slots = members.iter().enumerate().filter(|(_, member)| member.is_none());
                let places = free.entry(set.blocks(geometry).capacity()).or_default();
                places.extend(slots.map(|(slot, _)| (*id, slot)));
            }
        }
        let spread = devices.values().collect::<BTreeSet<_>>().len() > 1;
        let mut others = Vec::new();
        for extent in std::mem::take(&mut self.extents) {
            let allowed = |id: &u64| {
                let set = self.dirty.get(id).or_else(|| self.index.sets.get(id));
                let members = set.into_iter().flat_map(|set| set.members.iter().flatten());
                let like = |file: &u64| {
                    *file == extent.order.0
                        || spread && devices.get(file).is_none_or(|at| *at == extent.device)
                };
                members.filter(|member| like(&member.file)).count() < geometry.losses
            };
            let most = (2 * extent.len).max(2048);
            let slot = free.range_mut(extent.len..=most).find_map(|(_, places)| {
                let at = places.iter().position(|(id, _)| allowed(id))?;
                Some(places.swap_remove(at))
            });
            match slot.and_then(|(id, slot)| Some((self.dirty(id)?, slot))) {
                Some((set, slot)) => set.members[slot] = Some(extent.member()),
                None => others.push(extent),
            }
        }
        let next = self.index.sets.last_key_value().map_or(0, |(id, _)| id + 1);
        // Later files fill sets that are added now, so extents of a large file may have one each.
        let apart = (!self.index.sets.is_empty()).then_some(geometry.losses);
        let sets = arrange(others, geometry.group, apart, spread);
        let sets = sets.iter().map(|extents| set_of(extents, geometry));
        self.dirty.extend((next..).zip(sets));
    }

    /// Devices of files, old and new.
    fn devices(&self) -> HashMap<u64, u64> {
        let old = self.index.files.iter().map(|(id, file)| (*id, Some(file)));
        let new = self.files.iter().map(|(id, file)| (*id, file.as_ref()));
        let device = |file: &FileRecord| Some(self.walk.files.get(&file.path)?.device);
        let known = |(id, file): (u64, Option<&FileRecord>)| Some((id, device(file?)?));
        old.chain(new).filter_map(known).collect()
    }

    /// Makes the parity of all sets that changed, beside the parity in force.
    fn encode(
        &mut self,
        place: &Place,
        parity: &Parity,
        threads: usize,
        watch: &dyn Watch,
    ) -> Result<(), ProtectError> {
        let geometry = self.index.head.geometry;
        let mut files = self.index.files.clone();
        for (id, file) in &self.files {
            // One that is forgotten may have to be read once more, in a set that stays as it is.
            if let Some(file) = file {
                files.insert(*id, file.clone());
            }
        }
        let coder = Coder::new(&place.folder, parity, geometry, &files, watch)?;
        let mut space = Space::new(&self.index);
        let mut work = Vec::new();
        for (id, mut set) in std::mem::take(&mut self.dirty) {
            if set.members.iter().all(Option::is_none) {
                self.changes.push(Change::Set(id, None));
                continue;
            }
            set.at = space.take(set.block);
            self.report.parity_written += set.block * geometry.parity() as u64;
            work.push((id, set));
        }
        watch.begin(
            work.iter().flat_map(|(_, set)| set.members.iter().flatten()).map(|one| one.len).sum(),
        );
        let done = in_parallel(threads, work, |_, (id, set)| encode_one(&coder, id, set))?;
        for Encoded { id, set, unread, stopped } in done {
            for (file, why) in unread {
                self.report.raced |= why == GONE;
                self.mix(file, &files, &why);
            }
            let empty = set.members.iter().all(Option::is_none);
            let Some((file, why)) = stopped else {
                if !empty || self.index.sets.contains_key(&id) {
                    let change = self.index.change_to(id, (!empty).then_some(set));
                    self.changes.push(change);
                }
                continue;
            };
            self.report.say("hindered", &files[&file].path, why);
            // The set stays as it was, and files that change in it are not as they should be.
            let old = self.index.sets.get(&id).map(|set| set.members.clone()).unwrap_or_default();
            for member in set.members.into_iter().chain(old).flatten() {
                let states = (self.index.files.get(&member.file), self.files.get(&member.file));
                let is_same = matches!(states, (Some(old), Some(Some(new)))
                    if (old.size, old.mtime, old.mixed) == (new.size, new.mtime, false));
                if states.1.is_some() && !is_same {
                    self.mix(member.file, &files, "its set holds one that cannot be read");
                }
            }
        }
        Ok(())
    }

    /// Notes that the protection of a file is not complete.
    fn mix(&mut self, id: u64, files: &BTreeMap<u64, FileRecord>, why: &str) {
        let Some(file) = files.get(&id) else { return };
        if !self.files.get(&id).is_some_and(|file| file.as_ref().is_some_and(|file| file.mixed)) {
            self.report.say("hindered", &file.path, why);
        }
        self.files.insert(id, Some(FileRecord { mixed: true, ..file.clone() }));
    }

    /// Finds files that changed while they were read, and adds all files to the changes.
    fn look_again(&mut self, place: &Place) {
        let mut records = Vec::new();
        for (id, file) in std::mem::take(&mut self.files) {
            let record = file.map(|mut file| {
                let now = place.folder.look(&file.path).ok().flatten();
                if !file.mixed && !now.is_some_and(|now| now.is(&file)) {
                    self.report.say("hindered", &file.path, GONE);
                    (file.mixed, self.report.raced) = (true, true);
                }
                file
            });
            records.push(Change::File(id, record));
        }
        self.changes.splice(0..0, records);
    }
}

struct Encoded {
    id: u64,
    set: Set,
    /// New files that could not be read, and why.
    unread: Vec<(u64, String)>,
    /// The file on whose account the set stays as it was, and why.
    stopped: Option<(u64, String)>,
}

fn encode_one(coder: &Coder<'_>, id: u64, mut set: Set) -> Result<Encoded, ProtectError> {
    let mut unread = Vec::new();
    loop {
        let (slot, error) = match coder.encode(&set) {
            Ok(set) => return Ok(Encoded { id, set, unread, stopped: None }),
            Err(Hindrance::Other(error)) => return Err(error),
            Err(Hindrance::File(slot, error)) => (slot, error),
        };
        let Some(member) = set.members[slot].take() else { continue };
        let (file, fresh) = (member.file, member.sums.is_empty());
        if is_own(&error) {
            let path = coder.files.get(&file).map_or(PathBuf::new(), |file| file.path.clone());
            return Err(ProtectError::io("read", path)(error));
        }
        let why = match error.raw_os_error() {
            _ if is_absent(&error) && fresh => GONE.to_owned(),
            _ if is_absent(&error) => "is missing; run kiln protect --repair, or --prune".into(),
            Some(_) => format!("cannot be read: {error}"),
            None if fresh => GONE.to_owned(),
            None => "is damaged, or changed meanwhile; run kiln protect --repair".to_owned(),
        };
        if fresh {
            unread.push((file, why));
            continue;
        }
        set.members[slot] = Some(member);
        return Ok(Encoded { id, set, unread, stopped: Some((file, why)) });
    }
}

/// Free space among the parity in force.
struct Space {
    /// Starts and lengths of gaps.
    gaps: Vec<(u64, u64)>,
    end: u64,
}

impl Space {
    fn new(index: &Index) -> Space {
        let mut used: Vec<_> = index.sets.values().map(|set| (set.at, set.block)).collect();
        used.sort_unstable();
        let (mut gaps, mut end) = (Vec::new(), 0);
        for (at, len) in used {
            if at > end {
                gaps.push((end, at - end));
            }
            end = end.max(at + len);
        }
        Space { gaps, end }
    }

    fn take(&mut self, len: u64) -> u64 {
        match self.gaps.iter_mut().find(|(_, free)| *free >= len) {
            Some(gap) => {
                *gap = (gap.0 + len, gap.1 - len);
                gap.0 - len
            }
            None => {
                self.end += len;
                self.end - len
            }
        }
    }
}
