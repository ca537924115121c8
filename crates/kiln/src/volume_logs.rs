//! Logs of volumes, in words: what is wrong with one, and what came of it.

use crate::exit::Exit;
use kiln_volume::{LogCheck, LogCopyState, LogReport};
use serde::Serialize;

/// Nodes that have no copy of a log that stays, and why.
pub fn nodes(log: &LogReport) -> String {
    let state = |state: LogCopyState| match state {
        LogCopyState::Here => None,
        LogCopyState::Leaving => Some("leaves"),
        LogCopyState::Away => Some("is unavailable"),
        LogCopyState::Missing => Some("has no copy any more"),
    };
    let nodes = log.copies.iter().filter_map(|(id, it)| Some(format!("{id} {}", state(*it)?)));
    nodes.collect::<Vec<_>>().join(", ")
}

/// Describes the damage of a log.
pub fn words(log: &LogReport) -> String {
    let nodes = nodes(log);
    let (volume, all) = (&log.volume, log.copies.len());
    match log.here() {
        0 => format!("volume {volume}: NO copy of its log can be read now ({nodes})"),
        here => format!("volume {volume}: {here} of {all} copies of its log are here ({nodes})"),
    }
}

/// The exit code for logs like these.
pub fn exit<'a>(logs: impl IntoIterator<Item = &'a LogReport>) -> Exit {
    match logs.into_iter().map(LogReport::here).min() {
        None => Exit::Done,
        Some(0) => Exit::NotRecoverable,
        Some(_) => Exit::Damaged,
    }
}

/// Outcome of the repair of a log that lacked copies.
#[derive(Clone, Debug, Serialize)]
pub struct Tended {
    #[serde(flatten)]
    pub log: LogReport,
    /// The volume was not in use: the contents of its log are in objects now.
    pub closed: bool,
    /// Its writer lives, who looks after it.
    pub in_use: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Tended {
    /// A log to which nothing was done.
    pub fn left(log: LogReport) -> Tended {
        Tended { log, closed: false, in_use: false, why: None }
    }

    pub fn words(&self) -> String {
        let found = words(&self.log);
        match (self.closed, &self.why) {
            (true, _) => format!("{found}; closed, all of it is in objects now"),
            (false, Some(why)) => format!("{found}; {why}"),
            (false, None) => format!("{found}; waits for them"),
        }
    }
}

/// The exit code for logs of which some lack copies still.
pub fn tended_exit(tended: &[Tended]) -> Exit {
    exit(tended.iter().filter(|it| !it.closed && !it.log.is_whole()).map(|it| &it.log))
}

/// Describes the damage of a log's bytes.
pub fn fault_words(found: &LogCheck) -> String {
    let LogCheck { volume, last, lost, faults } = found;
    if let Some(batch) = lost {
        return format!("volume {volume}: NO copy of its log has batch {batch} of {last}");
    }
    let nodes = faults.iter().map(|(node, batch)| format!("{node} lacks batch {batch} of {last}"));
    let nodes = nodes.collect::<Vec<_>>().join(", ");
    format!(
        "volume {volume}: copies of its log are damaged ({nodes}); run kiln volume check {volume}, \
         which makes objects of what the others have"
    )
}

/// The exit code for what was found of the bytes of logs.
pub fn fault_exit(found: &[LogCheck]) -> Exit {
    match (found.is_empty(), found.iter().any(|log| log.lost.is_some())) {
        (true, _) => Exit::Done,
        (false, true) => Exit::NotRecoverable,
        (false, false) => Exit::Damaged,
    }
}
