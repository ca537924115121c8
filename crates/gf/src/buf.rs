//! Byte buffers aligned to cache lines.

use crate::GfError;
use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// One cache line, which is also the widest vector register.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A byte buffer that starts at a multiple of 64 and is zeroed when made.
///
/// Its length never changes. Use it wherever a kernel reads or writes much: no load or store
/// then straddles two cache lines.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuf {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    /// When memory is exhausted, as `Vec` does; use [`AlignedBuf::try_zeroed`] for lengths that
    /// come from outside.
    pub fn zeroed(len: usize) -> AlignedBuf {
        AlignedBuf { lines: bytemuck::zeroed_vec(len.div_ceil(size_of::<Line>())), len }
    }

    /// As [`AlignedBuf::zeroed`], but [`GfError::NoMemory`] where memory is exhausted.
    pub fn try_zeroed(len: usize) -> Result<AlignedBuf, GfError> {
        let lines = bytemuck::try_zeroed_vec(len.div_ceil(size_of::<Line>()))
            .map_err(|()| GfError::NoMemory { len })?;
        Ok(AlignedBuf { lines, len })
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bytes are user data: long, and not ours to print.
        f.debug_struct("AlignedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_zeroed_and_exact() {
        for len in [0, 1, 63, 64, 65, 4096, 100_001] {
            let mut buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % 64, 0);
            assert!(buf.iter().all(|&byte| byte == 0));
            buf.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
            assert_eq!(&buf.clone()[..], &buf[..]);
        }
        assert_eq!(
            AlignedBuf::try_zeroed(usize::MAX).unwrap_err(),
            GfError::NoMemory { len: usize::MAX }
        );
    }
}
