//! `/status.json`: what `kiln status --json` says, with what the coordinator does.

use std::borrow::Cow;

use kiln_pool::PoolStatus;
use serde::Serialize;

use super::View;
use crate::print::fields;

/// Returns the document of a view.
pub fn of(view: &View) -> impl Serialize {
    let none = || PoolStatus { pool: view.pool.clone(), ..PoolStatus::default() };
    fields! {
        #[serde(flatten)]
        status: view.state.survey.as_deref().map_or_else(|| Cow::Owned(none()), Cow::Borrowed),
        // As in `kiln status`: logs of volumes that lack copies, and that a process works on it.
        logs: view.logs.lacking().collect::<Vec<_>>(),
        repair_here: true,
        seconds_left or none: view.state.seconds_left,
        coordinator: &view.state,
        // All logs that it saw, and what it did about them.
        volume_logs: &view.logs,
        // Most bytes a second that each node, and that all together may send (0: no limit).
        limit_rate: view.limits.node,
        limit_total: view.limits.total,
    }
}

/// Returns the document as text.
pub fn json(view: &View) -> String {
    // All of it is numbers and words.
    let text = serde_json::to_string_pretty(&of(view));
    text.map_or_else(|error| format!("{{\"error\":\"{error}\"}}\n"), |text| text + "\n")
}
