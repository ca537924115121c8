//! Versions of objects: found, made the one in force, amended, removed.
//!
//! The record of an object is the version in force, and lists the records of those before it, its
//! history. A put writes the version that it replaces under a fresh name first; then it replaces
//! the record, which decides. So a record of a version counts only while a history lists it, every
//! change of an object is a replacement of its one record over what was seen, and what is left
//! over after a crash is listed nowhere. A delete marker is a record without data, and is told by
//! its run.

use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, RETRIES, Seen, Written, contended, fresh, fresh_id, now_ms};
use crate::object::{Conditions, data_names};
use crate::record::{At, BucketRecord, NULL, ObjectRecord, UploadRecord, Versioning};
use crate::{lock, names};

/// Most versions of one object.
const MAX_VERSIONS: usize = 10_000;

/// Bucket, by name and record, and key of an object.
pub(crate) type Place<'a> = (&'a str, &'a BucketRecord, &'a str);

/// Result of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// The version that went, or the marker that was made.
    pub version: Option<String>,
    /// It is a delete marker.
    pub marker: bool,
}

/// Change of an object.
#[derive(Default)]
struct Turn {
    /// The record in force, with the bytes behind it; none: there is no object.
    record: Option<(ObjectRecord, Vec<u8>)>,
    /// Names that nothing needs when it is.
    gone: Vec<String>,
    /// Names that nothing needs if it never is.
    made: Vec<String>,
}

/// A change, if there is one, and what it ends with.
type Turned<T> = Result<(Option<Turn>, T)>;

/// Returns the id of the version that a word of a history is of.
pub(crate) fn id_of(word: &str) -> &str {
    word.rsplit_once('-').map_or(word, |(id, _)| id)
}

/// A fresh run, which tells whether the record is a delete marker.
fn run_of(record: &ObjectRecord) -> [u8; 16] {
    let mut run = fresh();
    if record.marker {
        // A UUID of version 8, whose bits have no meaning elsewhere.
        run[6] = run[6] & 0x0F | 0x80;
    }
    run
}

/// Returns whether a run, in hex digits, is one of a delete marker.
pub(crate) fn is_marker(run: &str) -> bool {
    run.as_bytes().get(12) == Some(&b'8')
}

fn no_version() -> GateError {
    Code::NoSuchVersion.error("version: the object has none of this id")
}

/// The object that is there for clients.
fn visible(seen: Option<&Seen<ObjectRecord>>) -> Option<&ObjectRecord> {
    seen.map(|seen| &seen.record).filter(|record| !record.marker)
}

impl Gate {
    /// Finds an object: the version in force.
    /// Errors: [`Code::NoSuchKey`], [`Code::NoSuchBucket`]; the pool's errors.
    pub(crate) fn object(&self, at: At<'_>) -> Result<Seen<ObjectRecord>> {
        let none = || Code::NoSuchKey.error("object: there is none of this key");
        let seen = self.see_object(at)?.ok_or_else(none)?;
        match seen.record.marker {
            true => Err(GateError { marker: Some(seen.record.id().to_owned()), ..none() }),
            false => Ok(seen),
        }
    }

    /// Finds the record in force, which may be a delete marker.
    pub(crate) fn see_object(&self, (at, key): At<'_>) -> Result<Option<Seen<ObjectRecord>>> {
        names::check_key(key)?;
        self.see(&names::record(&at.id, key))
    }

    /// Finds a version, or the one in force for `None`; returns the name of its record, too.
    /// Errors: [`Code::NoSuchKey`], [`Code::NoSuchVersion`]; the pool's errors.
    pub(crate) fn version(
        &self,
        (at, key): At<'_>,
        id: Option<&str>,
    ) -> Result<(String, Seen<ObjectRecord>)> {
        let Some(id) = id else {
            return Ok((names::record(&at.id, key), self.object((at, key))?));
        };
        for _ in 0..RETRIES {
            let seen = self.see_object((at, key))?.ok_or_else(no_version)?;
            if seen.record.id() == id {
                return Ok((names::record(&at.id, key), seen));
            }
            let word = seen.record.history.iter().find(|word| id_of(word) == id);
            let name = names::version(&at.id, key, word.ok_or_else(no_version)?);
            // It may be the one in force again meanwhile.
            if let Some(seen) = self.see(&name)? {
                return Ok((name, seen));
            }
        }
        Err(contended())
    }

    /// As [`Gate::version`], but a delete marker is an error.
    pub(crate) fn there(&self, at: At<'_>, id: Option<&str>) -> Result<Seen<ObjectRecord>> {
        let seen = self.version(at, id)?.1;
        match seen.record.marker {
            true => Err(is_a_marker(&seen.record)),
            false => Ok(seen),
        }
    }

    /// Replaces the record in force by what `turn` makes of it, until no other writer was faster.
    fn turn<T>(
        &self,
        (bucket, known, key): Place<'_>,
        mut turn: impl FnMut(Option<&Seen<ObjectRecord>>, &BucketRecord) -> Turned<T>,
    ) -> Result<T> {
        let name = names::record(&known.id, key);
        for _ in 0..RETRIES {
            let seen = self.see_object((known, key))?;
            let had = seen.as_ref().is_some_and(|seen| seen.record.version.is_some());
            // Versioning may have been changed since the request began.
            let now = match had || known.versioning() != Versioning::Never {
                true => Some(self.bucket(bucket)?),
                false => None,
            };
            let (turned, end) = turn(seen.as_ref(), now.as_ref().unwrap_or(known))?;
            let Some(Turn { record, gone, made }) = turned else { return Ok(end) };
            if let Some(id) = seen.as_ref().and_then(|seen| seen.record.upload.as_ref()) {
                // No client completes it again: its parts would be those of two objects.
                self.end_upload(&names::upload(&known.id, key, id))?;
            }
            let over = seen.as_ref().map(|seen| seen.run);
            let written = match (&record, over) {
                (Some((record, data)), over) => {
                    self.write_as(run_of(record), &name, record, data, over)
                }
                (None, Some(over)) => self.remove(&name, over),
                (None, None) => return Ok(end),
            };
            // After a failure it may be in force, or not: a sweep will know.
            let Written::Done(run) = written? else {
                self.discard(&made);
                continue;
            };
            self.discard(&gone);
            if record.is_some() {
                self.still_there(bucket, known).inspect_err(|error| {
                    // With an earlier object the bucket was not empty, and stays. Where it cannot
                    // be asked now, the object stays, which a reader may have seen.
                    if over.is_none()
                        && error.code.status() < 500
                        && let Ok(Written::Done(_)) = self.remove(&name, run)
                    {
                        let record = record.as_ref().filter(|(record, _)| record.upload.is_none());
                        let own = record.map(|(record, _)| data_names(&known.id, key, record));
                        self.discard(&own.unwrap_or_default());
                    }
                })?;
            }
            return Ok(end);
        }
        Err(contended())
    }

    fn end_upload(&self, name: &str) -> Result<()> {
        for _ in 0..RETRIES {
            let Some(seen) = self.see::<UploadRecord>(name)? else { return Ok(()) };
            if let Written::Done(_) = self.remove(name, seen.run)? {
                return Ok(());
            }
        }
        Err(contended())
    }

    /// Keeps the version that is replaced, as the bucket's versioning has it, and gives the new
    /// one its history.
    fn succeed(
        &self,
        (at, key): At<'_>,
        seen: Option<&Seen<ObjectRecord>>,
        record: &mut ObjectRecord,
    ) -> Result<Turn> {
        let mut turn = Turn::default();
        let versioning = at.versioning();
        record.version = (versioning == Versioning::Enabled).then(fresh_id);
        let Some(seen) = seen else { return Ok(turn) };
        record.history.clone_from(&seen.record.history);
        if record.version.is_none() {
            // At most one version is called `null`.
            for word in record.history.extract_if(.., |word| id_of(word) == NULL) {
                let name = names::version(&at.id, key, &word);
                if let Some(old) = self.see::<ObjectRecord>(&name)? {
                    turn.gone.extend(data_names(&at.id, key, &old.record));
                }
                turn.gone.push(name);
            }
        }
        if record.version.is_none() && seen.record.version.is_none() {
            turn.gone.extend(data_names(&at.id, key, &seen.record));
            return Ok(turn);
        }
        if record.history.len() >= MAX_VERSIONS {
            return Code::InvalidRequest
                .err(format!("object: it has {MAX_VERSIONS} versions; delete some"));
        }
        let word = format!("{}-{}", seen.record.id(), &fresh_id()[..8]);
        let name = names::version(&at.id, key, &word);
        let old = ObjectRecord { history: Vec::new(), ..seen.record.clone() };
        self.write_as(run_of(&old), &name, &old, &seen.data, None)?;
        turn.made.push(name);
        record.history.push(word);
        Ok(turn)
    }

    /// Makes a record the one in force; returns it as it is. Data that the one before had is
    /// removed, unless the bucket keeps versions.
    pub(crate) fn commit(
        &self,
        place: Place<'_>,
        record: &ObjectRecord,
        small: &[u8],
        conditions: &Conditions,
    ) -> Result<ObjectRecord> {
        let (_, known, key) = place;
        // Parts stay with their upload, which may be completed again.
        let own = match record.upload {
            None => data_names(&known.id, key, record),
            Some(_) => Vec::new(),
        };
        self.turn(place, |seen, at| {
            let there = seen.filter(|seen| seen.record.upload == record.upload);
            if let Some(there) = there.filter(|_| record.upload.is_some()) {
                return Ok((None, there.record.clone()));
            }
            conditions.check(visible(seen)).inspect_err(|_| self.discard(&own))?;
            if let Some(id) = &record.upload {
                // In this order: another completion ends the upload after its own commit only, and
                // the write behind this would meet that.
                let upload = names::upload(&known.id, key, id);
                if self.see::<UploadRecord>(&upload)?.is_none() {
                    return Code::NoSuchUpload.err("upload: it has ended");
                }
            }
            let mut record = record.clone();
            record.retention = record.retention.or_else(|| lock::default_of(at, now_ms()));
            let turn = self.succeed((at, key), seen, &mut record)?;
            Ok((Some(Turn { record: Some((record.clone(), small.to_vec())), ..turn }), record))
        })
    }

    /// Removes an object, or makes a delete marker of it where the bucket keeps versions; or
    /// removes one version; `bypass`: past governance.
    /// Errors: [`Code::PreconditionFailed`]; [`Code::AccessDenied`] of a version that is locked;
    /// the pool's errors.
    pub(crate) fn delete_object(
        &self,
        place: Place<'_>,
        id: Option<&str>,
        conditions: &Conditions,
        bypass: bool,
    ) -> Result<Deleted> {
        names::check_key(place.2)?;
        self.turn(place, |seen, at| match id {
            Some(id) => self.without(place, seen, id, (conditions, bypass)),
            None => {
                conditions.check(visible(seen))?;
                self.marked((at, place.2), seen)
            }
        })
    }

    /// As [`Gate::delete_object`] of the object in force, if it is `due`; returns whether it was.
    pub(crate) fn delete_if(
        &self,
        place: Place<'_>,
        due: impl Fn(&ObjectRecord) -> bool,
    ) -> Result<bool> {
        self.turn(place, |seen, at| match visible(seen).is_some_and(&due) {
            true => Ok((self.marked((at, place.2), seen)?.0, true)),
            false => Ok((None, false)),
        })
    }

    /// Removes the object in force, or puts a delete marker over it.
    fn marked(&self, (at, key): At<'_>, seen: Option<&Seen<ObjectRecord>>) -> Turned<Deleted> {
        if at.versioning() == Versioning::Never {
            let gone = seen.map(|seen| data_names(&at.id, key, &seen.record)).unwrap_or_default();
            return Ok((Some(Turn { gone, ..Turn::default() }), Deleted::default()));
        }
        let (modified_ms, marker) = (now_ms(), true);
        let mut marker = ObjectRecord { modified_ms, marker, ..ObjectRecord::default() };
        let turn = self.succeed((at, key), seen, &mut marker)?;
        let version = Some(marker.id().to_owned());
        let turn = Turn { record: Some((marker, Vec::new())), ..turn };
        Ok((Some(turn), Deleted { version, marker: true }))
    }

    /// Removes one version: that before it takes its place if it was in force.
    fn without(
        &self,
        (_, at, key): Place<'_>,
        seen: Option<&Seen<ObjectRecord>>,
        id: &str,
        (conditions, bypass): (&Conditions, bool),
    ) -> Turned<Deleted> {
        let name = |word: &str| names::version(&at.id, key, word);
        let none = Deleted { version: Some(id.to_owned()), marker: false };
        let Some(seen) = seen else {
            conditions.check(None)?;
            return Ok((None, none));
        };
        let mut history = seen.record.history.clone();
        let deleted = |record: &ObjectRecord| Deleted { marker: record.marker, ..none.clone() };
        if seen.record.id() == id {
            conditions.check(visible(Some(seen)))?;
            lock::check_removal(&seen.record, now_ms(), bypass)?;
            let mut gone = data_names(&at.id, key, &seen.record);
            while let Some(word) = history.pop() {
                gone.push(name(&word));
                // A version that is not there any more was in force when another one removed it.
                if let Some(before) = self.see::<ObjectRecord>(&name(&word))? {
                    let record = ObjectRecord { history, ..before.record };
                    let turn = Turn { record: Some((record, before.data)), gone, made: vec![] };
                    return Ok((Some(turn), deleted(&seen.record)));
                }
            }
            return Ok((Some(Turn { gone, ..Turn::default() }), deleted(&seen.record)));
        }
        let Some(word) = history.extract_if(.., |word| id_of(word) == id).last() else {
            conditions.check(None)?;
            return Ok((None, none));
        };
        let mut gone = vec![name(&word)];
        let old = self.see::<ObjectRecord>(&gone[0])?;
        conditions.check(visible(old.as_ref()))?;
        if let Some(old) = &old {
            lock::check_removal(&old.record, now_ms(), bypass)?;
        }
        let end = old.as_ref().map_or(none.clone(), |old| deleted(&old.record));
        gone.extend(old.iter().flat_map(|old| data_names(&at.id, key, &old.record)));
        let record = ObjectRecord { history, ..seen.record.clone() };
        let turn = Turn { record: Some((record, seen.data.clone())), gone, made: vec![] };
        Ok((Some(turn), end))
    }

    /// Changes what is known of a version beside its data; returns it as it is then.
    /// Errors: as [`Gate::version`]; those of `change`.
    pub(crate) fn amend(
        &self,
        (at, key): At<'_>,
        id: Option<&str>,
        change: impl Fn(&mut ObjectRecord) -> Result<()>,
    ) -> Result<ObjectRecord> {
        let own = names::record(&at.id, key);
        for _ in 0..RETRIES {
            let (name, mut seen) = self.version((at, key), id)?;
            if seen.record.marker {
                return Err(is_a_marker(&seen.record));
            }
            change(&mut seen.record)?;
            let written = self.write(&name, &seen.record, &seen.data, Some(seen.run))?;
            let Written::Done(_) = written else { continue };
            if name == own {
                return Ok(seen.record);
            }
            // It counts only if no deletion before it read the version as it was: those replace
            // the object's record over one that is not there any more.
            let Some(top) = self.see_object((at, key))? else { continue };
            let listed = top.record.history.iter().any(|word| name.ends_with(word.as_str()));
            let run = run_of(&top.record);
            if listed
                && let Written::Done(_) =
                    self.write_as(run, &own, &top.record, &top.data, Some(top.run))?
            {
                return Ok(seen.record);
            }
        }
        Err(contended())
    }
}

/// Error of a request for the data of a delete marker.
fn is_a_marker(record: &ObjectRecord) -> GateError {
    let why = "version: it is a delete marker";
    let marker = Some(record.id().to_owned());
    GateError { marker, ..Code::MethodNotAllowed.error(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_tell_delete_markers() {
        for marker in [false, true] {
            let run = run_of(&ObjectRecord { marker, ..ObjectRecord::default() });
            assert_eq!(is_marker(&crate::digest::hex(&run)), marker);
        }
        assert_eq!((id_of("null-01234567"), id_of("ab-0")), ("null", "ab"));
    }
}
