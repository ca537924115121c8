//! Logs of volumes as a coordinator saw them last. It looks at them beside its repairs, so what is
//! known of them is of another moment than what is known of objects.

use crate::volume_logs::Tended;
use kiln_volume::LogReport;
use serde::Serialize;

/// Volumes that were closed and are remembered.
const CLOSED_MOST: usize = 32;

/// See the module.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LogsSeen {
    /// When, in ms since 1970; `None`: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_ms: Option<u64>,
    /// Why the last look failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Logs of volumes that were not closed, and of those that this coordinator closed.
    pub logs: Vec<Tended>,
}

impl LogsSeen {
    /// Takes up what a look found. A volume that was closed has no log any more; that it was, and
    /// why, stays until it is opened again.
    pub fn see(&mut self, now_ms: u64, found: Result<Vec<Tended>, String>) {
        let mut logs = match found {
            Ok(logs) => logs,
            Err(why) => return self.error = Some(why),
        };
        let again = |it: &Tended| logs.iter().any(|new| new.log.volume == it.log.volume);
        let kept = self.logs.drain(..).filter(|it| it.closed && !again(it));
        let kept: Vec<Tended> = kept.take(CLOSED_MOST).collect();
        logs.extend(kept);
        logs.sort_by(|a, b| a.log.volume.cmp(&b.log.volume));
        *self = LogsSeen { seen_ms: Some(now_ms), error: None, logs };
    }

    /// Logs of volumes that were not closed.
    pub fn open(&self) -> impl Iterator<Item = &LogReport> {
        self.logs.iter().filter(|it| !it.closed).map(|it| &it.log)
    }

    /// Of these, those that lack copies.
    pub fn lacking(&self) -> impl Iterator<Item = &LogReport> {
        self.open().filter(|log| !log.is_whole())
    }
}
