//! How fast the disk writes, for Table 8: what an encode weighs in a write.

use crate::BenchError;
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Bytes that are written.
const BYTES: usize = 256 << 20;
/// Bytes of one write.
const PIECE: usize = 1 << 20;

/// A disk's speed.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Disk {
    /// GB/s of a new file, written from front to back and synced.
    pub write: f64,
}

impl Disk {
    /// Writes a file into the folder, syncs it and removes it; the better of two times.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn measure(folder: &Path) -> Result<Disk, BenchError> {
        let path = folder.join("disk-speed.tmp");
        let failed = |source| BenchError::Report { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut piece = vec![0; PIECE];
        crate::buffers::fill(&mut piece, 1);
        let mut best = f64::INFINITY;
        for _ in 0..2 {
            let begin = Instant::now();
            let mut file = File::create(&path).map_err(failed)?;
            for _ in 0..BYTES / PIECE {
                file.write_all(&piece).map_err(failed)?;
            }
            file.sync_all().map_err(failed)?;
            best = best.min(begin.elapsed().as_secs_f64());
            fs::remove_file(&path).map_err(failed)?;
        }
        Ok(Disk { write: BYTES as f64 / best / 1e9 })
    }
}
