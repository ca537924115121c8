//! Blocks prepared for a kernel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::block::{Alike, Block, Factor, Op, Value};
use crate::kernel::engine::{Addressing, BlockCode, CodeVariant, Job, Operands};
use crate::{AlignedBuf, GfError, field::MUL, kernel::Kernel};

/// Bytes of work after which code is made.
const WORTH_CODE: usize = if cfg!(test) { 1 } else { 16 << 10 };
/// Bytes of work after which loops are unrolled: that is several times the code to be made.
const WORTH_UNROLLING: usize = if cfg!(test) { 2 << 10 } else { 1 << 20 };
/// Bytes that [`CodeVariant::Half`] takes.
const HALF: usize = 32;
/// Bytes that the interpreter takes of every operand at once.
const PIECE: usize = 256;

/// A [`Block`] prepared for one kernel. May be used by many threads at once.
#[derive(Debug, Clone)]
pub struct Routine {
    kernel: &'static dyn Kernel,
    block: Arc<Block>,
    lazy: Arc<Lazy>,
}

/// Code, or that the kernel makes none.
type Made = OnceLock<Option<Box<dyn BlockCode>>>;

/// Code that is made once there was enough work for it, for each way of running.
#[derive(Debug, Default)]
struct Lazy {
    work: AtomicUsize,
    /// By how operands are found, and way.
    code: [[Made; CodeVariant::ALL.len()]; Addressing::COUNT],
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

    /// The same for calls in which named operands share units and regions as given, and in which
    /// inputs and outputs have the same order or not.
    pub(super) fn with_alike(&self, alike: Alike) -> Routine {
        let block = Arc::new(self.block.with_alike(alike));
        Routine { kernel: self.kernel, block, lazy: Arc::default() }
    }

    /// The block.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The kernel this is prepared for.
    pub fn kernel(&self) -> &'static dyn Kernel {
        self.kernel
    }

    fn code(&self, variant: CodeVariant, addressing: Addressing) -> Option<&dyn BlockCode> {
        let code = &self.lazy.code[addressing as usize][variant as usize];
        let make = || self.kernel.code_gen()?.assemble(&self.block, variant, addressing);
        let code = code.get_or_init(make).as_deref();
        match variant {
            // A block that is too long for that, or there is no room.
            CodeVariant::Unrolled => code.or_else(|| self.code(CodeVariant::Cached, addressing)),
            _ => code,
        }
    }

    /// The best code there will be, if it is made.
    fn ready(
        &self,
        fetched: Option<CodeVariant>,
        addressing: Addressing,
    ) -> Option<&dyn BlockCode> {
        let made =
            |variant: CodeVariant| self.lazy.code[addressing as usize][variant as usize].get();
        match fetched {
            Some(variant) => made(variant)?.as_deref(),
            None if addressing == Addressing::Listed => made(CodeVariant::Cached)?.as_deref(),
            None => made(CodeVariant::Unrolled)?
                .as_deref()
                .or_else(|| made(CodeVariant::Cached)?.as_deref()),
        }
    }

    /// Runs all repetitions of a call.
    ///
    /// # Safety
    /// There is an address for every operand of every repetition, which is readable (and writable
    /// where it is stored) for `len` bytes, and a factor for each that is left to the call. Nothing
    /// that is stored shares a byte with another operand of its repetition.
    pub(super) unsafe fn execute(&self, job: &Job<'_>) {
        let addressing = job.operands.addressing();
        let fetched = job.memory.then_some(match job.stream {
            true => CodeVariant::Memory,
            false => CodeVariant::Fetched,
        });
        if let (Some(code), true) = (self.ready(fetched, addressing), job.len.is_multiple_of(64)) {
            // SAFETY: the caller promises the operands; the code was made from this block.
            return unsafe { code.run(job, 0..job.len) };
        }
        // Short operands cost as much as a vector.
        let work = job.len.max(64).saturating_mul(job.operands.repetitions());
        let made = self.lazy.work.fetch_add(work, Ordering::Relaxed).saturating_add(work);
        let variant = match fetched {
            Some(variant) => variant,
            None if addressing == Addressing::Listed || made < WORTH_UNROLLING => {
                CodeVariant::Cached
            }
            None => CodeVariant::Unrolled,
        };
        let done = if made < WORTH_CODE { 0 } else { self.execute_code(job, variant, addressing) };
        if done < job.len {
            // SAFETY: as promised; what code did is whole bytes from the start of every operand.
            unsafe { self.interpret(job, done) };
        }
    }

    /// Returns how many bytes of every operand are done: none where the kernel makes no code.
    fn execute_code(&self, job: &Job<'_>, variant: CodeVariant, addressing: Addressing) -> usize {
        let (whole, mut done) = (job.len / 64 * 64, 0);
        let fits = match job.operands {
            Operands::Listed { stride, dense, .. } => dense && stride == HALF,
            _ => job.len - whole == HALF,
        };
        let half = fits && self.code(CodeVariant::Half, addressing).is_some();
        let rest = if half { CodeVariant::Half } else { CodeVariant::Rest };
        for (variant, range) in [(variant, 0..whole), (rest, whole..job.len)] {
            if range.is_empty() {
                continue;
            }
            let Some(code) = self.code(variant, addressing) else { break };
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
        let mut values = AlignedBuf::zeroed(self.block.values() * PIECE);
        let mut places = Vec::with_capacity(self.block.sides().len());
        for repetition in 0..job.operands.repetitions() {
            job.operands.places(&self.block, repetition, &mut places);
            let given = &job.operands.given(&self.block, repetition)[..];
            for start in (from..job.len).step_by(PIECE) {
                let len = PIECE.min(job.len - start);
                let place = |operand: &u32| places[*operand as usize].wrapping_add(start);
                let mut next = 0;
                for op in self.block.ops() {
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
                            add_up(&mut sum[..len], known, terms, given);
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

fn add_up(sum: &mut [u8], known: &[u8], terms: &[(Value, Factor)], given: &[u8]) {
    sum.fill(0);
    for &(value, factor) in terms {
        let bytes = &known[value.0 as usize * PIECE..][..sum.len()];
        let factor = factor.of(given);
        let table = &MUL[usize::from(factor)];
        match factor {
            1 => sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte),
            _ => sum.iter_mut().zip(bytes).for_each(|(sum, &b)| *sum ^= table[usize::from(b)]),
        }
    }
}
