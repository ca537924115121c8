//! Files that are open at an agent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kiln_store::{Append, BatchRead, Operation, ReadAt, StoreError, check_name};

use super::{Coming, PATIENCE, Peer, Remote, SYNC_PATIENCE, locked};
use crate::proto::{Message, PAYLOAD_MAX};
use crate::{Result, buffers};

/// Writes of one call that are under way at once, at most.
const AT_ONCE: usize = 4;
/// Reads of one call that are under way at once, at most, and the bytes that they ask for: well
/// below what an agent allows a connection, which others share.
const READS_AT_ONCE: usize = 32;
const BYTES_AT_ONCE: usize = 4 * PAYLOAD_MAX;

/// A file open for reading. When its connection breaks it is opened again; a file of another
/// length under the name is then taken for what it is: another file.
pub(super) struct RemoteReader {
    remote: Arc<Remote>,
    name: String,
    len: u64,
    open: Mutex<(Arc<Peer>, u32)>,
}

impl RemoteReader {
    pub fn open(remote: Arc<Remote>, name: &str) -> Result<RemoteReader> {
        let (peer, handle, len) = open(&remote, name)?;
        let open = Mutex::new((peer, handle));
        Ok(RemoteReader { remote, name: name.to_owned(), len, open })
    }

    /// The open handle, after a broken connection a new one.
    fn handle(&self) -> Result<(Arc<Peer>, u32)> {
        let mut open = locked(&self.open);
        if open.0.has_ended() {
            let (peer, handle, len) = self::open(&self.remote, &self.name)?;
            if len != self.len {
                let (place, name) = (self.remote.place.clone(), self.name.clone());
                return Err(StoreError::Truncated { place, name, need: self.len, have: len }.into());
            }
            *open = (peer, handle);
        }
        Ok((Arc::clone(&open.0), open.1))
    }

    /// Asks for all of them, so many at once, and does not wait for one before it asks for the
    /// next: a round trip of the network is paid once, not by each of many short reads.
    fn read(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        let (peer, handle) = self.handle()?;
        let mut coming: VecDeque<(Coming, &mut [u8])> = VecDeque::new();
        let mut bytes = 0;
        for BatchRead { offset, buf } in reads {
            let mut at = *offset;
            for piece in buf.chunks_mut(PAYLOAD_MAX) {
                while (coming.len() >= READS_AT_ONCE || bytes + piece.len() > BYTES_AT_ONCE)
                    && let Some((first, piece)) = coming.pop_front()
                {
                    bytes -= piece.len();
                    self.take(&first, piece)?;
                }
                let len = piece.len() as u32;
                let message = Message::Read { handle, offset: at, len };
                (at, bytes) = (at + u64::from(len), bytes + piece.len());
                let asked = self.remote.begin(&peer, message, Bytes::new(), PATIENCE);
                coming.push_back((asked, piece));
            }
        }
        coming.into_iter().try_for_each(|(coming, piece)| self.take(&coming, piece))
    }

    fn take(&self, coming: &Coming, piece: &mut [u8]) -> Result<()> {
        let frame = self.remote.end(coming)?;
        if frame.message != (Message::Data {}) || frame.payload.len() != piece.len() {
            return Err(self.remote.unexpected(&frame));
        }
        piece.copy_from_slice(&frame.payload);
        Ok(())
    }
}

fn open(remote: &Remote, name: &str) -> Result<(Arc<Peer>, u32, u64)> {
    let (peer, frame) = remote.ask_again(&Message::Open { name: name.to_owned() })?;
    match frame.message {
        Message::Opened { handle, len } => Ok((peer, handle, len)),
        _ => Err(remote.unexpected(&frame)),
    }
}

impl ReadAt for RemoteReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.read_batch(&mut [BatchRead::new(offset, buf)])
    }

    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<(), StoreError> {
        let end = |read: &BatchRead<'_>| read.offset.saturating_add(read.buf.len() as u64);
        let need = reads.iter().map(end).max().unwrap_or(0);
        if need > self.len {
            let (place, name) = (self.remote.place.clone(), self.name.clone());
            return Err(StoreError::Truncated { place, name, need, have: self.len });
        }
        let mut done = self.read(reads);
        if done.is_err() && locked(&self.open).0.has_ended() {
            done = self.read(reads);
        }
        done.map_err(|error| self.remote.store_error(error, Operation::Read, &self.name))
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        let (peer, handle) = &*locked(&self.open);
        if !peer.has_ended() {
            // The answer is not waited for.
            let close = Message::Close { handle: *handle };
            drop(self.remote.begin(peer, close, Bytes::new(), PATIENCE));
        }
    }
}

/// A file open for appending. Bytes go out in large pieces and are not waited for one by one: an
/// error shows at a later append, or at the sync.
pub(super) struct RemoteAppender {
    remote: Arc<Remote>,
    peer: Arc<Peer>,
    name: String,
    handle: u32,
    len: u64,
    /// Bytes of the file that were sent.
    sent: u64,
    buffer: Vec<u8>,
    coming: VecDeque<Coming>,
    /// The agent was told that it is closed.
    closing: Option<Coming>,
}

/// A file that is being opened for appending.
struct Opening {
    peer: Arc<Peer>,
    name: String,
    coming: Coming,
}

impl Opening {
    fn begin(remote: &Remote, name: &str, at: u64) -> Result<Opening> {
        let peer = remote.peer_to_write()?;
        let message = Message::Append { name: name.to_owned(), at };
        let coming = remote.begin(&peer, message, Bytes::new(), PATIENCE);
        Ok(Opening { peer, name: name.to_owned(), coming })
    }

    fn end(self, remote: Arc<Remote>) -> Result<RemoteAppender> {
        let frame = remote.end(&self.coming)?;
        let Message::Opened { handle, len } = frame.message else {
            return Err(remote.unexpected(&frame));
        };
        let Opening { peer, name, .. } = self;
        let (buffer, coming, closing) = (Vec::new(), VecDeque::new(), None);
        Ok(RemoteAppender { remote, peer, name, handle, len, sent: len, buffer, coming, closing })
    }
}

/// Writes files whole and durably; see [`kiln_store::BatchFiles::write_all`].
pub(super) fn write_all(
    remote: &Arc<Remote>,
    files: &[(&str, &[u8])],
) -> Vec<Result<(), StoreError>> {
    let fail = |error, op, name: &str| remote.store_error(error, op, name);
    let open = |(name, _): &(&str, &[u8])| {
        check_name(name)?;
        Opening::begin(remote, name, 0).map_err(|error| fail(error, Operation::Create, name))
    };
    let opening: Vec<Result<Opening, StoreError>> = files.iter().map(open).collect();
    let write = |(opening, (name, bytes)): (Result<Opening, _>, &(&str, &[u8]))| {
        let file = opening?.end(Arc::clone(remote));
        let mut file = file.map_err(|error| fail(error, Operation::Create, name))?;
        file.append(bytes)?;
        file.send();
        Ok(file)
    };
    let written: Vec<Result<RemoteAppender, StoreError>> =
        opening.into_iter().zip(files).map(write).collect();
    let sync = |file: Result<RemoteAppender, StoreError>| {
        let mut file = file?;
        let coming = file.begin_sync().map_err(|error| fail(error, Operation::Sync, &file.name))?;
        Ok((file, coming))
    };
    let syncing: Vec<Result<(RemoteAppender, Coming), StoreError>> =
        written.into_iter().map(sync).collect();
    let end = |syncing: Result<(RemoteAppender, Coming), StoreError>| {
        let (mut file, coming) = syncing?;
        let synced = remote.end(&coming);
        file.begin_close();
        synced.map_err(|error| fail(error, Operation::Sync, &file.name))?;
        Ok(file)
    };
    // All closes are sent before the first is dropped, which waits for it.
    let ended: Vec<Result<RemoteAppender, StoreError>> = syncing.into_iter().map(end).collect();
    ended.into_iter().map(|end| end.map(drop)).collect()
}

impl RemoteAppender {
    pub fn open(remote: Arc<Remote>, name: &str, at: u64) -> Result<RemoteAppender> {
        Opening::begin(&remote, name, at)?.end(remote)
    }

    fn send(&mut self) {
        let bytes = buffers::lend(std::mem::take(&mut self.buffer));
        if !bytes.is_empty() {
            let message = Message::Write { handle: self.handle, at: self.sent };
            self.sent += bytes.len() as u64;
            self.coming.push_back(self.remote.begin(&self.peer, message, bytes, SYNC_PATIENCE));
        }
    }

    /// Waits until at most `left` pieces are under way.
    fn settle(&mut self, left: usize) -> Result<()> {
        while self.coming.len() > left {
            let Some(first) = self.coming.pop_front() else { break };
            self.remote.end(&first)?;
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.buffer.capacity() == 0 {
                // Small files are many; their buffers grow with them.
                self.buffer = buffers::empty(bytes.len().min(PAYLOAD_MAX));
            }
            let room = PAYLOAD_MAX - self.buffer.len();
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(piece);
            self.len += piece.len() as u64;
            bytes = rest;
            if self.buffer.len() == PAYLOAD_MAX {
                self.send();
                self.settle(AT_ONCE)?;
            }
        }
        Ok(())
    }

    fn begin_sync(&mut self) -> Result<Coming> {
        self.send();
        self.settle(0)?;
        let message = Message::Sync { handle: self.handle };
        Ok(self.remote.begin(&self.peer, message, Bytes::new(), SYNC_PATIENCE))
    }

    fn sync_all(&mut self) -> Result<()> {
        let coming = self.begin_sync()?;
        self.remote.end(&coming).map(drop)
    }

    fn begin_close(&mut self) {
        let close = Message::Close { handle: self.handle };
        self.closing = Some(self.remote.begin(&self.peer, close, Bytes::new(), PATIENCE));
    }
}

impl Append for RemoteAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.write(bytes);
        written.map_err(|error| self.remote.store_error(error, Operation::Write, &self.name))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.sync_all();
        synced.map_err(|error| self.remote.store_error(error, Operation::Sync, &self.name))
    }
}

impl Drop for RemoteAppender {
    fn drop(&mut self) {
        if self.peer.has_ended() {
            return;
        }
        // Without a sync no error has to be reported, but the bytes should be sent.
        self.send();
        let _ = self.settle(0);
        if self.closing.is_none() {
            self.begin_close();
        }
        if let Some(closing) = &self.closing {
            let _ = self.remote.end(closing);
        }
    }
}
