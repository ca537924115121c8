//! The wire: frames, their limits, and the one enum of messages.
//!
//! A connection is a sequence of frames in both directions. A frame is a header of fixed length, a
//! body (the fields of one [`Message`]) and a payload (bytes of files or sub-chunks). The bytes
//! are in `docs/reference/formats.md`. Everything here is pure: bytes in, values out.
//!
//! Lengths are checked against limits before anything is allocated, checksums before anything is
//! believed. The checksum of a header covers the session, a number that the accepting side draws
//! for each connection: a frame of another connection is no frame of this one.

pub mod field;
pub mod assignment;
pub mod message;

use self::field::Reader;
pub use self::field::TaskState;
pub use self::message::{Message, Role};
use crate::{NetError, Result};
use bytes::Bytes;

/// The latest version of the protocol, and the earliest one that is still spoken. Two sides speak
/// the latest one that both know; see [`Message::since`].
pub const VERSION: u8 = 7;
/// See [`VERSION`].
pub const VERSION_LEAST: u8 = 1;
/// The version of frames, the same in all versions of the protocol.
const FRAMES: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER: usize = 40;
/// Bytes of a body, at most.
pub const BODY_MAX: usize = 256 << 10;
/// Bytes of a payload, at most.
pub const PAYLOAD_MAX: usize = 1 << 20;
/// Zeros that a write may leave out at its end.
pub const PADDING_MAX: usize = 64 << 10;

const MAGIC: [u8; 4] = *b"KLNW";

/// Priority of a request. Of two that are ready, the smaller one goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Connections, deadlines, progress: a few bytes each.
    Control = 0,
    /// A person or program that reads or writes an object.
    Client = 1,
    /// Repair and scrub.
    Repair = 2,
}

/// One message with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Number of the request; a reply has the number of its request.
    pub id: u64,
    /// Its priority.
    pub priority: Priority,
    /// Milliseconds after which the reply is no longer wanted; 0: none.
    pub deadline_ms: u32,
    /// The message.
    pub message: Message,
    /// Bytes of a file or of sub-chunks; empty for most messages.
    pub payload: Bytes,
}

impl Frame {
    /// A frame without payload and deadline, of a client.
    pub fn new(id: u64, message: Message) -> Frame {
        let (priority, payload) = (Priority::Client, Bytes::new());
        Frame { id, priority, deadline_ms: 0, message, payload }
    }

    /// The same with a payload.
    #[must_use]
    pub fn with(self, payload: Bytes) -> Frame {
        Frame { payload, ..self }
    }

    /// The same with a priority.
    #[must_use]
    pub fn at(self, priority: Priority) -> Frame {
        Frame { priority, ..self }
    }

    /// A reply to this request, as urgent as it.
    #[must_use]
    pub fn reply(&self, message: Message) -> Frame {
        Frame::new(self.id, message).at(self.priority)
    }

    /// Header and body, which go before the payload on the wire.
    pub fn head(&self, session: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        self.message.put(&mut bytes);
        let body = (bytes.len() - HEADER) as u32;
        let body_sum = crc(&bytes[HEADER..]);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = FRAMES;
        bytes[5] = self.priority as u8;
        bytes[6..8].copy_from_slice(&self.message.kind().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        let words =
            [self.deadline_ms, body, self.payload.len() as u32, body_sum, crc(&self.payload)];
        for (slot, word) in bytes[16..36].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        let sum = header_crc(&bytes[..36], session);
        bytes[36..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The whole frame in one piece.
    pub fn encode(&self, session: u64) -> Vec<u8> {
        let mut bytes = self.head(session);
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The frame that a header announced, from its body and payload.
    /// Errors: [`NetError::Protocol`]: lengths or checksums differ, or the body is no such message.
    pub fn parse(header: &Header, body: &[u8], payload: Bytes) -> Result<Frame> {
        if body.len() != header.body as usize || payload.len() != header.payload as usize {
            return Err(NetError::protocol("a frame's parts have other lengths than announced"));
        }
        if crc(body) != header.body_sum {
            return Err(NetError::protocol("a frame's body does not match its checksum"));
        }
        if crc(&payload) != header.payload_sum {
            return Err(NetError::protocol("a frame's payload does not match its checksum"));
        }
        let mut reader = Reader::new(body);
        let message = Message::take(header.kind, &mut reader)?;
        reader.end()?;
        let (id, priority, deadline_ms) = (header.id, header.priority, header.deadline_ms);
        Ok(Frame { id, priority, deadline_ms, message, payload })
    }
}

/// A frame's header, checked: its lengths are within the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of the message.
    pub kind: u16,
    /// Number of the request.
    pub id: u64,
    /// Its priority.
    pub priority: Priority,
    /// Milliseconds; 0: none.
    pub deadline_ms: u32,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the payload.
    pub payload: u32,
    body_sum: u32,
    payload_sum: u32,
}

impl Header {
    /// Checks and reads a header of the session.
    /// Errors: [`NetError::Protocol`]: wrong magic, version, checksum, priority or lengths.
    pub fn parse(bytes: &[u8; HEADER], session: u64) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        if reader.take_bytes(4)? != MAGIC {
            return Err(NetError::protocol("these bytes are no frame"));
        }
        let version = reader.u8()?;
        if version != FRAMES {
            let what = format!("a frame of version {version}, only {FRAMES} is known");
            return Err(NetError::protocol(what));
        }
        let priority = reader.u8()?;
        let kind = reader.u16()?;
        let id = reader.u64()?;
        let (deadline_ms, body, payload) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (body_sum, payload_sum) = (reader.u32()?, reader.u32()?);
        if reader.u32()? != header_crc(&bytes[..36], session) {
            return Err(NetError::protocol("a frame's header does not match its checksum"));
        }
        let priority = match priority {
            0 => Priority::Control,
            1 => Priority::Client,
            2 => Priority::Repair,
            _ => return Err(NetError::protocol(format!("priority {priority} is unknown"))),
        };
        if body as usize > BODY_MAX || payload as usize > PAYLOAD_MAX {
            let what = format!(
                "a frame of {body} + {payload} bytes, at most {BODY_MAX} + {PAYLOAD_MAX} are taken"
            );
            return Err(NetError::protocol(what));
        }
        Ok(Header { kind, id, priority, deadline_ms, body, payload, body_sum, payload_sum })
    }
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

fn header_crc(bytes: &[u8], session: u64) -> u32 {
    let mut all = [0; 44];
    all[..8].copy_from_slice(&session.to_le_bytes());
    all[8..].copy_from_slice(bytes);
    crc(&all)
}

#[cfg(test)]
mod tests;
