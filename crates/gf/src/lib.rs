#![doc = include_str!("../README.md")]

mod block;
mod buf;
mod error;
pub mod field;
mod generators;
mod kernel;
mod matrix;
mod program;
mod temporal;

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
