//! Logs of volumes, as those see them who look after a pool. A repair rebuilds objects, and what
//! was written to a volume last is in none yet: its writer looks after that, while there is one.

use std::sync::Arc;

use kiln_pool::{Index, Observer};
use kiln_volume::{LogCopyState, LogReport, NAMES, Rim, Volume, volume_of};
use serde::Serialize;

use super::{Setup, volumes};
use crate::exit::{Exit, Failure};

/// Logs of which not every copy is there, on a node that stays.
///
/// # Errors
/// The index. A volume whose description cannot be read is warned of; its object is told as one.
pub fn lacking(rim: &Rim, index: &Index, setup: &Setup) -> Result<Vec<LogReport>, Failure> {
    let all = all(rim, index, setup)?;
    Ok(all.into_iter().filter(|log| !log.is_whole()).collect())
}

/// Logs of all volumes that were not closed.
///
/// # Errors
/// As [`lacking`].
pub fn all(rim: &Rim, index: &Index, setup: &Setup) -> Result<Vec<LogReport>, Failure> {
    let mut names = Vec::new();
    index.each(&format!("{NAMES}/"), None, |listed| {
        names.extend(volume_of(&listed.name).map(str::to_owned));
        Ok(true)
    })?;
    let mut logs = Vec::new();
    for name in names {
        match Volume::log_report(rim, &name) {
            Ok(log) => logs.extend(log),
            Err(error) => setup.observer.warn(&error.to_string()),
        }
    }
    Ok(logs)
}

/// What is wrong with a log, in words.
pub fn words(log: &LogReport) -> String {
    let state = |state: LogCopyState| match state {
        LogCopyState::Here => None,
        LogCopyState::Leaving => Some("leaves"),
        LogCopyState::Away => Some("is unavailable"),
        LogCopyState::Missing => Some("has none any more"),
    };
    let nodes = log.copies.iter().filter_map(|(id, it)| Some(format!("{id} {}", state(*it)?)));
    let nodes = nodes.collect::<Vec<_>>().join(", ");
    let (volume, all) = (&log.volume, log.copies.len());
    match log.here() {
        0 => format!("volume {volume}: NO copy of its log can be read now ({nodes})"),
        here => format!("volume {volume}: {here} of {all} copies of its log are here ({nodes})"),
    }
}

/// The exit code for logs like these.
pub fn exit(logs: &[LogReport]) -> Exit {
    match logs.iter().map(LogReport::here).min() {
        None => Exit::Done,
        Some(0) => Exit::NotRecoverable,
        Some(_) => Exit::Damaged,
    }
}

/// What came of a log that lacked copies.
#[derive(Debug, Serialize)]
pub struct Tended {
    #[serde(flatten)]
    pub log: LogReport,
    /// Nobody used the volume: all that its log had is in objects now.
    pub closed: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Closes the volumes of these logs where nobody uses them. Copies on nodes that may come back are
/// no reason, unless `away`.
pub fn tend(rim: &Arc<Rim>, logs: Vec<LogReport>, away: bool) -> Vec<Tended> {
    let gone = |log: &LogReport| {
        let gone = |state| matches!(state, LogCopyState::Leaving | LogCopyState::Missing);
        log.copies.iter().any(|(_, state)| gone(*state) || (away && *state == LogCopyState::Away))
    };
    let tend = |log: LogReport| {
        let why = match gone(&log) {
            true => Volume::close_unused(rim, &log.volume, &volumes::writer("kiln repair")).err(),
            false => return Tended { log, closed: false, why: None },
        };
        Tended { log, closed: why.is_none(), why: why.map(|error| error.to_string()) }
    };
    logs.into_iter().map(tend).collect()
}

impl Tended {
    /// In words.
    pub fn words(&self) -> String {
        let found = words(&self.log);
        match (self.closed, &self.why) {
            (true, _) => format!("{found}; closed, all of it is in objects now"),
            (false, Some(why)) => format!("{found}; {why}"),
            (false, None) => format!("{found}; waits for them"),
        }
    }
}
