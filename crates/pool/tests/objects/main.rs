//! Pools over memory nodes.

mod everyday;
mod model;
mod world;
