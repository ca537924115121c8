//! Drives the real program in temporary folders.
//!
//! Environment: KILN_KILL_ROUNDS sets the number of kills of encode and repair (200), KILN_PROGRAM
//! names another binary; `scenarios/__main__.py` has more.

mod scenarios;
mod sessions;
