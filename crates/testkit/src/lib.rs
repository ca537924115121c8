//! Test furniture that several crates share: stores that fail, a simulated bucket, the contract of
//! backends as checks, numbers from a seed, bytes. Only tests depend on it.
#![forbid(unsafe_code)]

mod random;
mod faulty;
mod fuse;
mod bucket;
pub mod battery;

pub use bucket::Bucket;
pub use faulty::{Fault, FaultAction, FaultyBackend};
pub use fuse::{Failing, Fuse};
pub use random::{Random, pattern};
