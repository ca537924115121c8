//! Blocks of the same shape become repetitions of one call.
//!
//! Input-stationary blocks that differ only by a displacement of all their operands become one
//! call: one list of operands serves all repetitions, and the code knows what it needs next. Of
//! output-stationary blocks there are as many kinds as digits have values: there blocks may differ
//! in their factors too, and every repetition has lists of its own.

use super::Dataflow;
use crate::Result;
use kiln_gf::{Block, Call, Factor, Kernel, ProgramSource, Routine, Shift, Side, Unit};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::{collections::BTreeMap, ops::Range};

/// Number of calls back among which a block is looked for that another one could repeat.
const NEIGHBOURS: usize = 8;
/// More kinds of blocks than this would be more code than caches hold.
const ROUTINES_MAX: usize = 96;

/// A block as it was written.
pub(super) struct EmittedBlock {
    /// Index of the kind.
    pub kind: u32,
    /// Its operands.
    pub units: Vec<Unit>,
}

/// The calls of blocks in their order; nothing where code would be too long. `inputs` is the number
/// of input regions.
pub(super) fn source(
    kinds: &[Block],
    written: Vec<EmittedBlock>,
    inputs: u32,
    dataflow: Dataflow,
    kernel: &'static dyn Kernel,
) -> Result<Option<ProgramSource>> {
    if dataflow != Dataflow::OutputStationary {
        if kinds.len() > ROUTINES_MAX {
            return Ok(None);
        }
        return moved(kinds, &merged(&written, |kind| kind, inputs), kernel).map(Some);
    }
    let mut shapes: HashMap<Block, u32> = HashMap::default();
    let mut of_kind: Vec<u32> = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let next = shapes.len() as u32;
        of_kind.push(*shapes.entry(kind.shape()).or_insert(next));
    }
    if shapes.len() > ROUTINES_MAX {
        return Ok(None);
    }
    let merged = merged(&written, |kind| of_kind[kind as usize], inputs);
    each(kinds, &merged, kernel).map(Some)
}

/// A call in the making.
struct Repeats<'a> {
    /// Index of the routine.
    routine: u32,
    written: Vec<&'a EmittedBlock>,
    /// All operands but inputs.
    used: HashSet<Unit>,
}

/// Adds every block to the last call of its routine, if no call after it uses what the block uses.
fn merged(written: &[EmittedBlock], routine: impl Fn(u32) -> u32, inputs: u32) -> Vec<Repeats<'_>> {
    let mut calls: Vec<Repeats<'_>> = Vec::new();
    'blocks: for block in written {
        let routine = routine(block.kind);
        let used: Vec<Unit> = block.units.iter().filter(|u| u.region >= inputs).copied().collect();
        for repeats in calls.iter_mut().rev().take(NEIGHBOURS) {
            if repeats.routine == routine {
                repeats.used.extend(used);
                repeats.written.push(block);
                continue 'blocks;
            }
            if used.iter().any(|unit| repeats.used.contains(unit)) {
                break;
            }
        }
        let used = used.into_iter().collect();
        calls.push(Repeats { routine, written: vec![block], used });
    }
    calls
}

/// Calls of blocks that are moved: those that are not moved alike are calls of their own.
fn moved(
    kinds: &[Block],
    calls: &[Repeats<'_>],
    kernel: &'static dyn Kernel,
) -> Result<ProgramSource> {
    let (mut source, mut known) = (ProgramSource::default(), Known::default());
    for repeats in calls {
        let sides = kinds[repeats.routine as usize].sides();
        let mut rest = &repeats.written[..];
        while let Some(first) = rest.first() {
            let moves: Vec<[i64; 4]> =
                rest.iter().map_while(|block| moves(sides, &first.units, &block.units)).collect();
            rest = &rest[moves.len()..];
            call(&mut source, &mut known, repeats.routine, (sides, &first.units), &moves);
        }
    }
    for block in kinds {
        source.routines.push(Routine::new(kernel, block.clone())?);
    }
    Ok(source)
}

/// Returns how far operands are from those of the first repetition, if that is as far for all of a
/// side.
fn moves(sides: &[Side], first: &[Unit], units: &[Unit]) -> Option<[i64; 4]> {
    let mut moved: [Option<i64>; 4] = [None; 4];
    for ((from, to), &side) in first.iter().zip(units).zip(sides) {
        let distance = i64::from(to.unit) - i64::from(from.unit);
        let known = moved[side as usize].get_or_insert(distance);
        if from.region != to.region || *known != distance {
            return None;
        }
    }
    Some(moved.map(Option::unwrap_or_default))
}

/// Operands of calls, and where they are in the program source.
type Known = HashMap<Vec<Unit>, Range<u32>>;

/// Adds a call. Its operands are moved so that the first unit of each side is 0: calls that differ
/// only by a move then have the same operands, and share them.
fn call(
    source: &mut ProgramSource,
    known: &mut Known,
    routine: u32,
    (sides, first): (&[Side], &[Unit]),
    moves: &[[i64; 4]],
) {
    let mut least: [Option<u32>; 4] = [None; 4];
    for (unit, &side) in first.iter().zip(sides) {
        let least = least[side as usize].get_or_insert(unit.unit);
        *least = unit.unit.min(*least);
    }
    let least = least.map(Option::unwrap_or_default);
    let units = first
        .iter()
        .zip(sides)
        .map(|(unit, &side)| Unit { region: unit.region, unit: unit.unit - least[side as usize] });
    let operands = known.entry(units.collect()).or_insert_with_key(|units| {
        let start = source.operands.len() as u32;
        source.operands.extend(units);
        start..source.operands.len() as u32
    });
    let start = source.shifts.len() as u32;
    source.shifts.extend(moves.iter().map(|moved| {
        let [inputs, outputs, scratch, results] =
            [0, 1, 2, 3].map(|side| (moved[side] + i64::from(least[side])) as u32);
        Shift { inputs, outputs, scratch, results }
    }));
    let shifts = start..source.shifts.len() as u32;
    source.calls.push(Call::Block { routine, operands: operands.clone(), shifts });
}

/// Calls of blocks each of which has lists of its own.
fn each(
    kinds: &[Block],
    calls: &[Repeats<'_>],
    kernel: &'static dyn Kernel,
) -> Result<ProgramSource> {
    let factors: Vec<Vec<u8>> = kinds.iter().map(Block::factors).collect();
    let mut of_routine: BTreeMap<u32, Vec<&EmittedBlock>> = BTreeMap::new();
    for repeats in calls {
        of_routine.entry(repeats.routine).or_default().extend(&repeats.written);
    }
    let mut source = ProgramSource::default();
    // Of each routine, which terms have the factors that repetitions list.
    let mut lists: Vec<Vec<usize>> = Vec::with_capacity(of_routine.len());
    for written in of_routine.values() {
        let of_kind = |block: &&EmittedBlock| &factors[block.kind as usize][..];
        let rows: Vec<&[u8]> = written.iter().map(of_kind).collect();
        let (open, listed) = open(&rows);
        let mut block = kinds[written[0].kind as usize].with_factors(&open);
        put_behind(&mut block, written);
        lists.push(listed);
        source.routines.push(Routine::new(kernel, block)?);
    }
    for repeats in calls {
        let starts = (source.operands.len() as u32, source.factors.len() as u32);
        let block = source.routines[repeats.routine as usize].block();
        for written in &repeats.written {
            let named = block.named().map(|operand| written.units[operand as usize]);
            source.operands.extend(named);
            let of_kind = &factors[written.kind as usize];
            source.factors.extend(lists[repeats.routine as usize].iter().map(|&at| of_kind[at]));
        }
        let operands = starts.0..source.operands.len() as u32;
        let factors = starts.1..source.factors.len() as u32;
        source.calls.push(Call::Each { routine: repeats.routine, operands, factors });
    }
    Ok(source)
}

/// Returns what stays open of the factors of some blocks of one shape: those that are not the same
/// in all blocks. Terms whose factors are equal in every block have one place in the lists;
/// returned with them is a term for each place.
fn open(rows: &[&[u8]]) -> (Vec<Factor>, Vec<usize>) {
    let mut places: HashMap<Vec<u8>, u32> = HashMap::default();
    let mut listed = Vec::new();
    let terms = rows.first().map_or(0, |row| row.len());
    let factors = (0..terms).map(|term| {
        let column: Vec<u8> = rows.iter().map(|row| row[term]).collect();
        if column.iter().all(|&factor| factor == column[0]) {
            return Factor::Fixed(column[0]);
        }
        let next = listed.len() as u32;
        Factor::Given(*places.entry(column).or_insert_with(|| {
            listed.push(term);
            next
        }))
    });
    (factors.collect(), listed)
}

/// Finds operands that lie closely behind others in all blocks.
fn put_behind(block: &mut Block, written: &[&EmittedBlock]) {
    let Some(first) = written.first() else { return };
    let mut operands: Vec<u32> = (0..first.units.len() as u32).collect();
    operands.sort_by_key(|&operand| {
        let unit = first.units[operand as usize];
        (unit.region, unit.unit)
    });
    let distance = |written: &EmittedBlock, from: u32, to: u32| {
        let [from, to] = [from, to].map(|operand| written.units[operand as usize]);
        (from.region == to.region).then(|| to.unit.checked_sub(from.unit)).flatten()
    };
    let mut anchor = operands.first().copied().unwrap_or(0);
    for &operand in operands.iter().skip(1) {
        let far = distance(first, anchor, operand);
        let behind =
            far.filter(|_| written.iter().all(|written| distance(written, anchor, operand) == far));
        if !behind.is_some_and(|units| block.put_behind(operand, anchor, units)) {
            anchor = operand;
        }
    }
}
