//! Programs over byte streams: matrices and blocks of straight-line code, prepared for a kernel,
//! and lists of them over the units of buffers. Every entry checks its operands, also in release
//! builds.

#[cfg(any(test, feature = "paper"))]
mod fans;
mod product;
mod program;
mod routine;

#[cfg(any(test, feature = "paper"))]
pub use fans::{FAN_MAX, Fan, Fans};
pub use product::Product;
pub use program::{Buffers, Call, KernelProgram, ProgramSource, Shift, Unit};
pub use routine::Routine;
