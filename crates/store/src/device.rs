//! Devices: what reads cost on them, and which reads are asked for because of that.
//!
//! A repair plan says which sub-chunks a helper gives. They lie on its device in runs with gaps
//! between them, and a device may do better than one read a run: where a read costs more than the
//! bytes of a gap, the gap is read through. The planner weighs that by a [`DeviceModel`], which
//! `kiln probe` measures. Everything here is arithmetic: no device and no code; `measure` times
//! reads by the caller's clock.
//!
//! G-Clay (section VII) leaves this to future work: "relaxing the access-optimal property of Clay
//! codes by reading some additional sub-chunks to reduce the number of I/O operations", and the
//! arrangement "within adjacent stripes". Both are one question here, since the runs of adjacent
//! stripes of a shard are just more runs of the same file.

mod combine;
mod uncertainty;
mod model;
mod devices;
pub mod fit;
mod joins;
pub mod measure;
mod pieces;
mod cautious;
mod read_plan;

pub use combine::Combine;
pub use devices::Devices;
pub use model::DeviceModel;
pub use read_plan::ReadPlan;
pub use uncertainty::{AlternativeModel, Uncertainty};

#[cfg(test)]
mod tests;
