//! Frames over a byte stream.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};

use super::buffers;
use crate::proto::{Frame, HEADER, Header, Priority};
use crate::{NetError, NetOperation, Result};

/// A connection's bytes, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Bytes that are made room for since a header announces them. For more there is room when so many
/// have come: who announces much and sends nothing holds little.
const ANNOUNCED: usize = 64 << 10;

/// Reads the next frame; `None` at the end of the stream. A body or payload of more bytes than
/// these is refused before room is made for it.
pub(super) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    session: u64,
    (body_max, payload_max): (usize, usize),
) -> Result<Option<Frame>> {
    let mut bytes = [0; HEADER];
    match stream.read(&mut bytes).await.map_err(broken)? {
        0 => return Ok(None),
        got => stream.read_exact(&mut bytes[got..]).await.map_err(broken)?,
    };
    let header = Header::parse(&bytes, session)?;
    if header.payload as usize > payload_max || header.body as usize > body_max {
        return Err(NetError::protocol("a large frame before the connection is open for it"));
    }
    let body = read_bytes(stream, header.body as usize).await.map_err(broken)?;
    let payload = read_bytes(stream, header.payload as usize).await.map_err(broken)?;
    Frame::parse(&header, &body, payload).map(Some)
}

/// Reads without clearing the buffer first.
async fn read_bytes(stream: &mut (impl AsyncRead + Unpin), len: usize) -> io::Result<Bytes> {
    let mut rest = stream.take(len as u64);
    let first = len.min(ANNOUNCED);
    let mut bytes = Vec::with_capacity(first);
    fill(&mut rest, &mut bytes, first).await?;
    if bytes.len() < len {
        let mut whole = buffers::empty(len);
        whole.extend_from_slice(&bytes);
        bytes = whole;
        fill(&mut rest, &mut bytes, len).await?;
    }
    Ok(buffers::lend(bytes))
}

/// Reads on until there are `len` bytes, or a few more that are there already.
async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    len: usize,
) -> io::Result<()> {
    while bytes.len() < len {
        if stream.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Something for the writing half of a connection.
pub(super) enum Outgoing {
    /// A frame with its session.
    Frame(u64, Frame),
    /// Write what is left, then close.
    Close,
}

/// Small frames are gathered up to so many bytes: each write costs a record of TLS and a packet.
const GATHERED: usize = 16 << 10;

/// Frames, or beginnings of one, that are written in one piece.
#[derive(Default)]
struct Gather {
    bytes: Vec<u8>,
    /// Numbers of the frames that are whole in it.
    whole: Vec<u64>,
}

impl Gather {
    /// Adds a frame; gives what of its payload is left to be written after what is gathered.
    fn add(&mut self, session: u64, frame: &Frame) -> Bytes {
        self.bytes.extend_from_slice(&frame.head(session));
        let fits = GATHERED.saturating_sub(self.bytes.len()).min(frame.payload.len());
        self.bytes.extend_from_slice(&frame.payload[..fits]);
        self.whole.push(frame.id);
        frame.payload.slice(fits..)
    }

    /// Writes all, and the rest of the last frame.
    async fn write<E>(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        rest: &[u8],
        told: Option<&Sender<E>>,
        event: &impl Fn(u64) -> E,
    ) -> io::Result<()> {
        stream.write_all(&self.bytes).await?;
        stream.write_all(rest).await?;
        self.bytes.clear();
        for id in self.whole.drain(..) {
            if let Some(told) = told {
                // Who does not listen any more ends this connection by other means.
                let _ = told.send(event(id)).await;
            }
        }
        Ok(())
    }
}

/// Writes what comes until `Close` or the senders' end: clients' frames before those of repair.
/// `told`, if any, hears of each frame what `event` makes of its number. The queue is bounded by
/// the credit of the connection.
pub(super) async fn write_frames<E>(
    stream: &mut (impl AsyncWrite + Unpin),
    mut queue: UnboundedReceiver<Outgoing>,
    told: Option<&Sender<E>>,
    event: impl Fn(u64) -> E,
) -> io::Result<()> {
    let mut later = std::collections::VecDeque::new();
    let (mut open, mut gather) = (true, Gather::default());
    loop {
        let next = match (queue.try_recv(), open) {
            (Ok(next), true) => Some(next),
            (_, true) if later.is_empty() => {
                gather.write(stream, &[], told, &event).await?;
                stream.flush().await?;
                queue.recv().await
            }
            _ => None,
        };
        let (session, frame) = match next {
            Some(Outgoing::Frame(session, frame)) if frame.priority == Priority::Repair => {
                later.push_back((session, frame));
                continue;
            }
            Some(Outgoing::Frame(session, frame)) => (session, frame),
            Some(Outgoing::Close) => {
                open = false;
                continue;
            }
            None => match later.pop_front() {
                Some(next) => next,
                None => break,
            },
        };
        let rest = gather.add(session, &frame);
        if gather.bytes.len() >= GATHERED {
            gather.write(stream, &rest, told, &event).await?;
        }
    }
    gather.write(stream, &[], told, &event).await?;
    stream.flush().await?;
    stream.shutdown().await
}

/// An error of the stream itself.
pub(super) fn broken(source: io::Error) -> NetError {
    NetError::Io { op: NetOperation::Talk, place: "the other side".to_owned(), source }
}
