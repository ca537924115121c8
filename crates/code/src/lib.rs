//! Erasure codes as linear DAGs over sub-chunks, and the executor that runs them.
//!
//! A code of this crate knows nothing of disks or machines. It says, for encode, for decode of any
//! loss and for repair of any loss, which sub-chunks are read and how they are combined: a
//! [`Dag`]. Everything else works on that DAG and never asks which code it is.
//!
//! ```
//! use kiln_code::{CodeSpec, Codec};
//!
//! let spec: CodeSpec = "clay:4+2".parse()?;
//! let codec = Codec::new(&spec)?;
//! let shape = codec.shape();
//! let chunk = shape.alpha * 16; // 16-byte sub-chunks
//! let data: Vec<Vec<u8>> =
//!     (0..shape.k).map(|j| (0..chunk).map(|i| (i * 7 + j * 13) as u8).collect()).collect();
//! let mut parity = vec![vec![0; chunk]; shape.m];
//! codec.encode(
//!     &data.iter().map(|c| &c[..]).collect::<Vec<_>>(),
//!     &mut parity.iter_mut().map(|c| &mut c[..]).collect::<Vec<_>>(),
//! )?;
//! // Chunk 1 is lost: five helpers send half of their sub-chunks each, 2.5 chunks in all.
//! let plan = codec.repair_plan(&[1], &[0, 2, 3, 4, 5])?;
//! assert_eq!(plan.sub_chunks_read() * 2, shape.alpha * 5);
//! # Ok::<(), kiln_code::CodeError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod average;
pub mod ceph;
pub mod codec;
pub mod codes;
pub mod coding_cost;
mod combinations;
pub mod dag;
pub mod error;
pub mod order;
pub mod order_cost;
mod parse;
#[cfg(any(test, feature = "paper"))]
pub mod paper;
pub mod passes;
mod profile;
pub mod program;
pub mod repair_plan;
mod schedule;
pub mod spec;
pub mod stripe;
mod tolerance;
pub mod update_plan;

pub use average::AverageCost;
pub use codec::Codec;
pub use codes::{CODES, Choice, CodeFamily};
pub use coding_cost::CodingCost;
pub use dag::{Dag, DagBuilder, HelperReads, Hint, Symbol};
pub use error::CodeError;
pub use kiln_gf::{Footprint, Kernel, Matrix, active, field};
pub use order::{Layers, Order};
pub use order_cost::{OrderCost, PairCost};
pub use program::Program;
pub use repair_plan::{RepairPlan, Strategy};
pub use spec::CodeSpec;
pub use stripe::Shape;
pub use update_plan::UpdatePlan;
