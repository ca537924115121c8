//! Pools over memory nodes.

mod crash;
mod everyday;
mod found;
mod model;
mod world;
