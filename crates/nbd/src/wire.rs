//! The protocol's numbers and messages, as functions of bytes.
//!
//! After the description of the protocol by the NBD project (`doc/proto.md` there): fixed newstyle
//! negotiation, simple and structured replies, the context `base:allocation`. All numbers are
//! big-endian.

/// Longest data of an option: a name of 4096 bytes, and what comes with it.
pub const MAX_OPTION: u32 = 64 << 10;
/// Longest name of an export.
pub const MAX_NAME: usize = 4096;
/// Most bytes of a request's data, read or written.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Bytes of a request without its data.
pub const REQUEST: usize = 28;

pub(crate) const HELLO: [u8; 16] = *b"NBDMAGICIHAVEOPT";
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;

/// Flags of the server's greeting: fixed newstyle, and that zeros may be left out.
pub(crate) const GREETING_FLAGS: u16 = 0b11;
/// Flags that clients may answer.
pub(crate) const CLIENT_NO_ZEROES: u32 = 0b10;
pub(crate) const CLIENT_KNOWN: u32 = 0b11;

/// Options of the negotiation.
pub(crate) mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
pub(crate) mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const UNSUPPORTED: u32 = (1 << 31) + 1;
    pub const POLICY: u32 = (1 << 31) + 2;
    pub const INVALID: u32 = (1 << 31) + 3;
    pub const TLS_REQUIRED: u32 = (1 << 31) + 5;
    pub const UNKNOWN: u32 = (1 << 31) + 6;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export's abilities.
pub(crate) mod can {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
}

/// Flags of requests.
pub(crate) mod flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DONT_FRAGMENT: u16 = 1 << 2;
    pub const ONE: u16 = 1 << 3;
}

/// Error of a request, in the protocol's numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The export cannot be written.
    NotPermitted = 1,
    /// It could not be read or written.
    Io = 5,
    /// The request cannot be.
    Invalid = 22,
    /// There is no room.
    NoSpace = 28,
    /// It reads or writes too much.
    Overflow = 75,
    /// There is no such request.
    Unsupported = 95,
    /// The server ends.
    Shutdown = 108,
}

/// A command of a client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes.
    Read,
    /// To write the bytes that follow.
    Write,
    /// The end of the connection.
    Disconnect,
    /// That all that was acknowledged be durable.
    Flush,
    /// That bytes may be forgotten.
    Trim,
    /// That bytes become zeros.
    WriteZeroes,
    /// Extents of data and of zeros.
    BlockStatus,
    /// Anything else.
    Unknown(u16),
}

/// A request, without its data.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags.
    pub flags: u16,
    /// The command.
    pub command: Command,
    /// The client's name of the request.
    pub cookie: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u32,
}

fn at<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes.get(start + index).copied().unwrap_or(0))
}

impl Request {
    /// Reads a request; `None`: these bytes are none, and what follows cannot be made sense of.
    pub fn parse(bytes: &[u8; REQUEST]) -> Option<Request> {
        if u32::from_be_bytes(at(bytes, 0)) != REQUEST_MAGIC {
            return None;
        }
        let command = match u16::from_be_bytes(at(bytes, 6)) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        };
        Some(Request {
            flags: u16::from_be_bytes(at(bytes, 4)),
            command,
            cookie: u64::from_be_bytes(at(bytes, 8)),
            offset: u64::from_be_bytes(at(bytes, 16)),
            len: u32::from_be_bytes(at(bytes, 24)),
        })
    }

    /// Why it cannot be done on an export of this size; `Ok` where it can.
    pub fn check(&self, size: u64, read_only: bool) -> Result<(), Errno> {
        let known = match self.command {
            Command::Write | Command::Trim => flag::FUA,
            Command::WriteZeroes => flag::FUA | flag::NO_HOLE,
            Command::Read => flag::FUA | flag::DONT_FRAGMENT,
            Command::BlockStatus => flag::FUA | flag::ONE,
            Command::Flush | Command::Disconnect => flag::FUA,
            Command::Unknown(_) => return Err(Errno::Unsupported),
        };
        if self.flags & !known != 0 {
            return Err(Errno::Invalid);
        }
        if matches!(self.command, Command::Flush | Command::Disconnect) {
            return Ok(());
        }
        let changes = !matches!(self.command, Command::Read | Command::BlockStatus);
        if changes && read_only {
            return Err(Errno::NotPermitted);
        }
        let with_data = matches!(self.command, Command::Read | Command::Write);
        if with_data && self.len > MAX_PAYLOAD {
            return Err(Errno::Overflow);
        }
        match self.offset.checked_add(self.len.into()) {
            Some(end) if end <= size => {}
            _ if self.command == Command::Write => return Err(Errno::NoSpace),
            _ => return Err(Errno::Invalid),
        }
        if self.command == Command::BlockStatus && self.len == 0 {
            return Err(Errno::Invalid);
        }
        Ok(())
    }
}

/// Form of replies.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// The client asked for structured replies.
    pub structured: bool,
}

/// A reply without data: done, or why not.
pub(crate) fn end(style: Style, cookie: u64, end: Result<(), Errno>, out: &mut Vec<u8>) {
    match (style.structured, end) {
        (true, Err(errno)) => {
            // The first bit says that it is the last piece; then the error's kind, and no text.
            chunk(cookie, (1 << 15) + 1, 6, out);
            out.extend_from_slice(&(errno as u32).to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes());
        }
        (true, Ok(())) => chunk(cookie, 0, 0, out),
        (false, end) => {
            out.extend_from_slice(&SIMPLE_MAGIC.to_be_bytes());
            let errno = end.map_or_else(|errno| errno as u32, |()| 0);
            out.extend_from_slice(&errno.to_be_bytes());
            out.extend_from_slice(&cookie.to_be_bytes());
        }
    }
}

/// The head of a reply to a read; the data follows.
pub(crate) fn data(style: Style, request: &Request, out: &mut Vec<u8>) {
    if !style.structured {
        return end(style, request.cookie, Ok(()), out);
    }
    chunk(request.cookie, 1, request.len + 8, out);
    out.extend_from_slice(&request.offset.to_be_bytes());
}

/// The last piece of a structured reply.
fn chunk(cookie: u64, kind: u16, len: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&STRUCTURED_MAGIC.to_be_bytes());
    out.extend_from_slice(&1u16.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// Returns the reply with extents: lengths, and whether each is data.
pub(crate) fn status(context: u32, cookie: u64, extents: &[(u32, bool)], out: &mut Vec<u8>) {
    chunk(cookie, 5, 4 + extents.len() as u32 * 8, out);
    out.extend_from_slice(&context.to_be_bytes());
    for (len, is_data) in extents {
        out.extend_from_slice(&len.to_be_bytes());
        // A hole that reads as zeros.
        out.extend_from_slice(&if *is_data { 0u32 } else { 3 }.to_be_bytes());
    }
}

/// An answer to an option.
pub(crate) fn option_reply(option: u32, kind: u32, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}
