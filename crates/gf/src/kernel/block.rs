//! Straight-line programs over many operands: what a matrix cannot say without storing and loading
//! every intermediate value.
//!
//! A [`Block`] loads operands, adds multiples of values and stores results. It knows no addresses:
//! a [`Call`](super::Call) of a sequence says which units its operands are, and how often it is
//! repeated on units further on. A [`Routine`] is a block prepared for one kernel.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Kernel;
use super::engine::{BlockCode, Job, Way};
use crate::field::{MUL, mul};
use crate::{AlignedBuf, GfError};

/// What kind of region an operand of a block lies in. Repetitions of a call move all operands of
/// one side by the same number of units.
///
/// ```
/// assert_ne!(kiln_gf::Side::Input, kiln_gf::Side::Scratch);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// An input: only loaded.
    Input,
    /// An output: stored, past the caches where the data is in memory.
    Output,
    /// The scratch region.
    Scratch,
}

/// A value that a block has loaded or computed.
///
/// ```
/// let mut block = kiln_gf::Block::new();
/// let operand = block.operand(kiln_gf::Side::Input);
/// let value: kiln_gf::Value = block.load(operand);
/// assert_eq!(value, value.clone());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(super) u32);

/// One operation; every load and sum makes the next value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Load { operand: u32 },
    Sum { terms: Vec<(Value, u8)> },
    Store { operand: u32, value: Value },
}

/// A straight-line program: operands are loaded, combined and stored, byte by byte alike.
///
/// Values live in registers while there are enough (32 with the fastest kernel, of which
/// multiplications take a few); more are kept in memory by themselves. Loads happen where a value
/// is first used, so their order does not matter; sums are computed in the order they are given.
///
/// ```
/// use kiln_gf::{Block, Side};
/// let mut block = Block::new();
/// let [a, b, p, q] = [Side::Input, Side::Input, Side::Output, Side::Output]
///     .map(|side| block.operand(side));
/// let (x, y) = (block.load(a), block.load(b));
/// let sum = block.sum(&[(x, 1), (y, 1)]);
/// let other = block.sum(&[(sum, 1), (y, 3)]); // x + 2 y
/// block.store(p, sum);
/// block.store(q, other);
/// assert_eq!(block.eval(&[5, 6, 0, 0]), [5, 6, 5 ^ 6, 5 ^ 12]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Block {
    sides: Vec<Side>,
    /// Whether each operand is loaded, and whether it is stored.
    uses: Vec<(bool, bool)>,
    ops: Vec<Op>,
    values: u32,
}

impl Block {
    /// A block that does nothing.
    pub fn new() -> Block {
        Block::default()
    }

    /// A new operand; operands are numbered from 0.
    pub fn operand(&mut self, side: Side) -> u32 {
        self.sides.push(side);
        self.uses.push((false, false));
        self.sides.len() as u32 - 1
    }

    /// The value of an operand as it was before the block's store to it.
    pub fn load(&mut self, operand: u32) -> Value {
        if let Some((loaded, _)) = self.uses.get_mut(operand as usize) {
            *loaded = true;
        }
        self.push(Op::Load { operand })
    }

    /// The sum of multiples of values. Terms of one value are added up, zeros dropped.
    pub fn sum(&mut self, terms: &[(Value, u8)]) -> Value {
        let mut sum: Vec<(Value, u8)> = Vec::with_capacity(terms.len());
        for &(value, factor) in terms {
            match sum.iter_mut().find(|(known, _)| *known == value) {
                Some((_, known)) => *known ^= factor,
                None => sum.push((value, factor)),
            }
        }
        sum.retain(|&(_, factor)| factor != 0);
        match sum[..] {
            [(value, 1)] => value,
            _ => self.push(Op::Sum { terms: sum }),
        }
    }

    /// Stores a value; an operand is stored once, after all loads of it.
    pub fn store(&mut self, operand: u32, value: Value) {
        if let Some((_, stored)) = self.uses.get_mut(operand as usize) {
            *stored = true;
        }
        self.ops.push(Op::Store { operand, value });
    }

    fn push(&mut self, op: Op) -> Value {
        self.ops.push(op);
        self.values += 1;
        Value(self.values - 1)
    }

    /// The side of each operand.
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    pub(super) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Whether the operand is loaded, and whether it is stored.
    pub fn uses(&self, operand: u32) -> (bool, bool) {
        self.uses.get(operand as usize).copied().unwrap_or_default()
    }

    /// The most values that are alive at once, those that are loaded counted from their first use:
    /// up to about 28 stay in registers.
    pub fn pressure(&self) -> usize {
        let mut last = vec![0; self.values as usize];
        let mut first = vec![usize::MAX; self.values as usize];
        let mut next = 0;
        for (at, op) in self.ops.iter().enumerate() {
            for value in op.sources() {
                let value = value.0 as usize;
                last[value] = at;
                first[value] = first[value].min(at);
            }
            if !matches!(op, Op::Store { .. }) {
                if matches!(op, Op::Sum { .. }) {
                    first[next] = at;
                }
                next += 1;
            }
        }
        let mut change = vec![0_isize; self.ops.len() + 1];
        for (&first, &last) in first.iter().zip(&last).filter(|(first, last)| first < last) {
            change[first] += 1;
            change[last] -= 1;
        }
        let alive = change.iter().scan(0, |alive, change| {
            *alive += change;
            Some(*alive)
        });
        alive.max().unwrap_or(0) as usize + 1
    }

    /// What the block does to one byte an operand: the oracle, independent of every kernel.
    /// Operands that are missing count as zero.
    pub fn eval(&self, operands: &[u8]) -> Vec<u8> {
        let mut bytes = operands.to_vec();
        bytes.resize(self.sides.len(), 0);
        let mut values: Vec<u8> = Vec::with_capacity(self.values as usize);
        for op in &self.ops {
            match op {
                Op::Load { operand } => values.push(bytes[*operand as usize]),
                Op::Sum { terms } => values
                    .push(terms.iter().fold(0, |sum, &(v, c)| sum ^ mul(c, values[v.0 as usize]))),
                Op::Store { operand, value } => {
                    bytes[*operand as usize] = values[value.0 as usize];
                }
            }
        }
        bytes
    }

    /// Whether all operands and values exist before they are used, inputs are not stored, and no
    /// operand is loaded or stored after a store to it.
    fn check(&self) -> Result<(), GfError> {
        let shape = |what, expected, found| Err(GfError::Shape { what, expected, found });
        let (mut values, mut stored) = (0, vec![false; self.sides.len()]);
        for op in &self.ops {
            for value in op.sources() {
                if value.0 >= values {
                    return shape("values of a block", values as usize, value.0 as usize + 1);
                }
            }
            let (Op::Load { operand } | Op::Store { operand, .. }) = op else {
                values += 1;
                continue;
            };
            let index = *operand as usize;
            match stored.get_mut(index) {
                None => return shape("operands of a block", self.sides.len(), index + 1),
                Some(true) => return shape("uses of an operand after its store", 0, 1),
                Some(stored) => *stored = matches!(op, Op::Store { .. }),
            }
            match op {
                Op::Store { .. } if self.sides[index] == Side::Input => {
                    return Err(GfError::ReadOnly { index, region: 0 });
                }
                Op::Store { .. } => {}
                _ => values += 1,
            }
        }
        Ok(())
    }
}

impl Op {
    /// The values that the operation uses.
    pub(super) fn sources(&self) -> impl Iterator<Item = Value> + '_ {
        let (terms, stored) = match self {
            Op::Load { .. } => (&[][..], None),
            Op::Sum { terms } => (&terms[..], None),
            Op::Store { value, .. } => (&[][..], Some(*value)),
        };
        terms.iter().map(|&(value, _)| value).chain(stored)
    }
}

/// Bytes of work after which code is made.
const WORTH_CODE: usize = if cfg!(test) { 1 } else { 16 << 10 };
/// Bytes of work after which loops are unrolled: that is several times the code to be made.
const WORTH_UNROLLING: usize = if cfg!(test) { 2 << 10 } else { 1 << 20 };
/// Bytes that the interpreter takes of every operand at once.
const PIECE: usize = 256;

/// A [`Block`] prepared for one kernel. May be used by many threads at once.
///
/// ```
/// use kiln_gf::{Block, Routine, active};
/// let routine = Routine::new(active()?, Block::new())?;
/// assert_eq!(routine.block().sides(), []);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Routine {
    kernel: &'static dyn Kernel,
    block: Arc<Block>,
    lazy: Arc<Lazy>,
}

/// Code that is made once there was enough work for it, for each way of running.
#[derive(Debug, Default)]
struct Lazy {
    work: AtomicUsize,
    code: [OnceLock<Option<BlockCode>>; Way::ALL.len()],
}

impl Routine {
    /// Prepares a block.
    ///
    /// # Errors
    /// The block uses operands or values that it does not have, stores an input, or uses an
    /// operand after storing it.
    pub fn new(kernel: &'static dyn Kernel, block: Block) -> Result<Routine, GfError> {
        block.check()?;
        Ok(Routine { kernel, block: Arc::new(block), lazy: Arc::default() })
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The kernel this is prepared for.
    pub fn kernel(&self) -> &'static dyn Kernel {
        self.kernel
    }

    fn code(&self, way: Way) -> Option<&BlockCode> {
        let code = &self.lazy.code[way as usize];
        let code = code.get_or_init(|| self.kernel.assemble(&self.block, way)).as_ref();
        match way {
            // A block that is too long for that, or there is no room.
            Way::Unrolled => code.or_else(|| self.code(Way::Cached)),
            _ => code,
        }
    }

    /// The best code there will be, if it is made.
    fn ready(&self, memory: bool) -> Option<&BlockCode> {
        let made = |way: Way| self.lazy.code[way as usize].get();
        match memory {
            true => made(Way::Memory)?.as_ref(),
            false => made(Way::Unrolled)?.as_ref().or_else(|| made(Way::Cached)?.as_ref()),
        }
    }

    /// Runs all repetitions of a call.
    ///
    /// # Safety
    /// There is an address for every operand, and moved by every shift of its side it is readable
    /// (and writable where it is stored) for `len` bytes. Nothing that is stored shares a byte with
    /// another operand of its repetition.
    pub(super) unsafe fn execute(&self, job: &Job<'_>) {
        let memory = job.memory && job.stream;
        if let (Some(code), true) = (self.ready(memory), job.len.is_multiple_of(64)) {
            // SAFETY: the caller promises the operands; the code was made from this block.
            return unsafe { code.run(job, 0..job.len) };
        }
        // Short operands cost as much as a vector.
        let work = job.len.max(64).saturating_mul(job.shifts.len());
        let made = self.lazy.work.fetch_add(work, Ordering::Relaxed).saturating_add(work);
        let way = match memory {
            true => Way::Memory,
            false if made < WORTH_UNROLLING => Way::Cached,
            false => Way::Unrolled,
        };
        let done = if made < WORTH_CODE { 0 } else { self.execute_code(job, way) };
        if done < job.len {
            // SAFETY: as promised; what code did is whole bytes from the start of every operand.
            unsafe { self.interpret(job, done) };
        }
    }

    /// Returns how many bytes of every operand are done: none where the kernel makes no code.
    fn execute_code(&self, job: &Job<'_>, way: Way) -> usize {
        let whole = job.len / 64 * 64;
        let mut done = 0;
        for (way, range) in [(way, 0..whole), (Way::Rest, whole..job.len)] {
            if range.is_empty() {
                continue;
            }
            let Some(code) = self.code(way) else { break };
            done = range.end;
            // SAFETY: `execute`'s caller promised the operands, of which `range` is a part; the
            // code was made from this block for this way.
            unsafe { code.run(job, range) };
        }
        done
    }

    /// The block as it is written, from byte `from` of every operand on.
    ///
    /// # Safety
    /// As [`Routine::execute`].
    unsafe fn interpret(&self, job: &Job<'_>, from: usize) {
        let mut values = AlignedBuf::zeroed(self.block.values as usize * PIECE);
        for shift in job.shifts {
            for start in (from..job.len).step_by(PIECE) {
                let len = PIECE.min(job.len - start);
                let place = |operand: &u32| {
                    let index = *operand as usize;
                    let shift = shift[self.block.sides[index] as usize];
                    job.slots[index].wrapping_add(shift + start)
                };
                let mut next = 0;
                for op in &self.block.ops {
                    match op {
                        Op::Load { operand } => {
                            // SAFETY: the operand's bytes are readable, the value is our own.
                            unsafe {
                                let to = values[next * PIECE..].as_mut_ptr();
                                to.copy_from_nonoverlapping(place(operand), len);
                            }
                            next += 1;
                        }
                        Op::Sum { terms } => {
                            let (known, sum) = values.split_at_mut(next * PIECE);
                            add_up(&mut sum[..len], known, terms);
                            next += 1;
                        }
                        Op::Store { operand, value } => {
                            let value = &values[value.0 as usize * PIECE..][..len];
                            // SAFETY: the operand's bytes are writable and no part of `values`.
                            unsafe {
                                place(operand).copy_from_nonoverlapping(value.as_ptr(), len);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn add_up(sum: &mut [u8], known: &[u8], terms: &[(Value, u8)]) {
    sum.fill(0);
    for &(value, factor) in terms {
        let bytes = &known[value.0 as usize * PIECE..][..sum.len()];
        let table = &MUL[usize::from(factor)];
        match factor {
            1 => sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte),
            _ => sum.iter_mut().zip(bytes).for_each(|(sum, &b)| *sum ^= table[usize::from(b)]),
        }
    }
}
