//! Cost of emptying a node on links: shards that it sends itself, and shards that the others
//! rebuild because its link has enough to carry.

use crate::exit::Result;
use kiln_pool::{Index, Key, Listed, Pool, repair::queue::Damaged};
use kiln_recovery::batch::{Batch, DamagedObject, JOINT, PlannedRepair, Rules, Snapshot};
use minijinja::context;

use crate::{print::fields, setup::Setup};

/// Shards that are planned; the plan of more is like that of these.
const MOST: usize = 20_000;

/// Says what it is planned to cost, as JSON only where that is all the command does. Every node is
/// taken to have a link of its own, all of one rate.
pub fn show(pool: &Pool, index: &Index, id: &str, alone: bool, setup: &Setup) -> Result<()> {
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
    let leaves = |repair: &&PlannedRepair| batch.rebuilds_leaving(repair);
    let (planned, rebuilt) =
        (batch.repairs().len() as u64, batch.repairs().iter().filter(leaves).count() as u64);
    let (busiest, all) = batch.bytes();
    let (copied, busiest) = (planned - rebuilt, busiest as u64);
    let bound = batch.bound_bytes().map(|bound| bound as u64);
    if setup.json && !alone {
        return Ok(());
    }
    let report = fields! {
        node: id,
        // Shards on it, and how many of them were planned.
        shards: shards,
        planned: planned,
        // Shards that it sends, and shards that are rebuilt from the others.
        copied: copied,
        rebuilt: rebuilt,
        // Bytes that all links carry, and the busiest one.
        bytes: all as u64,
        max_node_load: busiest,
        // Lower bound of that; absent where objects are of several codes or sizes.
        bound or none: bound,
        // Load of the busiest link if all shards were copied.
        copied_max_node_load: bytes,
    };
    setup.tell("pool drain", &report, context! {}).map(drop)
}

/// A shard that is to leave, as something that its object lacks.
fn want(listed: &Listed, index: u16) -> kiln_stripe::Result<DamagedObject> {
    let key = Key::of(&listed.name)?;
    let mut want = DamagedObject { listed: listed.clone(), ..DamagedObject::default() };
    let bytes = want.shard_bytes();
    want.damaged = Some(Damaged { key, lost: vec![index], margin: 0, bytes, transient: false });
    Ok(want)
}
