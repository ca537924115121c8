//! Calling the code of a block.

use std::{fmt, ops::Range};

use super::super::engine::{self, Addressing, CodeVariant, Job, Operands, Slot};
use super::target::{Machine, Target};
use super::{allocate, pages::Pages};
use crate::{block::Block, tuning::Fetch};

type Entry = unsafe extern "C" fn(*const Arguments);

/// Arguments of the code: it takes everything from here into registers.
#[repr(C)]
pub(super) struct Arguments {
    /// First byte of every operand; or the record of the first repetition.
    pub operands: *const u8,
    /// First of the repetitions; or the starts of all regions.
    pub second: *const u8,
    /// End of the repetitions, or of the records.
    pub end: *const u8,
    /// Bytes of each operand: whole vectors, or less than one.
    pub len: usize,
    /// The maps of all factors.
    pub maps: *const u8,
    /// The bytes of a vector less than whole, as the target wants to know it.
    pub rest_bytes: u64,
    /// Position of what is fetched next: the repetition, how far it is in, and what is left of it;
    /// or the tables of inputs and of outputs, and how far in a repetition the next one is fetched,
    /// or, with records, the bytes from unit to unit of scratch.
    pub rest: [usize; 3],
}

/// Machine code for one block and one way.
pub(in super::super) struct BlockCode<M: Machine> {
    pages: Pages,
    target: &'static dyn Target<M>,
    /// By factor.
    maps: &'static [u8],
    /// Its fetching of inputs ahead.
    fetch: Fetch,
}

impl<M: Machine> fmt::Debug for BlockCode<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCode")
    }
}

impl<M: Machine> BlockCode<M> {
    /// `maps` are what the target's code takes for all factors.
    pub(in super::super) fn new(
        (target, maps): (&'static dyn Target<M>, &'static [u8]),
        (block, fetch): (&Block, Fetch),
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<BlockCode<M>> {
        let bytes = assemble(target, (block, fetch), variant, addressing)?;
        Some(BlockCode { pages: Pages::new(&bytes)?, target, maps, fetch })
    }

    /// Runs on whole vectors, or on as much of one as the target takes at once.
    ///
    /// # Safety
    /// As [`engine::BlockCode::run`].
    unsafe fn run_some(&self, job: &Job<'_>, bytes: Range<usize>) {
        let (len, mut moved): (usize, Vec<*mut u8>) = (bytes.len(), Vec::new());
        let mut slots_moved: Vec<Slot> = Vec::new();
        let places: *const u8 = match (job.operands, bytes.start) {
            (Operands::Moved { slots: places, .. }, 0) => places.as_ptr().cast(),
            (Operands::Listed { regions: places, .. }, 0) => places.as_ptr().cast(),
            (Operands::Ordered { slots, .. }, 0) => slots.as_ptr().cast(),
            (Operands::Ordered { slots, .. }, bytes) => {
                let far = |slot: &Slot| Slot { start: slot.start.wrapping_add(bytes), ..*slot };
                slots_moved.extend(slots.iter().map(far));
                slots_moved.as_ptr().cast()
            }
            (
                Operands::Moved { slots: places, .. } | Operands::Listed { regions: places, .. },
                _,
            ) => {
                moved.extend(places.iter().map(|place| place.wrapping_add(bytes.start)));
                moved.as_ptr().cast()
            }
        };
        let far = self.fetch.lines;
        let (operands, second, end, rest);
        match job.operands {
            Operands::Moved { shifts, .. } => {
                let vectors = len.div_ceil(64);
                let ahead = &shifts[(far / vectors).min(shifts.len() - 1)..];
                let into = far % vectors * 64;
                let all = shifts.as_ptr_range();
                operands = places;
                (second, end) = (all.start.cast(), all.end.cast());
                rest =
                    [ahead.as_ptr().expose_provenance(), ahead[0][0] + into, vectors * 64 - into];
            }
            Operands::Ordered { shifts, tables: [inputs, outputs], .. } => {
                let all = shifts.as_ptr_range();
                operands = places;
                (second, end) = (all.start.cast(), all.end.cast());
                let [inputs, outputs] = [inputs, outputs].map(|t| t.as_ptr().expose_provenance());
                // Short repetitions are fetched whole, one ahead.
                let into = if len > far * 64 { far * 64 } else { 0 };
                rest = [inputs, outputs, into];
            }
            Operands::Listed { records, tables: [inputs, outputs], stride, .. } => {
                let all = records.as_ptr_range();
                (operands, end) = (all.start.cast(), all.end.cast());
                second = places;
                let [inputs, outputs] = [inputs, outputs].map(|t| t.as_ptr().expose_provenance());
                rest = [inputs, outputs, stride];
            }
        }
        let rest_bytes = self.target.rest_bytes(len.min(self.target.width()));
        let maps = self.maps.as_ptr();
        let arguments = Arguments { operands, second, end, len, maps, rest_bytes, rest };
        // SAFETY: the pages hold what `Machine::link` made, an `Entry`, and live as long as
        // `self`.
        let entry: Entry = unsafe { std::mem::transmute(self.pages.address(0)) };
        // SAFETY: there is at least one repetition and one byte; the caller promises the rest.
        unsafe { entry(&arguments) };
    }
}

impl<M: Machine> engine::BlockCode for BlockCode<M> {
    unsafe fn run(&self, job: &Job<'_>, bytes: Range<usize>) {
        if job.operands.repetitions() == 0 || bytes.is_empty() {
            return;
        }
        let step = match bytes.len() {
            less if less < 64 => self.target.width(),
            whole => whole,
        };
        for start in bytes.clone().step_by(step) {
            // SAFETY: there is at least one repetition and one byte; the caller promises the rest.
            unsafe { self.run_some(job, start..bytes.end.min(start + step)) };
        }
    }
}

/// Returns the bytes of a block's code, which fetches inputs ahead; nothing where there is
/// none.
pub(in super::super) fn assemble<M: Machine>(
    target: &dyn Target<M>,
    (block, fetch): (&Block, Fetch),
    variant: CodeVariant,
    addressing: Addressing,
) -> Option<Vec<u8>> {
    // Repetitions are told apart by where their lists are.
    if addressing == Addressing::Listed && block.named().next().is_none() {
        return None;
    }
    let straight = allocate::allocate(target, (block, fetch), variant, addressing)?;
    let turns = straight.turns();
    if variant == CodeVariant::Unrolled && (addressing == Addressing::Listed || turns == 1) {
        return None; // it is what `Cached` is
    }
    M::link(block, variant, addressing, &straight, turns)
}
