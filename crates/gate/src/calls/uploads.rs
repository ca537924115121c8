//! Uploads in parts.

use crate::calls::writes::{with_new, with_source};
use crate::calls::{Call, heads};
use crate::digest::{self, Kind};
use crate::error::{Code, Result};
use crate::multipart::{Expected, MAX_PARTS, NamedPart, UploadOf};
use crate::record::{BucketRecord, Checksum, PartRecord, UploadRecord};
use crate::xml::{Element, Writer};
use crate::{access::Right, calls::heads::with_checksum, gate::now_ms, payload::SEVERAL};
use crate::{reply::Reply, times};

/// Most parts of a page.
const MAX_PAGE: u32 = 1000;

impl<'a> Call<'a> {
    /// The upload that a request is about.
    fn upload_of<'b>(&self, at: &'b BucketRecord) -> UploadOf<'b>
    where
        'a: 'b,
    {
        let (req, (bucket, key)) = (self.req, self.req.place());
        UploadOf { bucket, at, key, id: req.word("uploadId").unwrap_or("") }
    }

    /// The bucket of a request about an upload, if the key may change it.
    fn upload_bucket(&self) -> Result<BucketRecord> {
        self.need(self.req.place().0, Right::Write)
    }

    fn part_number(&self) -> Result<u32> {
        let none = || Code::InvalidArgument.error("partNumber: it is not there");
        self.req.number("partNumber")?.ok_or_else(none)
    }

    pub(super) fn begin_upload(&mut self) -> Result<Reply> {
        let (place, at) = (self.req.place(), self.upload_bucket()?);
        let new = self.new_object()?;
        let kind = self.req.header("x-amz-checksum-algorithm").map(Kind::named).transpose()?;
        let wrong = |why: String| Code::InvalidRequest.err(why);
        let full = match (self.full()?, kind) {
            (Some(_), None) => {
                return wrong(
                    "The x-amz-checksum-type header can only be used with the \
                     x-amz-checksum-algorithm header."
                        .to_owned(),
                );
            }
            (Some(full), Some(kind))
                if full && kind.crc().is_none() || !full && kind == Kind::Crc64Nvme =>
            {
                let (mode, kind) = (mode_of(full), kind.name().to_ascii_lowercase());
                return wrong(format!(
                    "The {mode} checksum type cannot be used with the {kind} checksum algorithm."
                ));
            }
            (full, kind) => full.unwrap_or(kind == Some(Kind::Crc64Nvme)),
        };
        let id = self.gate.begin_upload((place.0, &at, place.1), new, kind, full)?;
        let mut document = Writer::new("InitiateMultipartUploadResult");
        document.text("Bucket", place.0).text("Key", place.1).text("UploadId", id);
        let reply = Reply::xml(document);
        Ok(match kind {
            Some(kind) => {
                let reply = reply.with("x-amz-checksum-algorithm", kind.name());
                reply.with("x-amz-checksum-type", mode_of(full))
            }
            None => reply,
        })
    }

    /// Reads the type of checksum that a request wants: of all bytes, or of the parts' checksums.
    fn full(&self) -> Result<Option<bool>> {
        match self.req.header("x-amz-checksum-type") {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("FULL_OBJECT") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("COMPOSITE") => Ok(Some(false)),
            Some(_) => Code::InvalidRequest.err("Value for x-amz-checksum-type header is invalid."),
        }
    }

    pub(super) fn put_part(&mut self) -> Result<Reply> {
        let (number, gate, at) = (self.part_number()?, self.gate, self.upload_bucket()?);
        let of = self.upload_of(&at);
        let upload = gate.upload(of)?.record;
        let kind = upload.checksum_kind.as_deref().and_then(Kind::parse);
        let mut payload = self.payload(kind.unwrap_or(Kind::Crc64Nvme))?;
        let given = payload.kind();
        if let Some(kind) = kind
            && (given.is_some_and(|given| given != kind)
                || given.is_none() && !upload.checksum_full)
        {
            return Code::InvalidRequest.err(format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum \
                 Type: {}",
                kind.name(),
                given.map_or("null", Kind::name)
            ));
        }
        if kind.is_none() {
            // The object's, since the upload names none.
            payload.keep(Kind::Crc64Nvme);
        }
        let part = gate.put_part(of, number, &mut payload)?;
        let reply = Reply::new(200).with("etag", format!("\"{}\"", part.etag));
        Ok(with_checksum(reply, payload.verified().named().as_ref()))
    }

    pub(super) fn copy_part(&mut self) -> Result<Reply> {
        let (number, at) = (self.part_number()?, self.upload_bucket()?);
        let of = self.upload_of(&at);
        let source = self.copy_source()?;
        let upload = self.gate.upload(of)?.record;
        let size = source.seen.record.size;
        let header = self.req.header("x-amz-copy-source-range");
        let range = match (header, heads::first_last(header)) {
            (None, _) => 0..size,
            (Some(_), Some((first, last))) if last < size => first..last + 1,
            (Some(_), Some(_)) => {
                return Code::InvalidArgument.err(format!(
                    "Range specified is not valid for source object of size: {size}"
                ));
            }
            _ => {
                return Code::InvalidArgument.err(
                    "The x-amz-copy-source-range value must be of the form bytes=first-last where \
                     first and last are the zero-based offsets of the first and last bytes to copy",
                );
            }
        };
        let declared = upload.checksum_kind.as_deref().and_then(Kind::parse);
        let kind = declared.unwrap_or(Kind::Crc64Nvme);
        let (gate, from) = (self.gate, (&source.at, source.key.as_str()));
        let part = gate.while_reading(from, &source.seen, range, Some(kind), |body| {
            gate.put_part(of, number, body)
        })?;
        let mut document = Writer::new("CopyPartResult");
        document.text("ETag", format!("\"{}\"", part.etag));
        document.text("LastModified", times::iso(part.modified_ms));
        document.checksum(part.checksum.as_ref().filter(|_| declared.is_some()));
        Ok(with_source(Reply::xml(document), &source))
    }

    pub(super) fn list_parts(&mut self) -> Result<Reply> {
        let at = self.need(self.req.place().0, Right::Read)?;
        let of = self.upload_of(&at);
        let upload = self.gate.upload(of)?.record;
        let most = self.req.number("max-parts")?.unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let after = self.req.number("part-number-marker")?.unwrap_or(0);
        let mut parts = self.gate.list_parts(of, after)?;
        let more = parts.len() > most as usize;
        parts.truncate(most as usize);
        let mut document = Writer::new("ListPartsResult");
        document.text("Bucket", of.bucket).text("Key", of.key).text("UploadId", of.id);
        document.show("PartNumberMarker", after).show("MaxParts", most);
        document.show("IsTruncated", more).text("StorageClass", "STANDARD");
        if upload.checksum_kind.is_none() {
            document.text("ChecksumAlgorithm", "null").text("ChecksumType", "null");
        }
        describe_upload(&mut document, &upload);
        if let (true, Some(last)) = (more, parts.last()) {
            document.show("NextPartNumberMarker", last.number);
        }
        for part in &parts {
            document.within("Part", |one| describe(one, part, upload.checksum_kind.is_some()));
        }
        Ok(Reply::xml(document))
    }

    pub(super) fn abort_upload(&mut self) -> Result<Reply> {
        let at = self.upload_bucket()?;
        let of = self.upload_of(&at);
        let time = self.req.header("x-amz-if-match-initiated-time").and_then(times::parse_http);
        if let Some(time) = time.filter(|time| *time < now_ms() / 1000)
            && time != self.gate.upload(of)?.record.begun_ms / 1000
        {
            return Code::PreconditionFailed.err("upload: it began at another time");
        }
        self.gate.abort(of)?;
        Ok(Reply::new(204))
    }

    pub(super) fn complete_upload(&mut self) -> Result<Reply> {
        let at = self.upload_bucket()?;
        let of = self.upload_of(&at);
        let conditions = heads::conditions(self.req)?;
        let document = self.document("CompleteMultipartUpload", false)?;
        let mut named = document.all("Part").map(named_part).collect::<Result<Vec<_>>>()?;
        // Of a part that is named twice in a row the last counts.
        named.reverse();
        named.dedup_by_key(|part| part.number);
        named.reverse();
        if named.len() > MAX_PARTS as usize {
            return Code::MalformedXML.err("document: it names too many parts");
        }
        let size = self.req.header("x-amz-mp-object-size");
        let size = size.map(|text| {
            text.parse().map_err(|_| {
                let name = "Value for x-amz-mp-object-size header is";
                let why = if text.starts_with('-') { "less than zero" } else { "invalid" };
                Code::InvalidRequest.error(format!("{name} {why}: '{text}'"))
            })
        });
        let checksum = checksum_of(|kind| self.req.header(&kind.header())).map_err(|kind| {
            let bad = |kind: Kind| format!("Value for {} header is invalid.", kind.header());
            Code::InvalidRequest.error(kind.map_or(SEVERAL.to_owned(), bad))
        })?;
        let size = size.transpose()?;
        let expected = Expected { checksum, full: self.full()?, size };
        let record = self.gate.complete(of, &named, &expected, &conditions)?;
        let mut answer = Writer::new("CompleteMultipartUploadResult");
        let host = self.req.header("host").unwrap_or_default();
        answer.text("Location", format!("http://{host}/{}/{}", of.bucket, of.key));
        answer.text("Bucket", of.bucket).text("Key", of.key);
        answer.text("ETag", format!("\"{}\"", record.etag));
        if let Some(checksum) = answer.checksum(record.checksum.as_ref()) {
            answer.text("ChecksumType", checksum.of_type());
        }
        Ok(with_new(Reply::xml(answer), &record))
    }
}

fn mode_of(full: bool) -> &'static str {
    if full { "FULL_OBJECT" } else { "COMPOSITE" }
}

/// The checksums that an upload was begun with.
pub(super) fn describe_upload(one: &mut Writer, upload: &UploadRecord) {
    if let Some(kind) = &upload.checksum_kind {
        one.text("ChecksumAlgorithm", kind).text("ChecksumType", mode_of(upload.checksum_full));
    }
}

/// A part among others.
fn describe(one: &mut Writer, part: &PartRecord, summed: bool) {
    one.show("PartNumber", part.number).text("LastModified", times::iso(part.modified_ms));
    one.text("ETag", format!("\"{}\"", part.etag)).show("Size", part.size);
    one.checksum(part.checksum.as_ref().filter(|_| summed));
}

/// The one checksum that is given; an error names the one that is invalid, or none of several.
fn checksum_of<'t>(
    given: impl Fn(Kind) -> Option<&'t str>,
) -> Result<Option<Checksum>, Option<Kind>> {
    let mut all = Kind::all().filter_map(|kind| {
        Some(Checksum { kind: kind.name().to_owned(), value: given(kind)?.to_owned() })
    });
    let (first, second) = (all.next(), all.next());
    let is_good = |sum: &Checksum| {
        let (value, count) = sum.value.split_once('-').unwrap_or((&sum.value, "1"));
        let value = digest::from_base64(value).filter(|_| count.parse::<u32>().is_ok());
        value.is_some_and(|value| Some(value.len()) == Kind::parse(&sum.kind).map(Kind::bytes))
    };
    match first {
        Some(_) if second.is_some() => Err(None),
        Some(sum) if !is_good(&sum) => Err(Kind::parse(&sum.kind)),
        first => Ok(first),
    }
}

/// A part that a client names.
fn named_part(part: &Element) -> Result<NamedPart> {
    let malformed = |why: &str| Code::MalformedXML.error(format!("part: {why}"));
    let number = part.child("PartNumber").unwrap_or_default();
    if number.parse().is_ok_and(|number: i64| number < 1) {
        let error = Code::InvalidArgument.error("PartNumber must be >= 1");
        return Err(error.argument("PartNumber", number));
    }
    let number = number.parse().map_err(|_| malformed("it has no number"))?;
    let etag = part.child("ETag").ok_or_else(|| malformed("it has no entity tag"))?;
    let checksum = checksum_of(|kind| part.child(&format!("Checksum{}", kind.name())));
    let checksum = checksum.map_err(|_| {
        let why = "Invalid Base64 or multiple checksums present in request";
        Code::InvalidArgument.error(why)
    })?;
    Ok(NamedPart { number, etag: etag.trim_matches('"').to_owned(), checksum })
}
