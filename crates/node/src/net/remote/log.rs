//! Logs at an agent.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kiln_store::{LogFile, Operation, StoreError};

use super::{Coming, PATIENCE, Peer, Remote, SYNC_PATIENCE};
use crate::Result;
use crate::net::buffers;
use crate::proto::{Message, PAYLOAD_MAX};

/// A log that this connection writes. Bytes are on their way when a write returns; whether they got
/// there shows at the sync. It does not outlive its connection.
pub(super) struct RemoteLog {
    remote: Arc<Remote>,
    peer: Arc<Peer>,
    name: String,
    handle: u32,
    len: u64,
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
        let (name, coming) = (name.to_owned(), VecDeque::new());
        Ok(RemoteLog { remote, peer, name, handle, len, coming })
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
        let mut at = offset;
        for piece in bytes.chunks(PAYLOAD_MAX) {
            let mut payload = buffers::empty(piece.len());
            payload.extend_from_slice(piece);
            let message = Message::WriteAt { handle: self.handle, offset: at };
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
            // Waited for, so that nobody takes it for a log with a writer.
            let close = Message::Close { handle: self.handle };
            let _ = self.remote.ask(&self.peer, close, PATIENCE);
        }
    }
}
