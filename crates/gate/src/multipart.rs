//! Uploads in parts: begun, continued, completed, aborted.
//!
//! A part is written once, as data of the object that it will belong to; completing an upload
//! writes one record that names its parts. From the moment at which an upload is marked as
//! `completing` it cannot be aborted, so that no part of an object in force is removed.

use std::io::Read as _;

use crate::digest::{self, Kind};
use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, RETRIES, Seen, Written, contended, fresh_id, now_ms};
use crate::object::{Conditions, NewObject, unread};
use crate::payload::{Payload, unmatched};
use crate::record::{BucketRecord, Checksum, ObjectRecord, PartRecord, UploadRecord};
use crate::{names, request::NO_PART};

/// Least bytes of a part that is not the last one.
pub(crate) const MIN_PART: u64 = 5 << 20;
/// Greatest number of a part.
pub(crate) const MAX_PARTS: u32 = 10_000;

/// An upload among a bucket's.
#[derive(Copy, Clone, Debug)]
pub(crate) struct UploadOf<'a> {
    /// Name of the bucket.
    pub bucket: &'a str,
    pub at: &'a BucketRecord,
    /// Key of the object.
    pub key: &'a str,
    /// Identity of the upload.
    pub id: &'a str,
}

/// A part as the client that completes an upload names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPart {
    pub number: u32,
    /// Its entity tag.
    pub etag: String,
    /// Its checksum, where it was given.
    pub checksum: Option<Checksum>,
}

/// Demands on the object that an upload becomes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub checksum: Option<Checksum>,
    /// Its checksum is of all bytes, or else of its parts' checksums.
    pub full: Option<bool>,
    /// Its bytes.
    pub size: Option<u64>,
}

/// Refuses numbers that no part can have.
pub(crate) fn check_number(number: u32) -> Result<()> {
    match (1..=MAX_PARTS).contains(&number) {
        true => Ok(()),
        false => Code::InvalidArgument.err(NO_PART),
    }
}

impl Gate {
    /// Begins an upload, and returns its identity.
    pub(crate) fn begin_upload(
        &self,
        (bucket, at, key): (&str, &BucketRecord, &str),
        (new, _): NewObject,
        checksum_kind: Option<Kind>,
        full: bool,
    ) -> Result<String> {
        names::check_key(key)?;
        let begun_ms = now_ms();
        // Lists have the uploads of a key in the order of their times.
        let id = format!("{begun_ms:012x}{}", &fresh_id()[12..]);
        let record = UploadRecord {
            begun_ms,
            headers: new.headers,
            meta: new.meta,
            tags: new.tags,
            retention: new.retention,
            hold: new.hold,
            checksum_kind: checksum_kind.map(|kind| kind.name().to_owned()),
            checksum_full: full,
            completing: false,
        };
        self.write(&names::upload(&at.id, key, &id), &record, &[], None)?;
        self.still_there(bucket, at)?;
        Ok(id)
    }

    /// Finds an upload.
    pub(crate) fn upload(&self, of: UploadOf<'_>) -> Result<Seen<UploadRecord>> {
        names::check_key(of.key)?;
        let none = || Code::NoSuchUpload.error("upload: there is none of this id");
        let plain = of.id.len() == 32 && of.id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain {
            return Err(none());
        }
        self.see(&names::upload(&of.at.id, of.key, of.id))?.ok_or_else(none)
    }

    /// Puts a part; one of the same number is replaced.
    pub(crate) fn put_part(
        &self,
        of: UploadOf<'_>,
        number: u32,
        body: &mut Payload<'_>,
    ) -> Result<PartRecord> {
        check_number(number)?;
        let at = of.at;
        let id = format!("{}-{number:05}-{}", of.id, &fresh_id()[..8]);
        let data = names::data(&at.id, of.key, &id);
        let size = body.length();
        match size {
            // The pool has no use for data of no bytes.
            0 => {
                let read = body.read(&mut [0; 1]);
                read.map_err(|error| unread(body, error))?;
            }
            _ => self.put_verified(&data, body)?,
        }
        let sums = body.verified();
        let (etag, checksum) = (digest::hex(&sums.md5()), sums.kept());
        let part = PartRecord { id, number, size, etag, modified_ms: now_ms(), checksum };
        let name = names::part(&at.id, of.id, number);
        for _ in 0..RETRIES {
            // Data of the one before is left: a completion that has begun may want it.
            let over = self.see::<PartRecord>(&name)?.map(|seen| seen.run);
            if let Written::Done(_) = self.write(&name, &part, &[], over)? {
                // It may have been aborted, or completed, meanwhile.
                self.upload(of)?;
                return Ok(part);
            }
        }
        Err(contended())
    }

    /// Lists the parts of an upload in order, those after a number.
    pub(crate) fn list_parts(&self, of: UploadOf<'_>, after: u32) -> Result<Vec<PartRecord>> {
        let names = self.names(&names::parts(&of.at.id, of.id))?;
        let parts = self.see_all::<PartRecord>(&names)?.into_iter().flatten();
        Ok(parts.filter(|part| part.number > after).collect())
    }

    /// Completes an upload: the object of its parts is in force when this returns.
    pub(crate) fn complete(
        &self,
        of: UploadOf<'_>,
        named: &[NamedPart],
        expected: &Expected,
        conditions: &Conditions,
    ) -> Result<ObjectRecord> {
        let name = names::upload(&of.at.id, of.key, of.id);
        for _ in 0..RETRIES {
            let seen = match self.upload(of) {
                // A client that did not hear of its end asks again.
                Err(error) if error.code == Code::NoSuchUpload => {
                    return self.completed(of, error).and_then(|record| made_of(record, named));
                }
                found => found?,
            };
            let parts = self.chosen(of, &seen.record, named)?;
            let record = whole(of, &seen.record, parts, expected)?;
            let marked = UploadRecord { completing: true, ..seen.record };
            let Written::Done(mark) = self.write(&name, &marked, &[], Some(seen.run))? else {
                continue;
            };
            // Another completion, of other parts, may have been faster: its parts stay.
            let record = match self.commit((of.bucket, of.at, of.key), &record, &[], conditions) {
                Ok(record) => record,
                Err(error) => {
                    if matches!(error.code, Code::PreconditionFailed | Code::NoSuchKey) {
                        // It may be aborted, or completed otherwise.
                        let open = UploadRecord { completing: false, ..marked };
                        self.write(&name, &open, &[], Some(mark))?;
                    }
                    return Err(error);
                }
            };
            self.discard(&[name]);
            self.forget_parts(of, &record)?;
            return made_of(record, named);
        }
        Err(contended())
    }

    /// An upload that is not there: it may have become the object that is.
    fn completed(&self, of: UploadOf<'_>, error: GateError) -> Result<ObjectRecord> {
        match self.see::<ObjectRecord>(&names::record(&of.at.id, of.key))? {
            Some(there) if there.record.upload.as_deref() == Some(of.id) => Ok(there.record),
            _ => Err(error),
        }
    }

    /// The parts that a client named, as they were put.
    fn chosen(
        &self,
        of: UploadOf<'_>,
        upload: &UploadRecord,
        named: &[NamedPart],
    ) -> Result<Vec<PartRecord>> {
        if named.is_empty() || named.len() > MAX_PARTS as usize {
            return Code::MalformedXML.err("parts: none, or too many are named");
        }
        if named.windows(2).any(|pair| pair[0].number >= pair[1].number) {
            return Code::InvalidPartOrder.err("parts: they are not in order");
        }
        let wanted: Vec<String> =
            named.iter().map(|part| names::part(&of.at.id, of.id, part.number)).collect();
        let composite = upload.checksum_kind.is_some() && !upload.checksum_full;
        let found = self.see_all::<PartRecord>(&wanted)?;
        let mut parts = Vec::with_capacity(named.len());
        for (named, found) in named.iter().zip(found) {
            let wrong =
                |why: &str| Code::InvalidPart.error(format!("part {}: {why}", named.number));
            let part = found.ok_or_else(|| wrong("it was not uploaded"))?;
            if part.etag != named.etag {
                return Err(wrong("it has another entity tag"));
            }
            match (&named.checksum, &part.checksum) {
                (Some(named), Some(has)) if named.kind == has.kind && named.value != has.value => {
                    return Err(wrong("it has another checksum"));
                }
                (Some(named), Some(has))
                    if named.kind != has.kind && upload.checksum_kind.is_some() =>
                {
                    let (kind, number) = (named.kind.to_ascii_lowercase(), part.number);
                    return Code::BadDigest.err(format!(
                        "The {kind} you specified for part {number} did not match what we received."
                    ));
                }
                (None, _) if composite => {
                    let kind = upload.checksum_kind.as_deref().unwrap_or("").to_ascii_lowercase();
                    return Code::InvalidRequest.err(format!(
                        "The upload was created using a {kind} checksum. The complete request must \
                         include the checksum for each part. It was missing for part {} in the \
                         request.",
                        part.number
                    ));
                }
                _ => {}
            }
            parts.push(part);
        }
        if parts.iter().rev().skip(1).any(|part| part.size < MIN_PART) {
            return Code::EntityTooSmall.err("parts: one that is not the last has less than 5 MiB");
        }
        Ok(parts)
    }

    /// Aborts an upload, and removes its parts.
    pub(crate) fn abort(&self, of: UploadOf<'_>) -> Result<()> {
        for _ in 0..RETRIES {
            let seen = self.upload(of)?;
            if seen.record.completing {
                return Code::OperationAborted
                    .err("upload: it is being completed; complete it again to end it");
            }
            let name = names::upload(&of.at.id, of.key, of.id);
            if let Written::Done(_) = self.remove(&name, seen.run)? {
                return self.forget_parts(of, &ObjectRecord::default());
            }
        }
        Err(contended())
    }

    /// Removes the records of an upload's parts, and data that is not an object's.
    fn forget_parts(&self, of: UploadOf<'_>, object: &ObjectRecord) -> Result<()> {
        let mut names = self.names(&names::parts(&of.at.id, of.id))?;
        let prefix = names::data(&of.at.id, of.key, of.id);
        let data = self.names(&prefix)?;
        let keeps = |name: &String| {
            let id = name.rsplit('/').next().unwrap_or_default();
            object.parts.iter().any(|part| part.id == id)
        };
        names.extend(data.into_iter().filter(|name| !keeps(name)));
        self.discard(&names);
        Ok(())
    }

    /// Lists the uploads of a bucket with a prefix that are not complete, by key and id.
    pub(crate) fn uploads(
        &self,
        at: &BucketRecord,
        prefix: &str,
    ) -> Result<Vec<(String, String, UploadRecord)>> {
        let root = names::uploads(&at.id);
        let names = self.names(&(root.clone() + &names::encode(prefix)))?;
        let records = self.see_all::<UploadRecord>(&names)?;
        let upload = |(name, record): (&String, Option<UploadRecord>)| {
            let (key, id) = name.strip_prefix(&root)?.rsplit_once('/')?;
            Some((names::decode(key)?, id.to_owned(), record?))
        };
        Ok(names.iter().zip(records).filter_map(upload).collect())
    }
}

/// Refuses an object that its upload became by another completion, of other parts.
fn made_of(record: ObjectRecord, named: &[NamedPart]) -> Result<ObjectRecord> {
    let parts = record.parts.iter().map(|part| (part.number, &part.etag));
    match parts.eq(named.iter().map(|part| (part.number, &part.etag))) {
        true => Ok(record),
        false => Code::NoSuchUpload.err("upload: it was completed with other parts"),
    }
}

/// The object that the parts of an upload make.
fn whole(
    of: UploadOf<'_>,
    upload: &UploadRecord,
    parts: Vec<PartRecord>,
    expected: &Expected,
) -> Result<ObjectRecord> {
    let size = parts.iter().map(|part| part.size).sum();
    let wrong = |why: &str| Code::InvalidRequest.err(why);
    if let Some(expected) = expected.size.filter(|expected| *expected != size) {
        return wrong(&format!(
            "The provided 'x-amz-mp-object-size' header value {expected} does not match what was \
             computed: {size}"
        ));
    }
    let declared = upload.checksum_kind.is_some();
    if declared && expected.full.is_some_and(|full| full != upload.checksum_full) {
        let mode = if upload.checksum_full { "FULL_OBJECT" } else { "COMPOSITE" };
        return wrong(&format!(
            "The upload was created using the {mode} checksum mode. The complete request must use \
             the same checksum mode."
        ));
    }
    let mut sums = Vec::with_capacity(16 * parts.len());
    for part in &parts {
        sums.extend(digest::unhex(&part.etag).unwrap_or_default());
    }
    let etag = format!("{}-{}", digest::hex(&digest::md5(&sums)), parts.len());
    let checksum = match upload.checksum_full || !declared {
        true => full(&parts),
        false => composite(&parts),
    };
    if let (true, Some(expected), Some(found)) = (declared, &expected.checksum, &checksum)
        && expected.kind == found.kind
        && expected.value != found.value
    {
        return Code::BadDigest.err(Kind::named(&expected.kind).map(unmatched)?);
    }
    Ok(ObjectRecord {
        size,
        etag,
        modified_ms: now_ms(),
        headers: upload.headers.clone(),
        meta: upload.meta.clone(),
        checksum,
        parts,
        upload: Some(of.id.to_owned()),
        tags: upload.tags.clone(),
        retention: upload.retention,
        hold: upload.hold,
        ..ObjectRecord::default()
    })
}

/// The values of the parts' checksums, where all have one of one algorithm.
fn values(parts: &[PartRecord]) -> Option<(Kind, Vec<Vec<u8>>)> {
    let kind = Kind::parse(&parts.first()?.checksum.as_ref()?.kind)?;
    let value = |part: &PartRecord| {
        let checksum = part.checksum.as_ref().filter(|sum| sum.kind == kind.name())?;
        digest::from_base64(&checksum.value)
    };
    Some((kind, parts.iter().map(value).collect::<Option<_>>()?))
}

fn composite(parts: &[PartRecord]) -> Option<Checksum> {
    let (kind, values) = values(parts)?;
    let Checksum { kind, value } = digest::checksum(kind, &values.concat());
    Some(Checksum { kind, value: format!("{value}-{}", parts.len()) })
}

/// The checksum of the whole, from those of the parts.
fn full(parts: &[PartRecord]) -> Option<Checksum> {
    let (kind, values) = values(parts)?;
    let mut sum: Option<Vec<u8>> = None;
    for (part, value) in parts.iter().zip(values) {
        sum = Some(match sum {
            None => value,
            Some(before) => digest::joined(kind, &before, &value, part.size)?,
        });
    }
    Some(Checksum { kind: kind.name().to_owned(), value: digest::to_base64(&sum?) })
}
