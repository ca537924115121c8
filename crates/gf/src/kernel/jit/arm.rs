//! AArch64.
//!
//! Before a repetition the address of every operand is found, however operands are addressed; then
//! one loop is as good as another. Addresses stay in registers, as many as there are for them, and
//! move on with the loop: a load or a store then is one instruction for two vectors.

mod encode;
mod operand_addressing;
mod block;
pub(in super::super) mod neon;
#[cfg(test)]
mod tests;

/// Its instructions.
#[derive(Debug)]
pub(in super::super) struct Arm;
