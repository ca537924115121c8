//! Volumes on pools in memory, which lose power and nodes.

mod cleaning;
mod common;
mod faults;
mod history;
mod kept;
mod model;
#[path = "../../../pool/tests/objects/recover.rs"]
mod recover;
mod sealed;
mod sweep;
mod vanish;
mod writers;
