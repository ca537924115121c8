//! AVX2 by code made at run time: what `jit` is for AVX-512 and GFNI.
//!
//! A matrix is a block like others: its code loads every source once, keeps the sums of the rows in
//! registers, and cuts a source into halves once for all rows. Coefficients 0 and 1 take no
//! look-up.

use std::sync::Arc;

use super::avx2::{self, Avx2};
use super::engine::{self, Addressing, CodeGen, CodeVariant, Engine, Pass, PassCode, Shape};
use super::jit::x86::avx2::{HALF_PRODUCTS, LINES, PRODUCTS, SUMS, tables};
use super::jit::{self, call::BlockCode, pages};
use super::{Kernel, jit::matrix::MatrixCode, jit::target::Target, jit::x86::X86};
use crate::{block::Block, tuning::Fetch};

/// A value of this type proves that the CPU has AVX2.
#[derive(Debug)]
struct JitAvx2(&'static Avx2);

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    static JIT: std::sync::OnceLock<Option<JitAvx2>> = std::sync::OnceLock::new();
    let jit = JIT.get_or_init(|| avx2::proof().map(JitAvx2)).as_ref()?;
    Some(jit)
}

jit::kernel! {
    JitAvx2.0 = "jit-avx2", vectors: avx2::WIDTH, most: Avx2::most_rows
}

impl CodeGen for JitAvx2 {
    /// Of seven places for values the halves of one take two, and the next one takes one.
    fn block_sums(&self) -> usize {
        4
    }

    fn prepare(&self, shape: &Shape<'_>) -> Option<Arc<dyn PassCode>> {
        let code = MatrixCode::new(shape, |block, variant| {
            let fetch = Fetch::of_product_block(block);
            let target = (target(block, variant), tables());
            BlockCode::new(target, (block, fetch), variant, Addressing::Moved)
        });
        Some(Arc::new(code?))
    }

    fn assemble(
        &self,
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<Box<dyn engine::BlockCode>> {
        let (target, fetch) = ((target(block, variant), tables()), Fetch::of(block));
        Some(Box::new(BlockCode::new(target, (block, fetch), variant, addressing)?))
    }
}

/// Returns how the registers are used for a block.
fn target(block: &Block, variant: CodeVariant) -> &'static dyn Target<X86> {
    match variant {
        CodeVariant::Half if block.multiplies() => &HALF_PRODUCTS,
        _ if block.multiplies() => &PRODUCTS,
        CodeVariant::Memory => &LINES,
        _ => &SUMS,
    }
}
