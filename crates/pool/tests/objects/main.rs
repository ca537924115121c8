//! Pools over memory nodes.

mod crash;
mod everyday;
mod found;
mod helped;
mod model;
mod space;
mod trust;
mod world;
