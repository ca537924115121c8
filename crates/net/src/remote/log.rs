//! Logs at an agent.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use kiln_store::{LogFile, Operation, StoreError};

use super::{Coming, PATIENCE, Peer, Remote, SYNC_PATIENCE};
use crate::proto::{Message, PADDING_MAX, PAYLOAD_MAX};
use crate::{NetError, Result, buffers};

/// A log that this connection writes. Bytes are on their way when a write returns; whether they got
/// there shows at the sync. It does not outlive its connection.
pub(super) struct RemoteLog {
    remote: Arc<Remote>,
    peer: Arc<Peer>,
    name: String,
    handle: u32,
    len: u64,
    /// Says whether the agent adds zeros at the end of a write by itself.
    pads: bool,
    coming: VecDeque<Coming>,
}

impl RemoteLog {
    pub fn create(remote: Arc<Remote>, name: &str, size: u64) -> Result<RemoteLog> {
        let peer = remote.peer()?;
        let message = Message::CreateLog { name: name.to_owned(), size };
        let frame = remote.ask(&peer, message, SYNC_PATIENCE)?;
        let Message::Opened { handle, len } = frame.message else {
            return Err(remote.unexpected(&frame));
        };
        let (name, pads, coming) = (name.to_owned(), false, VecDeque::new());
        // From here on it is closed whatever fails.
        let mut log = RemoteLog { remote, peer, name, handle, len, pads, coming };
        // Nothing is written by that; agents of earlier versions are not asked.
        let padded = Message::WritePadded { handle, offset: 0, zeros: 0 };
        log.pads = match log.remote.ask(&log.peer, padded, PATIENCE) {
            Err(NetError::Version { .. }) => false,
            answer => answer.map(|_| true)?,
        };
        Ok(log)
    }

    fn sync_all(&mut self) -> Result<()> {
        let message = Message::Sync { handle: self.handle };
        let synced = self.remote.begin(&self.peer, message, Bytes::new(), SYNC_PATIENCE);
        while let Some(first) = self.coming.pop_front() {
            self.remote.end(&first)?;
        }
        self.remote.end(&synced).map(drop)
    }
}

/// Zeros that these bytes end with, as many of them as may be left out.
fn padding(bytes: &[u8]) -> usize {
    bytes.iter().rev().take(PADDING_MAX).take_while(|byte| **byte == 0).count()
}

impl LogFile for RemoteLog {
    fn len(&self) -> u64 {
        self.len
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let need = offset.saturating_add(bytes.len() as u64);
        if need > self.len {
            let (place, name) = (self.remote.place.clone(), self.name.clone());
            return Err(StoreError::Truncated { place, name, need, have: self.len });
        }
        let (mut at, handle) = (offset, self.handle);
        for piece in bytes.chunks(PAYLOAD_MAX) {
            // A batch fills whole pages, and its last one is mostly empty.
            let zeros = if self.pads { padding(piece) } else { 0 };
            let sent = piece.len() - zeros;
            let mut payload = buffers::empty(sent);
            payload.extend_from_slice(&piece[..sent]);
            let message = match zeros {
                0 => Message::WriteAt { handle, offset: at },
                zeros => Message::WritePadded { handle, offset: at, zeros: zeros as u32 },
            };
            let (peer, payload) = (&self.peer, buffers::lend(payload));
            self.coming.push_back(self.remote.begin(peer, message, payload, SYNC_PATIENCE));
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.sync_all();
        synced.map_err(|error| self.remote.store_error(error, Operation::Sync, &self.name))
    }
}

impl Drop for RemoteLog {
    fn drop(&mut self) {
        if !self.peer.has_ended() {
            // Waited for, so that it does not pass for a log with a writer.
            let close = Message::Close { handle: self.handle };
            let _ = self.remote.ask(&self.peer, close, PATIENCE);
        }
    }
}
