//! Durability of erasure-coded pools: the chance that a year loses data.
//!
//! A [`PoolModel`] says how many nodes there are, how often one fails, how long a repair takes,
//! which losses the code survives ([`Tolerance`]) and how stripes lie on nodes ([`Placement`]).
//! [`PoolModel::chain`] turns it into a [`Chain`] of failures and repairs, which is solved exactly;
//! [`simulate`] plays the same pool event by event, and reaches losses that happen once in many
//! million years by splitting: states with more losses than before are kept and played on from.
//! Nothing here reads a clock, and nothing knows a code by name.
//!
//! ```
//! use kiln_durability::{Placement, PoolModel, Tolerance};
//!
//! // 10 groups of 7+3 on 100 drives of 20 TB, 5% of which fail in a year, rebuilt at 100 MB/s.
//! let pool = PoolModel {
//!     nodes: 100,
//!     tolerance: Tolerance::any(10, 3)?,
//!     placement: Placement::Groups,
//!     failures_per_year: 0.05,
//!     detection_hours: 0.0,
//!     repair_hours: 55.6,
//!     bad_chunks: 0.0,
//! };
//! let nines = pool.chain()?.nines_a_year();
//! assert!((7.0..7.2).contains(&nines));
//! # Ok::<(), kiln_durability::DurabilityError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod chain;
mod model;
mod simulate;

pub use chain::{Chain, HOURS_A_YEAR};
pub use error::DurabilityError;
pub use model::{Placement, PoolModel, Tolerance};
pub use simulate::{Effort, Estimate, simulate};
