//! New formats begin when all members read them: each is asked for its release.

use crate::{PoolConfig, map::config::LATEST};
use kiln_store::Backend;
use kiln_stripe::{PoolError, Result};
use serde::Serialize;

/// A member's answer when it is asked what its release reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberRelease {
    /// Id of the node.
    pub id: String,
    /// The latest version of descriptions that is read there; `None`: it cannot be asked.
    pub reads: Option<u32>,
}

impl MemberRelease {
    /// Asks a member. Folders are read by this program.
    pub(crate) fn of(id: &str, store: Option<&dyn Backend>) -> MemberRelease {
        let reads = store.and_then(|store| store.reads().ok());
        MemberRelease { id: id.to_owned(), reads: reads.map(|reads| reads.unwrap_or(LATEST)) }
    }
}

/// Refuses to write a description over one of the version `before` unless the release of every
/// member reads it; by `force` those are passed over that cannot be asked.
pub(crate) fn refuse_unread(
    config: &PoolConfig,
    before: u32,
    force: bool,
    releases: impl FnOnce() -> Vec<MemberRelease>,
) -> Result<()> {
    if config.version <= before {
        return Ok(());
    }
    let line = |member: MemberRelease| match member.reads {
        Some(reads) if reads < config.version => Some(format!("{} reads {reads}", member.id)),
        None if !force => Some(format!("{} cannot be asked", member.id)),
        _ => None,
    };
    let old: Vec<String> = releases().into_iter().filter_map(line).collect();
    if old.is_empty() {
        return Ok(());
    }
    let features = config.features().into_iter();
    let new = features.filter_map(|(name, version)| (version > before).then_some(name));
    let what = format!(
        "description version {} ({}) is refused, as not all members read it: {}; upgrade their \
         agents, then run it again",
        config.version,
        new.collect::<Vec<_>>().join(", "),
        old.join(", ")
    );
    Err(PoolError::Refused { what })
}
