//! Choice of the chunks that a Clay repair reads: the paper's `is_repair()` and
//! `minimum_to_repair()` (section 4.3, appendix A), for any lost and any available chunks.

use super::grid::Grid;
use crate::{RebuildMethod, codes::Choice};

/// Repair where it reads less than k chunks, else that decode (appendix A, remark 1).
pub(super) fn choose(grid: &Grid, decode: Choice, available: &[usize]) -> Choice {
    match repair_helpers(grid, &decode.lost, available) {
        Some(helpers) => Choice::new(RebuildMethod::Repair, &decode.lost, helpers),
        None => decode,
    }
}

/// The helpers of a repair, or nothing when the pattern is not repairable or decode is no dearer.
///
/// Erased are the lost chunks and what else is unavailable in their sections. In a layer where one
/// erased node s-section has its dot, the unknown symbols are the erased nodes, that whole section
/// and the non-helpers: q + e - e_s + |non-helpers| of them, e_s being the erased nodes of the
/// section. The scalar code solves m, which bounds the non-helpers. With one failure a section this
/// is the paper's count of d helpers; with d = n-1 and several failures in one section, all
/// survivors.
fn repair_helpers(grid: &Grid, lost: &[usize], available: &[usize]) -> Option<Vec<usize>> {
    let section = |chunk: usize| grid.section_of(grid.node_of(chunk));
    let mut failing = vec![false; grid.t];
    for &chunk in lost {
        failing[section(chunk)] = true;
    }
    let mut is_available = vec![false; grid.k + grid.m];
    for &chunk in available {
        is_available[chunk] = true;
    }
    let mut erased = vec![0; grid.t];
    let mut non_helpers = 0;
    for chunk in (0..grid.k + grid.m).filter(|&chunk| !is_available[chunk]) {
        match failing[section(chunk)] {
            true => erased[section(chunk)] += 1,
            false => non_helpers += 1,
        }
    }
    let erased_total: usize = erased.iter().sum();
    let fewest = erased.iter().copied().filter(|&count| count > 0).min()?;
    let non_helpers_max = (grid.m + fewest).checked_sub(grid.q + erased_total)?;
    let mut spare = non_helpers_max.checked_sub(non_helpers)?;
    // The highest chunks are left out: helpers are the section's, then ascending, as Ceph picks.
    let mut helpers: Vec<usize> = Vec::with_capacity(available.len());
    for &chunk in available.iter().rev() {
        if spare > 0 && !failing[section(chunk)] {
            spare -= 1;
        } else {
            helpers.push(chunk);
        }
    }
    helpers.reverse();
    let untouched: usize = erased.iter().map(|&count| grid.q.saturating_sub(count)).product();
    let layers = grid.alpha - untouched;
    (helpers.len() * layers < grid.k * grid.alpha).then_some(helpers)
}
