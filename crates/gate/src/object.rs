//! Objects: put, read, copied, removed.

use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use kiln_stripe::{PoolError, StreamSource};

use crate::digest::{self, Kind};
use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, Seen, fresh_id, now_ms};
use crate::names;
use crate::payload::{Announced, Payload};
use crate::record::{At, BucketRecord, ObjectRecord, PartRecord};

/// Bytes of a copy that are taken at a time.
const COPY_BLOCK: usize = 128 << 10;

/// Most time of a put: a sweep removes data that is unnamed for longer.
const MAX_TIME: Duration = Duration::from_secs(12 * 3600);

/// Demands on what is there before a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Only where there is an object of this entity tag, or any for `*`.
    pub if_match: Option<String>,
    /// Only where there is none.
    pub if_none: bool,
}

impl Conditions {
    /// Refuses a change that the object in force does not permit.
    pub(crate) fn check(&self, there: Option<&ObjectRecord>) -> Result<()> {
        let failed = |what: &str| Code::PreconditionFailed.err(what);
        if self.if_none && there.is_some() {
            return failed("If-None-Match: there is an object of this key");
        }
        match (&self.if_match, there) {
            (Some(_), None) => Code::NoSuchKey.err("If-Match: there is no object of this key"),
            (Some(etag), Some(there)) if etag != "*" && *etag != there.etag => {
                failed("If-Match: the object has another entity tag")
            }
            _ => Ok(()),
        }
    }
}

/// An object that is to be: headers, metadata, tags, retention and legal hold, and the demands on
/// what is there.
pub(crate) type NewObject = (ObjectRecord, Conditions);

impl Gate {
    /// Puts an object: it is durable and whole when this returns, or not there.
    pub(crate) fn put_object(
        &self,
        (bucket, at, key): (&str, &BucketRecord, &str),
        (new, conditions): NewObject,
        body: &mut Payload<'_>,
    ) -> Result<ObjectRecord> {
        names::check_key(key)?;
        if conditions != Conditions::default() {
            // Before much is read; what counts is the look at the end.
            let seen = self.see::<ObjectRecord>(&names::record(&at.id, key))?;
            let there = seen.as_ref().map(|seen| &seen.record).filter(|record| !record.marker);
            conditions.check(there)?;
        }
        let (id, begun) = (fresh_id(), Instant::now());
        let (mut small, mut parts) = (Vec::new(), Vec::new());
        if self.is_small(body.length()) {
            let read = body.read_to_end(&mut small);
            read.map_err(|error| unread(body, error))?;
        } else {
            let data = names::data(&at.id, key, &id);
            self.put_verified(&data, body)?;
            if begun.elapsed() > MAX_TIME {
                self.discard(&[data]);
                return Code::IncompleteBody.err("payload: it took more than 12 hours");
            }
            parts.push(PartRecord {
                id,
                number: 0,
                size: body.length(),
                etag: String::new(),
                modified_ms: 0,
                checksum: None,
            });
        }
        let (size, sums) = (body.length(), body.verified());
        let (etag, checksum) = (digest::hex(&sums.md5()), sums.named());
        let record = ObjectRecord { size, etag, modified_ms: now_ms(), checksum, parts, ..new };
        self.commit((bucket, at, key), &record, &small, &conditions)
    }

    /// Puts data, and gives the client's own failure where it had one.
    pub(crate) fn put_verified(&self, name: &str, body: &mut Payload<'_>) -> Result<()> {
        // All of it was read, or it is not in the pool: an object that is cut short is refused.
        let size = body.length();
        body.hurry(self.budget());
        let mut source = StreamSource::new(&mut *body).with_size(size);
        self.put_data(name, &mut source).map_err(|error| failure_of(body, error))?;
        let rest = body.read(&mut [0; 1]).map_err(|error| unread(body, error));
        match rest {
            Ok(0) => Ok(()),
            end => {
                self.discard(&[name.to_owned()]);
                end.and(Code::InternalError.err("payload: longer than it said"))
            }
        }
    }

    /// Writes a range of an object's data to `out`.
    /// Errors: [`PoolError::NoObject`] where it was replaced meanwhile; as the pool's reads.
    pub(crate) fn read_object(
        &self,
        (at, key): At<'_>,
        seen: &Seen<ObjectRecord>,
        range: Range<u64>,
        out: &mut dyn Write,
    ) -> Result<(), PoolError> {
        let closed = |source| PoolError::Output { source };
        if seen.record.parts.is_empty() {
            let part = seen.data.get(range.start as usize..range.end as usize).unwrap_or(&[]);
            return out.write_all(part).map_err(closed);
        }
        let mut start = 0;
        for part in &seen.record.parts {
            let end = start + part.size;
            let wanted = range.start.max(start)..range.end.min(end);
            if wanted.start < wanted.end {
                let within = wanted.start - start..wanted.end - start;
                self.read_data(&names::data(&at.id, key, &part.id), within, out)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Reads an object while `act` takes its data; `kind` names a checksum to compute.
    pub(crate) fn while_reading<T>(
        &self,
        at: At<'_>,
        seen: &Seen<ObjectRecord>,
        range: Range<u64>,
        kind: Option<Kind>,
        act: impl FnOnce(&mut Payload<'_>) -> Result<T>,
    ) -> Result<T> {
        let length = range.end - range.start;
        let (from, mut to) = io::pipe().map_err(|source| PoolError::Input { source })?;
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || self.read_object(at, seen, range, &mut to).err());
            let mut from = BufReader::with_capacity(COPY_BLOCK, from);
            let end = act(&mut Payload::new(&mut from, Announced::plain(length), None, kind));
            drop(from);
            match (end, reading.join()) {
                // Of the two sides the one that failed first knows why.
                (Err(_), Ok(Some(error))) if !matches!(error, PoolError::Output { .. }) => {
                    Err(error.into())
                }
                (end, _) => end,
            }
        })
    }
}

pub(crate) fn data_names(bucket_id: &str, key: &str, record: &ObjectRecord) -> Vec<String> {
    record.parts.iter().map(|part| names::data(bucket_id, key, &part.id)).collect()
}

/// Returns the client's failure where it had one, else the pool's.
fn failure_of(body: &mut Payload<'_>, error: PoolError) -> GateError {
    body.failure().unwrap_or_else(|| error.into())
}

/// Returns why a client's data could not be read.
pub(crate) fn unread(body: &mut Payload<'_>, source: io::Error) -> GateError {
    failure_of(body, PoolError::Input { source })
}
