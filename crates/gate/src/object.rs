//! Objects: put, read, copied, removed.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use kiln_stripe::{PoolError, StreamSource};

use crate::digest::{self, Digests, Kind, Sums};
use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, Seen, fresh_id, now_ms};
use crate::names;
use crate::record::{BucketRecord, ObjectRecord, PartRecord, Retention};

/// Blocks that wait between the reading and the writing side of a copy.
const COPY_BLOCKS: usize = 4;

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
        let failed = |what: &str| Err(GateError::new(Code::PreconditionFailed, what));
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

/// An object that is to be: all but its data.
#[derive(Clone, Debug, Default)]
pub struct NewObject {
    /// Headers that are given back as they came, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The user's own metadata.
    pub meta: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Retention and legal hold.
    pub lock: Lock,
    /// Demands on what is there.
    pub conditions: Conditions,
}

/// Retention and legal hold of a version that is to be.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Retention; none: that of the bucket.
    pub retention: Option<Retention>,
    /// Legal hold.
    pub hold: Option<bool>,
}

/// Data that is on its way from a client; its end comes only when all of it was verified.
pub(crate) trait Incoming: Read + Send {
    /// Returns how many bytes it has.
    fn length(&self) -> u64;

    /// Returns the error by which it ended before its end.
    fn failure(&mut self) -> Option<GateError>;

    /// Returns the sums of what was verified, after the end.
    fn verified(&mut self) -> &Sums;
}

impl Gate {
    /// Puts an object: it is durable and whole when this returns, or not there.
    pub(crate) fn put_object(
        &self,
        (bucket, at, key): (&str, &BucketRecord, &str),
        new: NewObject,
        body: &mut dyn Incoming,
    ) -> Result<ObjectRecord> {
        names::check_key(key)?;
        if new.conditions != Conditions::default() {
            // Before much is read; what counts is the look at the end.
            let seen = self.see::<ObjectRecord>(&names::record(&at.id, key))?;
            let there = seen.as_ref().map(|seen| &seen.record).filter(|record| !record.marker);
            new.conditions.check(there)?;
        }
        let (size, id, begun) = (body.length(), fresh_id(), Instant::now());
        let mut small = Vec::new();
        let mut parts = Vec::new();
        if self.is_small(size) {
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
                size,
                etag: String::new(),
                modified_ms: 0,
                checksum: None,
            });
        }
        let sums = body.verified();
        let NewObject { headers, meta, tags, lock, conditions } = new;
        let record = ObjectRecord {
            size,
            etag: digest::hex(&sums.md5()),
            modified_ms: now_ms(),
            headers,
            meta,
            checksum: sums.named(),
            parts,
            tags,
            retention: lock.retention,
            hold: lock.hold,
            ..ObjectRecord::default()
        };
        self.commit((bucket, at, key), &record, &small, &conditions)
    }

    /// Puts data, and gives the client's own failure where it had one.
    pub(crate) fn put_verified(&self, name: &str, body: &mut dyn Incoming) -> Result<()> {
        // All of it was read, or it is not in the pool: an object that is cut short is refused.
        let size = body.length();
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
    ///
    /// # Errors
    /// [`PoolError::NoObject`] where it was replaced meanwhile; as the pool's reads.
    pub(crate) fn read_object(
        &self,
        at: &BucketRecord,
        key: &str,
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
        (at, key): (&BucketRecord, &str),
        seen: &Seen<ObjectRecord>,
        range: Range<u64>,
        kind: Option<Kind>,
        act: impl FnOnce(&mut dyn Incoming) -> Result<T>,
    ) -> Result<T> {
        let (to, from) = sync_channel(COPY_BLOCKS);
        let length = range.end - range.start;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut out = Blocks(to.clone());
                if let Err(error) = self.read_object(at, key, seen, range, &mut out) {
                    let _ = to.send(Err(error.into()));
                }
            });
            let digests = Digests::new(false, kind);
            act(&mut Copied {
                from,
                block: Vec::new(),
                at: 0,
                length,
                got: 0,
                digests,
                failed: None,
            })
        })
    }
}

/// Names of the data of an object.
pub(crate) fn data_names(bucket_id: &str, key: &str, record: &ObjectRecord) -> Vec<String> {
    record.parts.iter().map(|part| names::data(bucket_id, key, &part.id)).collect()
}

/// Returns the client's failure where it had one, else the pool's.
fn failure_of(body: &mut dyn Incoming, error: PoolError) -> GateError {
    body.failure().unwrap_or_else(|| error.into())
}

/// Returns why a client's data could not be read.
pub(crate) fn unread(body: &mut dyn Incoming, source: io::Error) -> GateError {
    failure_of(body, PoolError::Input { source })
}

/// The writing side of a copy.
struct Blocks(SyncSender<Result<Vec<u8>>>);

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(Ok(bytes.to_vec()));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading side of a copy.
struct Copied {
    from: Receiver<Result<Vec<u8>>>,
    block: Vec<u8>,
    at: usize,
    length: u64,
    got: u64,
    digests: Digests,
    failed: Option<GateError>,
}

impl Read for Copied {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            (self.block, self.at) = match self.from.recv() {
                Ok(Ok(block)) => (block, 0),
                Ok(Err(error)) => {
                    self.failed = Some(error);
                    return Err(io::ErrorKind::Other.into());
                }
                Err(_) if self.got == self.length => return Ok(0),
                Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        let taken = buf.len().min(self.block.len() - self.at);
        buf[..taken].copy_from_slice(&self.block[self.at..self.at + taken]);
        self.digests.update(&buf[..taken]);
        self.at += taken;
        self.got += taken as u64;
        Ok(taken)
    }
}

impl Incoming for Copied {
    fn length(&self) -> u64 {
        self.length
    }

    fn failure(&mut self) -> Option<GateError> {
        self.failed.take()
    }

    fn verified(&mut self) -> &Sums {
        self.digests.sums()
    }
}
