//! The ring itself. All unsafe code is here: putting reads in, and waiting for what is in flight.

use crate::Read;
use io_uring::{IoUring, opcode, types};
use std::{collections::VecDeque, fs::File, io, os::fd::AsRawFd};

/// `IORING_ENTER_GETEVENTS`: wait for completions.
const GETEVENTS: u32 = 1;

pub(crate) struct Inner {
    ring: IoUring,
    /// Reads may be left in the queue that must never be submitted.
    broken: bool,
}

impl Inner {
    pub(crate) fn new(depth: u32) -> io::Result<Inner> {
        Ok(Inner { ring: IoUring::new(depth.max(1))?, broken: false })
    }

    pub(crate) fn read_all(&mut self, file: &File, reads: &mut [Read<'_>]) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the ring failed before"));
        }
        let depth = self.ring.params().sq_entries() as usize;
        let mut waiting: VecDeque<usize> = (0..reads.len()).collect();
        let (mut queued, mut in_flight) = (0, 0);
        let mut failure: Option<io::Error> = None;
        while queued + in_flight > 0 || (!waiting.is_empty() && failure.is_none()) {
            while failure.is_none() && queued + in_flight < depth {
                let Some(index) = waiting.pop_front() else { break };
                if !self.push(file, index as u64, &mut reads[index]) {
                    waiting.push_front(index);
                    break;
                }
                queued += 1;
            }
            match self.ring.submit_and_wait(1) {
                Ok(taken) => {
                    let taken = taken.min(queued);
                    queued -= taken;
                    in_flight += taken;
                }
                // A signal came, or the kernel is short of something that completions free.
                Err(error) if error.raw_os_error().is_some_and(is_passing) => {}
                Err(error) => {
                    self.broken = true;
                    self.drain(in_flight);
                    return Err(error);
                }
            }
            for done in self.ring.completion() {
                in_flight -= 1;
                let index = done.user_data() as usize;
                match done.result() {
                    filled if filled >= 0 => reads[index].filled = filled as usize,
                    code if is_passing(-code) => waiting.push_back(index),
                    code => {
                        failure.get_or_insert(io::Error::from_raw_os_error(-code));
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Puts a read into the queue; false if that is full.
    fn push(&mut self, file: &File, tag: u64, read: &mut Read<'_>) -> bool {
        let (at, len) = (read.buf.as_mut_ptr(), read.buf.len() as u32);
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), at, len);
        let entry = entry.offset(read.offset).build().user_data(tag);
        // SAFETY: the only caller is `read_all`. It holds the file and the buffers, which are
        // distinct `&mut`, for longer than this function's borrow: it touches no buffer and does
        // not return before every read in the queue has been submitted and has ended. On its one
        // early way out it waits for what was submitted (`drain`), and `broken` keeps what was
        // not from ever being submitted.
        unsafe { self.ring.submission().push(&entry).is_ok() }
    }

    /// Waits until nothing is in flight any more. Without that the kernel could still write into
    /// buffers that are not ours any longer, so a failure to wait ends the process.
    fn drain(&mut self, mut in_flight: usize) {
        loop {
            in_flight -= self.ring.completion().count().min(in_flight);
            if in_flight == 0 {
                return;
            }
            // SAFETY: no argument is passed that would have to be valid, nothing is submitted.
            let waited = unsafe { self.ring.submitter().enter::<()>(0, 1, GETEVENTS, None) };
            if let Err(error) = waited
                && !error.raw_os_error().is_some_and(is_passing)
            {
                std::process::abort();
            }
        }
    }
}

/// EINTR, EAGAIN and EBUSY: the same call may succeed next time.
fn is_passing(code: i32) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    let kind = io::Error::from_raw_os_error(code).kind();
    matches!(kind, Interrupted | WouldBlock | ResourceBusy)
}
