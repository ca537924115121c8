//! Volumes on pools in memory, which lose power and nodes.

mod common;
mod faults;
mod model;
