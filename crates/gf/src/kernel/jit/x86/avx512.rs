//! Vectors of AVX-512 with GFNI: 32 registers of 64 bytes, a product by one instruction, masks for
//! what is less than whole.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::super::super::avx512::{WIDTH, XOR3};
use super::super::target::{self, Maps, Products, Store, Target, Written};
use super::operand_addressing::{ARGUMENTS, Places, REST_BYTES};
use super::{X86, fetch};
use crate::{block::Block, tuning::Level};

type Listing = target::Listing<X86>;
type Term = target::Term<X86>;

/// Vector registers of the CPU.
const REGISTERS: usize = 32;

/// The upper half of the quarters of a value.
const SECOND: u64 = 0xf0;

/// The targets that `jit` makes code for.
pub(in super::super::super) struct Avx512 {
    /// True if a value is of two repetitions, 32 bytes of each.
    pairs: bool,
}

/// A value of each repetition.
pub(in super::super::super) static WHOLE: Avx512 = Avx512 { pairs: false };
/// A value of two repetitions with lists.
pub(in super::super::super) static PAIRS: Avx512 = Avx512 { pairs: true };

impl Target<X86> for Avx512 {
    fn width(&self) -> usize {
        WIDTH
    }

    fn registers(&self) -> usize {
        REGISTERS
    }

    fn products(&self) -> Products<'_, X86> {
        Products::Maps(self)
    }

    fn takes_memory(&self) -> bool {
        true
    }

    fn enter(&self, whole: bool, code: &mut Listing) -> Written {
        if !whole || self.pairs {
            let mask = MemoryOperand::with_base_displ(ARGUMENTS, REST_BYTES as i64);
            code.push(Instruction::with2(Code::VEX_Kmovq_kr_km64, Register::K1, mask)?);
        }
        Ok(())
    }

    fn rest_slots(&self) -> usize {
        0
    }

    /// Returns which bytes, as a mask; or which quarters are of the second repetition.
    fn rest_bytes(&self, bytes: usize) -> u64 {
        if self.pairs { SECOND } else { !0 >> (WIDTH - bytes) }
    }

    fn pairs(&self) -> bool {
        self.pairs
    }

    fn load_half(
        &self,
        to: usize,
        from: MemoryOperand,
        second: bool,
        code: &mut Listing,
    ) -> Written {
        let load = Code::EVEX_Vbroadcasti64x4_zmm_k1z_m256;
        code.push(masked(Instruction::with2(load, zmm(to), from)?, second));
        Ok(())
    }

    fn store_half(
        &self,
        to: MemoryOperand,
        from: usize,
        second: bool,
        code: &mut Listing,
    ) -> Written {
        let store = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        code.push(Instruction::with3(store, to, zmm(from), i32::from(second))?);
        Ok(())
    }

    fn fetch(&self, level: Level, at: MemoryOperand, code: &mut Listing) -> Written {
        code.push(fetch::one(level, at)?);
        Ok(())
    }

    fn load(&self, to: usize, from: MemoryOperand, whole: bool, code: &mut Listing) -> Written {
        code.push(match whole {
            true => Instruction::with2(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, zmm(to), from)?,
            false => {
                let code = Code::EVEX_Vmovdqu8_zmm_k1z_zmmm512;
                let mut load = Instruction::with2(code, zmm(to), from)?;
                load.set_op_mask(Register::K1);
                load.set_zeroing_masking(true);
                load
            }
        });
        Ok(())
    }

    fn store(&self, to: MemoryOperand, from: usize, how: Store, code: &mut Listing) -> Written {
        let store = match how {
            Store::Streamed => Code::EVEX_Vmovntdq_m512_zmm,
            Store::Rest => Code::EVEX_Vmovdqu8_zmmm512_k1z_zmm,
            Store::Whole => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        };
        let mut store = Instruction::with2(store, to, zmm(from))?;
        if how == Store::Rest {
            store.set_op_mask(Register::K1);
        }
        code.push(store);
        Ok(())
    }

    fn copy(&self, to: usize, from: usize, code: &mut Listing) -> Written {
        let copy = Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512;
        code.push(Instruction::with2(copy, zmm(to), zmm(from))?);
        Ok(())
    }

    fn xor(&self, to: usize, a: usize, b: &Term, code: &mut Listing) -> Written {
        let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
        code.push(match b {
            Term::Register(b) => Instruction::with3(xor, zmm(to), zmm(a), zmm(*b))?,
            Term::Memory(b) => Instruction::with3(xor, zmm(to), zmm(a), *b)?,
        });
        Ok(())
    }
}

impl Maps<X86> for Avx512 {
    fn map(&self, factor: u8) -> MemoryOperand {
        Places::map(factor)
    }

    fn given_map(&self, to: usize, block: &Block, index: u32, code: &mut Listing) -> Written {
        let apart = self.pairs && !block.pairs_share_factor(index);
        for second in if apart { &[false, true][..] } else { &[false] } {
            let map = Places::given_map(block, index, *second, code)?;
            let broadcast = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
            code.push(masked(Instruction::with2(broadcast, zmm(to), map)?, *second));
        }
        Ok(())
    }

    fn broadcast(&self, to: usize, from: MemoryOperand, code: &mut Listing) -> Written {
        // The instruction does that itself.
        let from = MemoryOperand { is_broadcast: false, ..from };
        let broadcast = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
        code.push(Instruction::with2(broadcast, zmm(to), from)?);
        Ok(())
    }

    fn multiply(&self, to: usize, from: usize, map: &Term, code: &mut Listing) -> Written {
        let multiply = Code::EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8;
        code.push(match map {
            Term::Register(map) => Instruction::with4(multiply, zmm(to), zmm(from), zmm(*map), 0)?,
            Term::Memory(map) => Instruction::with4(multiply, zmm(to), zmm(from), *map, 0)?,
        });
        Ok(())
    }

    fn three(&self, sum: usize, a: usize, b: &Term, code: &mut Listing) -> Written {
        let three = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        code.push(match b {
            Term::Register(b) => Instruction::with4(three, zmm(sum), zmm(a), zmm(*b), XOR3)?,
            Term::Memory(b) => Instruction::with4(three, zmm(sum), zmm(a), *b, XOR3)?,
        });
        Ok(())
    }
}

/// The instruction, or what it does to the quarters of the second repetition only.
fn masked(mut instruction: Instruction, second: bool) -> Instruction {
    if second {
        instruction.set_op_mask(Register::K1);
    }
    instruction
}

fn zmm(index: usize) -> Register {
    debug_assert!(index < REGISTERS);
    Register::ZMM0 + index as u32
}
