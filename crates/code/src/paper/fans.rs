//! A schedule as loops with one source: the form in which the paper's orders are run.

use super::{Op, Schedule};
use kiln_gf::FAN_MAX;

/// One loop: a source, and the words it is copied and added to; zeros where there is none.
#[derive(Debug)]
pub(super) struct Fan {
    pub from: Option<u32>,
    pub copies: Vec<u32>,
    pub sums: Vec<u32>,
}

/// The loops of a schedule. Operations of one group share a loop as long as they have one source.
pub(super) fn fans(schedule: &Schedule) -> Vec<Fan> {
    let mut fans: Vec<Fan> = Vec::new();
    for group in schedule.groups() {
        let first = fans.len();
        for op in group {
            let (source, to, copy) = match *op {
                Op::Zero { to } => (None, to, true),
                Op::Copy { from, to } => (Some(from), to, true),
                Op::Xor { from, to } => (Some(from), to, false),
            };
            let joins = |fan: &Fan| {
                let whole = fan.copies.len() + fan.sums.len() >= FAN_MAX;
                let own = fan.copies.contains(&to) || fan.sums.contains(&to);
                fan.from == source && !whole && !own
            };
            if !fans[first..].last().is_some_and(joins) {
                fans.push(Fan { from: source, copies: Vec::new(), sums: Vec::new() });
            }
            let Some(fan) = fans.last_mut() else { continue };
            if copy { fan.copies.push(to) } else { fan.sums.push(to) }
        }
    }
    fans
}
