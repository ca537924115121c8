//! The two ways between a connection and the thread that serves its request.

use std::io::{self, BufRead, Read, Write};
use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::{runtime::Handle, time::timeout};

use crate::reply::{Client, Reply};
use crate::server::body::Body;

/// Blocks on their way in, and their size: each wakes the thread that reads it.
const IN_BLOCKS: usize = 2;
const IN_BLOCK: usize = 128 << 10;
/// Blocks on their way out, and their size.
const OUT_BLOCKS: usize = 4;
const OUT_BLOCK: usize = 128 << 10;

/// The payload of a request, as the thread reads it.
pub(super) struct Inbox {
    blocks: mpsc::Receiver<io::Result<Bytes>>,
    wanted: Arc<Notify>,
    block: Bytes,
    ended: bool,
}

/// The other side of an inbox.
pub(super) struct Feeder {
    blocks: mpsc::Sender<io::Result<Bytes>>,
    wanted: Arc<Notify>,
}

/// Makes an inbox. Nothing is read before it is wanted, so that a client that waits for leave to
/// send its payload is not given it before its signature was verified.
pub(super) fn inbox() -> (Inbox, Feeder) {
    let (to, from) = mpsc::channel(IN_BLOCKS);
    let wanted = Arc::new(Notify::new());
    let inbox =
        Inbox { blocks: from, wanted: Arc::clone(&wanted), block: Bytes::new(), ended: false };
    (inbox, Feeder { blocks: to, wanted })
}

/// Brings the payload of a request to the thread that reads it.
pub(super) async fn forward(mut body: Incoming, feeder: Feeder, idle: Duration) {
    tokio::select! {
        () = feeder.wanted.notified() => {}
        () = feeder.blocks.closed() => return,
    }
    loop {
        let most = usize::try_from(body.size_hint().lower()).unwrap_or(IN_BLOCK).min(IN_BLOCK);
        let mut block = BytesMut::with_capacity(most);
        let end = loop {
            if block.len() >= IN_BLOCK {
                break None;
            }
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
            match timeout(idle, frame).await {
                Ok(Some(Ok(frame))) => block.extend(frame.into_data()),
                Ok(None) => break Some(None),
                Ok(Some(Err(error))) => break Some(Some(io::Error::other(error))),
                Err(_) => break Some(Some(io::ErrorKind::TimedOut.into())),
            }
        };
        let ended = end.is_some();
        let block = Some(block.freeze()).filter(|block| !block.is_empty());
        for block in block.map(Ok).into_iter().chain(end.flatten().map(Err)) {
            if feeder.blocks.send(block).await.is_err() {
                return;
            }
        }
        if ended {
            return;
        }
    }
}

impl Read for Inbox {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.len().min(buf.len());
        buf[..taken].copy_from_slice(&self.block[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for Inbox {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.block.is_empty() && !self.ended {
            self.wanted.notify_one();
            match self.blocks.blocking_recv() {
                Some(block) => self.block = block?,
                None => self.ended = true,
            }
        }
        Ok(&self.block)
    }

    fn consume(&mut self, amount: usize) {
        self.block.advance(amount);
    }
}

/// Head and body of an answer that a thread sends while it makes it.
pub(super) type Begun = (Reply, Option<Body>);

/// The thread's way to the client.
pub(super) struct Outbox {
    reply: Option<oneshot::Sender<Begun>>,
    blocks: Option<mpsc::Sender<io::Result<Bytes>>>,
    block: Vec<u8>,
    idle: Duration,
    left: u64,
}

impl Outbox {
    pub(super) fn new(reply: oneshot::Sender<Begun>, idle: Duration) -> Outbox {
        Outbox { reply: Some(reply), blocks: None, block: Vec::new(), idle, left: 0 }
    }

    /// Cuts an answer that cannot be sent to its end.
    pub(super) fn cut(&mut self) {
        self.block.clear();
        if self.blocks.is_some() {
            let _ = self.send(Err(io::ErrorKind::Other.into()));
        }
        self.blocks = None;
    }

    fn send(&mut self, block: io::Result<Bytes>) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let blocks = self.blocks.as_ref().ok_or_else(gone)?;
        // A client that takes nothing does not keep the thread.
        let sent = Handle::current().block_on(timeout(self.idle, blocks.send(block)));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn send_block(&mut self) -> io::Result<()> {
        let block = std::mem::take(&mut self.block);
        self.send(Ok(block.into()))
    }
}

impl Client for Outbox {
    fn begin(&mut self, head: Reply, length: u64) -> io::Result<Box<dyn Write + '_>> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (to, from) = mpsc::channel(OUT_BLOCKS);
        let reply = self.reply.take().ok_or_else(gone)?;
        reply.send((head, Some(Body::Stream(from, length)))).map_err(|_| gone())?;
        self.blocks = Some(to);
        self.left = length;
        Ok(Box::new(self))
    }
}

impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(OUT_BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.left = self.left.saturating_sub(taken as u64);
        if self.block.len() == OUT_BLOCK || self.left == 0 {
            self.send_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
