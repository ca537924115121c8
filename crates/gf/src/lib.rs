#![doc = include_str!("../README.md")]

mod block;
mod buf;
mod error;
pub mod field;
mod generators;
mod kernel;
mod matrix;
mod vm;

pub use block::{Block, Factor, Side, Value};
pub use buf::AlignedBuf;
pub use error::GfError;
pub use generators::{GENERATORS, Generator, generator};
pub use kernel::{KERNEL_VARIABLE, KERNELS, Kernel, KernelRow, active, available, by_name};
pub use matrix::Matrix;
pub use vm::{
    Buffers, Call, KernelProgram, Product, ProgramSource, Routine, Shift, TemporalHint, Unit,
};
#[cfg(any(test, feature = "paper"))]
pub use vm::{FAN_MAX, Fan, Fans};
