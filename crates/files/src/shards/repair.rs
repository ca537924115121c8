//! Repair: what is missing or damaged is rebuilt beside, verified, and only then put in place.

mod moves;
mod place;
mod dry;
mod pass;

use std::collections::BTreeMap;

use kiln_store::device::Devices;
use kiln_stripe::repair_statistics::RepairStatistics;
use kiln_stripe::scan::scan;
use kiln_stripe::stripe_statistics::indices;
use kiln_stripe::{Node, PoolError, RepairReport, Result, Settings, node};

use crate::{ShardSet, discover, shards::verify::check_digests};

/// Request to repair.
#[derive(Clone, Debug, Default)]
pub struct RepairRequest {
    /// Indices to rebuild in any case, without reading what is there of them.
    pub lost: Vec<usize>,
    /// Read everything first to find silent damage. Done anyway when nothing else is wrong.
    pub scan: bool,
    /// Nodes for rebuilt shards that are missing or in `lost`, by index; others are ignored.
    /// Needed only where the place cannot be told from the nodes.
    pub targets: BTreeMap<usize, Node>,
    /// Write nothing, report what the plan would cost.
    pub dry_run: bool,
    /// Plan reads for the devices of nodes. Without it, or when some node with a shard has no
    /// device there, every run is read as it is.
    pub devices: Option<Devices>,
}

/// Rebuilds what is missing or damaged, and renames what is misnamed.
///
/// Each stripe is rebuilt by the code's cheapest plan; a helper that fails its checksums is left
/// out of that stripe, which is planned again, and is itself repaired in a following pass. A
/// rebuilt shard is a hidden part until its digest equals the recorded one and it is durable.
/// Errors: [`PoolError::StripeLost`] when a stripe has too many bad chunks,
/// [`PoolError::Mismatch`], [`PoolError::Usage`] when a place must be named; store errors. Nothing
/// is then replaced.
pub fn repair(
    set: &ShardSet,
    req: &RepairRequest,
    settings: &Settings<'_>,
) -> Result<RepairReport> {
    check(set, req)?;
    let mut totals = totals_of(set);
    if req.dry_run {
        let targets = first_targets(set, req);
        moves::foretell(set, &mut totals);
        dry::estimate(set, req, &targets, &mut totals)?;
        return Ok(report(totals, set, true));
    }
    let nodes = place::all_nodes(set, req);
    let (_locks, waited) = node::lock(&nodes, settings, true)?;
    let fresh = if waited { Some(again_discovered(set, &nodes)?) } else { None };
    let mut set = moves::settle(fresh.as_ref().unwrap_or(set), &nodes, &mut totals)?;
    let mut targets = first_targets(&set, req);
    // What a scan has reported is not reported again by the repair.
    let mut told = vec![false; set.members.len()];
    if req.scan || targets.is_empty() {
        look(&set, &mut targets, &mut told, &mut totals, settings)?;
    }
    let mut discard = req.lost.clone();
    let mut done = vec![false; set.members.len()];
    while !targets.is_empty() {
        warn(&set, &targets, settings);
        let job = pass::Job { set: &set, req, targets: &targets, discard: &discard, told: &told };
        let found = job.run(&mut totals, settings)?;
        discard.clear();
        targets.iter().for_each(|&index| done[index] = true);
        let again: Vec<usize> = found.iter().copied().filter(|&index| done[index]).collect();
        if let Some(&index) = again.first() {
            let todo =
                "its disk does not return the bytes that were written; use another place".into();
            return Err(PoolError::Mismatch { object: set.object().to_owned(), index, todo });
        }
        set = again_discovered(&set, &nodes)?;
        targets = found;
    }
    pass::remove_stale_parts(&set);
    Ok(report(totals, &set, false))
}

/// Sums for a set, with what was found wrong with it so far.
fn totals_of(set: &ShardSet) -> RepairStatistics {
    let mut totals = RepairStatistics::for_nodes((0..set.members.len()).map(|i| set.node_name(i)));
    set.damage.iter().for_each(|damage| totals.findings.push(damage.clone()));
    totals.metadata_bytes = set.metadata_bytes;
    totals
}

fn report(totals: RepairStatistics, set: &ShardSet, dry_run: bool) -> RepairReport {
    let mut report = totals.into_report(set, dry_run);
    report.notes.clone_from(&set.notes);
    report
}

fn check(set: &ShardSet, req: &RepairRequest) -> Result<()> {
    let n = set.members.len();
    match req.lost.iter().find(|&&index| index >= n) {
        None => Ok(()),
        Some(index) => {
            let what = format!("there is no shard {index}: the code has shards 0 to {}", n - 1);
            Err(PoolError::Usage { what })
        }
    }
}

/// Returns what is known to need rebuilding without reading chunk data.
fn first_targets(set: &ShardSet, req: &RepairRequest) -> Vec<usize> {
    let mut flags = vec![false; set.members.len()];
    let known = [set.missing(), set.structurally_damaged(), req.lost.clone()];
    known.iter().flatten().for_each(|&index| flags[index] = true);
    indices(&flags)
}

/// Reads everything, and adds what is damaged to the targets.
fn look(
    set: &ShardSet,
    targets: &mut Vec<usize>,
    told: &mut [bool],
    totals: &mut RepairStatistics,
    settings: &Settings<'_>,
) -> Result<()> {
    let (bad, tables) = check_digests(set, &mut totals.findings, settings)?;
    let result = scan(set, targets, false, settings)?;
    totals.metadata_bytes += tables + result.statistics.metadata();
    totals.scan_bytes += result.statistics.bytes();
    totals.findings.extend(&result.statistics.findings);
    for index in bad.into_iter().chain(result.statistics.bad_indices()) {
        told[index] = true;
        targets.push(index);
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(())
}

fn warn(set: &ShardSet, targets: &[usize], settings: &Settings<'_>) {
    for damage in set.damage.iter().take(targets.len()) {
        settings.observer.warn(&damage.to_string());
    }
}

/// The same set after its files changed.
fn again_discovered(set: &ShardSet, nodes: &[Node]) -> Result<ShardSet> {
    let fresh = discover(nodes, Some(set.object()))?;
    if fresh.info.run != set.info.run {
        let what = format!("the shards of {:?} were replaced meanwhile", set.object());
        return Err(PoolError::Refused { what });
    }
    Ok(fresh)
}
