//! Finding and repairing damage: survey, queue, object repair, scrub, rebalance.

pub mod queue;
pub(crate) mod repairer;
pub(crate) mod unreferenced_shards;
pub(crate) mod damage_marks;
pub(crate) mod survey;
pub(crate) mod health;
pub(crate) mod settling;
pub(crate) mod object_repair;
pub(crate) mod rebuild;
pub(crate) mod together;
pub(crate) mod rebalance;
pub(crate) mod prune;
pub(crate) mod scrub;
pub(crate) mod relocated_shards;
pub(crate) mod stale_members;
pub(crate) mod orphan_gc;

pub use object_repair::ExpectedReads;
pub use rebuild::{Looked, MissingShards, Needs, RebuiltShards};
pub use scrub::Finding;
pub use together::together;
