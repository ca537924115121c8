//! Pools over memory nodes.

mod crash;
mod everyday;
mod model;
mod world;
