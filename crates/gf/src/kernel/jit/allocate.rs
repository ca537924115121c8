//! The straight line of a block as instructions: which value is in which register, and when.
//!
//! Operations are taken in order. A value that is loaded is fetched where it is first used; where
//! registers run out, the value whose next use is furthest away makes room: it is loaded again if
//! its operand still holds it, and kept on the stack otherwise. Maps of coefficients take the
//! registers that are left over, most used first; the others are operands in memory.

mod halves;
mod maps;

use super::super::engine::{Addressing, CodeVariant};
use super::target::{
    Listing, Machine, NoCode, Places, Products, Store, StraightLine, Target, Term,
};
use crate::block::{Block, Factor, Op, Side, Value};
use crate::tuning::{Fetch, Level};

/// Registers that values have at least beside maps that are kept.
const LEAST: usize = 8;
/// Code is made for blocks with at most so many operations and terms: all of it should stay in a
/// cache of instructions.
const MOST_WORK: usize = 4096;
/// Values kept on the stack, at most: a page, so that no guard page can be skipped.
const MOST_SPILLED: usize = 60;

/// The instructions of a block; `None` where it is too long or needs too much room.
pub(super) fn allocate<M: Machine>(
    target: &dyn Target<M>,
    (block, fetch): (&Block, Fetch),
    variant: CodeVariant,
    addressing: Addressing,
) -> Option<StraightLine<M>> {
    let terms = block.ops().iter().map(|op| 1 + op.sources().count());
    if terms.sum::<usize>() > MOST_WORK {
        return None;
    }
    let maps = match target.products() {
        Products::Maps(_) => coefficients(block),
        Products::Halves(_) => Vec::new(),
    };
    let with =
        |kept| Allocator::new(target, (block, fetch), (variant, addressing), kept).all().ok();
    let mut best = with(&maps[..0])?;
    // As many maps in registers as values leave room for.
    for kept in (1..=maps.len().min(target.registers().saturating_sub(LEAST))).rev() {
        let straight = with(&maps[..kept])?;
        if straight.moves <= best.moves {
            best = straight;
            break;
        }
    }
    let Found { straight, .. } = best;
    (straight.spilled <= MOST_SPILLED).then_some(straight)
}

/// The factors of all repetitions that need a map, most used first.
fn coefficients(block: &Block) -> Vec<u8> {
    let mut uses = [0_usize; 256];
    for op in block.ops() {
        if let Op::Sum { terms } = op {
            for &(_, factor) in terms {
                if let Factor::Fixed(factor) = factor {
                    uses[usize::from(factor)] += 1;
                }
            }
        }
    }
    let mut all: Vec<u8> = (2..=255).filter(|&c| uses[usize::from(c)] > 0).collect();
    all.sort_by_key(|&c| std::cmp::Reverse(uses[usize::from(c)]));
    all
}

struct Found<M: Machine> {
    straight: StraightLine<M>,
    /// Values that were loaded again or moved to the stack.
    moves: usize,
}

/// Current place of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Not computed yet, or of no more use.
    Nowhere,
    Operand(u32),
    /// A map, among all of them: that of the factor which the repetition has at this place.
    Map(u32),
    Register(usize),
    Stack(usize),
}

struct Allocator<'a, M: Machine> {
    target: &'a dyn Target<M>,
    block: &'a Block,
    /// Fetching of inputs ahead.
    fetch: Fetch,
    /// True if every line is fetched once more, shortly before its use.
    again: bool,
    variant: CodeVariant,
    addressing: Addressing,
    /// Factors whose maps stay in the last registers.
    kept: &'a [u8],
    /// Values of the block; then the maps of factors that it leaves open, or the halves of all
    /// values.
    place: Vec<Place>,
    /// The operand that a loaded value can be loaded from again.
    source: Vec<Option<u32>>,
    /// Positions at which each value is used, the next one last.
    uses: Vec<Vec<usize>>,
    /// Values that are only multiplied by two, which is done without halves; none where products
    /// have maps.
    doubled: Vec<bool>,
    /// The value of each register.
    holds: Vec<Option<Value>>,
    /// Registers that this operation needs.
    locked: Vec<usize>,
    /// Register at which the search for a free one begins.
    turn: usize,
    free_slots: Vec<usize>,
    spilled: usize,
    moves: usize,
    places: M::Places,
    code: Listing<M>,
}

/// The factor that changes nothing.
const ONE: Factor = Factor::Fixed(1);

type Step<T> = Result<T, NoCode>;

impl<'a, M: Machine> Allocator<'a, M> {
    fn new(
        target: &'a dyn Target<M>,
        (block, fetch): (&'a Block, Fetch),
        (variant, addressing): (CodeVariant, Addressing),
        kept: &'a [u8],
    ) -> Allocator<'a, M> {
        let values = block.values();
        let (has_maps, given) = match target.products() {
            Products::Maps(_) => (true, block.given()),
            Products::Halves(_) => (false, 0),
        };
        let extras = if has_maps { given } else { 2 * values };
        let mut place = vec![Place::Nowhere; values];
        place.extend((0..given as u32).map(Place::Map));
        place.resize(values + extras, Place::Nowhere);
        let rest_slots = if variant == CodeVariant::Rest { target.rest_slots() } else { 0 };
        let mut allocator = Allocator {
            target,
            block,
            fetch,
            again: variant == CodeVariant::Memory && fetch.fetches_again(block.multiplies()),
            variant,
            addressing,
            kept,
            place,
            source: vec![None; values + extras],
            uses: vec![Vec::new(); values + extras],
            doubled: if has_maps { Vec::new() } else { halves::doubled(block) },
            holds: vec![None; target.registers() - kept.len()],
            locked: Vec::new(),
            turn: 0,
            free_slots: Vec::new(),
            spilled: rest_slots,
            moves: 0,
            places: M::Places::new(block, addressing, target.pairs()),
            code: Vec::new(),
        };
        allocator.note_uses();
        allocator
    }

    /// Notes where every value is used, the next use last.
    fn note_uses(&mut self) {
        let live = live(self.block);
        for (at, op) in self.block.ops().iter().enumerate() {
            let Op::Sum { terms } = op else {
                op.sources().for_each(|value| self.uses[value.0 as usize].push(at));
                continue;
            };
            // The first product cuts a value: it must not be one that is never computed.
            if !self.has_maps() && !live[at] {
                continue;
            }
            for &(value, factor) in terms {
                let extras = self.extras(value, factor);
                // A value that is cut into halves is not used itself any more.
                let cut = !self.has_maps() && !extras.is_empty();
                if !cut || self.uses[extras[0].0 as usize].is_empty() {
                    self.uses[value.0 as usize].push(at);
                }
                extras.iter().for_each(|extra| self.uses[extra.0 as usize].push(at));
            }
        }
        self.uses.iter_mut().for_each(|uses| uses.reverse());
    }

    fn has_maps(&self) -> bool {
        matches!(self.target.products(), Products::Maps(_))
    }

    fn all(mut self) -> Step<Found<M>> {
        let mut before = Vec::new();
        self.target.enter(self.variant != CodeVariant::Rest, &mut before)?;
        if let Products::Maps(maps) = self.target.products() {
            for (index, &factor) in self.kept.iter().enumerate() {
                maps.broadcast(self.kept_map(index), maps.map(factor), &mut before)?;
            }
        }
        let (block, mut next) = (self.block, 0);
        for (at, op) in block.ops().iter().enumerate() {
            match op {
                Op::Load { operand } => {
                    self.place[next] = Place::Operand(*operand);
                    if block.uses(*operand).1 && self.is_stored_before(*operand, next) {
                        // Its operand will not hold it for long.
                        if !self.uses[next].is_empty() {
                            let register = self.register(Value(next as u32))?;
                            self.locked.retain(|&locked| locked != register);
                        }
                    } else {
                        self.source[next] = Some(*operand);
                    }
                    next += 1;
                }
                Op::Sum { terms } => {
                    self.sum(Value(next as u32), terms, at)?;
                    next += 1;
                }
                Op::Store { operand, value } => {
                    let from = self.register(*value)?;
                    self.store(*operand, from)?;
                    self.used(*value, at);
                }
            }
            self.locked.clear();
        }
        let repetition = match self.addressing {
            Addressing::Listed => self.places.own_entries(self.block)?,
            _ => Vec::new(),
        };
        let Allocator { code, spilled, moves, target, .. } = self;
        let (width, pairs) = (target.width(), target.pairs());
        let straight = StraightLine { before, repetition, body: code, spilled, width, pairs };
        Ok(Found { straight, moves })
    }

    /// Returns whether something is stored into an operand before the last use of the value that is
    /// loaded from it.
    fn is_stored_before(&self, operand: u32, value: usize) -> bool {
        let stores = |op: &Op| matches!(op, Op::Store { operand: to, .. } if *to == operand);
        let stored = self.block.ops().iter().position(stores);
        let last = self.uses[value].first().copied();
        stored.is_some_and(|stored| last.is_some_and(|last| last > stored))
    }

    /// Computes a sum into a register.
    fn sum(&mut self, value: Value, terms: &[(Value, Factor)], at: usize) -> Step<()> {
        if self.uses[value.0 as usize].is_empty() {
            for extra in self.all_sources(terms) {
                self.used(extra, at);
            }
            return Ok(());
        }
        let sum = match self.target.products() {
            Products::Maps(maps) => self.sum_by_maps(maps, terms, at)?,
            Products::Halves(halves) => self.sum_by_halves(halves, terms, at)?,
        };
        let sum = match sum {
            Some(sum) => sum,
            None => {
                let sum = self.free_register()?;
                self.xor(sum, sum, &Term::Register(sum))?;
                sum
            }
        };
        self.holds[sum] = Some(value);
        self.place[value.0 as usize] = Place::Register(sum);
        Ok(())
    }

    /// A term of no further use becomes the sum.
    fn dying(&mut self, terms: &mut Vec<(Value, Factor)>, at: usize) -> Step<Option<usize>> {
        let dies = |&(term, factor): &(Value, Factor)| {
            let in_register = matches!(self.place[term.0 as usize], Place::Register(_));
            factor == ONE && in_register && self.uses[term.0 as usize] == [at]
        };
        let Some(index) = terms.iter().position(dies) else { return Ok(None) };
        let (term, _) = terms.remove(index);
        let register = self.register(term)?;
        self.used(term, at);
        self.locked.push(register);
        Ok(Some(register))
    }

    /// Returns what the terms of a sum use.
    fn all_sources(&self, terms: &[(Value, Factor)]) -> Vec<Value> {
        let extras = |&(value, factor): &(Value, Factor)| self.extras(value, factor);
        let values = terms.iter().map(|&(value, _)| value);
        values.chain(terms.iter().flat_map(extras)).collect()
    }

    /// Returns what a term uses beside its value.
    fn extras(&self, value: Value, factor: Factor) -> Vec<Value> {
        match (self.target.products(), factor) {
            (Products::Maps(_), Factor::Given(index)) => vec![self.map_value(index)],
            (Products::Halves(_), _) if self.by_halves(value, factor) => {
                self.half_values(value).to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a term can be an operand in memory: it is only used here, as it is, and lies
    /// in an operand that holds it until then. Reading less than a vector takes an instruction of
    /// its own, as all reading does for some targets.
    fn in_memory(&self, value: Value, factor: Factor) -> bool {
        let index = value.0 as usize;
        let here = matches!(self.place[index], Place::Operand(_)) && self.source[index].is_some();
        let whole = self.variant != CodeVariant::Rest && !self.target.pairs();
        let may = self.target.takes_memory() && whole;
        may && here && factor == ONE && self.uses[index].len() == 1
    }

    /// After the instruction that takes a term.
    fn done(&mut self, value: Value, term: &Term<M>, at: usize) {
        if let Term::Register(register) = term {
            self.locked.retain(|locked| locked != register);
        }
        self.used(value, at);
    }

    /// Notes a use of a value, once; after its last use its place is free.
    fn used(&mut self, value: Value, at: usize) {
        let index = value.0 as usize;
        if self.uses[index].last() == Some(&at) {
            self.uses[index].pop();
        }
        if !self.uses[index].is_empty() {
            return;
        }
        match std::mem::replace(&mut self.place[index], Place::Nowhere) {
            Place::Register(register) => self.holds[register] = None,
            Place::Stack(slot) => self.free_slots.push(slot),
            _ => {}
        }
    }

    /// The register of a value, which stays locked.
    fn register(&mut self, value: Value) -> Step<usize> {
        let index = value.0 as usize;
        let place = self.place[index];
        if let Place::Register(register) = place {
            self.lock(register);
            return Ok(register);
        }
        let register = self.free_register()?;
        self.lock(register);
        match place {
            Place::Operand(operand) => {
                let from = self.operand(operand)?;
                if self.target.pairs() {
                    self.target.load_half(register, from, false, &mut self.code)?;
                    let from = self.places.second(self.block, operand, &mut self.code)?;
                    self.target.load_half(register, from, true, &mut self.code)?;
                } else {
                    self.load(register, from)?;
                }
            }
            Place::Map(index) => {
                let Products::Maps(maps) = self.target.products() else { return Err(NoCode) };
                maps.given_map(register, self.block, index, &mut self.code)?;
            }
            Place::Stack(slot) => {
                self.target.load(register, M::Places::spilled(slot), true, &mut self.code)?;
                self.free_slots.push(slot);
                self.moves += 1;
            }
            _ => return Err(NoCode),
        }
        self.place[index] = Place::Register(register);
        self.holds[register] = Some(value);
        Ok(register)
    }

    fn lock(&mut self, register: usize) {
        if !self.locked.contains(&register) {
            self.locked.push(register);
        }
    }

    /// A register that holds nothing; if need be, a value makes room.
    fn free_register(&mut self) -> Step<usize> {
        let all = 0..self.holds.len();
        let free = |&r: &usize| self.holds[r].is_none() && !self.locked.contains(&r);
        if let Some(register) = (self.turn..all.end).chain(0..self.turn).find(free) {
            if self.target.takes_turns() {
                self.turn = (register + 1) % all.end;
            }
            return Ok(register);
        }
        let next_use = |register: &usize| {
            let value = self.holds[*register]?;
            self.uses[value.0 as usize].last().copied()
        };
        let victim = all.filter(|r| !self.locked.contains(r)).max_by_key(next_use);
        let victim = victim.ok_or(NoCode)?;
        self.moves += 1;
        if let Some(value) = self.holds[victim].take() {
            let index = value.0 as usize;
            self.place[index] = match self.source[index] {
                Some(operand) => Place::Operand(operand),
                None if index >= self.block.values() && self.has_maps() => {
                    Place::Map((index - self.block.values()) as u32)
                }
                None => {
                    let slot = self.free_slots.pop().unwrap_or_else(|| {
                        self.spilled += 1;
                        self.spilled - 1
                    });
                    let place = M::Places::spilled(slot);
                    self.target.store(place, victim, Store::Whole, &mut self.code)?;
                    Place::Stack(slot)
                }
            };
        }
        Ok(victim)
    }

    /// The place of an operand's vector; from memory, what follows is asked for.
    fn operand(&mut self, operand: u32) -> Step<M::Place> {
        let place = self.places.operand(self.block, operand, &mut self.code)?;
        if self.variant.fetches() && self.block.sides()[operand as usize] == Side::Input {
            let Fetch { level, lines } = self.fetch;
            let ahead = self.places.ahead(&place, operand, lines, &mut self.code)?;
            self.target.fetch(level, ahead, &mut self.code)?;
            if self.again {
                self.target.fetch(Level::First, M::Places::behind(&place, 1), &mut self.code)?;
            }
        }
        Ok(place)
    }

    /// The number of an open factor's map among values.
    fn map_value(&self, index: u32) -> Value {
        Value(self.block.values() as u32 + index)
    }

    fn load(&mut self, to: usize, from: M::Place) -> Step<()> {
        let whole = self.variant != CodeVariant::Rest;
        self.target.load(to, from, whole, &mut self.code)
    }

    fn store(&mut self, operand: u32, from: usize) -> Step<()> {
        let to = self.places.operand(self.block, operand, &mut self.code)?;
        if self.target.pairs() {
            self.target.store_half(to, from, false, &mut self.code)?;
            let to = self.places.second(self.block, operand, &mut self.code)?;
            return self.target.store_half(to, from, true, &mut self.code);
        }
        let output = self.block.sides()[operand as usize] == Side::Output;
        let how = match self.variant {
            CodeVariant::Memory if output => Store::Streamed,
            CodeVariant::Rest => Store::Rest,
            _ => Store::Whole,
        };
        self.target.store(to, from, how, &mut self.code)
    }

    fn xor(&mut self, to: usize, a: usize, b: &Term<M>) -> Step<()> {
        self.target.xor(to, a, b, &mut self.code)
    }
}

/// Returns which operations make something that is stored in the end, or store it.
fn live(block: &Block) -> Vec<bool> {
    let mut needed = vec![false; block.values()];
    let mut next = block.values();
    let mut live: Vec<bool> = Vec::with_capacity(block.ops().len());
    for op in block.ops().iter().rev() {
        live.push(match op {
            Op::Store { .. } => true,
            _ => {
                next -= 1;
                needed[next]
            }
        });
        if live.last() == Some(&true) {
            op.sources().for_each(|source| needed[source.0 as usize] = true);
        }
    }
    live.reverse();
    live
}
