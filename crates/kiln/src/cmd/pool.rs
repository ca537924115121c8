//! `kiln pool`. The summaries of its commands stand here, their arguments in a file each.

mod domains;
mod add_node;
mod create;
mod diff;
mod drain;
mod finalize;
mod forget;
mod keep;
mod limit;
mod prune;
mod rebalance;
mod recode;
mod restore;
mod seal;
mod snapshot;
mod rekey;
mod undelete;

use std::sync::Arc;

use clap::{Args, Subcommand};
use kiln_net::agent::PeerRole;
use kiln_pool::NodeConfig;
use kiln_recovery::OnDemand;
use kiln_store::Location;

pub use recode::recode_by_tier;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup};
use crate::{args::help, cmd::repair::recover, cmd::status};

/// Make and change pools: many objects over many disks
///
/// A pool is described by one TOML file; its data and all it knows of it lie on its nodes. Other
/// commands (put, get, ls, stat, rm, cp, scrub, repair, status) take it by --pool, by $KILN_POOL,
/// or as pool.toml in the current folder.
#[derive(Debug, Args)]
#[command(after_help = help("pool"))]
pub struct Pool {
    #[command(subcommand)]
    action: Action,
}

commands! {
    enum Action {
        /// Make a new pool
        Create(create::Create),
        /// Show the state of the pool: nodes, objects, what is endangered
        Status(status::Status),
        /// Add a node, or take an empty disk in place of a lost one
        AddNode(add_node::AddNode),
        /// Move everything off a node, verified, then drop it
        Drain(drain::Drain),
        /// Show which formats the pool is written in, and which members hold newer ones back; end
        /// the upgrade of a pool from before maps had epochs
        ///
        /// A feature that earlier releases do not know begins with a command of its own, which
        /// raises the version of the pool's description. It is refused as long as a member's agent
        /// is of a release that does not read that version, and cannot be rolled back.
        Finalize(finalize::Finalize),
        /// Give up nodes that are gone for good
        Forget(forget::Forget),
        /// Move shards to where they would be placed now, e.g. to nodes that joined
        Rebalance(rebalance::Rebalance),
        /// Write objects in another code, e.g. with more parity or a cheaper repair
        Recode(recode::Recode),
        /// Seal a pool with a key of its own, or with another one
        Seal(seal::Seal),
        /// Wrap the keys of all objects of an encrypted pool by another data key
        Rekey(rekey::Rekey),
        /// Write a lost pool.toml again, from a copy that every node has
        Restore(restore::Restore),
        /// Limit the traffic of repairs, also of a coordinator that runs
        Limit(limit::Limit),
        /// Set how long replaced and removed versions of objects are kept, or print the rules
        Keep(keep::Keep),
        /// Keep what is in force now under a name until that is removed, or list the names
        Snapshot(snapshot::Snapshot),
        /// List objects that were added, changed or removed between two times
        Diff(diff::Diff),
        /// Remove kept versions that no rule or snapshot keeps any more, as kiln scrub does
        Prune(prune::Prune),
        /// Bring back objects that were removed, or as they were at a time
        Undelete(undelete::Undelete),
    }
}

impl Pool {
    /// As that of the commands.
    pub fn least_role(&self) -> Option<PeerRole> {
        match &self.action {
            Action::Create(_)
            | Action::AddNode(_)
            | Action::Forget(_)
            | Action::Seal(_)
            | Action::Rekey(_)
            | Action::Keep(_)
            | Action::Snapshot(_) => Some(PeerRole::Administrator),
            Action::Drain(_)
            | Action::Rebalance(_)
            | Action::Recode(_)
            | Action::Limit(_)
            | Action::Prune(_) => Some(PeerRole::Operator),
            Action::Finalize(finalize) => finalize.least_role(),
            Action::Undelete(_) => Some(PeerRole::Writer),
            Action::Status(_) | Action::Restore(_) | Action::Diff(_) => None,
        }
    }

    pub fn run(self, setup: &Setup) -> Result<Exit> {
        self.action.run(setup)
    }
}

/// Reads `PLACE[,id=..][,domain=..][,weight=..]`; a place without a scheme is a folder. The domain
/// is empty where none is given.
fn node(text: &str, id: &str) -> Result<NodeConfig> {
    let wrong = |problem: String| Failure::Flag { flag: "--node", problem };
    let mut words = text.split(',');
    let place = words.next().unwrap_or_default();
    if place.is_empty() {
        return Err(wrong("write a folder or URL first, e.g. /disk3,domain=rack1".into()));
    }
    let url = match Location::of(place.as_ref()).local() {
        // Whatever else is a place, it is one by its URL; opening it tells.
        Err(_) => place.to_owned(),
        Ok(path) => {
            let path = std::path::absolute(path).map_err(|source| Failure::Io {
                action: "find",
                path: place.into(),
                source,
            })?;
            let path = path.to_str().ok_or_else(|| wrong(format!("{place} is not UTF-8")))?;
            format!("file://{path}")
        }
    };
    let mut node = NodeConfig::new(id, &url);
    node.domain.clear();
    for word in words {
        match word.split_once('=') {
            Some(("id", id)) => node.id = id.to_owned(),
            Some(("domain", domain)) if !domain.is_empty() => node.domain = domain.to_owned(),
            Some(("weight", weight)) => {
                let number = weight.parse();
                node.weight = number.map_err(|_| wrong(format!("weight {weight:?}: a number")))?;
            }
            _ => return Err(wrong(format!("{word:?}: write id=, domain= or weight="))),
        }
    }
    Ok(node)
}

/// Has manifests brought to where readers look for them by the map of now; opens the pool by the
/// map that then is in force.
fn settle(flags: &PoolFlags, pool: kiln_pool::Pool, setup: &Setup) -> Result<kiln_pool::Pool> {
    let index = flags.index(&pool, setup)?;
    recover(&Arc::new(pool), &index, OnDemand::default(), flags, (setup, &setup.settings()))?;
    drop(index);
    flags.open_quietly(setup)
}
