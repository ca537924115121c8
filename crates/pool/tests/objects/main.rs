//! Pools over memory nodes.

mod buckets;
mod encrypted;
mod everyday;
mod forged;
mod found;
mod hands;
mod hedged;
mod helped;
mod interleaved;
mod kept;
mod lost;
mod meanwhile;
mod misdirected;
mod opened;
mod pairs;
mod recode;
mod recover;
mod sealed;
mod space;
mod sweep;
mod together;
mod trust;
mod truth;
mod vanish;
mod world;
