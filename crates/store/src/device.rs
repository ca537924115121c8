//! Devices: what reads cost on them, and which reads are asked for because of that.
//!
//! A repair plan says which sub-chunks a helper gives. They lie on its device in runs with gaps
//! between them, and a device may do better than one read a run: where a read costs more than the
//! bytes of a gap, the gap is read through. The planner weighs that by a [`DeviceModel`], which
//! `kiln probe` measures. Everything here is arithmetic: no device, no clock, and no code; only
//! `system` asks Linux, and `measure` times reads by the caller's clock.
//!
//! G-Clay (section VII) leaves this to future work: "relaxing the access-optimal property of Clay
//! codes by reading some additional sub-chunks to reduce the number of I/O operations", and the
//! arrangement "within adjacent stripes". Both are one question here, since the runs of adjacent
//! stripes of a shard are just more runs of the same file.

mod cautious;
mod cover;
mod devices;
pub mod fit;
pub mod measure;
mod model;
mod pieces;
mod system;
mod uncertainty;

pub use cover::Cover;
pub use devices::Devices;
pub use model::{Combine, DeviceModel};
pub use system::{Counted, device_counted, request_limits};
pub use uncertainty::{Rival, Uncertainty};

#[cfg(test)]
mod tests;
