//! Matrices as blocks, and the code of them.

use super::super::engine::{self, CodeVariant, Job, Operands, Pass, PassCode, Shape};
use super::{call::BlockCode, target::Machine};
use crate::block::{Block, Side, Value};
use smallvec::SmallVec;

/// Code is made for matrices with at most so many coefficients.
const MOST_COEFFICIENTS: usize = 512;
/// Operands of a pass whose addresses need no allocation.
const FEW: usize = 24;

/// Code for one matrix: for data in the caches, and in memory.
#[derive(Debug)]
pub(in super::super) struct MatrixCode<M: Machine>([BlockCode<M>; 2]);

impl<M: Machine> MatrixCode<M> {
    /// The code of a matrix, where it is not too large, by who makes that of blocks.
    pub(in super::super) fn new(
        shape: &Shape<'_>,
        make: impl Fn(&Block, CodeVariant) -> Option<BlockCode<M>>,
    ) -> Option<MatrixCode<M>> {
        if shape.rows == 0 || shape.cols == 0 || shape.coefficients.len() > MOST_COEFFICIENTS {
            return None;
        }
        let block = product(shape);
        let cached =
            make(&block, CodeVariant::Unrolled).or_else(|| make(&block, CodeVariant::Cached))?;
        Some(MatrixCode([cached, make(&block, CodeVariant::Memory)?]))
    }
}

impl<M: Machine> PassCode for MatrixCode<M> {
    unsafe fn run(&self, pass: &Pass<'_>) -> usize {
        let whole = pass.len / 64 * 64;
        let stream = pass.stream && pass.dsts.iter().all(|dst| dst.addr().is_multiple_of(64));
        // Sources are only loaded.
        let sources = pass.srcs.iter().map(|source| source.cast_mut());
        let slots: SmallVec<[*mut u8; FEW]> = sources.chain(pass.dsts.iter().copied()).collect();
        let operands = Operands::Moved { slots: &slots, shifts: &[[0; 4]] };
        let job = Job { operands, len: pass.len, memory: stream, stream };
        // SAFETY: the block has an operand for each source and each destination, in this order; the
        // caller promises `len` bytes of all of them and that destinations are nothing else.
        unsafe { engine::BlockCode::run(&self.0[usize::from(stream)], &job, 0..whole) };
        whole
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
