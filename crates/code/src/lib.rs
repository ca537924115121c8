#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod seed;
mod combinations;
mod error;
pub mod dag;
pub mod order;
mod profile;
mod schedule;
mod passes;
mod program;
mod repair_plan;
mod spec;
mod stripe;
mod codes;
pub mod ceph;
mod codec;
mod average;
mod coding_cost;
mod order_cost;
mod parse;
mod tolerance;
mod update_plan;

pub use average::AverageCost;
pub use codec::Codec;
pub use codes::{CODES, Choice, CodeFamily};
pub use coding_cost::CodingCost;
pub use dag::{Dag, DagBuilder, HelperReads, Hint, Symbol};
pub use error::{CodeError, Result};
pub use kiln_gf::{
    Caches, DataPath, Kernel, Matrix, Results, TemporalHint, Tuning, active, choices, field,
    working_set,
};
pub use order::{Layers, Order};
pub use order_cost::{OrderCost, PairCost};
pub use program::{Packets, Program};
pub use repair_plan::{RebuildMethod, RepairPlan};
pub use spec::CodeSpec;
pub use stripe::Shape;
pub use update_plan::UpdatePlan;
