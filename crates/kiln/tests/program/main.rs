//! Drives the real program in temporary folders.
//!
//! Environment: KILN_SEED repeats a random run, KILN_KILL_ROUNDS sets the number of kills of encode
//! and repair (200), KILN_HAVOC_ROUNDS that of random damages (60), KILN_BIG the size of the
//! streamed object of the memory test (1GiB), KILN_PROGRAM another binary.

mod agent_havoc;
mod agent_pool;
mod agent_trust;
mod agents;
mod disk;
mod havoc;
mod memory;
mod pool;
mod raw;
mod reads;
mod requests;
mod rig;
mod sealed;
mod sessions;
mod transfer_model;
mod volumes;
