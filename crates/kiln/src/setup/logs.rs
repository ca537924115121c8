//! Logs of volumes, as those see them who look after a pool. A repair rebuilds objects, and what
//! was written to a volume last is in none yet: its writer looks after that, while there is one.

use std::sync::Arc;

use kiln_pool::{Index, Observer};
use kiln_volume::{LogCheck, LogCopyState, LogReport, NAMES, Rim, Volume, VolumeError, volume_of};

use super::{Setup, volumes};
use crate::exit::Failure;
use crate::volume_logs::Tended;

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

/// Logs whose copies do not hold the same; those that somebody writes are left alone.
pub fn faulty(rim: &Rim, logs: &[LogReport], setup: &Setup) -> Vec<LogCheck> {
    let check = |log: &LogReport| match Volume::check_log(rim, &log.volume) {
        Ok(found) => found.filter(|found| !found.is_good()),
        Err(error) => {
            setup.observer.warn(&error.to_string());
            None
        }
    };
    logs.iter().filter_map(check).collect()
}

/// Closes the volumes of these logs where nobody uses them. Copies on nodes that may come back are
/// no reason, unless `away`.
pub fn tend(rim: &Arc<Rim>, logs: Vec<LogReport>, away: bool) -> Vec<Tended> {
    let gone = |log: &LogReport| {
        let gone = |state| matches!(state, LogCopyState::Leaving | LogCopyState::Missing);
        log.copies.iter().any(|(_, state)| gone(*state) || (away && *state == LogCopyState::Away))
    };
    let tend = |log: LogReport| {
        if !gone(&log) {
            return Tended::left(log);
        }
        let end = Volume::close_unused(rim, &log.volume, &volumes::writer("kiln repair"));
        let in_use = matches!(end, Err(VolumeError::InUse { .. }));
        let (closed, why) = (end.is_ok(), end.err().map(|error| error.to_string()));
        Tended { log, closed, in_use, why }
    };
    logs.into_iter().map(tend).collect()
}
