//! Logs of volumes, as those see them who look after a pool. A repair rebuilds objects, and what
//! was written to a volume last is in none yet: its writer looks after that, while there is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::exit::Result;
use kiln_pool::Index;
use kiln_stripe::{Observer, PoolError};
use kiln_volume::{LogCheck, LogCopyState, LogReport, NAMES, Rim, Volume, VolumeError, volume_of};

use super::{Setup, volumes};
use crate::volume_logs::Tended;

/// Time for servers of volumes to learn of a new key: several times what they take.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);

/// Logs of which not every copy is there, on a node that stays.
/// Errors: the index. A volume whose description cannot be read is warned of; its object is
/// reported.
pub fn lacking(rim: &Rim, index: &Index, setup: &Setup) -> Result<Vec<LogReport>> {
    let all = all(rim, index, setup)?;
    Ok(all.into_iter().filter(|log| !log.is_whole()).collect())
}

/// Logs of all volumes that were not closed.
pub fn all(rim: &Rim, index: &Index, setup: &Setup) -> Result<Vec<LogReport>> {
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

/// Logs whose copies do not hold the same; those in use are left alone.
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

/// Seals the contents of logs as new data of the pool: volumes that are not in use
/// are closed, and servers of others begin new logs by themselves, for which this waits.
/// Errors: [`PoolError::Refused`] for a volume in use whose log stays as it was; as [`lacking`];
/// what keeps a volume from being closed.
pub fn reseal(rim: &Arc<Rim>, index: &Index, setup: &Setup) -> Result<()> {
    let key = rim.pool().config().log_sealer().map(|sealer| sealer.name()).unwrap_or_default();
    let began = Instant::now();
    loop {
        let mut used = None;
        for log in all(rim, index, setup)?.into_iter().filter(|log| log.key != key) {
            match Volume::close_unused(rim, &log.volume, &volumes::writer("kiln pool seal")) {
                Ok(()) => {}
                Err(VolumeError::InUse { writer, .. }) => used = Some((log.volume, writer)),
                Err(error) => return Err(error.into()),
            }
        }
        let Some((volume, writer)) = used else { return Ok(()) };
        if began.elapsed() > PATIENCE {
            let what = format!(
                "volume {volume:?} is in use by {writer}, and its log has not got the new seal; \
                 copy the key's file to its server, or end that, and run this again (what was \
                 accepted before still is)"
            );
            return Err(PoolError::Refused { what }.into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Closes the volumes of these logs where they are not in use. Copies on nodes that may come back
/// are no reason, unless `away`.
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
