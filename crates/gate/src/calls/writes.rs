//! Objects put, copied and removed.

use crate::calls::{Call, checked_id, heads, stubs, tags, with_expiry};
use crate::error::{Code, Result};
use crate::names;
use crate::record::{BucketRecord, ObjectRecord, Versioning};
use crate::{
    access::Right, digest::Kind, gate::Seen, object::NewObject, reply::Reply, request::decoded,
    times, xml::Writer,
};

/// Most bytes of a copy.
const MAX_COPY: u64 = 5 << 30;

/// Adds the id of a version that was made.
pub(super) fn with_new(reply: Reply, record: &ObjectRecord) -> Reply {
    match &record.version {
        Some(id) => reply.with("x-amz-version-id", id),
        None => reply,
    }
}

/// Adds the id of the version that was copied.
pub(super) fn with_source(reply: Reply, source: &CopySource) -> Reply {
    match source.at.versioning() {
        Versioning::Never => reply,
        _ => reply.with("x-amz-copy-source-version-id", source.seen.record.id()),
    }
}

pub(super) struct CopySource {
    pub at: BucketRecord,
    pub key: String,
    pub seen: Seen<ObjectRecord>,
    /// It is the object that the copy goes to.
    pub same: bool,
}

impl Call<'_> {
    /// Returns the object that a request makes, but for its data.
    pub(super) fn new_object(&self) -> Result<NewObject> {
        stubs::refuse_unkept(self.req)?;
        let (headers, meta) = heads::kept(self.req)?;
        let tags = tags::of_header(self.req)?;
        let (retention, hold) = self.lock_of(self.req.place().0)?;
        let new = ObjectRecord { headers, meta, tags, retention, hold, ..ObjectRecord::default() };
        Ok((new, heads::conditions(self.req)?))
    }

    pub(super) fn put_object(&mut self) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let at = self.need(bucket, Right::Write)?;
        let new = self.new_object()?;
        let gate = self.gate;
        let mut payload = self.payload(Kind::Crc64Nvme)?;
        let record = gate.put_object((bucket, &at, key), new, &mut payload)?;
        let reply = Reply::new(200).with("etag", format!("\"{}\"", record.etag));
        let reply = reply.with("x-amz-object-size", record.size.to_string());
        let reply = with_expiry(with_new(reply, &record), &at, key, &record);
        Ok(heads::with_checksum(reply, record.checksum.as_ref()))
    }

    pub(super) fn delete_object(&mut self) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let at = self.need(bucket, Right::Write)?;
        let conditions = heads::conditions(self.req)?;
        let (place, bypass) = ((bucket, &at, key), self.bypasses(bucket)?);
        let end = self.gate.delete_object(place, self.version_id()?, &conditions, bypass)?;
        let mut reply = Reply::new(204);
        if end.marker {
            reply = reply.with("x-amz-delete-marker", "true");
        }
        Ok(match end.version {
            Some(id) => reply.with("x-amz-version-id", id),
            None => reply,
        })
    }

    /// Finds the source of a copy, and checks what the request demands of it.
    pub(super) fn copy_source(&self) -> Result<CopySource> {
        let wrong = |why: &str| Code::InvalidArgument.error(format!("x-amz-copy-source: {why}"));
        let header = self.req.header("x-amz-copy-source").unwrap_or("");
        let (header, version) = match header.split_once("?versionId=") {
            Some((path, version)) => (path, Some(version)),
            None => (header, None),
        };
        let version = version.map(checked_id).transpose()?;
        let path = decoded(header, false)
            .ok_or_else(|| Code::InvalidArgument.error("Invalid copy source encoding"))
            .map_err(|error| error.argument("x-amz-copy-source", header))?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').ok_or_else(|| wrong("it has no key"))?;
        names::check_bucket(bucket).map_err(|_| {
            let error = Code::InvalidArgument.error("Invalid copy source bucket name");
            error.argument("x-amz-copy-source", header)
        })?;
        let at = self.need_read(bucket, Some(key))?;
        let at = self.expected(at, "x-amz-source-expected-bucket-owner")?;
        let seen = self.gate.version((&at, key), version)?.1;
        if seen.record.marker {
            return Code::InvalidRequest.err("x-amz-copy-source: it is a delete marker");
        }
        if heads::is_known(self.req, heads::COPY, &seen.record)? {
            return Code::PreconditionFailed.err("x-amz-copy-source-if: the source is another");
        }
        if seen.record.size > MAX_COPY && !self.req.headers.contains_key("x-amz-copy-source-range")
        {
            return Err(wrong("it has more than 5 GiB; copy it in parts"));
        }
        let same = self.req.place() == (bucket, key) && version.is_none();
        Ok(CopySource { at, key: key.to_owned(), seen, same })
    }

    pub(super) fn copy_object(&mut self) -> Result<Reply> {
        let place = self.req.place();
        let at = self.need(place.0, Right::Write)?;
        let mut new = self.new_object()?;
        let directive = |name: &str| match self.req.header(&format!("x-amz-{name}-directive")) {
            None | Some("COPY") => Ok(false),
            Some("REPLACE") => Ok(true),
            Some(_) => Code::InvalidArgument.err(format!("Unknown {name} directive.")),
        };
        let replace = directive("metadata")?;
        let replace_tags = directive("tagging")?;
        let asked = self.req.header("x-amz-checksum-algorithm").map(Kind::named).transpose()?;
        let source = self.copy_source()?;
        if source.same && !replace {
            return Code::InvalidRequest.err(
                "This copy request is illegal because it is trying to copy an object to itself \
                 without changing the object's metadata, storage class, website redirect location \
                 or encryption attributes.",
            );
        }
        let record = &source.seen.record;
        if !replace {
            let place = new.0.headers.remove(heads::REDIRECT);
            (new.0.headers, new.0.meta) = (record.headers.clone(), record.meta.clone());
            // It is of an object itself.
            new.0.headers.remove(heads::REDIRECT);
            new.0.headers.extend(place.map(|place| (heads::REDIRECT.to_owned(), place)));
        }
        if !replace_tags {
            new.0.tags.clone_from(&record.tags);
        }
        let kept = record.checksum.as_ref().filter(|sum| sum.of_type() == "FULL_OBJECT");
        let kept = kept.and_then(|checksum| Kind::parse(&checksum.kind));
        let kind = asked.or(kept).unwrap_or(Kind::Crc64Nvme);
        let (range, gate) = (0..record.size, self.gate);
        let from = (&source.at, source.key.as_str());
        let copy = gate.while_reading(from, &source.seen, range, Some(kind), |body| {
            gate.put_object((place.0, &at, place.1), new, body)
        })?;
        let mut document = Writer::new("CopyObjectResult");
        document.text("ETag", format!("\"{}\"", copy.etag));
        document.text("LastModified", times::iso(copy.modified_ms));
        document.checksum(copy.checksum.as_ref());
        let reply = with_new(Reply::xml(document), &copy);
        Ok(with_source(reply, &source))
    }
}
