//! Volumes on pools in memory, which lose power and nodes.

mod cleaning;
mod common;
mod faults;
mod history;
mod kept;
mod model;
mod sealed;
mod sweep;
mod vanish;
mod writers;
