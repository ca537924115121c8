//! From block to place: the map of a volume, in memory.
//!
//! 12 bytes a block, in pages of 512 blocks that are made when they are first written to. A copy of
//! the whole map shares its pages until they change, so a checkpoint costs what changes meanwhile.

use std::sync::Arc;

/// Blocks of a page.
pub(crate) const PAGE: usize = 512;
/// Bytes that the map takes for a block of a page that is there.
pub(crate) const BYTES_PER_BLOCK: u64 = 12;

/// Bytes of memory of a map of so many blocks, all of which are mapped: less than 16 each.
pub(crate) fn memory_at_most(blocks: u64) -> u64 {
    blocks.div_ceil(PAGE as u64) * (PAGE as u64 * BYTES_PER_BLOCK + 8)
}

/// Location of a block: a slot of the table of segments, and the block in it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub slot: u32,
    pub index: u32,
}

impl Location {
    fn pack(place: Option<Location>) -> u64 {
        place.map_or(0, |at| (u64::from(at.slot) + 1) << 24 | u64::from(at.index))
    }

    fn unpack(packed: u64) -> Option<Location> {
        let slot = (packed >> 24).checked_sub(1)?;
        Some(Location { slot: slot as u32, index: (packed & 0xff_ffff) as u32 })
    }
}

/// A block that is not zeros.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub at: Location,
    /// CRC-32C of its bytes.
    pub sum: u32,
}

#[derive(Clone, Debug)]
struct Page {
    places: [u64; PAGE],
    sums: [u32; PAGE],
}

/// All blocks of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockMap {
    pages: Vec<Option<Arc<Page>>>,
    mapped: u64,
}

impl BlockMap {
    pub fn new(blocks: u64) -> BlockMap {
        BlockMap { pages: vec![None; blocks.div_ceil(PAGE as u64) as usize], mapped: 0 }
    }

    /// Blocks that are not zeros.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Bytes of memory that it takes, [`memory_at_most`].
    pub fn memory(&self) -> u64 {
        let pages = self.pages.iter().flatten().count() as u64;
        pages * PAGE as u64 * BYTES_PER_BLOCK + self.pages.len() as u64 * 8
    }

    /// Returns the location of a block; `None`: it is zeros.
    pub fn get(&self, block: u64) -> Option<Mapped> {
        let page = self.pages.get((block / PAGE as u64) as usize)?.as_ref()?;
        let within = (block % PAGE as u64) as usize;
        Location::unpack(page.places[within]).map(|at| Mapped { at, sum: page.sums[within] })
    }

    /// Changes where a block is and gives where it was. Blocks past the end are left out.
    pub fn set(&mut self, block: u64, to: Option<Mapped>) -> Option<Mapped> {
        let at = (block / PAGE as u64) as usize;
        let slot = self.pages.get_mut(at)?;
        if slot.is_none() && to.is_none() {
            return None;
        }
        let empty = || Arc::new(Page { places: [0; PAGE], sums: [0; PAGE] });
        let page = Arc::make_mut(slot.get_or_insert_with(empty));
        let within = (block % PAGE as u64) as usize;
        let sum = page.sums[within];
        let old = Location::unpack(page.places[within]).map(|at| Mapped { at, sum });
        page.places[within] = Location::pack(to.map(|to| to.at));
        page.sums[within] = to.map_or(0, |to| to.sum);
        self.mapped = self.mapped + u64::from(to.is_some()) - u64::from(old.is_some());
        old
    }

    /// Grows or shrinks. What lies past the end must have been taken out before.
    pub fn resize(&mut self, blocks: u64) {
        self.pages.resize(blocks.div_ceil(PAGE as u64) as usize, None);
    }

    /// Blocks of a range that are not zeros.
    pub fn mapped_in(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        let pages = range.start / PAGE as u64..range.end.div_ceil(PAGE as u64);
        let there = pages.filter(|page| matches!(self.pages.get(*page as usize), Some(Some(_))));
        let blocks = there.flat_map(|page| page * PAGE as u64..(page + 1) * PAGE as u64);
        blocks.filter(move |block| range.contains(block) && self.get(*block).is_some())
    }

    /// Pages with any block that is not zeros: their numbers and their blocks' places.
    pub fn pages(&self) -> impl Iterator<Item = (u32, Vec<Option<Mapped>>)> {
        let there =
            self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_ref()?)));
        there.map(|(at, page)| {
            let blocks = page.places.iter().zip(&page.sums);
            let mapped = blocks
                .map(|(place, sum)| Location::unpack(*place).map(|at| Mapped { at, sum: *sum }));
            (at as u32, mapped.collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u32, index: u32) -> Option<Mapped> {
        Some(Mapped { at: Location { slot, index }, sum: slot.wrapping_mul(7) ^ index })
    }

    #[test]
    fn blocks_keep_their_places_and_copies_do_not_change() {
        let mut map = BlockMap::new(5000);
        assert_eq!(map.set(4999, at(0, 0)), None);
        assert_eq!(map.set(4999, at(u32::MAX - 1, 0xff_ffff)), at(0, 0));
        map.set(3, at(4, 5));
        let copy = map.clone();
        assert_eq!((map.set(3, None), map.get(3), copy.get(3)), (at(4, 5), None, at(4, 5)));
        assert_eq!((map.mapped(), copy.mapped()), (1, 2));
        assert_eq!(map.get(4999), at(u32::MAX - 1, 0xff_ffff));
        // Beyond the end there is nothing.
        assert_eq!((map.set(1 << 40, at(1, 1)), map.get(1 << 40)), (None, None));
        assert_eq!(copy.mapped_in(0..5000).collect::<Vec<_>>(), [3, 4999]);
        assert_eq!(copy.mapped_in(4..4999).count(), 0);
        assert_eq!(copy.pages().map(|(at, _)| at).collect::<Vec<_>>(), [0, 9]);
        map.set(4999, None);
        map.resize(100);
        assert_eq!((map.mapped(), map.memory()), (0, 512 * 12 + 8));
    }
}
