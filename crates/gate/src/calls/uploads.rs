//! Uploads in parts.

use crate::access::Right;
use crate::calls::writes::with_checksum;
use crate::calls::{Call, heads};
use crate::digest::Kind;
use crate::error::{Code, GateError, Result};
use crate::multipart::{MAX_PARTS, NamedPart, UploadOf};
use crate::record::{Checksum, PartRecord};
use crate::reply::Reply;
use crate::times;
use crate::xml::{Element, Writer};

/// Most parts of a page.
const MAX_PAGE: u32 = 1000;

impl<'a> Call<'a> {
    /// The upload that a request is about.
    fn upload_of(&self) -> UploadOf<'a> {
        let (req, (bucket, key)) = (self.req, self.req.place());
        UploadOf { bucket, key, id: req.word("uploadId").unwrap_or("") }
    }

    fn part_number(&self) -> Result<u32> {
        let none = || GateError::new(Code::InvalidArgument, "partNumber: it is not there");
        self.req.number("partNumber")?.ok_or_else(none)
    }

    pub(super) fn begin_upload(&mut self) -> Result<Reply> {
        let place = self.req.place();
        self.need(place.0, Right::Write)?;
        let new = self.new_object()?;
        let kind = match self.req.header("x-amz-checksum-algorithm") {
            Some(name) => Some(Kind::parse(name).ok_or_else(|| {
                GateError::new(Code::InvalidRequest, "x-amz-checksum-algorithm: it is unknown")
            })?),
            None => None,
        };
        let full = self.req.header("x-amz-checksum-type") == Some("FULL_OBJECT");
        let id = self.gate.begin_upload(place, new, kind, full)?;
        let mut document = Writer::new("InitiateMultipartUploadResult");
        document.text("Bucket", place.0).text("Key", place.1).text("UploadId", id);
        let reply = Reply::xml(document);
        Ok(match kind {
            Some(kind) => {
                let of_type = if full { "FULL_OBJECT" } else { "COMPOSITE" };
                let reply = reply.with("x-amz-checksum-algorithm", kind.name());
                reply.with("x-amz-checksum-type", of_type)
            }
            None => reply,
        })
    }

    pub(super) fn put_part(&mut self) -> Result<Reply> {
        let of = self.upload_of();
        self.need(of.bucket, Right::Write)?;
        let (number, gate) = (self.part_number()?, self.gate);
        let part = gate.put_part(of, number, &mut self.payload()?)?;
        let reply = Reply::new(200).with("etag", format!("\"{}\"", part.etag));
        Ok(match &part.checksum {
            Some(checksum) => with_checksum(reply, Some(checksum)),
            None => reply,
        })
    }

    pub(super) fn copy_part(&mut self) -> Result<Reply> {
        let of = self.upload_of();
        self.need(of.bucket, Right::Write)?;
        let (number, source) = (self.part_number()?, self.copy_source()?);
        let size = source.seen.record.size;
        let header = self.req.header("x-amz-copy-source-range");
        let range = match heads::range_of(header, size)? {
            Some(range) => range,
            None if header.is_some() => {
                let why = "x-amz-copy-source-range: it is bytes=FIRST-LAST";
                return Err(GateError::new(Code::InvalidArgument, why));
            }
            None => 0..size,
        };
        let (_, upload) = self.gate.upload(of)?;
        let kind = upload.record.checksum_kind.as_deref().and_then(Kind::parse);
        let (gate, from) = (self.gate, (&source.at, source.key.as_str()));
        let part = gate.while_reading(from, &source.seen, range, kind, |body| {
            gate.put_part(of, number, body)
        })?;
        let mut document = Writer::new("CopyPartResult");
        document.text("ETag", format!("\"{}\"", part.etag));
        document.text("LastModified", times::iso(part.modified_ms));
        if let Some(checksum) = &part.checksum {
            document.text(&format!("Checksum{}", checksum.kind), &checksum.value);
        }
        Ok(Reply::xml(document))
    }

    pub(super) fn list_parts(&mut self) -> Result<Reply> {
        let of = self.upload_of();
        self.need(of.bucket, Right::Read)?;
        let most = self.req.number("max-parts")?.unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let after = self.req.number("part-number-marker")?.unwrap_or(0);
        let mut parts = self.gate.list_parts(of, after)?;
        let more = parts.len() > most as usize;
        parts.truncate(most as usize);
        let mut document = Writer::new("ListPartsResult");
        document.text("Bucket", of.bucket).text("Key", of.key).text("UploadId", of.id);
        document.show("PartNumberMarker", after).show("MaxParts", most);
        document.show("IsTruncated", more).text("StorageClass", "STANDARD");
        if let (true, Some(last)) = (more, parts.last()) {
            document.show("NextPartNumberMarker", last.number);
        }
        for part in &parts {
            document.within("Part", |one| describe(one, part));
        }
        Ok(Reply::xml(document))
    }

    pub(super) fn abort_upload(&mut self) -> Result<Reply> {
        let of = self.upload_of();
        self.need(of.bucket, Right::Write)?;
        self.gate.abort(of)?;
        Ok(Reply::new(204))
    }

    pub(super) fn complete_upload(&mut self) -> Result<Reply> {
        let of = self.upload_of();
        self.need(of.bucket, Right::Write)?;
        let conditions = heads::conditions(self.req)?;
        let document = self.document("CompleteMultipartUpload")?;
        let named = document.all("Part").map(named_part).collect::<Result<Vec<_>>>()?;
        if named.len() > MAX_PARTS as usize {
            return Err(GateError::new(Code::MalformedXML, "document: it names too many parts"));
        }
        let expected = Kind::ALL.into_iter().find_map(|kind| {
            let value = self.req.header(&kind.header())?.to_owned();
            Some(Checksum { kind: kind.name().to_owned(), value })
        });
        let record = self.gate.complete(of, &named, expected.as_ref(), &conditions)?;
        let mut answer = Writer::new("CompleteMultipartUploadResult");
        answer.text("Location", format!("/{}/{}", of.bucket, of.key));
        answer.text("Bucket", of.bucket).text("Key", of.key);
        answer.text("ETag", format!("\"{}\"", record.etag));
        if let Some(checksum) = &record.checksum {
            answer.text(&format!("Checksum{}", checksum.kind), &checksum.value);
            answer.text("ChecksumType", checksum.of_type());
        }
        Ok(Reply::xml(answer))
    }
}

/// A part among others.
fn describe(one: &mut Writer, part: &PartRecord) {
    one.show("PartNumber", part.number).text("LastModified", times::iso(part.modified_ms));
    one.text("ETag", format!("\"{}\"", part.etag)).show("Size", part.size);
    if let Some(checksum) = &part.checksum {
        one.text(&format!("Checksum{}", checksum.kind), &checksum.value);
    }
}

/// A part that a client names.
fn named_part(part: &Element) -> Result<NamedPart> {
    let malformed = |why: &str| GateError::new(Code::MalformedXML, format!("part: {why}"));
    let number = part.child("PartNumber").and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| malformed("it has no number"))?;
    let etag = part.child("ETag").ok_or_else(|| malformed("it has no entity tag"))?;
    let checksum = Kind::ALL
        .into_iter()
        .find_map(|kind| part.child(&format!("Checksum{}", kind.name())).map(str::to_owned));
    Ok(NamedPart { number, etag: etag.trim_matches('"').to_owned(), checksum })
}
