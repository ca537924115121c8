//! Reports on logs for operators: repairs rebuild objects, and a log is none. Its writer
//! moves it away from a node that fails or leaves; where there is no writer it stays.

use std::sync::Arc;

use kiln_pool::Pool;
use kiln_store::{Backend, ReadAt, StoreError};
use serde::Serialize;

use crate::description::look_up;
use crate::descriptor::LogCopy;
use crate::generation::closed_name;
use crate::{Result, Rim, Volume};

/// State of a copy of a log.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogCopyState {
    /// There.
    Here,
    /// There, on a node that is being emptied.
    Leaving,
    /// On a node that cannot be asked now.
    Away,
    /// Lost: the node is no part of the pool any more, or has another disk.
    Missing,
}

/// The log of a volume that was not closed, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// The volume's name.
    pub volume: String,
    /// Its writer, now or when it was last seen.
    pub writer: String,
    /// Nodes with a copy, by their ids. There are m + 1.
    pub copies: Vec<(String, LogCopyState)>,
    /// Id of the pool's key that it is sealed by; empty: by none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
}

impl LogReport {
    /// Copies that can be read now. Each has all that was acknowledged, so one is enough.
    #[must_use]
    pub fn here(&self) -> usize {
        let here = |state| matches!(state, LogCopyState::Here | LogCopyState::Leaving);
        self.copies.iter().filter(|(_, state)| here(*state)).count()
    }

    /// Returns whether every copy is there, on a node that stays.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.copies.iter().all(|(_, state)| *state == LogCopyState::Here)
    }

    /// Returns whether what only the log has could not be read without some nodes.
    #[must_use]
    pub fn is_lost_without(&self, ids: &[String]) -> bool {
        let left = |(node, state): &&(String, LogCopyState)| {
            *state != LogCopyState::Missing && !ids.contains(node)
        };
        !self.copies.iter().any(|copy| left(&copy))
    }
}

impl Volume {
    /// Returns the state of a volume's log. `None`: it was closed, and all of it is in objects.
    /// Errors: [`crate::VolumeError::NoVolume`]; what keeps its description from being read.
    pub fn log_report(rim: &Rim, name: &str) -> Result<Option<LogReport>> {
        let found = look_up(rim, name)?.descriptor;
        if found.log.is_empty() || found.removing {
            return Ok(None);
        }
        let pool = rim.pool();
        let copies = found.log.iter().map(|copy| (copy.node.clone(), state_of(&pool, copy)));
        let copies = copies.collect();
        let (volume, writer, key) = (name.to_owned(), found.writer, found.log_key);
        Ok(Some(LogReport { volume, writer, copies, key }))
    }

    /// Closes a volume that is not in use, as its writer would have: what only its log had is in
    /// objects of the pool then, which repairs rebuild.
    /// Errors: [`crate::VolumeError::InUse`] while its writer lives, who looks after its log; as
    /// [`Volume::open`].
    pub fn close_unused(rim: &Arc<Rim>, name: &str, writer: &str) -> Result<()> {
        Volume::settled(rim, name, writer).map(drop)
    }
}

fn state_of(pool: &Pool, copy: &LogCopy) -> LogCopyState {
    let Some(at) = pool.config().position(&copy.node) else { return LogCopyState::Missing };
    let Some(store) = pool.place(&copy.node) else { return LogCopyState::Away };
    match (open_copy(&*store, copy), pool.config().node[at].is_leaving()) {
        (Err(_), _) => LogCopyState::Away,
        (Ok(None), _) => LogCopyState::Missing,
        (Ok(Some(_)), true) => LogCopyState::Leaving,
        (Ok(Some(_)), false) => LogCopyState::Here,
    }
}

/// Opens a copy; `None`: it is not there. Who took it from its writer, and died then, has left it
/// under the other name.
pub(crate) fn open_copy(
    store: &dyn Backend,
    copy: &LogCopy,
) -> Result<Option<Box<dyn ReadAt>>, StoreError> {
    for name in [copy.file.clone(), closed_name(&copy.file)] {
        match store.open(&name) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
