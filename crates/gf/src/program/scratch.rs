//! Scratch memory of a thread, kept from run to run: asking the system for it, and clearing it,
//! would cost small runs more than their work.

use crate::{AlignedBuf, GfError};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// More than this is given back after the run.
const KEPT: usize = 16 << 20;

thread_local! {
    static SPARE: Cell<AlignedBuf> = Cell::default();
}

/// Memory that goes back to its thread when dropped.
pub(in crate::program) struct Scratch(AlignedBuf);

/// At least so many bytes, with what earlier runs of this thread left in them.
pub(in crate::program) fn borrow(len: usize) -> Result<Scratch, GfError> {
    if len == 0 {
        return Ok(Scratch(AlignedBuf::default()));
    }
    let spare = SPARE.take();
    match spare.len() >= len {
        true => Ok(Scratch(spare)),
        false => {
            drop(spare);
            AlignedBuf::try_zeroed(len).map(Scratch)
        }
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if (1..=KEPT).contains(&self.0.len()) {
            // Fails only while the thread ends: then the memory goes, too.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}
