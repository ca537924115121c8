//! Writing an object: by one request where it is short, else in parts that count when all are
//! there.

use std::{io, ops::Range, sync::Arc};

use crate::{LOCK, Progress};
use kiln_store::{Append, Existing, Operation, Result, Tag, Upload};
use rusty_s3::{S3Action, actions::CreateMultipartUpload};

use crate::s3::client::{Ask, Client};
use crate::s3::read::{Object, head};
use crate::s3::reply::Reply;

/// Bytes of a part, and up to which an object is put by one request.
const PART: usize = 8 << 20;
/// So many parts have [`PART`] bytes, later ones [`LARGE_PART`]: a server takes 10,000 parts.
const SMALL_PARTS: usize = 1000;
const LARGE_PART: usize = 64 << 20;
/// Most parts of an object.
const MAX_PARTS: usize = 10_000;

/// An object on its way.
pub(crate) struct Put {
    client: Arc<Client>,
    name: String,
    existing: Existing,
    /// Bytes not yet with the server.
    buffer: Vec<u8>,
    len: u64,
    parts: Option<Parts>,
    state: Progress,
    /// The server's tag of the complete object.
    tag: Option<String>,
}

/// A multipart upload.
struct Parts {
    id: String,
    tags: Vec<String>,
}

impl Put {
    pub(crate) fn new(client: &Arc<Client>, name: &str, existing: Existing) -> Put {
        let client = Arc::clone(client);
        let (buffer, name) = (Vec::new(), name.to_owned());
        Put {
            client,
            name,
            existing,
            buffer,
            len: 0,
            parts: None,
            state: Progress::Open,
            tag: None,
        }
    }

    /// Does a step; after a failure nothing is tried again.
    fn step(&mut self, op: &'static str, act: impl FnOnce(&mut Put) -> Result<()>) -> Result<()> {
        self.state.begin_step(op, &self.name)?;
        act(self)?;
        self.state = Progress::Open;
        Ok(())
    }

    fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let sent = self.parts.as_ref().map_or(0, |parts| parts.tags.len());
            let part = if sent < SMALL_PARTS { PART } else { LARGE_PART };
            if self.buffer.len() >= part {
                self.send_part()?;
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(part - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            self.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Begins an upload in parts, if none is begun.
    fn begin_parts(&mut self) -> Result<()> {
        let client = &self.client;
        let key = client.key(&self.name);
        if self.parts.is_none() {
            let action = client.bucket.create_multipart_upload(client.credentials(), &key);
            let ask = Ask::new(Operation::Create, &self.name);
            let reply = client.send(&ask, &action, None, |_| false)?;
            let id = CreateMultipartUpload::parse_response(&reply.text).map_err(|error| {
                client.error(Operation::Create, &self.name, io::Error::other(error.to_string()))
            })?;
            self.parts = Some(Parts { id: id.upload_id().to_owned(), tags: Vec::new() });
        }
        Ok(())
    }

    /// Has the server take a range of another object as the next part.
    pub(crate) fn copy_part(&mut self, source: &str, range: Range<u64>) -> Result<()> {
        self.begin_parts()?;
        let client = &self.client;
        let key = client.key(&self.name);
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let number = (parts.tags.len() + 1) as u16;
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut action = client.bucket.upload_part(client.credentials(), &key, number, &parts.id);
        action.headers_mut().insert("x-amz-copy-source", source.to_owned());
        action.headers_mut().insert("x-amz-copy-source-range", bytes.clone());
        let ask = Ask::new(Operation::Rename, &self.name)
            .header("x-amz-copy-source", source)
            .header("x-amz-copy-source-range", bytes);
        let reply = client.send(&ask, &action, None, |_| false)?;
        let (_, tag) = reply.text.split_once("<ETag>").unwrap_or_default();
        let tag = tag.split('<').next().unwrap_or("").replace("&quot;", "\"");
        if tag.is_empty() {
            let why = io::Error::other("the server gives a part no tag");
            return Err(client.error(Operation::Rename, &self.name, why));
        }
        parts.tags.push(tag);
        self.len += range.end - range.start;
        Ok(())
    }

    fn send_part(&mut self) -> Result<()> {
        self.begin_parts()?;
        let client = &self.client;
        let key = client.key(&self.name);
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let fail = |why: &str| {
            Err(client.error(Operation::Write, &self.name, io::Error::other(why.to_owned())))
        };
        let number = parts.tags.len() + 1;
        if number > MAX_PARTS {
            return fail("it is longer than an object of S3 can be");
        }
        let action =
            client.bucket.upload_part(client.credentials(), &key, number as u16, &parts.id);
        let ask = Ask { body: &self.buffer, ..Ask::new(Operation::Write, &self.name) };
        let reply = client.send(&ask, &action, None, |_| false)?;
        let Some(tag) = reply.tag else { return fail("the server gives a part no tag") };
        parts.tags.push(tag);
        self.buffer.clear();
        Ok(())
    }

    fn conditions<'a>(&self, ask: Ask<'a>) -> Ask<'a> {
        match self.existing {
            Existing::Replace => ask,
            Existing::Keep => ask.header("if-none-match", "*"),
            Existing::Same(tag) => ask.header("if-match", tag.text()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        // A lock is written over itself alone: that is how it becomes certain again.
        if self.name != LOCK {
            self.client.check_fence()?;
        }
        let reply = match self.parts {
            None => self.put_whole()?,
            Some(_) => {
                if !self.buffer.is_empty() {
                    self.send_part()?;
                }
                self.complete_parts()?
            }
        };
        let there = reply.is_success() || (reply.tried && self.is_ours()?);
        match there {
            true => {
                self.tag = reply.tag.filter(|_| (200..300).contains(&reply.status));
                Ok(())
            }
            false => {
                // What was to be replaced is gone: it is another state than expected, too.
                let status = if reply.status == 404 { 412 } else { reply.status };
                let reply = Reply { status, text: reply.text, ..Reply::default() };
                Err(reply.error(Operation::Complete, &self.client.place.text, &self.name))
            }
        }
    }

    fn put_whole(&self) -> Result<Reply> {
        let client = &self.client;
        let key = client.key(&self.name);
        let action = client.bucket.put_object(client.credentials(), &key);
        let ask = Ask { body: &self.buffer, ..Ask::new(Operation::Complete, &self.name) };
        let conditional = self.existing != Existing::Replace;
        client.send(&self.conditions(ask), &action, None, |reply| refused(reply, conditional))
    }

    fn complete_parts(&self) -> Result<Reply> {
        let client = &self.client;
        let key = client.key(&self.name);
        let Some(parts) = &self.parts else {
            let why = io::Error::other("no part of it was sent");
            return Err(client.error(Operation::Complete, &self.name, why));
        };
        let tags = || parts.tags.iter().map(|tag| &tag[..]);
        let complete = || {
            let credentials = client.credentials();
            client.bucket.complete_multipart_upload(credentials, &key, &parts.id, tags())
        };
        let body = complete().body();
        let ask = Ask { body: body.as_bytes(), ..Ask::new(Operation::Complete, &self.name) };
        let conditional = self.existing != Existing::Replace;
        // An upload that is gone after a try without an answer was completed by that.
        let accept = |reply: &Reply| {
            refused(reply, conditional) || (reply.tried && reply.code() == "NoSuchUpload")
        };
        let reply = client.send(&self.conditions(ask), &complete(), None, accept)?;
        if reply.is_success() && !reply.code().is_empty() {
            // The answer begins before the work is done, and ends with what went wrong.
            let text = reply.text.clone();
            let reply = Reply { status: 500, text, ..Reply::default() };
            return Err(reply.error(Operation::Complete, &client.place.text, &self.name));
        }
        Ok(reply)
    }

    /// Returns whether what is there now are the bytes of this upload, whose answer was lost.
    fn is_ours(&self) -> Result<bool> {
        let client = &self.client;
        if let Some(parts) = &self.parts {
            // The server has the bytes only; what it calls them ends with the count of parts.
            let there = head(client, Operation::Complete, &self.name)?;
            let tail = format!("-{}", parts.tags.len());
            let tag = there.tag.unwrap_or_default();
            return Ok(there.length == Some(self.len) && tag.trim_matches('"').ends_with(&tail));
        }
        let there = Object::open(client, &self.name)?;
        if kiln_store::ReadAt::len(&there) != self.len {
            return Ok(false);
        }
        let mut bytes = vec![0; self.buffer.len()];
        kiln_store::ReadAt::read_at(&there, 0, &mut bytes)?;
        Ok(bytes == self.buffer)
    }

    /// Puts a small object; gives what the server calls it.
    pub(crate) fn put(mut self, bytes: &[u8]) -> Result<Option<Tag>> {
        Upload::write(&mut self, bytes)?;
        self.complete_now()?;
        let tag = match self.tag.take() {
            // The answer was lost.
            None => head(&self.client, Operation::Complete, &self.name)?.tag,
            tag => tag,
        };
        Ok(tag.and_then(|tag| Tag::new(&tag)))
    }

    fn complete_now(&mut self) -> Result<()> {
        self.step("complete", Put::finish)?;
        self.state = Progress::Done;
        Ok(())
    }
}

/// Returns whether a condition did not hold.
fn refused(reply: &Reply, conditional: bool) -> bool {
    let absent = reply.status == 404 && reply.code() == "NoSuchKey";
    conditional && (reply.status == 412 || absent || (reply.status == 409 && !reply.is_passing()))
}

impl Upload for Put {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.step("write", |put| put.add(bytes))
    }

    /// Parts at the server are durable; the rest is sent with the name.
    fn sync(&mut self) -> Result<()> {
        self.step("sync", |_| Ok(()))
    }

    fn complete(mut self: Box<Self>) -> Result<()> {
        self.complete_now()
    }
}

impl Append for Put {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.step("append", |put| put.add(bytes))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        self.step("sync", |_| Ok(()))
    }

    fn complete(&mut self) -> Result<()> {
        self.complete_now()
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        if let (Some(parts), false) = (&self.parts, self.state == Progress::Done) {
            let client = Arc::clone(&self.client);
            let key = client.key(&self.name);
            let action =
                client.bucket.abort_multipart_upload(client.credentials(), &key, &parts.id);
            // The error that brought us here is the one to tell; a rule of the bucket removes
            // uploads that are left.
            let _ = client.send(&Ask::new(Operation::Remove, &self.name), &action, None, |_| true);
        }
    }
}
