//! What a repair would cost: the same numbers from the plan alone.

use std::sync::Arc;

use kiln_code::{CodeError, RepairPlan};

use super::ledger::{Ledger, PassSums};
use super::stripes::chunk_bytes;
use super::{RepairRequest, place};
use crate::stripe::Chunks;
use crate::tally::Tally;
use crate::{PoolError, Result, ShardSet};

/// Adds the costs of rebuilding `targets` to the ledger. Only headers have been read for it.
pub(super) fn estimate(
    set: &ShardSet,
    req: &RepairRequest,
    targets: &[usize],
    ledger: &mut Ledger,
) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let mut places = Vec::new();
    for &index in targets {
        places.push(place::target(set, req, index, &places)?);
    }
    let tally = estimate_stripes(set, targets, &req.lost)?;
    ledger.add(&PassSums {
        targets,
        target_nodes: places.iter().map(|place| place.node.name.clone()).collect(),
        tally: &tally,
        written_each: chunk_bytes(set, 0),
    });
    Ok(())
}

/// What stripes would cost.
pub(crate) fn estimate_stripes(
    chunks: &dyn Chunks,
    targets: &[usize],
    discard: &[usize],
) -> Result<Tally> {
    let shape = chunks.codec().shape();
    let mut tally = Tally::new(shape.n());
    // The stripe loop meets few patterns: whole shards, and shards cut short somewhere.
    let mut last: Option<(Vec<usize>, Vec<usize>, Arc<RepairPlan>)> = None;
    for stripe in 0..chunks.stripes() {
        let sub_len = chunks.sub_len(stripe) as u64;
        let readable = |c: &usize| !discard.contains(c) && chunks.covers(*c, stripe);
        let available: Vec<usize> = (0..shape.n()).filter(readable).collect();
        let lost: Vec<usize> = targets.iter().copied().filter(|t| !available.contains(t)).collect();
        for &own in targets.iter().filter(|target| available.contains(target)) {
            tally.costs[own].bytes += sub_len * shape.alpha as u64;
            tally.costs[own].runs += 1;
        }
        if lost.is_empty() {
            continue;
        }
        if last.as_ref().is_none_or(|(l, a, _)| (l, a) != (&lost, &available)) {
            let plan = plan(chunks, stripe, &lost, &available)?;
            last = Some((lost, available, plan));
        }
        let Some((_, _, plan)) = &last else { continue };
        for helper in plan.helpers() {
            tally.helped[helper.chunk] = true;
            // Chunks of targets are whole in memory by then.
            if !targets.contains(&helper.chunk) {
                let bytes = helper.sub_chunks() as u64 * sub_len;
                let cost = &mut tally.costs[helper.chunk];
                cost.bytes += bytes;
                cost.sent += bytes;
                cost.runs += helper.runs.len() as u64;
            }
        }
        match plan.strategy().name() {
            "repair" => tally.repaired = true,
            _ => tally.decoded = true,
        }
    }
    Ok(tally)
}

fn plan(
    chunks: &dyn Chunks,
    stripe: u64,
    lost: &[usize],
    available: &[usize],
) -> Result<Arc<RepairPlan>> {
    let shape = chunks.codec().shape();
    chunks.codec().repair_plan(lost, available).map_err(|error| match error {
        CodeError::NotRecoverable { .. } => PoolError::StripeLost {
            object: chunks.object().to_owned(),
            stripe,
            lost: (0..shape.n()).filter(|c| !available.contains(c)).collect(),
            m: shape.m,
        },
        other => other.into(),
    })
}
