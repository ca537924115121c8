//! Writing a file: by one request where it is short, else by one whose body goes on as long as the
//! file is written. What is added after a sync is a file of its own first: behind all that was
//! there, which it then takes the place of, where that is little, and else made a part of the other
//! one by HDFS. So at any time a file has what was synced and no half of more.

use std::time::{Duration, Instant};
use std::{io, sync::Arc, thread};

use crate::{LOCK, Progress};
use kiln_store::{Append, Operation, ReadAt, Result, StoreError};

use crate::hdfs::client::{Ask, Client};
use crate::hdfs::operations::{Status, passing_name};
use crate::{hdfs::read::File, hdfs::reply::Reply, hdfs::stream::Stream};

/// Bytes up to which a file is sent as a whole, and can be sent again.
pub(crate) const SMALL: usize = 1 << 20;
/// Bytes of a piece that is handed to a stream.
const PIECE: usize = 256 << 10;
/// Bytes up to which a file is written anew when something is added: otherwise each addition is a
/// block of its own, which is told of to everybody who asks where the file's blocks are.
const SHORT: u64 = 16 << 10;
/// A longer one is when it grows beyond a multiple of this, so that it has at most so many blocks
/// as additions fit into it.
const STEP: u64 = 4 << 10;
/// Between looks at whether a file that is cut is ready.
const CUT_PAUSE: Duration = Duration::from_millis(200);

/// Creation of a file: synced to disks when its blocks end, with one replica.
const OVER: &[(&str, &str)] = &[
    ("createflag", "CREATE,OVERWRITE,SYNC_BLOCK"),
    ("overwrite", "true"),
    ("createparent", "false"),
    ("replication", "1"),
];
const NEW: &[(&str, &str)] = &[
    ("createflag", "CREATE,SYNC_BLOCK"),
    ("overwrite", "false"),
    ("createparent", "false"),
    ("replication", "1"),
];

/// The same for a file that is longer than [`SMALL`]: a shard that is a little longer than a block
/// of HDFS would have a second one, made and synced when all else is written, and told of whenever
/// somebody asks for its blocks. A multiple of 512, as HDFS asks.
const LONG: &[(&str, &str)] = &[
    ("createflag", "CREATE,OVERWRITE,SYNC_BLOCK"),
    ("overwrite", "true"),
    ("createparent", "false"),
    ("replication", "1"),
    ("blocksize", "536870912"),
];

/// Returns whether a file of so many bytes is written anew to get so many more. What that costs for
/// each addition, on average, does not grow with the file beyond [`SMALL`].
fn is_written_anew(have: u64, more: u64) -> bool {
    let len = have.saturating_add(more);
    len <= SHORT || (len <= SMALL as u64 && have / STEP != len / STEP)
}

/// Returns the URL that the NameNode redirects a write to; on the place's DataNode, where it has
/// one.
fn target(client: &Client, name: &str, query: &[(&'static str, &str)]) -> Result<String> {
    let (op, action, path) = (Operation::Create, "CREATE", client.path(name));
    let ask = Ask { op, name, method: "PUT", path: &path, action, query };
    let reply = client.ask(&ask, |_| false)?;
    let parts = reply.location.as_deref().and_then(|url| url.strip_prefix("http://"));
    let parts = parts.and_then(|url| url.split_once('/'));
    let Some((server, rest)) = parts else {
        let why = "the NameNode names no DataNode to write to by HTTP";
        return Err(client.fail(op, name, why));
    };
    let server = client.place.datanode.as_ref().map_or(server.to_owned(), |at| at.authority());
    Ok(format!("http://{server}/{rest}"))
}

/// Refuses a file that is not where it should be, and removes it. A lock does its work wherever
/// it is.
fn check_place(client: &Client, name: &str) -> Result<()> {
    let Some(server) = client.place.datanode.as_ref().filter(|_| name != LOCK) else {
        return Ok(());
    };
    let path = client.path(name);
    let located = client.blocks(Operation::Complete, name, &path)?;
    let Some(other) = located.elsewhere(server) else { return Ok(()) };
    client.delete(name, &path)?;
    let why = format!(
        "HDFS put it on {other}, not on {}: is that DataNode full, or passed over as busy (set \
         dfs.namenode.redundancy.considerLoad to false)",
        server.authority()
    );
    Err(client.fail(Operation::Complete, name, &why))
}

/// Writes a small file, over what has the name or only where nothing has.
pub(crate) fn put(client: &Client, name: &str, bytes: &[u8], new: bool) -> Result<()> {
    let op = Operation::Complete;
    let (mut tries, mut unanswered) = (client.tries(), false);
    loop {
        let url = target(client, name, if new { NEW } else { OVER })?;
        let end = match client.put(&url, bytes) {
            Ok(reply) if reply.is_success() => match check_place(client, name) {
                Ok(()) => return Ok(()),
                // The next try may have more luck; of a new file nobody else may be robbed.
                Err(error) if new => return Err(error),
                Err(error) => error,
            },
            Ok(reply) if reply.is_passing() => client.refusal(op, name, &reply),
            // A try that was not answered came late, and put its file in the place of this one's.
            Ok(reply) if unanswered && reply.is_absent() => client.refusal(op, name, &reply),
            Ok(reply) => return Err(client.refusal(op, name, &reply)),
            Err(error) => {
                unanswered = true;
                client.error(op, name, unreachable(client, error))
            }
        };
        // Whether a try that was not answered made a new file nobody knows.
        if new || !tries.again() {
            return Err(end);
        }
    }
}

/// Says which DataNode does not answer.
fn unreachable(client: &Client, error: io::Error) -> io::Error {
    match &client.place.datanode {
        Some(server) => {
            io::Error::new(error.kind(), format!("DataNode {}: {error}", server.authority()))
        }
        None => error,
    }
}

/// A file that is being written.
pub(crate) struct Writer {
    client: Arc<Client>,
    name: String,
    len: u64,
    /// True if the file is there and has all that was flushed.
    made: bool,
    /// Bytes not yet with a DataNode.
    buffer: Vec<u8>,
    /// Under which name it goes there.
    stream: Option<(Stream, String)>,
    /// The file that is gone on with, as it was found.
    found: Option<Status>,
    state: Progress,
}

impl Writer {
    /// A file from its beginning, over what has the name when it is flushed first.
    pub(crate) fn new(client: &Arc<Client>, name: &str) -> Writer {
        let (client, name) = (Arc::clone(client), name.to_owned());
        let (len, made, buffer) = (0, false, Vec::new());
        Writer { client, name, len, made, buffer, stream: None, found: None, state: Progress::Open }
    }

    /// Goes on with a file at a length, which it is cut to if it is longer.
    pub(crate) fn resume(client: &Arc<Client>, name: &str, at: u64) -> Result<Writer> {
        let found = match client.status(Operation::Create, name, &client.path(name)) {
            Ok(status) => Some(status),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let have = found.as_ref().map_or(0, |status| status.length);
        if have < at {
            let place = client.place.text.clone();
            return Err(StoreError::Truncated { place, name: name.to_owned(), need: at, have });
        }
        let mut writer = Writer::new(client, name);
        (writer.len, writer.made, writer.found) = (at, true, found);
        if have > at {
            client.check_fence()?;
            writer.cut()?;
            writer.found = None;
        }
        Ok(writer)
    }

    /// Cuts what was found to the length that there should be.
    fn cut(&self) -> Result<()> {
        let (client, name, at) = (&self.client, &self.name, self.len);
        if at <= SHORT
            && let Some(bytes) = self.before(at)?
        {
            return self.replace(&bytes);
        }
        if client.truncate(name, at)? {
            return Ok(());
        }
        let (begin, path) = (Instant::now(), client.path(name));
        while client.blocks(Operation::Cut, name, &path)?.is_under_construction {
            if begin.elapsed() > client.place.patience {
                let why = "HDFS does not end cutting it";
                return Err(client.fail(Operation::Cut, name, why));
            }
            thread::sleep(CUT_PAUSE);
        }
        Ok(())
    }

    /// The first so many bytes of the file; `None`: it is not as it was found, or as long as what
    /// was written, so somebody else is at work on it.
    fn before(&self, len: u64) -> Result<Option<Vec<u8>>> {
        let file = match &self.found {
            Some(found) => File::of(&self.client, &self.name, found.clone()),
            None => File::open(&self.client, &self.name)?,
        };
        if self.found.is_none() && file.len() != len {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts a file with these bytes in the place of the one that is there.
    fn replace(&self, bytes: &[u8]) -> Result<()> {
        let passing = passing_name();
        put(&self.client, &passing, bytes, false)?;
        self.client.rename(&passing, &self.name, true)
    }

    /// Does a step; after a failure nothing is tried again.
    fn step(
        &mut self,
        op: &'static str,
        act: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<()> {
        self.state.begin_step(op, &self.name)?;
        act(self)?;
        self.state = Progress::Open;
        Ok(())
    }

    /// The name under which what is written now goes to its DataNode.
    fn to(&self) -> String {
        if self.made { passing_name() } else { self.name.clone() }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        let most = if self.stream.is_some() { PIECE } else { SMALL + 1 };
        if self.buffer.len() < most {
            return Ok(());
        }
        if self.stream.is_none() {
            self.client.check_fence()?;
            let to = self.to();
            let url = target(&self.client, &to, LONG)?;
            let stream = Stream::start(&self.client, url);
            let stream =
                stream.map_err(|error| self.client.error(Operation::Write, &self.name, error))?;
            self.stream = Some((stream, to));
        }
        let bytes = std::mem::take(&mut self.buffer);
        match &self.stream {
            Some((stream, _)) if !stream.send(bytes) => self.flush(),
            _ => Ok(()),
        }
    }

    /// Has all that was written in the file, on disk.
    fn flush(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.buffer);
        if self.made && self.stream.is_none() && bytes.is_empty() {
            return Ok(());
        }
        self.client.check_fence()?;
        let before = self.len - bytes.len() as u64;
        if self.made
            && self.stream.is_none()
            && is_written_anew(before, bytes.len() as u64)
            && let Some(mut all) = self.before(before)?
        {
            all.extend_from_slice(&bytes);
            self.found = None;
            return self.replace(&all);
        }
        self.found = None;
        let to = match self.stream.take() {
            None => {
                let to = self.to();
                put(&self.client, &to, &bytes, false)?;
                to
            }
            Some((stream, to)) => {
                if !bytes.is_empty() {
                    stream.send(bytes);
                }
                self.answered(stream.finish())?;
                check_place(&self.client, &to)?;
                to
            }
        };
        if to != self.name {
            self.client.concat(&self.name, &to)?;
        }
        self.made = true;
        Ok(())
    }

    fn answered(&self, end: io::Result<Reply>) -> Result<()> {
        let (client, op) = (&self.client, Operation::Write);
        match end {
            Ok(reply) if reply.is_success() => Ok(()),
            Ok(reply) => Err(client.refusal(op, &self.name, &reply)),
            Err(error) => Err(client.error(op, &self.name, unreachable(client, error))),
        }
    }
}

impl Append for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.step("append", |writer| bytes.chunks(PIECE).try_for_each(|piece| writer.add(piece)))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        self.step("sync", Writer::flush)
    }

    fn complete(&mut self) -> Result<()> {
        self.step("complete", Writer::flush)?;
        self.state = Progress::Done;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.state == Progress::Open {
            // As any file that is closed without a sync: most likely it is there.
            let _ = self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_bit_by_bit_has_few_blocks_and_is_not_written_all_the_time() {
        let (mut len, mut blocks, mut most, mut written) = (32, 1, 0, 0);
        while len < SMALL as u64 {
            match is_written_anew(len, 32) {
                true => (blocks, written) = (1, written + len + 32),
                false => (blocks, written) = (blocks + 1, written + 32),
            }
            len += 32;
            most = most.max(blocks);
        }
        assert_eq!(most, 1 + STEP / 32 - 1);
        let changes = len / 32;
        assert!(written / changes <= SHORT, "{written} bytes for {changes} changes");
        // What is long stays where it is.
        assert!(!is_written_anew(SMALL as u64, 1 << 20));
        assert!(!is_written_anew(u64::MAX, 1) && is_written_anew(0, SHORT));
    }
}
