//! AVX2 by code made at run time: what `jit` is for AVX-512 and GFNI.
//!
//! A matrix is a block like others: its code loads every source once, keeps the sums of the rows in
//! registers, and cuts a source into halves once for all rows. Coefficients 0 and 1 take no
//! look-up.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Kernel;
use super::avx2::{self, Avx2};
use super::engine::{
    self, Addressing, CodeGen, CodeVariant, Engine, Job, Operands, Pass, PassCode, Shape,
};
use super::jit::avx2::{LINES, PRODUCTS, SUMS, tables};
use super::jit::block::BlockCode;
use super::jit::pages;
use super::jit::target::Target;
use crate::block::{Block, Factor, Op, Side, Value};

/// Code is made for matrices with at most so many coefficients.
const MOST_COEFFICIENTS: usize = 512;
/// Operands of a pass whose addresses need no allocation.
const FEW: usize = 24;

/// A value of this type proves that the CPU has AVX2.
#[derive(Debug)]
struct JitAvx2(&'static Avx2);

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    static JIT: std::sync::OnceLock<Option<JitAvx2>> = std::sync::OnceLock::new();
    let jit = JIT.get_or_init(|| avx2::proof().map(JitAvx2)).as_ref()?;
    Some(jit)
}

impl Kernel for JitAvx2 {
    fn name(&self) -> &'static str {
        "jit-avx2"
    }

    fn vector_len(&self) -> usize {
        avx2::WIDTH
    }
}

/// Code for one matrix: for data in the caches, and in memory.
#[derive(Debug)]
struct Code([BlockCode; 2]);

impl PassCode for Code {
    unsafe fn run(&self, pass: &Pass<'_>) -> usize {
        let whole = pass.len / 64 * 64;
        let stream = pass.stream && pass.dsts.iter().all(|dst| dst.addr().is_multiple_of(64));
        // Sources are only loaded.
        let sources = pass.srcs.iter().map(|source| source.cast_mut());
        let slots: SmallVec<[*mut u8; FEW]> = sources.chain(pass.dsts.iter().copied()).collect();
        let operands = Operands::Moved { slots: &slots, shifts: &[[0; 3]] };
        let job = Job { operands, len: pass.len, memory: stream, stream };
        // SAFETY: the block has an operand for each source and each destination, in this order; the
        // caller promises `len` bytes of all of them and that destinations are nothing else.
        unsafe { engine::BlockCode::run(&self.0[usize::from(stream)], &job, 0..whole) };
        whole
    }
}

impl Engine for JitAvx2 {
    fn most_rows(&self) -> usize {
        self.0.most_rows()
    }

    fn table_len(&self) -> usize {
        self.0.table_len()
    }

    fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
        self.0.tabulate(coefficient, table);
    }

    fn code_gen(&self) -> Option<&dyn CodeGen> {
        pages::are_allowed().then_some(self)
    }

    unsafe fn pass(&self, pass: &Pass<'_>) {
        // SAFETY: the caller vouches for the operands, `self` for the CPU, and a pass brings the
        // code that `prepare` made for its coefficients. What the code leaves is within `len`.
        unsafe {
            let done = match pass.code {
                Some(code) if !pass.add => code.run(pass),
                _ => 0,
            };
            if done < pass.len {
                self.0.pass_from(pass, done);
            }
        }
    }
}

impl CodeGen for JitAvx2 {
    /// Of seven places for values the halves of one take two, and the next one takes one.
    fn block_sums(&self) -> usize {
        4
    }

    fn prepare(&self, shape: &Shape<'_>) -> Option<Arc<dyn PassCode>> {
        if shape.rows == 0 || shape.cols == 0 || shape.coefficients.len() > MOST_COEFFICIENTS {
            return None;
        }
        let block = product(shape);
        let make = |variant| {
            BlockCode::new((target(&block, variant), tables()), &block, variant, Addressing::Moved)
        };
        let cached = make(CodeVariant::Unrolled).or_else(|| make(CodeVariant::Cached))?;
        Some(Arc::new(Code([cached, make(CodeVariant::Memory)?])))
    }

    fn assemble(
        &self,
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<Box<dyn engine::BlockCode>> {
        let made = BlockCode::new((target(block, variant), tables()), block, variant, addressing)?;
        Some(Box::new(made))
    }
}

/// How the registers are used for a block.
fn target(block: &Block, variant: CodeVariant) -> &'static dyn Target {
    let multiplies = block.ops().iter().any(|op| match op {
        Op::Sum { terms } => terms.iter().any(|&(_, factor)| factor != Factor::Fixed(1)),
        _ => false,
    });
    match variant {
        _ if multiplies => &PRODUCTS,
        CodeVariant::Memory => &LINES,
        _ => &SUMS,
    }
}

/// A matrix as a block: all rows of one column after the other.
fn product(shape: &Shape<'_>) -> Block {
    let mut block = Block::new();
    let sources: Vec<u32> = (0..shape.cols).map(|_| block.operand(Side::Input)).collect();
    let results: Vec<u32> = (0..shape.rows).map(|_| block.operand(Side::Output)).collect();
    let mut sums: Vec<Option<Value>> = vec![None; shape.rows];
    for (source, column) in sources.into_iter().zip(shape.coefficients.chunks(shape.rows)) {
        let value = block.load(source);
        for (sum, &coefficient) in sums.iter_mut().zip(column).filter(|(_, c)| **c != 0) {
            let terms: Vec<(Value, u8)> =
                sum.map(|sum| (sum, 1)).into_iter().chain([(value, coefficient)]).collect();
            *sum = Some(block.sum(&terms));
        }
    }
    for (result, sum) in results.into_iter().zip(sums) {
        let sum = sum.unwrap_or_else(|| block.sum(&[]));
        block.store(result, sum);
    }
    block
}
