//! The tools of a case: engines, memory, time.

use crate::BenchError;
use crate::buffers::Arena;
use crate::measure::Effort;
use crate::parts::Parts;
use crate::peers::Engines;

/// The tools of a case.
pub struct Setup {
    /// kiln and its peers.
    pub engines: Engines,
    /// True if buffers ask for huge pages.
    pub huge_pages: bool,
    /// Time per cell.
    pub effort: Effort,
    /// Only cells whose name contains this.
    pub only: String,
    /// Tiny footprints: everything is run, nothing is measured.
    pub tiny: bool,
    /// Cells of a run that was interrupted.
    pub parts: Parts,
}

impl Setup {
    /// Returns whether a cell of that name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    /// An arena of that size.
    ///
    /// # Errors
    /// No such amount of memory.
    pub fn arena(&self, bytes: usize) -> Result<Arena, BenchError> {
        Arena::new(bytes, self.huge_pages)
    }
}
