//! The file of the index that follows a pool, and what becomes of such files: they are lost,
//! damaged, and put back as they were at another time.

use kiln_pool::Index;
use kiln_recovery::sim::Random;
use std::path::PathBuf;

/// Copies kept at most.
const KEPT: usize = 4;

/// The index and its checksums.
type Copy = [Vec<u8>; 2];

/// A folder with the file of an index.
#[derive(Debug)]
pub struct IndexFile {
    folder: tempfile::TempDir,
    kept: Vec<Copy>,
    boots: u64,
}

impl IndexFile {
    pub fn new() -> IndexFile {
        IndexFile { folder: tempfile::tempdir().unwrap(), kept: Vec::new(), boots: 0 }
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["pool.index.redb", "pool.index.redb.sums"].map(|name| self.folder.path().join(name))
    }

    /// The index as the file has it, or made anew: no file may keep it from being opened.
    pub fn open(&self) -> Index {
        Index::open(&self.paths()[0]).unwrap()
    }

    /// Returns the boot of the machine.
    pub fn boot(&self) -> Vec<u8> {
        self.boots.to_le_bytes().to_vec()
    }

    fn some(&self, random: &mut Random) -> Option<Copy> {
        self.kept.get(random.below(self.kept.len() as u64) as usize).cloned()
    }

    /// Something happens to the file, which is not open; says what.
    pub fn fault(&mut self, random: &mut Random) -> &'static str {
        let paths = self.paths();
        let mut now: Copy = paths.each_ref().map(|path| std::fs::read(path).unwrap_or_default());
        let either = random.below(2) as usize;
        let what = match random.below(6) {
            0 if self.kept.len() < KEPT => {
                self.kept.push(now.clone());
                "kept"
            }
            1 => {
                now[either] = Vec::new();
                "lost"
            }
            2 if !now[either].is_empty() => {
                let at = random.below(now[either].len() as u64) as usize;
                now[either][at] ^= 1 << random.below(8);
                "damaged"
            }
            3 => {
                let len = random.below(now[either].len() as u64 + 1) as usize;
                now[either].truncate(len);
                "cut short"
            }
            4 => {
                self.boots += 1;
                "from before a boot"
            }
            _ => {
                let (old, other) = (self.some(random), self.some(random));
                if let (Some(old), Some(other)) = (old, other) {
                    // Of one time, or one of the two files of another.
                    now = if random.one_in(4) { [old[0].clone(), other[1].clone()] } else { old };
                }
                "from another time"
            }
        };
        paths.iter().zip(now).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        what
    }
}
