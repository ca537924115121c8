//! Estimates of a rebuild: the same numbers from the plan alone.

use std::sync::Arc;

use kiln_code::{CodeError, RepairPlan};
use kiln_store::device::Devices;

use crate::chunks::Chunks;
use crate::read_ahead::ReadAhead;
use crate::stripe_statistics::StripeStatistics;
use crate::{PoolError, Result};

/// Returns what stripes would cost.
pub fn estimate_stripes(
    chunks: &dyn Chunks,
    targets: &[usize],
    discard: &[usize],
    devices: Option<&Devices>,
) -> Result<StripeStatistics> {
    let shape = chunks.codec().shape();
    let mut statistics = StripeStatistics::new(shape.n());
    let all = 0..shape.alpha as u32;
    let read_ahead = ReadAhead::new(chunks, devices, 0);
    let cost_of = |chunk, stripe, runs: &[_]| match &read_ahead {
        Some(read_ahead) => read_ahead.cost(chunk, stripe, runs),
        None => chunks.cost_of(chunk, stripe, runs),
    };
    let mut holes = Vec::new();
    // The stripe loop meets few patterns: whole shards, and shards cut short somewhere.
    let mut last: Option<(Vec<usize>, Vec<usize>, Arc<RepairPlan>)> = None;
    for stripe in 0..chunks.stripes() {
        // What is in holes of sparse files is not there, as a scan or a repair would find at once.
        let begins = stripe.is_multiple_of(chunks.segment_stripes());
        if begins {
            holes = (0..shape.n()).map(|c| chunks.next_stripe(c, stripe) != stripe).collect();
        }
        let readable =
            |c: &usize| !discard.contains(c) && chunks.read_plans(*c, stripe) && !holes[*c];
        let available: Vec<usize> = (0..shape.n()).filter(readable).collect();
        let lost: Vec<usize> = targets.iter().copied().filter(|t| !available.contains(t)).collect();
        for &own in targets.iter().filter(|target| available.contains(target)) {
            let whole = cost_of(own, stripe, std::slice::from_ref(&all));
            statistics.costs[own].add(&whole, false);
        }
        if lost.is_empty() {
            continue;
        }
        if last.as_ref().is_none_or(|(l, a, _)| (l, a) != (&lost, &available)) {
            let plan = plan(chunks, read_ahead.as_ref(), stripe, &lost, &available)?;
            last = Some((lost, available, plan));
        }
        let Some((_, _, plan)) = &last else { continue };
        for helper in plan.helpers() {
            statistics.helped[helper.chunk] = true;
            // Chunks of targets are whole in memory by then.
            if !targets.contains(&helper.chunk) {
                let cost = cost_of(helper.chunk, stripe, &helper.runs);
                statistics.costs[helper.chunk].add(&cost, true);
            }
        }
        statistics.rebuilt_by(Some(plan.strategy()));
    }
    statistics.reads = read_ahead.and_then(|read_ahead| read_ahead.report());
    Ok(statistics)
}

fn plan(
    chunks: &dyn Chunks,
    read_ahead: Option<&ReadAhead<'_>>,
    stripe: u64,
    lost: &[usize],
    available: &[usize],
) -> Result<Arc<RepairPlan>> {
    let shape = chunks.codec().shape();
    let plan = match read_ahead {
        Some(read_ahead) => read_ahead.plan(lost, available),
        None => chunks.codec().repair_plan(lost, available),
    };
    plan.map_err(|error| match error {
        CodeError::NotRecoverable { .. } => PoolError::StripeLost {
            object: chunks.object().to_owned(),
            stripe,
            lost: (0..shape.n()).filter(|c| !available.contains(c)).collect(),
            m: shape.m,
        },
        other => other.into(),
    })
}
