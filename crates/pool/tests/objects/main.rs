//! Pools over memory nodes.

mod crash;
mod everyday;
mod forged;
mod found;
mod helped;
mod model;
mod space;
mod together;
mod trust;
mod world;
