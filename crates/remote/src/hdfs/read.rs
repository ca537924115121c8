//! Reading ranges of a file.

use std::io;
use std::sync::{Arc, OnceLock};

use kiln_store::{BatchRead, Operation, ReadAt, Result, StoreError, Tag, in_parallel};
use parking_lot::{Mutex, MutexGuard};

use crate::hdfs::client::{Ask, Client};
use crate::hdfs::operations::{Status, by_id};
use crate::{hdfs::blocks::Local, hdfs::reply::Reply};

/// Ranges of one file that are asked for at the same time.
const AT_ONCE: usize = 8;
/// Why a file that was open cannot be read any more.
const REPLACED: &str = "it was replaced while it was read; try again";

/// A file that was there when it was opened; if it is replaced, reading ends with an error.
pub(crate) struct File {
    client: Arc<Client>,
    name: String,
    path: String,
    status: Status,
    /// A DataNode that answered, as the URL of a read without its range.
    source: Mutex<Option<String>>,
    /// Its blocks on this machine, if they are, once something was read: many a file is opened for
    /// its length alone.
    local: OnceLock<Option<Local>>,
}

impl File {
    pub(crate) fn open(client: &Arc<Client>, name: &str) -> Result<File> {
        let status = client.status(Operation::Open, name, &client.path(name))?;
        if !status.is_file() {
            let why = io::Error::new(io::ErrorKind::NotFound, "it is a folder");
            return Err(client.error(Operation::Open, name, why));
        }
        Ok(File::of(client, name, status))
    }

    /// The file that was found to be there.
    pub(crate) fn of(client: &Arc<Client>, name: &str, status: Status) -> File {
        let (client, name, path) = (Arc::clone(client), name.to_owned(), by_id(status.file_id));
        File { client, name, path, status, source: Mutex::default(), local: OnceLock::new() }
    }

    /// Its blocks on this machine. What HDFS moved elsewhere is read from there.
    fn local(&self) -> Result<Option<&Local>> {
        if let Some(local) = self.local.get() {
            return Ok(local.as_ref());
        }
        let local = Local::of(&self.client, &self.name, &self.path, &self.status);
        let local = local.map_err(|error| match error.is_not_found() {
            true => self.fail(REPLACED),
            false => error,
        })?;
        Ok(self.local.get_or_init(|| local).as_ref())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let need = offset.saturating_add(buf.len() as u64);
        let have = self.status.length;
        if need > have {
            let (place, name) = (self.client.place.text.clone(), self.name.clone());
            return Err(StoreError::Truncated { place, name, need, have });
        }
        if buf.is_empty() {
            return Ok(());
        }
        if let Some(local) = self.local()?
            && local.read(offset, buf).is_ok()
        {
            self.client.count(buf.len());
            return Ok(());
        }
        let mut tries = self.client.read_tries();
        loop {
            let known = self.source().clone();
            let end = match self.ask(known.as_deref(), offset, buf) {
                Ok(reply) if reply.status == 200 => {
                    self.client.note_reads(true);
                    return Ok(());
                }
                Ok(reply) if reply.is_absent() => {
                    return Err(self.fail(REPLACED));
                }
                Ok(reply) => {
                    let end = self.client.refusal(Operation::Read, &self.name, &reply);
                    if known.is_none() && !reply.is_passing() {
                        return Err(end);
                    }
                    end
                }
                Err(error) => self.client.error(Operation::Read, &self.name, error),
            };
            // Another DataNode may have it, or this one another time.
            *self.source() = None;
            if !tries.again() {
                self.client.note_reads(false);
                return Err(end);
            }
        }
    }

    fn source(&self) -> MutexGuard<'_, Option<String>> {
        self.source.lock()
    }

    fn fail(&self, why: &str) -> StoreError {
        self.client.fail(Operation::Read, &self.name, why)
    }

    /// One try: asks the DataNode that is known, or the NameNode for one.
    fn ask(&self, known: Option<&str>, offset: u64, buf: &mut [u8]) -> io::Result<Reply> {
        let len = buf.len();
        let source = match known {
            Some(source) => source.to_owned(),
            None => {
                let (at, length) = (offset.to_string(), len.to_string());
                let query = [("offset", &at[..]), ("length", &length[..])];
                let (op, action, path) = (Operation::Read, "OPEN", &self.path[..]);
                let ask = Ask { op, name: &self.name, method: "GET", path, action, query: &query };
                let reply = self.client.ask(&ask, |_| true).map_err(io::Error::other)?;
                match reply.location {
                    Some(url) if reply.status == 307 => without_range(&url),
                    _ => return Ok(reply),
                }
            }
        };
        let url = format!("{source}&offset={offset}&length={len}");
        let reply = self.client.once("GET", &url, Some(buf))?;
        if reply.status == 200 {
            *self.source() = Some(source);
        }
        Ok(reply)
    }
}

/// The URL of a read without which range it is of.
fn without_range(url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let of_range = |part: &&str| part.starts_with("offset=") || part.starts_with("length=");
    let rest: Vec<&str> = query.split('&').filter(|part| !of_range(part)).collect();
    format!("{path}?{}", rest.join("&"))
}

impl ReadAt for File {
    fn len(&self) -> u64 {
        self.status.length
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read(offset, buf)
    }

    /// Ranges stay as they are, a request each: never is more asked for.
    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        if self.local()?.is_some() {
            return reads.iter_mut().try_for_each(|read| self.read(read.offset, read.buf));
        }
        let read = |_, read: &mut BatchRead<'_>| self.read(read.offset, read.buf);
        in_parallel(AT_ONCE, reads.iter_mut().collect(), read).map(drop)
    }

    fn tag(&self) -> Option<Tag> {
        None
    }
}
