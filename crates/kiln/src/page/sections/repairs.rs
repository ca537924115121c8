//! Repairs that run, with their rate and when they are done.

use kiln_recovery::{Phase, RunningRepair};

use crate::page::View;
use crate::page::html::{bar, escape, table};
use crate::print::{count, more_losses};
use crate::{lists, sizes, times};

/// Rows that are shown.
const MOST: usize = 32;

pub fn body(view: &View) -> Option<String> {
    let state = &view.state;
    let so_far = format!(
        "<p class=\"quiet\">Since it began: {} repaired, {} rebuilt; {} planned again, {} failed.\
         </p>",
        count(state.repaired, "object"),
        sizes::show(state.rebuilt_bytes),
        state.replanned,
        state.failed
    );
    if state.phase != Phase::Repairing {
        return Some(format!("<p>None runs.</p>{so_far}"));
    }
    let (kept, all) = (sizes::show(state.kept_bytes), sizes::show(state.planned_bytes));
    let left = state.seconds_left.map_or("time left not known yet".to_owned(), |seconds| {
        format!("{} left", times::show(seconds))
    });
    let total = format!(
        "<p>{} {kept} of {all}, {}/s, {left}</p>\n",
        bar(state.kept_bytes, state.planned_bytes, "rebuilt of all that is planned"),
        sizes::show(state.rate_bytes),
    );
    let head = ["object", "shards", "survives", "rebuilt", "of", "progress", "plan"];
    let rows: Vec<_> = state.running.iter().take(MOST).map(row).collect();
    Some(format!("{total}{}{so_far}", table("Repairs that run", &head, &rows)))
}

fn row(repair: &RunningRepair) -> Vec<String> {
    let lost: Vec<usize> = repair.lost.iter().map(|index| usize::from(*index)).collect();
    vec![
        escape(&repair.object),
        escape(&lists::show(&lost)),
        more_losses(repair.margin),
        sizes::show(repair.kept_bytes),
        sizes::show(repair.bytes),
        bar(repair.kept_bytes, repair.bytes, &format!("rebuilt of {}", repair.object)),
        repair.strategy.unwrap_or("being made").to_owned(),
    ]
}
