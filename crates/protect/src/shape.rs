//! The numbers of a set: blocks, cells, and the places of both in extents.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of a cell, at most.
pub(crate) const CELL: u64 = 64 << 10;
/// Chunks of a stripe, at most: those of a code over GF(2^8).
const CHUNKS: usize = 255;
/// Blocks of an extent, at most: with more of them coding takes longer, and scattered damage is
/// survived better.
const HEIGHT: usize = 16;
/// Bytes of an extent, at most.
const EXTENT: u64 = 64 << 20;
/// Blocks have a multiple of so many bytes.
const UNIT: u64 = 64;

/// The shape of all sets of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Extents of a set, at most.
    pub group: usize,
    /// Extents of a set whose loss is survived.
    pub losses: usize,
    /// Blocks of an extent.
    pub height: usize,
}

impl Geometry {
    /// For parity of so many percent of the data, which survives so many losses of whole extents in
    /// each set; `None`: no code is so wide.
    ///
    /// ```
    /// let shape = kiln_protect::Geometry::new(10.0, 1).unwrap();
    /// assert_eq!((shape.data(), shape.parity()), (160, 16));
    /// ```
    #[must_use]
    pub fn new(percent: f64, losses: usize) -> Option<Geometry> {
        let group = (100.0 * losses as f64 / percent).ceil();
        if losses == 0 || !(1.0..=CHUNKS as f64).contains(&group) {
            return None;
        }
        let group = group as usize;
        let height = (CHUNKS / (group + losses)).min(HEIGHT);
        (height > 0).then_some(Geometry { group, losses, height })
    }

    /// Data blocks of a set.
    #[must_use]
    pub fn data(&self) -> usize {
        self.group * self.height
    }

    /// Parity blocks of a set.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.losses * self.height
    }

    /// Returns whether an index may claim it.
    pub(crate) fn is_sound(&self) -> bool {
        let chunks = self.group.saturating_add(self.losses).saturating_mul(self.height);
        self.group > 0 && self.losses > 0 && (1..=CHUNKS).contains(&chunks)
    }

    /// Bytes of the extents that files of so many bytes together are cut into, at most.
    pub(crate) fn extent(&self, total: u64) -> u64 {
        let most = (total / (8 * self.group as u64)).clamp(CELL, EXTENT);
        1 << most.ilog2()
    }

    /// The cells of an extent of so many bytes, in blocks that hold it.
    pub(crate) fn blocks(&self, len: u64) -> Blocks {
        let block = len.div_ceil(self.height as u64).max(1).next_multiple_of(UNIT);
        Blocks { block, height: self.height }
    }
}

/// Blocks of one length, and their cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks {
    pub block: u64,
    pub height: usize,
}

impl Blocks {
    /// Bytes of a full cell.
    pub fn cell(self) -> u64 {
        self.block.min(CELL)
    }

    /// Cells of a block.
    pub fn columns(self) -> usize {
        self.block.div_ceil(CELL) as usize
    }

    /// Bytes that an extent can have.
    pub fn capacity(self) -> u64 {
        self.block * self.height as u64
    }

    /// Bytes of the cells of a column.
    pub fn width(self, column: usize) -> u64 {
        self.cell().min(self.block - column as u64 * CELL)
    }

    /// The place of a cell in an extent of so many bytes; `None`: beyond its end.
    pub fn place(self, row: usize, column: usize, len: u64) -> Option<Range<u64>> {
        let start = row as u64 * self.block + column as u64 * CELL;
        let end = (start + self.width(column)).min(len);
        (start < end).then_some(start..end)
    }

    /// The number of a cell among the checksums of an extent, or of the parity.
    pub fn at(self, row: usize, column: usize) -> usize {
        row * self.columns() + column
    }

    /// Cells of an extent of so many bytes.
    pub fn cells(self, len: u64) -> usize {
        let whole = (len / self.block) as usize * self.columns();
        whole + (len % self.block).div_ceil(CELL) as usize
    }
}
