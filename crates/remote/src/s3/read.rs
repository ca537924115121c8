//! Reading ranges of an object.

use crate::s3::client::{Ask, Client};
use crate::s3::reply::Reply;
use kiln_store::{BatchRead, Operation, ReadAt, Result, StoreError, Tag, in_parallel};
use std::{io, sync::Arc};

/// Ranges of one object that are asked for at the same time.
const AT_ONCE: usize = 8;

/// An object that was there when it was opened; if it is replaced, reading ends with an error.
pub(crate) struct Object {
    client: Arc<Client>,
    name: String,
    len: u64,
    tag: Option<String>,
}

impl Object {
    pub(crate) fn open(client: &Arc<Client>, name: &str) -> Result<Object> {
        let reply = head(client, Operation::Open, name)?;
        let missing = || io::Error::other("the server does not tell the object's length");
        let len = reply.length.ok_or_else(|| client.error(Operation::Open, name, missing()))?;
        let (client, name) = (Arc::clone(client), name.to_owned());
        Ok(Object { client, name, len, tag: reply.tag })
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= self.len).ok_or_else(|| {
            StoreError::Truncated {
                place: self.client.place.text.clone(),
                name: self.name.clone(),
                need: offset.saturating_add(len),
                have: self.len,
            }
        })?;
        if buf.is_empty() {
            return Ok(());
        }
        let key = self.client.key(&self.name);
        let action = self.client.bucket.get_object(self.client.credentials(), &key);
        let mut ask = Ask::new(Operation::Read, &self.name)
            .header("range", format!("bytes={offset}-{}", end - 1));
        if let Some(tag) = &self.tag {
            ask = ask.header("if-match", tag.clone());
        }
        let reply = self.client.send(&ask, &action, Some(buf), |reply| reply.status == 412)?;
        let fail =
            |why: String| self.client.error(Operation::Read, &self.name, io::Error::other(why));
        // Not every server heeds the condition.
        let other = self.tag.is_some() && reply.tag.is_some() && reply.tag != self.tag;
        if reply.status == 412 || other {
            return Err(fail("it was replaced while it was read; try again".into()));
        }
        let right = format!("bytes {offset}-{}/{}", end - 1, self.len);
        let whole = reply.status == 200 && offset == 0 && len == self.len;
        match reply.range.as_deref() == Some(&right[..]) || whole {
            true => Ok(()),
            false => Err(fail(format!("the server answers with {:?}, not {right:?}", reply.range))),
        }
    }
}

/// Asks for the properties of an object.
pub(crate) fn head(client: &Client, op: Operation, name: &str) -> Result<Reply> {
    let key = client.key(name);
    let action = client.bucket.head_object(client.credentials(), &key);
    client.send(&Ask::new(op, name), &action, None, |_| false)
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read(offset, buf)
    }

    /// Ranges stay as they are, a request each: never is more asked for.
    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        let read = |_, read: &mut BatchRead<'_>| self.read(read.offset, read.buf);
        in_parallel(AT_ONCE, reads.iter_mut().collect(), read).map(drop)
    }

    fn tag(&self) -> Option<Tag> {
        Tag::new(self.tag.as_deref()?)
    }
}
