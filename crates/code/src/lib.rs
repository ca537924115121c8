#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod average;
pub mod ceph;
mod codec;
mod codes;
mod coding_cost;
mod combinations;
pub mod dag;
mod error;
pub mod order;
mod order_cost;
#[cfg(any(test, feature = "paper"))]
pub mod paper;
mod parse;
mod passes;
mod profile;
mod program;
mod repair_plan;
mod schedule;
mod spec;
mod stripe;
mod tolerance;
mod update_plan;

pub use average::AverageCost;
pub use codec::Codec;
pub use codes::{CODES, Choice, CodeFamily};
pub use coding_cost::CodingCost;
pub use dag::{Dag, DagBuilder, HelperReads, Hint, Symbol};
pub use error::CodeError;
pub use kiln_gf::{Caches, Kernel, Matrix, Results, TemporalHint, active, field, working_set};
pub use order::{Layers, Order};
pub use order_cost::{OrderCost, PairCost};
pub use program::Program;
pub use repair_plan::{RebuildMethod, RepairPlan};
pub use spec::CodeSpec;
pub use stripe::Shape;
pub use update_plan::UpdatePlan;
