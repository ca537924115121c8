//! Asking for data ahead of its use: into which cache.
//!
//! Lines on their way into the first level are few (24 on Zen 4), and blocks on data in memory load
//! from more streams than the hardware follows by itself. AMD's processors keep what is asked for
//! into the second level apart from those: on Zen 4 Clay codes from DRAM gained 14 to 45%
//! (docs/results/zen4.md). What others do with it was not measured.

use std::sync::OnceLock;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand};

/// Where a line is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super::super) enum Level {
    First,
    Second,
}

impl Level {
    /// The better one here; asked once.
    pub(in super::super::super) fn here() -> Level {
        static HERE: OnceLock<Level> = OnceLock::new();
        *HERE.get_or_init(|| match is_amd() {
            true => Level::Second,
            false => Level::First,
        })
    }
}

/// The instruction that asks for a line.
pub(super) fn one(level: Level, at: MemoryOperand) -> Result<Instruction, IcedError> {
    let code = match level {
        Level::First => Code::Prefetcht0_m8,
        Level::Second => Code::Prefetcht1_m8,
    };
    Instruction::with1(code, at)
}

/// Whether an instruction is such a one.
pub(super) fn is_one(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Prefetcht0_m8 | Code::Prefetcht1_m8)
}

/// Whether AMD made this processor, or Hygon, whose are of that kind.
fn is_amd() -> bool {
    use std::arch::x86_64::__cpuid;
    #[allow(unused_unsafe)] // it is safe from some compiler on
    // SAFETY: every x86-64 has the instruction.
    let found = unsafe { __cpuid(0) };
    let name = [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes).concat();
    name == b"AuthenticAMD" || name == b"HygonGenuine"
}
