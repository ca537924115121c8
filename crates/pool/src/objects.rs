//! Many objects over many nodes: put, get, remove, scrub, repair, index.

mod changes;
mod commit;
mod config;
mod direct;
mod disk_usage;
mod get;
mod heal;
mod health;
mod helpers;
mod index;
mod key;
mod look;
mod manifest;
mod map;
mod membership;
mod nested;
mod opened;
mod orphans;
mod placement;
mod policy;
mod pool;
mod put;
pub mod queue;
mod range;
mod readmit;
mod rebalance;
mod rebuild;
mod recover;
mod remove;
mod room;
mod scrub;
mod seal;
mod sealing;
mod shards;
mod small;
mod stat;
mod still;
mod strays;
mod survey;

pub use self::config::{MAX_NODES, NodeConfig, NodeState, PastMap, PastNode, PoolConfig};
pub use self::disk_usage::DiskUsage;
pub use self::get::{GetReport, GetRequest};
pub use self::heal::{ExpectedReads, HealRequest, Healed};
pub use self::helpers::{Degraded, Helpers, Rebuilt};
pub use self::index::{Index, Listed, Refreshed};
pub use self::key::{Key, MAX_NAME, NodeFile};
pub use self::manifest::{
    Body, MANIFEST_VERSION, MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NODE_ID, Manifest, Place,
    Placed,
};
pub use self::nested::{ATTRIBUTES, attributes_in, folders_of, is_attributes};
pub use self::opened::OpenObject;
pub use self::placement::{Candidate, place, ranked};
pub use self::policy::{Class, INLINE, Policy};
pub use self::pool::{Opener, Pool};
pub use self::put::{MAX_TOGETHER, PutReport, PutRequest};
pub use self::rebalance::{RebalanceReport, RebalanceRequest};
pub use self::rebuild::{Looked, MissingShards, Needs, RebuiltShards};
pub use self::recover::{RecoverReport, RecoverRequest};
pub use self::scrub::{Finding, ScrubReport, ScrubRequest};
pub use self::seal::{PoolKeys, Sealer, Seals};
pub use self::sealing::SealReport;
use self::shards::ObjectShards;
pub use self::stat::{ShardState, StatReport};
pub use self::survey::{NodeStatus, PoolStatus};
