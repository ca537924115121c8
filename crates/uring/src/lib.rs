//! Reads of one file that are submitted together through Linux' io_uring; writing out that begins
//! early.
//!
//! The ring's own interface cannot be safe: whoever puts a read into it promises that the buffer
//! outlives the read. [`Ring::read_all`] keeps that promise by not returning before every read it
//! submitted has ended, so its callers need no unsafe code. This, and a call
//! that no safe binding has, is why this is a crate: `kiln-store` forbids unsafe code.
//!
//! On systems without io_uring, and where it is not permitted, [`Ring::new`] is an error and the
//! caller reads in another way.
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(target_os = "linux")]
mod ring;
mod writing;

use std::{fs::File, io};

pub use writing::start_writing;

/// Most bytes that one read asks for; Linux transfers no more at a time.
pub const MAX_READ: usize = 0x7fff_f000;

/// One read: where in the file, into what; afterwards how much came.
#[derive(Debug)]
pub struct Read<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// Filled from its beginning; at most [`MAX_READ`] bytes.
    pub buf: &'a mut [u8],
    /// Bytes that the read gave: less than asked for at the end of the file.
    pub filled: usize,
}

impl<'a> Read<'a> {
    /// A read that has given nothing yet.
    pub fn new(offset: u64, buf: &'a mut [u8]) -> Read<'a> {
        Read { offset, buf, filled: 0 }
    }
}

/// A submission and a completion queue shared with the kernel.
///
/// ```
/// use std::io::Write;
/// use kiln_uring::{Read, Ring};
/// let mut file = tempfile::tempfile()?;
/// file.write_all(b"reads in one go")?;
/// // Containers and old kernels refuse rings: be ready to read in another way.
/// let Ok(mut ring) = Ring::new(8) else { return Ok(()) };
/// let (mut first, mut last) = ([0; 5], [0; 2]);
/// let mut reads = [Read::new(0, &mut first), Read::new(13, &mut last)];
/// ring.read_all(&file, &mut reads)?;
/// assert_eq!((&first, &last), (b"reads", b"go"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Ring {
    #[cfg(target_os = "linux")]
    inner: ring::Inner,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring that keeps at most `depth` reads in flight (rounded up to a power of two).
    /// Errors: the system has no io_uring, or does not permit it to this process.
    #[cfg(target_os = "linux")]
    pub fn new(depth: u32) -> io::Result<Ring> {
        Ok(Ring { inner: ring::Inner::new(depth)? })
    }

    /// This system has no io_uring.
    #[cfg(not(target_os = "linux"))]
    pub fn new(_depth: u32) -> io::Result<Ring> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does all reads, as many at once as the ring's depth allows, and waits for all of them.
    /// Each says afterwards how much it gave.
    /// Errors: the first read that failed, after all others have ended; or the ring itself failed,
    /// which is then of no more use.
    pub fn read_all(&mut self, file: &File, reads: &mut [Read<'_>]) -> io::Result<()> {
        if let Some(read) = reads.iter().find(|read| read.buf.len() > MAX_READ) {
            let what = format!("a read of {} bytes is beyond {MAX_READ}", read.buf.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        #[cfg(target_os = "linux")]
        return self.inner.read_all(file, reads);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = file;
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
