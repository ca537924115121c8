//! The report of a run, and the damage that a protected folder survives.

use crate::index::Index;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt::Display, path::Path};

/// The report of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Files that are protected.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes of the parity.
    pub parity_bytes: u64,
    /// Bytes written: parity.
    pub parity_written: u64,
    /// Bytes written: all copies of the index.
    pub index_written: u64,
    /// Cells of parity that are damaged, and were not written anew.
    pub parity_lost: u64,
    /// Cells of parity that were written anew.
    pub parity_renewed: u64,
    /// A copy of the index is damaged or missing.
    pub index_damaged: bool,
    /// Records that no copy of the index has.
    pub index_lost: u64,
    /// Links, devices, sockets and pipes, which are not protected.
    pub others: u64,
    /// Damage that is survived.
    pub survives: Survives,
    /// Seconds that it took.
    pub seconds: f64,
    /// Files changed while they were read.
    #[serde(skip)]
    pub raced: bool,
    /// Files by what was found or done, some with a reason: `added`, `changed`, `renamed`,
    /// `forgotten`; `missing`, `damaged`, `hindered` (not protected as they are now), `lost` (not
    /// restorable), `restored`, `unprotected`, `failed` (could not be read or written).
    #[serde(flatten)]
    pub lists: BTreeMap<&'static str, Vec<String>>,
}

impl Report {
    pub(crate) fn add(&mut self, what: &'static str, path: &Path) {
        self.lists.entry(what).or_default().push(path.display().to_string());
    }

    pub(crate) fn say(&mut self, what: &'static str, path: &Path, why: impl Display) {
        self.lists.entry(what).or_default().push(format!("{}: {why}", path.display()));
    }

    /// Files of a list.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.lists.get(what).map_or(0, Vec::len)
    }

    /// Returns whether nothing was found damaged or missing.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let none = |what: &&str| self.count(what) == 0;
        let index = self.index_damaged || self.index_lost > 0;
        ["missing", "damaged", "hindered"].iter().all(none) && self.parity_lost == 0 && !index
    }

    pub(crate) fn of_index(&mut self, index: &Index) {
        self.files = index.files.len() as u64;
        self.bytes = index.bytes();
        let rows = index.head.geometry.parity() as u64;
        self.parity_bytes = index.sets.values().map(|set| set.block * rows).sum();
        self.survives = Survives::new(index);
    }
}

/// Damage that is survived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Survives {
    /// Any so many blocks ...
    pub blocks: usize,
    /// ... of the blocks of each set.
    pub of: usize,
    /// Any so many bytes in a row, files in the order of their names.
    pub bytes_in_a_row: u64,
    /// Any so many files may be deleted.
    pub files: usize,
    /// Files that do not come back once they are deleted: they have too many extents in one set.
    pub too_large: usize,
}

impl Survives {
    fn new(index: &Index) -> Survives {
        let geometry = index.head.geometry;
        let mut places: Vec<_> = index.files.iter().map(|(id, file)| (&file.path, *id)).collect();
        places.sort();
        let (mut total, mut starts) = (0, BTreeMap::new());
        for (_, id) in places {
            starts.insert(id, total);
            total = index.files[&id].size.saturating_add(total).min(1 << 62);
        }
        let (mut row, mut most, mut large) = (total, 0, BTreeSet::new());
        for set in index.sets.values() {
            let mut blocks = Vec::new();
            let mut extents = BTreeMap::<u64, usize>::new();
            for member in set.members.iter().flatten() {
                *extents.entry(member.file).or_default() += 1;
                let start = starts.get(&member.file).copied().unwrap_or(0) + member.start;
                let block = |at| {
                    let end = member.len.min((at + 1) * set.block);
                    (start + at * set.block, start + end)
                };
                blocks.extend((0..member.len.div_ceil(set.block)).map(block));
            }
            for (file, count) in extents {
                match count > geometry.losses {
                    true => drop(large.insert(file)),
                    false => most = most.max(count),
                }
            }
            blocks.sort_unstable();
            let ends = blocks.iter().zip(blocks.iter().skip(geometry.parity()));
            row = ends.map(|(a, b)| (b.0 + 1).saturating_sub(a.1)).fold(row, u64::min);
        }
        Survives {
            blocks: geometry.parity(),
            of: geometry.data() + geometry.parity(),
            bytes_in_a_row: row,
            files: geometry.losses.checked_div(most).unwrap_or(0),
            too_large: large.len(),
        }
    }
}
