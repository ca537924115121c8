#![doc = include_str!("../README.md")]

mod error;
mod buf;
pub mod field;
mod block;
mod kernel;
mod matrix;
mod generators;
mod temporal;
mod program;

pub use block::{Block, Factor, Side, Value};
pub use buf::AlignedBuf;
pub use error::GfError;
pub use generators::{GENERATORS, Generator, generator};
pub use kernel::{KERNEL_VARIABLE, KERNELS, Kernel, KernelRow, active, available, by_name, oracle};
pub use matrix::Matrix;
pub use program::{Buffers, Call, KernelProgram, Product, ProgramSource, Routine, Shift, Unit};
#[cfg(any(test, feature = "paper"))]
pub use program::{FAN_MAX, Fan, Fans};
pub use temporal::{Caches, Results, TemporalHint, working_set};
