//! Objects read.

use std::{io, io::Write};

use kiln_stripe::PoolError;

use crate::calls::{Call, heads, with_expiry, with_version};
use crate::error::{Code, Result};
use crate::record::{BucketRecord, ObjectRecord};
use crate::reply::{Answer, Client, Reply};
use crate::{gate::Seen, times, xml::Writer};

/// Times that a read starts again because the object was replaced under it.
const RETRIES: usize = 5;

/// Sends the head of an answer with the first byte: until then a read can start again.
struct Late<'a> {
    client: Option<&'a mut dyn Client>,
    head: Option<(Reply, u64)>,
    out: Option<Box<dyn Write + 'a>>,
}

impl Late<'_> {
    fn begin(&mut self) -> io::Result<()> {
        if let (Some((head, length)), Some(client)) = (self.head.take(), self.client.take()) {
            self.out = Some(client.begin(head, length)?);
        }
        Ok(())
    }
}

impl Write for Late<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.out.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), |out| out.flush())
    }
}

impl Call<'_> {
    /// The object that a request is about.
    pub(super) fn found(&self) -> Result<(BucketRecord, Seen<ObjectRecord>)> {
        let (bucket, key) = self.req.place();
        let at = self.need_read(bucket, Some(key))?;
        heads::part_number(self.req)?;
        let seen = self.gate.there((&at, key), self.version_id()?)?;
        Ok((at, seen))
    }

    fn not_modified(at: &BucketRecord, record: &ObjectRecord) -> Reply {
        let reply =
            with_version(Reply::new(304), at, record).with("etag", format!("\"{}\"", record.etag));
        reply.with("last-modified", times::http(record.modified_ms))
    }

    pub(super) fn head_object(&mut self) -> Result<Reply> {
        let (at, seen) = self.found()?;
        if heads::is_known(self.req, "", &seen.record)? {
            return Ok(Self::not_modified(&at, &seen.record));
        }
        let wanted = heads::wanted(self.req, &seen.record)?;
        let length = wanted.range.end - wanted.range.start;
        let reply = heads::answer(self.req, &seen.record, &wanted);
        let reply = with_expiry(reply, &at, self.req.place().1, &seen.record);
        Ok(with_version(reply, &at, &seen.record).with("content-length", length.to_string()))
    }

    pub(super) fn read_object(&mut self, client: &mut dyn Client) -> Result<Answer> {
        let (_, key) = self.req.place();
        let mut tries = 0;
        loop {
            let (at, seen) = self.found()?;
            if heads::is_known(self.req, "", &seen.record)? {
                return Ok(Self::not_modified(&at, &seen.record).into());
            }
            let wanted = heads::wanted(self.req, &seen.record)?;
            let head = heads::answer(self.req, &seen.record, &wanted);
            let head = with_expiry(head, &at, key, &seen.record);
            let head = with_version(head, &at, &seen.record);
            let length = wanted.range.end - wanted.range.start;
            if length == 0 {
                return Ok(head.into());
            }
            let mut late =
                Late { client: Some(&mut *client), head: Some((head, length)), out: None };
            let end = self.gate.read_object((&at, key), &seen, wanted.range, &mut late);
            let begun = late.head.is_none();
            match end {
                Ok(()) => return Ok(Answer::Sent(Ok(()))),
                Err(error) if begun => return Ok(Answer::Sent(Err(error.into()))),
                // It may have been replaced since its record was read.
                Err(PoolError::NoObject { .. }) if tries < RETRIES => tries += 1,
                Err(PoolError::NoObject { .. }) => {
                    return Code::InternalError.err("object: its data is not in the pool");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn object_attributes(&mut self) -> Result<Reply> {
        let asked: Vec<&str> = self
            .req
            .headers
            .get_all("x-amz-object-attributes")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .collect();
        let (bucket, key) = self.req.place();
        self.need_read(bucket, Some(key))?;
        let known = ["ETag", "ObjectSize", "StorageClass", "Checksum", "ObjectParts"];
        match asked.iter().find(|name| !known.contains(name)) {
            Some(name) if !name.is_empty() => {
                return Code::InvalidArgument.err("Invalid attribute name specified.");
            }
            None if !asked.is_empty() => {}
            _ => {
                return Code::InvalidRequest.err(
                    "The x-amz-object-attributes header specifying the attributes to be retrieved \
                     is either missing or empty",
                );
            }
        }
        let (at, seen) = self.found()?;
        let record = &seen.record;
        let mut document = Writer::new("GetObjectAttributesResponse");
        for name in asked {
            let _ = match (name, &record.checksum) {
                ("ETag", _) => document.text("ETag", &record.etag),
                ("ObjectSize", _) => document.show("ObjectSize", record.size),
                ("StorageClass", _) => document.text("StorageClass", "STANDARD"),
                ("Checksum", Some(checksum)) => document.within("Checksum", |one| {
                    one.text(&format!("Checksum{}", checksum.kind), &checksum.value);
                    one.text("ChecksumType", checksum.of_type());
                }),
                ("ObjectParts", _) if record.upload.is_some() => {
                    let count = record.parts.len().to_string();
                    document.row("ObjectParts", [("TotalPartsCount", &count)])
                }
                _ => &mut document,
            };
        }
        let reply = with_version(Reply::xml(document), &at, record);
        Ok(reply.with("last-modified", times::http(record.modified_ms)))
    }
}
