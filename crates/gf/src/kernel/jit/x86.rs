//! x86-64.

pub(in super::super) mod fetch;
pub(in super::super) mod emit;
mod operand_addressing;
pub(in super::super) mod avx2;
pub(in super::super) mod avx512;
mod block;

use super::target::NoCode;
use iced_x86::IcedError;

/// Its instructions.
#[derive(Debug)]
pub(in super::super) struct X86;

impl From<IcedError> for NoCode {
    fn from(_: IcedError) -> NoCode {
        NoCode
    }
}
