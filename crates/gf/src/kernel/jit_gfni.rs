//! GFNI by code made at run time: every matrix becomes straight-line machine code.
//!
//! Code for one matrix has what a loop over any matrix cannot have: each source is read by load
//! instructions of its own (a prefetcher that goes by the instruction's address then sees one
//! stream, not one that jumps from source to source), coefficients 0 and 1 cost no
//! multiplication, and bit-matrices that are used often stay in registers. The code takes
//! whole vectors; the bytes that are left over go to the `gfni` kernel, and so does all where no
//! executable memory is available.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::engine::{self, Addressing, CodeGen, CodeVariant, Engine, Pass, PassCode, Shape};
use super::jit::pages::{self, Pages};
use super::jit::x86::{X86, avx512, emit};
use super::jit::{self, call::BlockCode};
use super::{Kernel, avx512::WIDTH, gfni, jit::target::Target};
use crate::{block::Block, tuning::Fetch};

/// A value of this type proves that the CPU has GFNI, AVX-512F and AVX-512BW.
#[derive(Debug)]
struct Jit(&'static gfni::Gfni);

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    static JIT: std::sync::OnceLock<Option<Jit>> = std::sync::OnceLock::new();
    let jit = JIT.get_or_init(|| gfni::proof().map(Jit)).as_ref()?;
    Some(jit)
}

/// Signature of the code: addresses of sources and destinations, bit-matrices, bytes of each
/// operand (a multiple of 64), and how many of these are whole steps.
type Entry = unsafe extern "sysv64" fn(*const *const u8, *const *mut u8, *const u8, usize, usize);

/// Machine code for one matrix.
struct Code {
    /// Bytes that one turn of the loop takes of every operand.
    step: usize,
    /// Offset of the loop with ordinary stores, and of that with streaming stores.
    offsets: [usize; 2],
    pages: Pages,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({} bytes a step)", self.step)
    }
}

impl Code {
    fn new(shape: &Shape<'_>) -> Option<Code> {
        let (mut bytes, mut offsets) = (Vec::new(), [0; 2]);
        for (offset, stream) in offsets.iter_mut().zip([None, Some(Fetch::of_product())]) {
            bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
            *offset = bytes.len();
            bytes.extend(emit::assemble(shape, stream)?);
        }
        let pages = Pages::new(&bytes)?;
        Some(Code { step: emit::step(shape.rows), offsets, pages })
    }
}

impl PassCode for Code {
    unsafe fn run(&self, pass: &Pass<'_>) -> usize {
        let whole = pass.len / WIDTH * WIDTH;
        if whole == 0 {
            return 0;
        }
        let aligned = || pass.dsts.iter().all(|dst| dst.addr().is_multiple_of(64));
        let offset = self.offsets[usize::from(pass.stream && aligned())];
        // SAFETY: the pages hold what `assemble` made, an `Entry`, from this offset on, and live
        // as long as `self`.
        let entry: Entry = unsafe { std::mem::transmute(self.pages.address(offset)) };
        // SAFETY: the code reads one address per column and row and one map per coefficient,
        // all promised, and `whole` bytes, at most `len`, of each operand.
        unsafe {
            let steps = whole / self.step * self.step;
            entry(pass.srcs.as_ptr(), pass.dsts.as_ptr(), pass.tables.as_ptr(), whole, steps);
        }
        whole
    }
}

jit::kernel! {
    Jit.0 = "jit", vectors: WIDTH, most: (|_| 8)
}

/// The maps of all factors.
fn maps(jit: &Jit) -> &'static [u8] {
    static MAPS: OnceLock<Vec<u8>> = OnceLock::new();
    MAPS.get_or_init(|| {
        let mut maps = vec![0; 256 * jit.table_len()];
        for (factor, map) in (0..=255).zip(maps.chunks_mut(jit.table_len())) {
            jit.tabulate(factor, map);
        }
        maps
    })
}

impl CodeGen for Jit {
    /// Half of the registers: sources, products and maps take the others.
    fn block_sums(&self) -> usize {
        16
    }

    fn prepare(&self, shape: &Shape<'_>) -> Option<Arc<dyn PassCode>> {
        Some(Arc::new(Code::new(shape)?))
    }

    fn assemble(
        &self,
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<Box<dyn engine::BlockCode>> {
        if variant == CodeVariant::Half && block.pairs_depend() {
            return None;
        }
        let target = (target(variant, addressing)? as &dyn Target<X86>, maps(self));
        Some(Box::new(BlockCode::new(target, (block, Fetch::of(block)), variant, addressing)?))
    }
}

/// Returns what a value holds.
fn target(variant: CodeVariant, addressing: Addressing) -> Option<&'static avx512::Avx512> {
    match (variant, addressing) {
        (CodeVariant::Half, Addressing::Listed) => Some(&avx512::PAIRS),
        (CodeVariant::Half, _) => None,
        _ => Some(&avx512::WHOLE),
    }
}

#[cfg(test)]
mod tests;
