//! The straight line of a block as instructions: which value is in which register, and when.
//!
//! Operations are taken in order. A value that is loaded is fetched where it is first used; where
//! registers run out, the value whose next use is furthest away makes room: it is loaded again if
//! its operand still holds it, and kept on the stack otherwise. Maps of coefficients take the
//! registers that are left over, most used first; the others are operands in memory.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::super::avx512::XOR3;
use super::super::engine::{Addressing, CodeVariant};
use super::places::Places;
use crate::block::{Block, Factor, Op, Side, Value};

/// Vector registers of the CPU.
const REGISTERS: usize = 32;
/// Code is made for blocks with at most so many operations and terms: all of it should stay in a
/// cache of instructions.
const MOST_WORK: usize = 4096;
/// Values kept on the stack, at most: a page, so that no guard page can be skipped.
const MOST_SPILLED: usize = 60;

/// A block's instructions.
pub(super) struct StraightLine {
    /// Once, before the loops.
    pub before: Vec<Instruction>,
    /// Before each repetition.
    pub repetition: Vec<Instruction>,
    /// For each vector of the operands.
    pub body: Vec<Instruction>,
    /// Values that need room on the stack.
    pub spilled: usize,
}

/// The instructions of a block; `None` where it is too long or needs too much room.
pub(super) fn allocate(
    block: &Block,
    variant: CodeVariant,
    addressing: Addressing,
) -> Option<StraightLine> {
    let terms = block.ops().iter().map(|op| 1 + op.sources().count());
    if terms.sum::<usize>() > MOST_WORK {
        return None;
    }
    let maps = coefficients(block);
    let mut best = Allocator::new(block, variant, addressing, &maps[..0]).all().ok()?;
    // As many maps in registers as values leave room for.
    for kept in (1..=maps.len().min(REGISTERS - 8)).rev() {
        let straight = Allocator::new(block, variant, addressing, &maps[..kept]).all().ok()?;
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

struct Found {
    straight: StraightLine,
    /// Values that were loaded again or moved to the stack.
    moves: usize,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Not computed yet, or of no more use.
    Nowhere,
    /// In its operand.
    Operand(u32),
    /// A map, among all of them: that of the factor which the repetition has at this place.
    Map(u32),
    Register(usize),
    Stack(usize),
}

struct Allocator<'a> {
    block: &'a Block,
    variant: CodeVariant,
    addressing: Addressing,
    /// Factors whose maps stay in the last registers.
    kept: &'a [u8],
    /// Values of the block; then the maps of factors that it leaves open.
    place: Vec<Place>,
    /// The operand that a loaded value can be loaded from again.
    source: Vec<Option<u32>>,
    /// Positions at which each value is used, the next one last.
    uses: Vec<Vec<usize>>,
    /// What each register holds.
    holds: Vec<Option<Value>>,
    /// Registers that this operation needs.
    locked: Vec<usize>,
    free_slots: Vec<usize>,
    spilled: usize,
    moves: usize,
    places: Places,
    code: Vec<Instruction>,
}

/// The factor that changes nothing.
const ONE: Factor = Factor::Fixed(1);

/// A block for which no code can be made.
struct NoCode;

impl From<IcedError> for NoCode {
    fn from(_: IcedError) -> NoCode {
        NoCode
    }
}

type Step<T> = Result<T, NoCode>;

/// A term in a form that an instruction takes: a register, or memory as the last operand.
enum Term {
    Register(usize),
    Memory(MemoryOperand),
}

impl<'a> Allocator<'a> {
    fn new(
        block: &'a Block,
        variant: CodeVariant,
        addressing: Addressing,
        kept: &'a [u8],
    ) -> Allocator<'a> {
        let (values, given) = (block.values(), block.given());
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); values + given];
        for (at, op) in block.ops().iter().enumerate() {
            for value in op.sources() {
                uses[value.0 as usize].push(at);
            }
            if let Op::Sum { terms } = op {
                for &(_, factor) in terms {
                    if let Factor::Given(index) = factor {
                        uses[values + index as usize].push(at);
                    }
                }
            }
        }
        uses.iter_mut().for_each(|uses| uses.reverse());
        let mut place = vec![Place::Nowhere; values];
        place.extend((0..given as u32).map(Place::Map));
        Allocator {
            block,
            variant,
            addressing,
            kept,
            place,
            source: vec![None; values + given],
            uses,
            holds: vec![None; REGISTERS - kept.len()],
            locked: Vec::new(),
            free_slots: Vec::new(),
            spilled: 0,
            moves: 0,
            places: Places::new(block, addressing),
            code: Vec::new(),
        }
    }

    fn all(mut self) -> Step<Found> {
        let mut before = Vec::new();
        for (index, &factor) in self.kept.iter().enumerate() {
            let to = zmm(self.kept_map(index));
            let code = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
            let from = MemoryOperand { is_broadcast: false, ..Places::map(factor) };
            before.push(Instruction::with2(code, to, from)?);
        }
        let (block, mut next) = (self.block, 0);
        for (at, op) in block.ops().iter().enumerate() {
            match op {
                Op::Load { operand } => {
                    self.place[next] = Place::Operand(*operand);
                    if block.uses(*operand).1 {
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
        let Allocator { code, spilled, moves, .. } = self;
        let straight = StraightLine { before, repetition, body: code, spilled };
        Ok(Found { straight, moves })
    }

    /// Computes a sum into a register.
    fn sum(&mut self, value: Value, terms: &[(Value, Factor)], at: usize) -> Step<()> {
        if self.uses[value.0 as usize].is_empty() {
            for &(term, factor) in terms {
                self.used(term, at);
                if let Factor::Given(index) = factor {
                    self.used(self.map_value(index), at);
                }
            }
            return Ok(());
        }
        let mut terms = terms.to_vec();
        // A value that nobody needs any more becomes the sum.
        let dies = |&(term, factor): &(Value, Factor)| {
            let in_register = matches!(self.place[term.0 as usize], Place::Register(_));
            factor == ONE && in_register && self.uses[term.0 as usize] == [at]
        };
        let mut sum = None;
        if let Some(index) = terms.iter().position(dies) {
            let (term, _) = terms.remove(index);
            let register = self.register(term)?;
            self.used(term, at);
            self.locked.push(register);
            sum = Some(register);
        }
        // Memory can only be the last operand of an instruction: what is in registers goes first.
        terms.sort_by_key(|&(term, factor)| (self.in_memory(term, factor), factor == ONE));
        let mut terms = terms.into_iter();
        while let Some(first) = terms.next() {
            let (sum_now, second) = (sum, terms.next());
            sum = Some(match (sum_now, second) {
                (None, None) => self.product(first, at)?,
                (None, Some(second)) => self.two(first, second, at)?,
                (Some(sum), None) => {
                    let term = self.term(first, at)?;
                    self.xor(sum, sum, &term)?;
                    self.done(first.0, &term, at);
                    sum
                }
                (Some(sum), Some(second)) => {
                    self.three(sum, first, second, at)?;
                    sum
                }
            });
        }
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

    /// The first term alone: a product, in a register that becomes the sum.
    fn product(&mut self, (value, factor): (Value, Factor), at: usize) -> Step<usize> {
        let map = self.map(factor)?;
        let from = self.register(value)?;
        let to = self.target(value, from, at)?;
        match factor {
            ONE => {
                let copy = Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512;
                self.code.push(Instruction::with2(copy, zmm(to), zmm(from))?);
            }
            _ => self.multiply(to, from, factor, map, at)?,
        }
        Ok(to)
    }

    /// The sum of the first two terms, in a register that becomes the sum.
    fn two(&mut self, a: (Value, Factor), b: (Value, Factor), at: usize) -> Step<usize> {
        let first = self.term(a, at)?;
        let second = self.term(b, at)?;
        let Term::Register(left) = first else {
            // Both are in memory, or the order above has put a register first.
            let left = self.free_register()?;
            if let Term::Memory(place) = first {
                self.load(left, place)?;
            }
            self.xor(left, left, &second)?;
            self.done(a.0, &first, at);
            self.done(b.0, &second, at);
            self.lock(left);
            return Ok(left);
        };
        self.done(a.0, &first, at);
        self.done(b.0, &second, at);
        let sum = match self.holds[left] {
            None => left,
            Some(_) => self.free_register()?,
        };
        self.lock(sum);
        self.xor(sum, left, &second)?;
        Ok(sum)
    }

    fn three(&mut self, sum: usize, a: (Value, Factor), b: (Value, Factor), at: usize) -> Step<()> {
        let first = self.term(a, at)?;
        let second = self.term(b, at)?;
        let code = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        match (&first, &second) {
            (Term::Register(a), Term::Register(b)) => {
                self.code.push(Instruction::with4(code, zmm(sum), zmm(*a), zmm(*b), XOR3)?);
            }
            (Term::Register(a), Term::Memory(b)) | (Term::Memory(b), Term::Register(a)) => {
                self.code.push(Instruction::with4(code, zmm(sum), zmm(*a), *b, XOR3)?);
            }
            _ => {
                self.xor(sum, sum, &first)?;
                self.xor(sum, sum, &second)?;
            }
        }
        self.done(a.0, &first, at);
        self.done(b.0, &second, at);
        Ok(())
    }

    /// Whether a term can be an operand in memory: it is only used here, as it is, and lies in
    /// an operand that is not stored. Reading less than a vector takes an instruction of its own.
    fn in_memory(&self, value: Value, factor: Factor) -> bool {
        let index = value.0 as usize;
        let here = matches!(self.place[index], Place::Operand(_)) && self.source[index].is_some();
        here && factor == ONE && self.uses[index].len() == 1 && self.variant != CodeVariant::Rest
    }

    /// Makes a term ready: a product lies in a register that holds nothing else.
    fn term(&mut self, (value, factor): (Value, Factor), at: usize) -> Step<Term> {
        if self.in_memory(value, factor)
            && let Place::Operand(operand) = self.place[value.0 as usize]
        {
            return Ok(Term::Memory(self.operand(operand)?));
        }
        let map = self.map(factor)?;
        let from = self.register(value)?;
        if factor == ONE {
            return Ok(Term::Register(from));
        }
        let to = self.target(value, from, at)?;
        self.multiply(to, from, factor, map, at)?;
        Ok(Term::Register(to))
    }

    /// The register for a product of a value: its own if this is its last use.
    fn target(&mut self, value: Value, from: usize, at: usize) -> Step<usize> {
        let last = self.uses[value.0 as usize] == [at];
        if !last {
            let to = self.free_register()?;
            self.used(value, at);
            self.locked.retain(|&locked| locked != from);
            self.lock(to);
            return Ok(to);
        }
        self.used(value, at);
        self.lock(from);
        Ok(from)
    }

    /// After the instruction that takes a term.
    fn done(&mut self, value: Value, term: &Term, at: usize) {
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
                self.load(register, from)?;
            }
            Place::Map(index) => {
                let from = Places::given_map(self.block, index, &mut self.code)?;
                let code = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
                self.code.push(Instruction::with2(code, zmm(register), from)?);
            }
            Place::Stack(slot) => {
                let code = Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512;
                self.code.push(Instruction::with2(code, zmm(register), Places::spilled(slot))?);
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
        if let Some(register) = all.clone().find(free) {
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
                None if index >= self.block.values() => {
                    Place::Map((index - self.block.values()) as u32)
                }
                None => {
                    let slot = self.free_slots.pop().unwrap_or_else(|| {
                        self.spilled += 1;
                        self.spilled - 1
                    });
                    let code = Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
                    self.code.push(Instruction::with2(code, Places::spilled(slot), zmm(victim))?);
                    Place::Stack(slot)
                }
            };
        }
        Ok(victim)
    }

    /// The place of an operand's vector; from memory, what follows is asked for.
    fn operand(&mut self, operand: u32) -> Step<MemoryOperand> {
        let place = self.places.operand(self.block, operand, &mut self.code)?;
        if self.variant == CodeVariant::Memory
            && self.block.sides()[operand as usize] == Side::Input
        {
            let ahead = self.places.ahead(&place, operand, &mut self.code)?;
            self.code.push(Instruction::with1(Code::Prefetcht0_m8, ahead)?);
        }
        Ok(place)
    }

    /// The number of an open factor's map among values.
    fn map_value(&self, index: u32) -> Value {
        Value(self.block.values() as u32 + index)
    }

    fn kept_map(&self, index: usize) -> usize {
        REGISTERS - self.kept.len() + index
    }

    /// The register with the map of a factor, locked until it is used; none where it is not in one.
    fn map(&mut self, factor: Factor) -> Step<Option<usize>> {
        Ok(match factor {
            Factor::Given(index) => Some(self.register(self.map_value(index))?),
            Factor::Fixed(factor) => {
                let kept = self.kept.iter().position(|&kept| kept == factor);
                kept.map(|index| self.kept_map(index))
            }
        })
    }

    fn load(&mut self, to: usize, from: MemoryOperand) -> Step<()> {
        let load = match self.variant {
            CodeVariant::Rest => {
                let code = Code::EVEX_Vmovdqu8_zmm_k1z_zmmm512;
                let mut load = Instruction::with2(code, zmm(to), from)?;
                load.set_op_mask(Register::K1);
                load.set_zeroing_masking(true);
                load
            }
            _ => Instruction::with2(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, zmm(to), from)?,
        };
        self.code.push(load);
        Ok(())
    }

    fn store(&mut self, operand: u32, from: usize) -> Step<()> {
        let to = self.places.operand(self.block, operand, &mut self.code)?;
        let output = self.block.sides()[operand as usize] == Side::Output;
        let code = match self.variant {
            CodeVariant::Memory if output => Code::EVEX_Vmovntdq_m512_zmm,
            CodeVariant::Rest => Code::EVEX_Vmovdqu8_zmmm512_k1z_zmm,
            _ => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        };
        let mut store = Instruction::with2(code, to, zmm(from))?;
        if self.variant == CodeVariant::Rest {
            store.set_op_mask(Register::K1);
        }
        self.code.push(store);
        Ok(())
    }

    fn multiply(
        &mut self,
        to: usize,
        from: usize,
        factor: Factor,
        map: Option<usize>,
        at: usize,
    ) -> Step<()> {
        let code = Code::EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8;
        let multiply = match (map, factor) {
            (Some(map), _) => Instruction::with4(code, zmm(to), zmm(from), zmm(map), 0)?,
            (None, Factor::Fixed(factor)) => {
                Instruction::with4(code, zmm(to), zmm(from), Places::map(factor), 0)?
            }
            (None, Factor::Given(_)) => return Err(NoCode),
        };
        self.code.push(multiply);
        if let (Some(map), Factor::Given(index)) = (map, factor) {
            self.locked.retain(|&locked| locked != map);
            self.used(self.map_value(index), at);
        }
        Ok(())
    }

    fn xor(&mut self, to: usize, a: usize, b: &Term) -> Step<()> {
        let code = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
        let xor = match b {
            Term::Register(b) => Instruction::with3(code, zmm(to), zmm(a), zmm(*b))?,
            Term::Memory(b) => Instruction::with3(code, zmm(to), zmm(a), *b)?,
        };
        self.code.push(xor);
        Ok(())
    }
}

fn zmm(index: usize) -> Register {
    debug_assert!(index < REGISTERS);
    Register::ZMM0 + index as u32
}
