//! Cost of emptying a node on links: shards that it sends itself, and shards that the others
//! rebuild because its link has enough to carry.

use kiln_pool::repair::queue::Damaged;
use kiln_pool::{Index, Key, Listed, Pool};
use kiln_recovery::batch::{Batch, DamagedObject, JOINT, Rules, Snapshot};
use serde::Serialize;

use crate::exit::Failure;
use crate::print::count;
use crate::setup::Setup;
use crate::sizes;

/// Shards that are planned; the plan of more is like that of these.
const MOST: usize = 20_000;

/// Plan of emptying a node.
#[derive(Debug, Serialize)]
pub struct Planned {
    node: String,
    /// Shards on it, and how many of them were planned.
    shards: u64,
    planned: u64,
    /// Shards that it sends, and shards that are rebuilt from the others.
    copied: u64,
    rebuilt: u64,
    /// Bytes that all links carry, and the busiest one.
    bytes: u64,
    max_node_load: u64,
    /// Lower bound of that; absent where objects are of several codes or sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<u64>,
    /// Load of the busiest link if all shards were copied.
    copied_max_node_load: u64,
}

/// Plans it: every node is taken to have a link of its own, all of one rate.
pub fn of(pool: &Pool, index: &Index, id: &str, setup: &Setup) -> Result<Planned, Failure> {
    let (mut wants, mut shards, mut bytes) = (Vec::new(), 0, 0);
    index.each_version("", None, |listed| {
        if let Some(at) = listed.nodes.iter().position(|node| node == id) {
            shards += 1;
            if wants.len() < MOST {
                let want = want(&listed, at as u16)?;
                bytes += want.shard_bytes();
                wants.push(want);
            }
        }
        Ok(true)
    })?;
    let config = pool.config();
    let usable = config.node.iter().map(|node| pool.place(&node.id).is_some()).collect();
    let rules = Rules::new(JOINT, setup.seed)?;
    let batch = Batch::new(wants, &Snapshot { config, usable, to: None }, &rules)?;
    let rebuilt = batch.repairs().iter().filter(|job| batch.rebuilds_leaving(job)).count() as u64;
    let (busiest, all) = batch.bytes();
    let planned = batch.repairs().len() as u64;
    Ok(Planned {
        node: id.to_owned(),
        shards,
        planned,
        copied: planned - rebuilt,
        rebuilt,
        bytes: all as u64,
        max_node_load: busiest as u64,
        bound: batch.bound_bytes().map(|bound| bound as u64),
        copied_max_node_load: bytes,
    })
}

/// A shard that is to leave, as something that its object lacks.
fn want(listed: &Listed, index: u16) -> kiln_stripe::Result<DamagedObject> {
    let key = Key::of(&listed.name)?;
    let mut want = DamagedObject { listed: listed.clone(), ..DamagedObject::default() };
    let bytes = want.shard_bytes();
    want.damaged = Some(Damaged { key, lost: vec![index], margin: 0, bytes, transient: false });
    Ok(want)
}

impl Planned {
    /// Says it; as JSON only where that is all the command does.
    pub fn show(&self, alone: bool, setup: &Setup) -> Result<(), Failure> {
        if alone || !setup.json {
            setup.report(self, || self.text())?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let of = if self.planned < self.shards {
            format!(" (the first {} planned)", self.planned)
        } else {
            String::new()
        };
        let mut text = format!(
            "{} on {}{of}: {} copied from it, {} rebuilt from the others\nthe busiest node sends \
             or receives {}",
            count(self.shards, "shard"),
            self.node,
            self.copied,
            self.rebuilt,
            sizes::show(self.max_node_load),
        );
        if let Some(bound) = self.bound {
            text += &format!(", which no plan gets below {}", sizes::show(bound));
        }
        text += &format!("; if all were copied {}\n", sizes::show(self.copied_max_node_load));
        text
    }
}
