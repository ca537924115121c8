//! Machine code made at run time: what is common to the kernels that make it.
//!
//! `allocate` turns a block into a straight line of instructions, `call` runs what the architecture
//! (`x86`, `arm`) made of it, `matrix` sees matrices as blocks.

pub(super) mod pages;
pub(super) mod target;
mod allocate;
pub(super) mod call;
pub(super) mod matrix;
#[cfg(any(target_arch = "aarch64", test))] // its code can be made, though not run, everywhere
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(super) mod arm;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;
