//! Stripe geometry: k data chunks of alpha sub-chunks, encoded together with m parity chunks.

use crate::{CodeError, Result};

/// The numbers of a code that everybody needs: data chunks, parity chunks, sub-chunks a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Data chunks of a stripe.
    pub k: usize,
    /// Parity chunks of a stripe.
    pub m: usize,
    /// Sub-chunks of a chunk (sub-packetization).
    pub alpha: usize,
}

impl Shape {
    /// Chunks of a stripe, k + m.
    pub fn n(&self) -> usize {
        self.k + self.m
    }

    /// The smallest chunk in bytes, a multiple of alpha, with which one stripe holds `bytes`.
    pub fn chunk_for(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.k).max(1).next_multiple_of(self.alpha)
    }

    /// Splits the start of `bytes` into the k data chunks of one stripe, padded with zeros.
    ///
    /// # Errors
    /// `chunk` is not a positive multiple of alpha, or k chunks do not hold all of `bytes`.
    ///
    /// ```
    /// let shape = kiln_code::Shape { k: 2, m: 1, alpha: 1 };
    /// let data = shape.split(b"abc", 2)?;
    /// assert_eq!(data, [b"ab".to_vec(), b"c\0".to_vec()]);
    /// assert_eq!(shape.join(&data, 3), b"abc");
    /// # Ok::<(), kiln_code::CodeError>(())
    /// ```
    pub fn split(&self, bytes: &[u8], chunk: usize) -> Result<Vec<Vec<u8>>> {
        self.check_chunk(chunk)?;
        let room = chunk.saturating_mul(self.k);
        if bytes.len() > room {
            return Err(CodeError::Shape {
                what: "bytes of one stripe",
                expected: room,
                got: bytes.len(),
            });
        }
        let piece = |j: usize| {
            let start = (j * chunk).min(bytes.len());
            let end = (start + chunk).min(bytes.len());
            let mut out = bytes[start..end].to_vec();
            out.resize(chunk, 0);
            out
        };
        Ok((0..self.k).map(piece).collect())
    }

    /// Joins data chunks and drops the padding: the opposite of [`Shape::split`].
    pub fn join(&self, data: &[Vec<u8>], size: usize) -> Vec<u8> {
        let mut out: Vec<u8> = data.iter().take(self.k).flatten().copied().collect();
        out.truncate(size);
        out
    }

    pub(crate) fn check_chunk(&self, chunk: usize) -> Result<usize> {
        if chunk == 0 || !chunk.is_multiple_of(self.alpha) {
            return Err(CodeError::Shape {
                what: "chunk length as a multiple of the sub-chunks a chunk",
                expected: self.chunk_for(chunk.saturating_mul(self.k)),
                got: chunk,
            });
        }
        Ok(chunk / self.alpha)
    }
}
