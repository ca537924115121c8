//! NEON by code made at run time: what `jit-avx2` is for AVX2.
//!
//! The code uses the instruction that adds three values (FEAT_SHA3) if the CPU has it.

use std::arch::is_aarch64_feature_detected;
use std::sync::{Arc, OnceLock};

use super::engine::{self, Addressing, CodeGen, CodeVariant, Engine, Pass, PassCode, Shape};
use super::jit::arm::neon::{MATRIX, Neon as Registers, PRODUCTS, SUMS, tables};
use super::jit::{self, call::BlockCode, pages};
use super::neon::{self, Neon};
use super::{Kernel, jit::arm::Arm, jit::matrix::MatrixCode};
use crate::{block::Block, tuning::Fetch};

/// Values of this type prove that the CPU has NEON, and FEAT_SHA3 where `three` says so.
#[derive(Debug)]
struct JitNeon {
    neon: &'static Neon,
    three: bool,
}

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    static JIT: OnceLock<Option<JitNeon>> = OnceLock::new();
    let make = |neon| JitNeon { neon, three: is_aarch64_feature_detected!("sha3") };
    let jit = JIT.get_or_init(|| neon::proof().map(make)).as_ref()?;
    Some(jit)
}

impl JitNeon {
    /// The code of a block, with registers used as `products` say where it has any.
    fn code(
        &self,
        products: &'static [Registers; 2],
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<BlockCode<Arm>> {
        if variant == CodeVariant::Half {
            return None; // a register has less
        }
        let ways = if block.multiplies() { products } else { &SUMS };
        let block = (block, Fetch::of(block));
        BlockCode::new((&ways[usize::from(self.three)], tables()), block, variant, addressing)
    }
}

jit::kernel! {
    JitNeon.neon = "jit-neon", vectors: neon::WIDTH, most: Neon::most_rows
}

impl CodeGen for JitNeon {
    /// Of thirteen places for values the halves of one take two, and the next one takes one.
    fn block_sums(&self) -> usize {
        10
    }

    fn prepare(&self, shape: &Shape<'_>) -> Option<Arc<dyn PassCode>> {
        let code = MatrixCode::new(shape, |block, variant| {
            self.code(&MATRIX, block, variant, Addressing::Moved)
        });
        Some(Arc::new(code?))
    }

    fn assemble(
        &self,
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<Box<dyn engine::BlockCode>> {
        Some(Box::new(self.code(&PRODUCTS, block, variant, addressing)?))
    }
}
