#![doc = include_str!("../README.md")]

mod error;
mod buf;
mod caches;
mod temporal;
pub mod field;
mod matrix;
mod generators;
mod block;
mod tuning;
mod kernel;
mod program;

pub use block::{Block, Factor, Side, Value};
pub use buf::AlignedBuf;
pub use caches::{CACHES_VARIABLE, Caches};
pub use error::GfError;
pub use generators::{GENERATORS, Generator, generator};
pub use kernel::{
    KERNEL_VARIABLE, KERNELS, Kernel, KernelRow, active, available, by_name, choices, oracle,
};
pub use matrix::Matrix;
pub use program::{Buffers, Call, KernelProgram, Product, ProgramSource, Routine, Shift, Unit};
pub use temporal::{Results, TemporalHint, working_set};
pub use tuning::{DataPath, TUNE_VARIABLE, Tuning};
