//! `/status.json`: what `kiln status --json` says, with what the coordinator does.

use std::borrow::Cow;

use kiln_pool::PoolStatus;
use kiln_recovery::RecoveryState;
use kiln_volume::LogReport;
use serde::Serialize;

use super::{View, logs::LogsSeen};

/// The document.
#[derive(Serialize)]
pub struct Status<'a> {
    #[serde(flatten)]
    status: Cow<'a, PoolStatus>,
    /// As in `kiln status`: logs of volumes that lack copies.
    logs: Vec<&'a LogReport>,
    /// As in `kiln status`: a process works on it.
    repair_here: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    coordinator: &'a RecoveryState,
    /// All logs that it saw, and what it did about them.
    volume_logs: &'a LogsSeen,
    /// Most bytes a second that each node, and that all together may send (0: no limit).
    limit_rate: u64,
    limit_total: u64,
}

/// Returns the document of a view.
pub fn of(view: &View) -> Status<'_> {
    let none = || PoolStatus { pool: view.pool.clone(), ..PoolStatus::default() };
    Status {
        status: view.state.survey.as_deref().map_or_else(|| Cow::Owned(none()), Cow::Borrowed),
        logs: view.logs.lacking().collect(),
        repair_here: true,
        seconds_left: view.state.seconds_left,
        coordinator: &view.state,
        volume_logs: &view.logs,
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
