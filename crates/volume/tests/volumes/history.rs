//! Histories of blocks: every write has contents of its own, so a read says which write it saw.

use crate::common::{BLOCK, Random};
use kiln_volume::{Op, Volume, VolumeError};
use std::collections::BTreeSet;

/// The write of a block; 0: zeros.
pub type Tag = u64;

/// The contents that a write gives a block.
fn contents(tag: Tag) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if tag > 0 {
        let words = (0..).map(|at: u64| tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at << 40) ^ at);
        bytes
            .chunks_exact_mut(8)
            .zip(words)
            .for_each(|(to, w)| to.copy_from_slice(&w.to_le_bytes()));
        bytes[..8].copy_from_slice(&tag.to_le_bytes());
    }
    bytes
}

/// The write that a block is of.
fn tag_of(block: &[u8], what: &str) -> Tag {
    let tag = u64::from_le_bytes(block[..8].try_into().unwrap());
    assert!(block == contents(tag), "{what}: a block is of no write, or of two");
    tag
}

/// A change of some blocks: all of one write, or none.
pub struct Change {
    first: u64,
    tags: Vec<Tag>,
    bytes: Vec<u8>,
}

impl Change {
    pub fn op(&self) -> Op<'_> {
        let offset = self.first * BLOCK as u64;
        match self.tags[0] {
            0 => Op::Zero { offset, len: (self.tags.len() * BLOCK) as u64 },
            _ => Op::Write { offset, bytes: &self.bytes },
        }
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, Tag)> {
        (self.first as usize..).zip(self.tags.iter().copied())
    }
}

/// Possible contents of each block by all that was acknowledged and begun.
#[derive(Clone)]
pub struct History {
    possible: Vec<BTreeSet<Tag>>,
    /// Blocks that there may be: of a growth that was begun, too.
    most: usize,
    last: Tag,
}

impl History {
    pub fn new(size: u64) -> History {
        History::of(&vec![0; size as usize / BLOCK], 0)
    }

    /// Of a volume that holds this; writes are numbered after `last`.
    pub fn of(found: &[Tag], last: Tag) -> History {
        let possible = found.iter().map(|tag| BTreeSet::from([*tag])).collect();
        History { possible, most: found.len(), last }
    }

    /// Something to write: mostly a little where much is written, sometimes zeros or much.
    pub fn plan(&mut self, random: &mut Random) -> Vec<Change> {
        let blocks = self.possible.len() as u64;
        let one = |history: &mut History, random: &mut Random| {
            let hot = if random.below(3) == 0 { blocks } else { blocks / 8 };
            let count = match random.below(9) {
                0 => 4 + random.below(20),
                _ => 1 + random.below(3),
            };
            let first = random.below(hot.max(1)).min(blocks - count);
            let zero = random.below(8) == 0;
            let tag = |_| {
                history.last += 1;
                if zero { 0 } else { history.last }
            };
            let tags: Vec<Tag> = (0..count).map(tag).collect();
            let bytes = tags.iter().flat_map(|tag| contents(*tag)).collect();
            Change { first, tags, bytes }
        };
        (0..1 + random.below(3)).map(|_| one(self, random)).collect()
    }

    /// Writes, and notes what may be there from now on.
    pub fn write(&mut self, volume: &Volume, changes: &[Change]) -> Result<(), VolumeError> {
        self.begin(changes);
        let ops: Vec<Op<'_>> = changes.iter().map(Change::op).collect();
        volume.write(&ops)?;
        self.acknowledge(changes);
        Ok(())
    }

    /// From now on a reader may see it.
    pub fn begin(&mut self, changes: &[Change]) {
        for (block, tag) in changes.iter().flat_map(Change::blocks) {
            self.possible[block].insert(tag);
        }
    }

    /// From now on everybody sees it.
    pub fn acknowledge(&mut self, changes: &[Change]) {
        for (block, tag) in changes.iter().flat_map(Change::blocks) {
            self.possible[block] = BTreeSet::from([tag]);
        }
    }

    /// From now on a reader may see so many blocks.
    fn begin_growth(&mut self, blocks: usize) {
        self.most = self.most.max(blocks);
    }

    /// From now on everybody sees them; new ones are zeros.
    fn acknowledge_growth(&mut self, blocks: usize) {
        let blocks = blocks.max(self.possible.len());
        self.possible.resize(blocks, BTreeSet::from([0]));
    }

    /// Makes a volume larger, and notes what may be seen from now on.
    pub fn grow(&mut self, volume: &Volume, blocks: usize) -> Result<(), VolumeError> {
        self.begin_growth(blocks);
        volume.grow((blocks * BLOCK) as u64)?;
        self.acknowledge_growth(blocks);
        Ok(())
    }

    pub fn read(volume: &Volume, what: &str) -> Vec<Tag> {
        History::try_read(volume, what).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// The same, where it can be read.
    pub fn try_read(volume: &Volume, what: &str) -> Result<Vec<Tag>, VolumeError> {
        let mut bytes = vec![0xaa; volume.size() as usize];
        volume.read(0, &mut bytes)?;
        Ok(bytes.chunks(BLOCK).map(|block| tag_of(block, what)).collect())
    }

    /// All that a volume holds may be there.
    pub fn check(&self, volume: &Volume, what: &str) -> Vec<Tag> {
        let found = History::read(volume, what);
        self.allows(&found, what);
        found
    }

    /// All of this may be there.
    pub fn allows(&self, found: &[Tag], what: &str) {
        let sizes = self.possible.len()..=self.most;
        assert!(sizes.contains(&found.len()), "{what}: {} blocks, not {sizes:?}", found.len());
        let zeros = BTreeSet::from([0]);
        let possible = self.possible.iter().chain(std::iter::repeat(&zeros));
        for (block, (tag, possible)) in found.iter().zip(possible).enumerate() {
            let known = possible.contains(tag);
            assert!(known, "{what}: block {block} is of write {tag}, not of {possible:?}");
        }
    }

    /// The same for who opened the volume just now: its view stays, and what was begun
    /// before it came and it does not see will never be there.
    pub fn opened(&mut self, volume: &Volume, what: &str) {
        let found = self.check(volume, what);
        *self = History::of(&found, self.last);
    }

    /// Returns whether changes, acknowledged to a writer after another one opened the volume, were
    /// there when that one did.
    pub fn has(&self, changes: &[Change]) -> bool {
        let mut last = std::collections::BTreeMap::new();
        last.extend(changes.iter().flat_map(Change::blocks));
        last.iter().all(|(block, tag)| self.possible[*block] == BTreeSet::from([*tag]))
    }
}

#[test]
fn what_nobody_wrote_or_what_was_overwritten_is_found_out() {
    let mut history = History::new(16 * BLOCK as u64);
    let change = |tag| [Change { first: 3, tags: vec![tag], bytes: contents(tag) }];
    history.begin(&change(7));
    assert!(!history.has(&change(7)) && history.possible[3].len() == 2);
    history.acknowledge(&change(7));
    assert!(history.has(&change(7)) && !history.has(&change(8)));
    assert_eq!(tag_of(&contents(7), ""), 7);
    let mut torn = contents(7);
    torn[2048..].copy_from_slice(&contents(8)[2048..]);
    assert!(std::panic::catch_unwind(|| tag_of(&torn, "")).is_err());
    let allows = |history: &History, found: &[Tag]| {
        std::panic::catch_unwind(|| history.allows(found, "")).is_ok()
    };
    let mut history = History::of(&[5, 6], 6);
    assert!(allows(&history, &[5, 6]) && !allows(&history, &[5]) && !allows(&history, &[5, 6, 0]));
    history.begin_growth(4);
    assert!(allows(&history, &[5, 6]) && allows(&history, &[5, 6, 0, 0]));
    assert!(!allows(&history, &[5, 6, 0, 7]));
    history.acknowledge_growth(4);
    assert!(!allows(&history, &[5, 6]) && allows(&history, &[5, 6, 0, 0]));
}
