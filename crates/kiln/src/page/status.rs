//! `/status.json`: what `kiln status --json` says, with what the coordinator does.

use kiln_node::recovery::RecoveryState;
use kiln_pool::PoolStatus;
use serde::Serialize;

use super::View;

#[derive(Serialize)]
struct Status<'a> {
    #[serde(flatten)]
    status: &'a PoolStatus,
    /// As in `kiln status`: somebody works on it.
    repair_here: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    coordinator: &'a RecoveryState,
    /// Most bytes a second that each node, and that all together may send (0: no limit).
    limit_rate: u64,
    limit_total: u64,
}

/// The document.
pub fn json(view: &View) -> String {
    let none = PoolStatus { pool: view.pool.clone(), ..PoolStatus::default() };
    let status = Status {
        status: view.state.survey.as_deref().unwrap_or(&none),
        repair_here: true,
        seconds_left: view.state.seconds_left,
        coordinator: &view.state,
        limit_rate: view.limits.node,
        limit_total: view.limits.total,
    };
    // All of it is numbers and words.
    let text = serde_json::to_string_pretty(&status);
    text.map_or_else(|error| format!("{{\"error\":\"{error}\"}}\n"), |text| text + "\n")
}
