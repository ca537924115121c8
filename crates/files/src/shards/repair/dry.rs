//! Estimates of a repair: the same numbers from the plan alone.

use super::{RepairRequest, place};
use crate::ShardSet;
use kiln_stripe::repair_statistics::{PassStatistics, RepairStatistics};
use kiln_stripe::{Result, estimate::estimate_stripes, rebuild::chunk_bytes};

/// Adds the costs of rebuilding `targets` to the totals. Only headers have been read for it.
pub(super) fn estimate(
    set: &ShardSet,
    req: &RepairRequest,
    targets: &[usize],
    totals: &mut RepairStatistics,
) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let mut places = Vec::new();
    for &index in targets {
        places.push(place::target(set, req, index, &places)?);
    }
    let statistics = estimate_stripes(set, targets, &req.lost, req.devices.as_ref())?;
    totals.add(&PassStatistics {
        targets,
        target_nodes: places.iter().map(|place| place.node.name.clone()).collect(),
        statistics: &statistics,
        written_each: chunk_bytes(set, 0),
    });
    Ok(())
}
