//! Changes of a volume in use: a client requests one of the volume's server, by an object in the
//! pool, so that no client has to know where the server is.

use std::fmt;

use kiln_stripe::PoolError;
use serde::{Deserialize, Serialize};

use crate::admin::{check_growth, check_snapshot, removable, there_is};
use crate::description::look_up;
use crate::descriptor::Descriptor;
use crate::kept::lock;
use crate::volume::Volume;
use crate::{DATA, Result, Rim, VolumeError, Worked};

/// A request that is older than this is abandoned.
const STALE_MS: u64 = 120_000;
/// Most bytes of a request.
const MOST: u64 = 4096;

/// A change of a volume in use, which who serves it makes, see [`Volume::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveChange<'a> {
    /// Keep it as it is at some moment between question and answer, under this name.
    Snapshot(&'a str),
    /// Remove the snapshot of this name.
    RemoveSnapshot(&'a str),
    /// Give it so many bytes, no fewer than it has: what is past the end of a smaller one may be in
    /// use.
    Grow(u64),
}

impl LiveChange<'_> {
    /// Refuses what cannot be done with a volume that is described so.
    fn check(&self, rim: &Rim, name: &str, found: &Descriptor) -> Result<()> {
        match *self {
            LiveChange::Snapshot(snapshot) => {
                check_snapshot(snapshot)?;
                if found.has_snapshot(snapshot) { Err(there_is(name, snapshot)) } else { Ok(()) }
            }
            LiveChange::RemoveSnapshot(snapshot) => removable(rim, found, name, snapshot).map(drop),
            LiveChange::Grow(size) => check_growth(found, name, size),
        }
    }

    /// Returns whether the description of a volume says that it was done.
    fn is_done(&self, found: &Descriptor) -> bool {
        match *self {
            LiveChange::Snapshot(snapshot) => found.has_snapshot(snapshot),
            LiveChange::RemoveSnapshot(snapshot) => !found.has_snapshot(snapshot),
            LiveChange::Grow(size) => found.size >= size,
        }
    }
}

impl fmt::Display for LiveChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveChange::Snapshot(snapshot) => write!(f, "snapshot {snapshot:?}"),
            LiveChange::RemoveSnapshot(snapshot) => write!(f, "removal of snapshot {snapshot:?}"),
            LiveChange::Grow(size) => write!(f, "size of {size} bytes"),
        }
    }
}

/// A request: one of the first three. Versions before these were there know of snapshots
/// alone, and do not answer what has the others.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveRequest {
    /// Name of a snapshot to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    /// Name of a snapshot to remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remove: Option<String>,
    /// Bytes that the volume is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    asked_ms: u64,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    refused: String,
}

impl LiveRequest {
    fn new(change: LiveChange<'_>, asked_ms: u64) -> LiveRequest {
        let plain = LiveRequest { asked_ms, ..LiveRequest::default() };
        match change {
            LiveChange::Snapshot(name) => LiveRequest { snapshot: Some(name.to_owned()), ..plain },
            LiveChange::RemoveSnapshot(name) => {
                LiveRequest { remove: Some(name.to_owned()), ..plain }
            }
            LiveChange::Grow(size) => LiveRequest { size: Some(size), ..plain },
        }
    }

    /// Returns the requested change; `None`: none, or several.
    fn change(&self) -> Option<LiveChange<'_>> {
        match (&self.snapshot, &self.remove, self.size) {
            (Some(name), None, None) => Some(LiveChange::Snapshot(name)),
            (None, Some(name), None) => Some(LiveChange::RemoveSnapshot(name)),
            (None, None, Some(size)) => Some(LiveChange::Grow(size)),
            _ => None,
        }
    }
}

/// The object that requests are in, one at a time.
fn place_of(id: &str) -> String {
    format!("{DATA}/{id}/request")
}

/// Returns the identity of what is there, and the request in it; an unreadable object has none.
fn read(rim: &Rim, place: &str) -> Result<Option<([u8; 16], Option<LiveRequest>)>> {
    let (run, text) = match rim.read(place, MOST) {
        Err(PoolError::NoObject { .. }) => return Ok(None),
        got => got?,
    };
    let found = toml::from_str(&String::from_utf8_lossy(&text)).ok();
    Ok(Some((run, found.filter(|request: &LiveRequest| request.change().is_some()))))
}

/// Puts a request over what was read; gives its identity, `None` where another one is there.
fn write(
    rim: &Rim,
    place: &str,
    over: Option<[u8; 16]>,
    request: &LiveRequest,
) -> Result<Option<[u8; 16]>> {
    let wrong = |error: toml::ser::Error| VolumeError::Usage { what: error.to_string() };
    Ok(rim.replace(place, over, &toml::to_string(request).map_err(wrong)?)?)
}

/// Asks for a change, unless another client waits for one; gives the request's identity.
fn begin(rim: &Rim, place: &str, name: &str, request: &LiveRequest) -> Result<[u8; 16]> {
    loop {
        let seen = read(rim, place)?;
        // One that was refused is still to be read by who asked.
        if let Some((_, Some(other))) = &seen
            && let Some(wanted) = other.change()
            && request.asked_ms.saturating_sub(other.asked_ms) < STALE_MS
        {
            let what =
                format!("volume {name:?}: another client asks for a {wanted} now; try again");
            return Err(VolumeError::Usage { what });
        }
        if let Some(run) = write(rim, place, seen.map(|(run, _)| run), request)? {
            return Ok(run);
        }
    }
}

impl Volume {
    /// Asks the server of a volume to change it. `wait` lets some time pass, and says whether to
    /// go on.
    /// Errors: it cannot be done; it was refused, or no server answered.
    pub fn ask(
        rim: &Rim,
        name: &str,
        change: LiveChange<'_>,
        mut wait: impl FnMut() -> bool,
    ) -> Result<()> {
        let found = look_up(rim, name)?.descriptor;
        change.check(rim, name, &found)?;
        if change.is_done(&found) {
            return Ok(());
        }
        let (place, request) = (place_of(&found.id), LiveRequest::new(change, rim.now_ms()));
        let run = begin(rim, &place, name, &request)?;
        loop {
            let waits = wait();
            if !waits {
                rim.remove_over(&place, run)?;
            }
            if change.is_done(&look_up(rim, name)?.descriptor) {
                // Who has done it removes the request, too.
                return Ok(rim.remove_over(&place, run)?);
            }
            if let Some((at, Some(mut answer))) = read(rim, &place)? {
                let refused = std::mem::take(&mut answer.refused);
                if answer == request && !refused.is_empty() {
                    rim.remove_over(&place, at)?;
                    return Err(VolumeError::Usage { what: refused });
                }
            }
            if !waits {
                let writer = found.writer;
                let what = format!("volume {name:?}: {writer} did not answer; nothing was changed");
                return Err(VolumeError::Usage { what });
            }
        }
    }

    /// Does what clients asked of this volume's server, see [`Volume::ask`].
    /// Errors: the pool cannot be read. The client gets the error of a change that cannot be done.
    pub fn answer(&self) -> Result<Worked> {
        let place = place_of(&lock(&self.held).descriptor.id);
        let Some((run, Some(request))) = read(&self.rim, &place)? else {
            return Ok(Worked::Nothing);
        };
        let Some(change) = request.change() else { return Ok(Worked::Nothing) };
        if self.rim.now_ms().saturating_sub(request.asked_ms) > STALE_MS {
            self.rim.remove_over(&place, run)?;
            return Ok(Worked::Nothing);
        }
        if !request.refused.is_empty() {
            return Ok(Worked::Nothing);
        }
        let done = match change {
            LiveChange::Snapshot(name) => self.keep_snapshot(name),
            LiveChange::RemoveSnapshot(name) => self.drop_snapshot(name),
            LiveChange::Grow(size) => self.grow(size),
        };
        match done {
            Ok(()) => self.rim.remove_over(&place, run)?,
            Err(why) => {
                let refused = why.to_string();
                // If another one is there, the client that asked does not wait any more.
                write(&self.rim, &place, Some(run), &LiveRequest { refused, ..request })?;
            }
        }
        Ok(Worked::Checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_back_as_earlier_versions_wrote_them() {
        let all =
            [LiveChange::Snapshot("a"), LiveChange::RemoveSnapshot("a"), LiveChange::Grow(1 << 40)];
        for change in all {
            let text = toml::to_string(&LiveRequest::new(change, 7)).unwrap();
            let back: LiveRequest = toml::from_str(&text).unwrap();
            assert_eq!((back.change(), back.asked_ms), (Some(change), 7), "{text}");
        }
        let before: LiveRequest = toml::from_str("snapshot = \"a\"\nasked_ms = 7\n").unwrap();
        assert_eq!(before, LiveRequest::new(all[0], 7));
        for wrong in ["asked_ms = 7\n", "asked_ms = 7\nsnapshot = \"a\"\nsize = 5\n"] {
            assert_eq!(toml::from_str::<LiveRequest>(wrong).unwrap().change(), None, "{wrong}");
        }
    }
}
