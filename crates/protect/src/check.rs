//! Every byte of files, parity and index looked at; files brought back, each beside the damaged one
//! until all of it is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{io, os::fd::OwnedFd, sync::Arc};

use kiln_store::in_parallel;
use rustix::fs::{
    Advice, AtFlags, Mode, OFlags, RenameFlags, fadvise, fsync, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::folder::{Found, Place, Walk, Watch, part_of};
use crate::index::{Change, FileRecord, Index};
use crate::set::{Bad, Coder, is_extent};
use crate::{OWN, ProtectError, Report, error::is_absent, shape::CELL};

/// Options of a check.
#[derive(Debug, Clone, Default)]
pub struct Check {
    /// Folders of the parity, where they are not those that were named at first.
    pub parity_dirs: Vec<PathBuf>,
    /// Bring back files that are missing or damaged, and parity.
    pub repair: bool,
    /// Bring back files that changed since, too.
    pub revert: bool,
    /// Sets at once.
    pub threads: usize,
}

/// Compares all files and the parity with their checksums, and repairs what is asked for.
/// Errors: there is no index; this process lacks something; the parity cannot be written.
pub fn check(path: &Path, options: &Check, watch: &dyn Watch) -> Result<Report, ProtectError> {
    let absent = path.join(OWN).metadata().is_err_and(|error| is_absent(&error));
    if options.parity_dirs.is_empty() && absent {
        return Err(ProtectError::NotProtected { path: path.to_owned() });
    }
    let mut place = Place::open(path, &options.parity_dirs, options.repair)?;
    let path = path.to_owned();
    let mut index = place.index.take().ok_or(ProtectError::NotProtected { path })?;
    let parity = place.parity(&index.head, options.repair)?;
    let walk = place.folder.walk(&place.dirs);
    let renamed = walk.renamed(&index.files);
    // Read, and brought back, under the names that they have now.
    for (id, path) in &renamed {
        index.files.entry(*id).and_modify(|file| file.path.clone_from(path));
    }
    let coder = Coder::new(&place.folder, &parity, index.head.geometry, &index.files, watch)?;
    let mut survey = Survey::new(&place, &index, coder, walk, options.threads)?;
    renamed.values().for_each(|path| survey.report.add("renamed", path));
    if options.repair {
        survey.repair(&place, options)?;
        parity.sync().map_err(ProtectError::io("write", "the parity"))?;
    }
    let mut report = survey.report;
    if options.repair && (index.uneven || !renamed.is_empty()) {
        let change = |id| Change::File(id, index.files.get(&id).cloned());
        let changes = renamed.into_keys().map(change).collect();
        report.index_written = index.commit(&place.copies, changes)?;
    }
    Ok(report)
}

/// Findings of a check, and the parts that a repair needs.
struct Survey<'a> {
    index: &'a Index,
    coder: Coder<'a>,
    report: Report,
    /// Sets with lost cells.
    bad: BTreeMap<u64, Bad>,
    /// Files that are missing, damaged or changed; whether they come back; what stands there now.
    files: BTreeMap<u64, (&'static str, bool, Option<Found>)>,
    members: BTreeMap<u64, Vec<(u64, usize)>>,
}

impl<'a> Survey<'a> {
    fn new(
        place: &Place,
        index: &'a Index,
        coder: Coder<'a>,
        walk: Walk,
        threads: usize,
    ) -> Result<Survey<'a>, ProtectError> {
        coder.watch.begin(index.bytes());
        let sets: Vec<_> = index.sets.iter().collect();
        let scanned = in_parallel(threads, sets, |_, (id, set)| {
            let mut denied = Vec::new();
            Ok((*id, coder.scan(set, &mut denied)?, denied))
        });
        let scanned = scanned.map_err(ProtectError::io("read", &place.folder.path))?;
        let mut report = Report::default();
        report.of_index(index);
        (report.index_damaged, report.index_lost) = (index.uneven, index.lost);
        report.others = walk.others;
        walk.failures.iter().for_each(|(path, why)| report.say("failed", path, why));
        let mut denied = BTreeSet::new();
        let (bad, files) = Default::default();
        let mut survey = Survey { index, coder, report, bad, files, members: index.members() };
        let data = index.head.geometry.data();
        for (id, bad, files) in scanned {
            denied.extend(files);
            let parity = data..data + index.head.geometry.parity();
            survey.report.parity_lost += bad.columns_of(parity).count() as u64;
            if !bad.0.is_empty() {
                survey.bad.insert(id, bad);
            }
        }
        for (id, file) in &index.files {
            match place.folder.look(&file.path) {
                Err(error) => survey.report.say("failed", &file.path, error),
                Ok(_) if denied.contains(id) => {
                    survey.report.say("failed", &file.path, "permission denied");
                }
                Ok(_) if file.mixed => survey.report.add("unprotected", &file.path),
                Ok(found) => survey.judge(*id, file, found),
            }
        }
        let known: BTreeSet<&PathBuf> = index.files.values().map(|file| &file.path).collect();
        let new = walk.files.keys().filter(|path| !known.contains(path));
        new.for_each(|path| survey.report.add("unprotected", path));
        Ok(survey)
    }

    fn judge(&mut self, id: u64, file: &FileRecord, found: Option<Found>) {
        let height = self.coder.geometry.height;
        let (mut whole, mut restorable) = (true, true);
        for (set, slot) in self.members.get(&id).into_iter().flatten() {
            let Some(bad) = self.bad.get(set) else { continue };
            for column in bad.columns_of(slot * height..(slot + 1) * height) {
                whole = false;
                restorable &= bad.lost(column) <= self.coder.geometry.parity();
            }
        }
        let problem = match found {
            None => "missing",
            Some(found) if found.size == file.size && whole => return,
            Some(found) if found.mtime == file.mtime => "damaged",
            Some(_) => "changed",
        };
        self.files.insert(id, (problem, restorable, found));
        self.report.add(problem, &file.path);
        if !restorable && problem != "changed" {
            self.report.add("lost", &file.path);
        }
    }

    fn repair(&mut self, place: &Place, options: &Check) -> Result<(), ProtectError> {
        let wanted = |what: &str| options.revert || what != "changed";
        let work =
            self.files.iter().filter(|(_, (what, restorable, _))| *restorable && wanted(what));
        let done = in_parallel(options.threads, work.collect(), |_, (id, (_, _, found))| {
            let file = &self.index.files[id];
            Ok::<_, ProtectError>((*id, file, restore(place, self, (*id, file), *found)))
        })?;
        let mut folders = BTreeSet::new();
        for (id, file, outcome) in done {
            match outcome {
                Ok(true) => {
                    self.report.add("restored", &file.path);
                    self.note_whole(id);
                    folders.extend(file.path.ancestors().skip(1));
                }
                Ok(false) => self.report.add("lost", &file.path),
                Err(error) => self.report.say("failed", &file.path, error),
            }
        }
        for folder in folders {
            if let Err(error) = place.folder.below(folder, false).and_then(sync_folder) {
                self.report.say("failed", folder, error);
            }
        }
        for (id, (what, restorable, _)) in &self.files {
            if options.revert && *what == "changed" && !restorable {
                self.report.add("lost", &self.index.files[id].path);
            }
        }
        let renewed = in_parallel(options.threads, self.bad.iter().collect(), |_, (id, bad)| {
            self.coder.renew(&self.index.sets[id], bad)
        });
        let still = renewed.map_err(ProtectError::io("write", "the parity"))?.iter().sum();
        self.report.parity_renewed = self.report.parity_lost - still;
        self.report.parity_lost = still;
        Ok(())
    }

    /// Notes that a file is whole.
    fn note_whole(&mut self, id: u64) {
        let height = self.coder.geometry.height;
        for (set, slot) in self.members.get(&id).into_iter().flatten() {
            let Some(bad) = self.bad.get_mut(set) else { continue };
            bad.0.retain(|(_, chunk)| chunk / height != *slot);
        }
    }
}

/// Writes a file beside its name, reads it again, and gives it the name; `false`: too much is lost.
fn restore(
    place: &Place,
    survey: &Survey<'_>,
    (id, file): (u64, &FileRecord),
    found: Option<Found>,
) -> io::Result<bool> {
    let name = file.path.file_name().ok_or(Errno::INVAL)?;
    let folder = place.folder.below(file.path.parent().unwrap_or(Path::new("")), true)?;
    let part = part_of(name);
    let _ = unlinkat(&folder, &part, AtFlags::empty());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let out = openat(&folder, &part, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
    survey.coder.watch.begun(&folder, &part);
    let named = || -> io::Result<bool> {
        if !write(survey, id, file, &File::from(out))? {
            return Ok(false);
        }
        if place.folder.look(&file.path)? != found {
            return Err(io::Error::other("it changed meanwhile; run the repair again"));
        }
        let flags = if found.is_none() { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        renameat_with(&folder, &part, &folder, name, flags)?;
        Ok(true)
    };
    let outcome = named();
    if !matches!(outcome, Ok(true)) {
        let _ = unlinkat(&folder, &part, AtFlags::empty());
    }
    survey.coder.watch.ended(&folder, &part);
    outcome
}

/// Writes the bytes and the metadata of a file, and reads the bytes again; zeros become holes.
fn write(survey: &Survey<'_>, id: u64, file: &FileRecord, out: &File) -> io::Result<bool> {
    let Survey { coder, index, .. } = survey;
    let extents = survey.members.get(&id).map_or(&[][..], Vec::as_slice);
    let mut end = 0;
    for (id, slot) in extents {
        let set = &index.sets[id];
        let Some(member) = &set.members[*slot] else { continue };
        let none = Bad::default();
        let bad = survey.bad.get(id).unwrap_or(&none);
        let Some(bytes) = coder.extent(set, bad, *slot)? else { return Ok(false) };
        if member.start != end {
            return Ok(false);
        }
        for (at, cell) in (member.start..).step_by(CELL as usize).zip(bytes.chunks(CELL as usize)) {
            if cell.iter().any(|byte| *byte != 0) {
                out.write_all_at(cell, at)?;
            }
        }
        end += member.len;
    }
    if end != file.size {
        return Ok(false);
    }
    out.set_len(file.size)?;
    // Only root gives files away.
    let given = fchown(out, Some(file.owner.0), Some(file.owner.1)).is_ok();
    let mode = if given { file.mode & 0o7777 } else { file.mode & 0o777 };
    out.set_permissions(Permissions::from_mode(mode))?;
    let time = match u64::try_from(file.mtime) {
        Ok(after) => UNIX_EPOCH + Duration::from_nanos(after),
        Err(_) => UNIX_EPOCH - Duration::from_nanos(file.mtime.unsigned_abs()),
    };
    out.set_times(FileTimes::new().set_modified(time))?;
    out.sync_all()?;
    let _ = fadvise(out, 0, None, Advice::DontNeed);
    for (id, slot) in extents {
        let Some(member) = &index.sets[id].members[*slot] else { continue };
        let mut bytes = vec![0; member.len as usize];
        out.read_exact_at(&mut bytes, member.start)?;
        if !is_extent(&index.sets[id], coder.geometry, *slot, &bytes) {
            return Err(io::Error::other("what was written reads as something else"));
        }
    }
    Ok(true)
}

/// Makes the names of a folder durable.
fn sync_folder(folder: Arc<OwnedFd>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(folder, ".", flags, Mode::empty())?)?)
}
