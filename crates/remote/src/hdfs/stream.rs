//! A file on its way to a DataNode: one request whose body is made while it is sent.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use ureq::SendBody;

use crate::{hdfs::client::Client, hdfs::reply::Reply};

/// Pieces that wait to be sent.
const WAITING: usize = 4;

/// A piece to send, or the end.
enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// A request that is being sent by a thread. Dropped before its end it is broken off.
pub(crate) struct Stream {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<io::Result<Reply>>,
}

impl Stream {
    /// Begins to send to this URL.
    pub(crate) fn start(client: &Arc<Client>, url: String) -> io::Result<Stream> {
        let (pieces, receiver) = sync_channel(WAITING);
        let client = Arc::clone(client);
        let body = Body { receiver, bytes: Vec::new(), at: 0, ended: false };
        let send = move || client.put(&url, SendBody::from_owned_reader(body));
        let thread = thread::Builder::new().name("kiln-hdfs-put".into()).spawn(send)?;
        Ok(Stream { pieces, thread })
    }

    /// Sends more; `false`: it ended early, and [`Stream::finish`] says why.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> bool {
        self.pieces.send(Piece::Bytes(bytes)).is_ok()
    }

    /// That was all; the answer.
    pub(crate) fn finish(self) -> io::Result<Reply> {
        // Where nobody listens any more the thread has its error ready.
        let _ = self.pieces.send(Piece::End);
        let end = self.thread.join();
        end.unwrap_or_else(|_| Err(io::Error::other("the thread that sends it ended")))
    }
}

struct Body {
    receiver: Receiver<Piece>,
    bytes: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.bytes.len() && !self.ended {
            match self.receiver.recv() {
                Ok(Piece::Bytes(bytes)) => (self.bytes, self.at) = (bytes, 0),
                Ok(Piece::End) => self.ended = true,
                // Without its end it must not look whole.
                Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        let now = buf.len().min(self.bytes.len() - self.at);
        buf[..now].copy_from_slice(&self.bytes[self.at..self.at + now]);
        self.at += now;
        Ok(now)
    }
}
