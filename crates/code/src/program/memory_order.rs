//! Sorts repetitions by the memory order of what they read.
//!
//! Blocks are made by layers, so the repetitions of a call come by layers, too. Where sub-chunks
//! lie in another order, that jumps back and forth in memory, and hardware prefetchers only follow
//! streams that go on. So repetitions that do not depend on one another are sorted.

use kiln_gf::{Call, ProgramSource, Shift, Side, Unit};
use rustc_hash::FxHashSet as HashSet;

/// Sorts the repetitions of every call of a program source whose units have an order.
pub(super) fn sort(source: &mut ProgramSource) {
    if source.order.iter().all(Vec::is_empty) {
        return;
    }
    let ProgramSource { routines, calls, operands, shifts, order, .. } = source;
    for call in calls {
        let Call::Block { routine, operands: used, shifts: range } = call else { continue };
        let (from, to) = (range.start as usize, range.end as usize);
        let sides = routines.get(*routine as usize).map_or(&[][..], |r| r.block().sides());
        let used = operands.get(used.start as usize..used.end as usize).unwrap_or(&[]);
        let Some(repetitions) = shifts.get_mut(from..to) else { continue };
        if are_independent(used, sides, repetitions) {
            repetitions.sort_by_cached_key(|shift| first(used, sides, shift, order));
        }
    }
}

/// Returns whether no repetition stores what another one uses.
fn are_independent(operands: &[Unit], sides: &[Side], repetitions: &[Shift]) -> bool {
    let mut seen: HashSet<Unit> = HashSet::default();
    repetitions.iter().all(|shift| {
        let own: HashSet<Unit> = moved(operands, sides, shift)
            .filter(|&(side, _)| side != Side::Input)
            .map(|(_, unit)| unit)
            .collect();
        own.into_iter().all(|unit| seen.insert(unit))
    })
}

/// The first position that a repetition reads; that it writes, where it reads no inputs.
fn first(operands: &[Unit], sides: &[Side], shift: &Shift, order: &[Vec<u32>; 2]) -> Option<u32> {
    let of = |wanted: Side| {
        let units = moved(operands, sides, shift).filter(move |&(side, _)| side == wanted);
        let at = |(_, unit): (Side, Unit)| order[wanted as usize].get(unit.unit as usize).copied();
        units.map(move |unit| at(unit).unwrap_or(unit.1.unit)).min()
    };
    of(Side::Input).or_else(|| of(Side::Output))
}

/// The units of a repetition with their sides.
fn moved<'a>(
    operands: &'a [Unit],
    sides: &'a [Side],
    shift: &'a Shift,
) -> impl Iterator<Item = (Side, Unit)> + 'a {
    operands.iter().zip(sides).map(|(unit, &side)| (side, unit.moved(shift.of(side))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_gf::{Block, GfError, Routine};

    /// Two inputs to an output or to scratch, four repetitions; inputs lie as `order` says.
    fn source(order: Vec<u32>, to: Side, scratch: [u32; 4]) -> Result<ProgramSource, GfError> {
        let mut block = Block::new();
        let (from, into) = (block.operand(Side::Input), block.operand(to));
        let value = block.load(from);
        let twice = block.sum(&[(value, 2)]);
        block.store(into, twice);
        let region = if to == Side::Output { 1 } else { 2 };
        let operands = vec![Unit { region: 0, unit: 0 }, Unit { region, unit: 0 }];
        let shift = |(unit, scratch): (u32, u32)| Shift {
            inputs: unit,
            outputs: unit,
            scratch,
            results: 0,
        };
        let shifts = (0..4).zip(scratch).map(shift).collect();
        let calls = vec![Call::Block { routine: 0, operands: 0..2, shifts: 0..4 }];
        let routines = vec![Routine::new(kiln_gf::active()?, block)?];
        let order = [order, vec![]];
        Ok(ProgramSource { routines, calls, operands, shifts, order, ..ProgramSource::default() })
    }

    fn sorted(mut source: ProgramSource) -> Vec<u32> {
        sort(&mut source);
        source.shifts.iter().map(|shift| shift.inputs).collect()
    }

    #[test]
    fn repetitions_come_as_their_inputs_lie() {
        let gray = || vec![0, 1, 3, 2];
        assert_eq!(sorted(source(gray(), Side::Output, [0; 4]).unwrap()), [0, 1, 3, 2]);
        assert_eq!(sorted(source(gray(), Side::Scratch, [4, 5, 6, 7]).unwrap()), [0, 1, 3, 2]);
        assert_eq!(sorted(source(vec![3, 2, 1, 0], Side::Output, [0; 4]).unwrap()), [3, 2, 1, 0]);
        assert_eq!(sorted(source(vec![], Side::Output, [0; 4]).unwrap()), [0, 1, 2, 3]);
    }

    #[test]
    fn repetitions_that_use_the_same_scratch_keep_their_order() {
        let source = source(vec![0, 1, 3, 2], Side::Scratch, [0, 1, 1, 2]).unwrap();
        assert_eq!(sorted(source), [0, 1, 2, 3]);
    }
}
