//! A server of the network block device protocol: fixed newstyle negotiation, structured replies,
//! block status, trim, zeroes, flush and FUA, several connections, TLS.
//!
//! `handshake` and `wire` are functions of bytes; `server`, `connection` and `stream` have the
//! sockets and threads. What is served is an [`Export`].
#![forbid(unsafe_code)]

mod error;
mod payloads;
mod stream;
mod budget;
mod tls;
mod wire;
mod handshake;
mod connection;
mod server;

use bytes::Bytes;

pub use error::{NbdError, Result};
pub use handshake::{About, Handshake, Next};
pub use server::{Listener, Server};
pub use stream::Socket;
pub use tls::tls;
pub use wire::{Command, Errno, MAX_NAME, MAX_OPTION, MAX_PAYLOAD, REQUEST, Request};

/// Bytes that the server asks clients to write at a time, or multiples of it: others cost a read.
pub(crate) const BLOCK: u32 = 4096;

/// A change that a client wants; offsets and lengths are in bytes.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes at an offset.
    Write { offset: u64, bytes: Bytes },
    /// Bytes that become zeros.
    Zero { offset: u64, len: u64 },
}

/// Hears how a change ended.
pub type Done = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// A device that a server serves. Offsets and lengths lie within the size of [`Export::about`].
pub trait Export: Send + Sync {
    /// Its name, size, and whether it can be written.
    fn about(&self) -> About;

    /// Reads bytes.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Errno>;

    /// Makes a change; `done` is called when it is durable, from whatever thread. Whether this
    /// waits meanwhile is its own affair.
    fn change(&self, change: Change, done: Done);

    /// Returns extents of data and of zeros, from an offset on: lengths in bytes, and whether each
    /// is data; at most so many extents.
    fn extents(&self, offset: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Errno>;
}
