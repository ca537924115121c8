//! Arithmetic over GF(2^8), small matrices, the field's named generator matrices, and the SIMD
//! kernels that multiply a matrix with byte streams.
//!
//! The field is GF(2^8) with polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2, as in
//! ISA-L, Jerasure and Ceph. This is the only crate of kiln that holds unsafe code, and only in
//! `kernel.rs` and below it.
//!
//! ```
//! use kiln_gf::{Product, active, generator};
//!
//! let parity = generator("cauchy")?.parity(4, 2)?;
//! let product = Product::new(active()?, &parity);
//! let chunk = |j| (0..100).map(|i| (i * 7 + j) as u8).collect();
//! let data: Vec<Vec<u8>> = (0..4).map(chunk).collect();
//! let srcs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
//! let (mut p, mut q) = (vec![0; 100], vec![0; 100]);
//! product.run(&srcs, &mut [&mut p, &mut q])?;
//! // Row 0 of the default generator is all ones: plain XOR.
//! assert!((0..100).all(|i| p[i] == data.iter().fold(0, |sum, chunk| sum ^ chunk[i])));
//! # Ok::<(), kiln_gf::GfError>(())
//! ```

pub mod buf;
mod error;
pub mod field;
mod generators;
pub mod kernel;
pub mod matrix;

pub use buf::AlignedBuf;
pub use error::GfError;
pub use kernel::{Block, Factor, Routine, Side, Value};
pub use kernel::{Buffers, Call, Footprint, Listing, Sequence, Shift, Unit};
#[cfg(any(test, feature = "paper"))]
pub use kernel::{FAN_MAX, Fan, Fans};
pub use kernel::{KERNELS, Kernel, KernelRow, Product, active, available, by_name};
pub use matrix::{GENERATORS, Generator, Matrix, generator};
