//! Drives the real program in temporary folders.
//!
//! Environment: KILN_SEED repeats a random run, KILN_KILL_ROUNDS sets the number of kills of encode
//! and repair (200), KILN_HAVOC_ROUNDS that of random damages (60), KILN_BIG the size of the
//! streamed object of the memory test (1GiB), KILN_PROGRAM another binary.

mod advise;
mod agent_havoc;
mod agent_plans;
mod agent_pool;
mod agent_trust;
mod agents;
mod bad_input;
mod confirm;
mod damage;
mod disk;
mod doors;
mod errors;
mod everyday;
mod files;
mod flags;
mod havoc;
mod index;
mod kill;
mod local;
mod memory;
mod meter;
mod orders;
mod pages;
mod place;
mod pool;
mod pool_kill;
mod raw;
mod reads;
mod recover;
mod requests;
mod rig;
mod sealed;
mod sync;
mod together;
mod transfer;
mod transfer_model;
mod tutorial;
mod upgrades;
mod volumes;
