//! Hubs for layers where one aggregator group is not enough: annealing over layers.

use super::{groups::AggregatorGroup, layers::Layers};
use crate::SearchBudget;
use kiln_code::seed;

/// Moves between two questions whether to stop.
const MOVES_A_LOOK: u64 = 1 << 12;

/// Improves the hubs until no link carries more than the limit and the traffic is at most `floor`,
/// or the search budget is used up. Returns the best hubs: least overload first, then least
/// traffic.
pub(super) fn search(
    mut state: Layers<'_>,
    choices: &[Vec<u16>],
    floor: i64,
    budget: &mut SearchBudget<'_>,
) -> Vec<u16> {
    let mut random = budget.seed;
    let score = |state: &Layers<'_>| (state.overload, state.total);
    let mut best = (score(&state), state.hubs.clone());
    let mut cost = state.total + 2 * state.overload;
    let mut moves = 0;
    while !budget.is_over(moves) && best.0 > (0, floor) {
        let heat = 3.0 * (0.15_f64 / 3.0).powf(moves as f64 / budget.moves.max(1) as f64);
        for _ in 0..MOVES_A_LOOK {
            moves += 1;
            let layer = seed::below(&mut random, choices.len());
            let hub = choices[layer][seed::below(&mut random, choices[layer].len())];
            let old = state.hubs[layer];
            if hub == old {
                continue;
            }
            state.set(layer, hub);
            let new = state.total + 2 * state.overload;
            let worse = (new - cost) as f64;
            let chance = (seed::next(&mut random) >> 11) as f64 / (1_u64 << 53) as f64;
            if worse > 0.0 && chance >= (-worse / heat).exp() {
                state.set(layer, old);
                continue;
            }
            cost = new;
            let now = score(&state);
            if now < best.0 {
                best = (now, state.hubs.clone());
            }
        }
    }
    best.1
}

/// For every layer the nodes that may be its hub: its member of every aggregator group, and
/// `others`.
pub(super) fn choices(groups: &[AggregatorGroup], layers: usize, others: &[u16]) -> Vec<Vec<u16>> {
    let of = |layer| {
        let mut list: Vec<u16> = groups.iter().filter_map(|group| group.hub(layer)).collect();
        list.extend_from_slice(others);
        list.sort_unstable();
        list.dedup();
        list
    };
    (0..layers).map(of).collect()
}
