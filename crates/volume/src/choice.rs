//! Choice of segments to clean.
//!
//! Cleaning a segment costs what is live in it, and gives what is free. By cost and benefit, as log
//! structured file systems weigh it (Rosenblum and Ousterhout, 1992), those come first that give
//! much for little, and of these the ones that were made long ago: blocks that are still live there
//! are overwritten rarely, while in a young segment there will soon be less to move.

use crate::state::{Slot, Stage, State};

/// Cleaning begins when live blocks are less than this of all blocks of segments, in percent.
pub(crate) const FILL: u64 = 70;
/// Segments of garbage that are never cleaned: a small volume would do little else.
const SLACK: u64 = 4;

impl Slot {
    /// Returns the gain of cleaning it, at this count of blocks written: free space times age, over
    /// what is read and written.
    fn gain(&self, clock: u64) -> f64 {
        let live = f64::from(self.live) / f64::from(self.blocks.max(1));
        (1.0 - live) * (clock - self.made) as f64 / (1.0 + live)
    }
}

impl State {
    /// Returns whether much of what segments hold is overwritten.
    pub fn wants_cleaning(&self) -> bool {
        let (live, total) = self.fill();
        total > SLACK * self.capacity() as u64 + live && live * 100 < total * FILL
    }

    /// Live blocks, and all blocks, of segments that can be cleaned.
    pub fn in_segments(&self) -> (u64, u64) {
        self.blocks_at(&[Stage::Sealed])
    }

    /// The same with those that buffers will become: without them a small volume, of which buffers
    /// hold much, would be taken for fuller than it is, and cleaned for more than it gives.
    pub fn fill(&self) -> (u64, u64) {
        let growing = u64::from(self.slots[self.hot.slot as usize].live);
        let (live, total) = self.blocks_at(&[Stage::Closed, Stage::Sealed]);
        (live + growing, total + growing)
    }

    fn blocks_at(&self, stages: &[Stage]) -> (u64, u64) {
        let own = self.slots.iter().filter(|slot| stages.contains(&slot.stage) && !slot.pinned);
        own.fold((0, 0), |(live, total), slot| {
            (live + u64::from(slot.live), total + u64::from(slot.blocks))
        })
    }

    /// Segments to clean next, as many as fill a new one, the last perhaps in part.
    pub fn victims(&self) -> Vec<u32> {
        self.victims_by(Slot::gain)
    }

    fn victims_by(&self, gain: impl Fn(&Slot, u64) -> f64) -> Vec<u32> {
        let own = (0..).zip(&self.slots).filter(|(_, slot)| {
            slot.stage == Stage::Sealed && !slot.pinned && slot.live < slot.blocks
        });
        let mut scored: Vec<(f64, u32)> =
            own.map(|(at, slot)| (gain(slot, self.clock), at)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut chosen, mut blocks) = (Vec::new(), 0);
        for (_, at) in scored {
            if blocks >= self.moved_capacity() {
                break;
            }
            blocks += self.slots[at as usize].live as usize;
            chosen.push(at);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::segment::{Freed, SegmentHead};
    use crate::{BLOCK, record::Change};

    /// A volume without disks.
    struct Model<G> {
        state: State,
        gain: G,
        /// Heads of segments, by slot.
        heads: BTreeMap<u32, SegmentHead>,
        moved: u64,
    }

    impl<G: Fn(&Slot, u64) -> f64> Model<G> {
        fn new(blocks: u64, segment: u64, gain: G) -> Self {
            let (size, segment) = (blocks * BLOCK as u64, segment * BLOCK as u64);
            let state = State::new([1; 16], size, segment, 8 * segment);
            Model { state, gain, heads: BTreeMap::new(), moved: 0 }
        }

        fn write(&mut self, block: u64) {
            let changes = [Change::Data { block, bytes: &[7; BLOCK] }];
            let room = self.state.ring.room(2 * BLOCK as u64).unwrap();
            self.state.apply(self.state.seq + 1, &room, &changes, &[1]);
            while let Some(closed) = self.state.closed.front() {
                self.heads.insert(closed.buffer.slot, closed.head());
                self.state.sealed(1);
            }
            while self.state.wants_cleaning() && self.clean() {}
            for slot in self.state.dead(self.state.next_number()) {
                self.state.removed(slot);
                self.heads.remove(&slot);
            }
        }

        fn clean(&mut self) -> bool {
            let mut moving = Vec::new();
            for slot in self.state.victims_by(&self.gain) {
                moving.extend(self.state.live_of(slot, &self.heads[&slot]));
            }
            moving.truncate(self.state.moved_capacity());
            let id = self.state.begin();
            self.state.moved(id, 1, &moving);
            self.moved += moving.len() as u64;
            let slot = self.state.slots.iter().position(|slot| slot.id == id).unwrap() as u32;
            let (blocks, freed) = (moving.iter().map(|moving| moving.block), Freed::default());
            let (sums, origins) = (Vec::new(), Vec::new());
            let blocks = blocks.collect();
            let head = SegmentHead { id, log_seq: 0, seq: None, blocks, sums, origins, freed };
            self.heads.insert(slot, head);
            !moving.is_empty()
        }
    }

    /// Picks the next block, of so many; from 53 random bits.
    type Pick = fn(f64, u64) -> f64;

    const PICKS: [(&str, Pick); 4] = [
        ("uniform", |random, n| random * n as f64),
        // About: by the integral of what the sum says.
        ("zipf", |random, n| (n as f64 + 1.0).powf(random) - 1.0),
        ("nine of ten in a tenth", |random, n| match random * 10.0 {
            cold if cold < 1.0 => cold * n as f64,
            hot => (hot - 1.0) / 90.0 * n as f64,
        }),
        ("all in one half", |random, n| random / 2.0 * n as f64),
    ];

    /// Blocks moved for each one written, after the volume was written over so many times, while it
    /// is written over as often again.
    fn moved(
        blocks: u64,
        segment: u64,
        times: u64,
        pick: Pick,
        gain: impl Fn(&Slot, u64) -> f64,
    ) -> f64 {
        let mut model = Model::new(blocks, segment, gain);
        (0..blocks).for_each(|block| model.write(block));
        let mut seed = 1u64;
        let mut over = |model: &mut Model<_>| {
            for _ in 0..times * blocks {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let random = (seed >> 11) as f64 / (1u64 << 53) as f64;
                let at = (pick(random, blocks) as u64).min(blocks - 1);
                // What is next to each other need not be as hot.
                model.write(at.wrapping_mul(0x9e37_79b9) % blocks);
            }
            model.moved
        };
        let before = over(&mut model);
        (over(&mut model) - before) as f64 / (times * blocks) as f64
    }

    fn emptiest(slot: &Slot, _: u64) -> f64 {
        1.0 - f64::from(slot.live) / f64::from(slot.blocks)
    }

    /// `KILN_CLEANING=1` (and `--release`, `--nocapture`) prints what the design quotes.
    #[test]
    fn it_costs_no_more_than_to_clean_the_emptiest_and_less_where_some_blocks_are_hot() {
        let long = std::env::var_os("KILN_CLEANING").is_some();
        let (blocks, segment, times) = if long { (1 << 18, 7680, 6) } else { (1 << 12, 64, 4) };
        for (name, pick) in PICKS {
            let by_gain = moved(blocks, segment, times, pick, Slot::gain);
            let by_free = moved(blocks, segment, times, pick, emptiest);
            if long {
                eprintln!("{name}: {by_free:.2} {by_gain:.2}");
            }
            let most = if name == "uniform" { 1.03 } else { 0.95 };
            assert!(by_gain < by_free * most, "{name}: {by_gain}, {by_free} by free space");
        }
    }
}
