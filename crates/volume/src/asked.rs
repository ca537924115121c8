//! Snapshots of a volume in use: whoever wants one asks who serves the volume, by an object in the
//! pool, so that nobody has to know where that one is.

use kiln_pool::{GetRequest, PoolError, Silent, StreamSource};
use serde::{Deserialize, Serialize};

use crate::admin::{check_snapshot, there_is};
use crate::description::look_up;
use crate::descriptor::SnapshotEntry;
use crate::kept::lock;
use crate::state::Stage;
use crate::volume::Volume;
use crate::{DATA, Result, Rim, VolumeError, Worked};

/// A request that is older than this is nobody's any more.
const STALE_MS: u64 = 120_000;
/// Most bytes of a request.
const MOST: u64 = 4096;

/// What somebody wants.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotRequest {
    /// Name of the snapshot.
    snapshot: String,
    asked_ms: u64,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    refused: String,
}

/// The object that requests are in, one at a time.
fn place_of(id: &str) -> String {
    format!("{DATA}/{id}/request")
}

fn read(rim: &Rim, place: &str) -> Result<Option<SnapshotRequest>> {
    let mut text = Vec::new();
    let settings = rim.settings(&Silent);
    let req = GetRequest { name: place, range: Some(0..MOST) };
    match rim.pool().get(&req, &mut text, &settings) {
        Err(PoolError::NoObject { .. }) => return Ok(None),
        got => got?,
    };
    // What cannot be read is nobody's request.
    Ok(toml::from_str(&String::from_utf8_lossy(&text)).ok())
}

fn write(rim: &Rim, place: &str, request: &SnapshotRequest) -> Result<()> {
    let wrong = |error: toml::ser::Error| VolumeError::Usage { what: error.to_string() };
    let text = toml::to_string(request).map_err(wrong)?;
    let source = || StreamSource::new(text.as_bytes()).with_size(text.len() as u64);
    Ok(rim.put(place, source)?)
}

impl Volume {
    /// Asks whoever serves a volume for a snapshot of it, of some moment between the call and its
    /// return. `wait` lets some time pass, and says whether to go on.
    ///
    /// # Errors
    /// There is a snapshot of that name; it was refused, or nobody answered.
    pub fn ask_for_snapshot(
        rim: &Rim,
        name: &str,
        snapshot: &str,
        mut wait: impl FnMut() -> bool,
    ) -> Result<()> {
        check_snapshot(snapshot)?;
        let found = look_up(rim, name)?.descriptor;
        if found.has_snapshot(snapshot) {
            return Err(there_is(name, snapshot));
        }
        let (place, now_ms) = (place_of(&found.id), rim.now_ms());
        if let Some(other) = read(rim, &place)?
            && other.refused.is_empty()
            && now_ms.saturating_sub(other.asked_ms) < STALE_MS
        {
            let what = format!(
                "somebody else asks for a snapshot of volume {name:?} now ({:?}); try again",
                other.snapshot
            );
            return Err(VolumeError::Usage { what });
        }
        let (asked_ms, refused) = (now_ms, String::new());
        write(rim, &place, &SnapshotRequest { snapshot: snapshot.to_owned(), asked_ms, refused })?;
        loop {
            if !wait() {
                rim.remove(&place)?;
                let writer = found.writer;
                let what = format!("volume {name:?}: {writer} did not answer; nothing was kept");
                return Err(VolumeError::Usage { what });
            }
            if look_up(rim, name)?.descriptor.has_snapshot(snapshot) {
                // Who has done it removes the request, too.
                return Ok(rim.remove(&place)?);
            }
            if let Some(refused) = read(rim, &place)?.map(|request| request.refused)
                && !refused.is_empty()
            {
                rim.remove(&place)?;
                return Err(VolumeError::Usage { what: refused });
            }
        }
    }

    /// Does what somebody asked of who serves this volume, see [`Volume::ask_for_snapshot`].
    ///
    /// # Errors
    /// The pool cannot be read. What cannot be done is told to who asked.
    pub fn answer(&self) -> Result<Worked> {
        let place = place_of(&lock(&self.held).descriptor.id);
        let Some(request) = read(&self.rim, &place)? else { return Ok(Worked::Nothing) };
        if self.rim.now_ms().saturating_sub(request.asked_ms) > STALE_MS {
            self.rim.remove(&place)?;
            return Ok(Worked::Nothing);
        }
        if !request.refused.is_empty() {
            return Ok(Worked::Nothing);
        }
        match self.keep_snapshot(&request.snapshot) {
            Ok(()) => self.rim.remove(&place)?,
            Err(why) => {
                write(&self.rim, &place, &SnapshotRequest { refused: why.to_string(), ..request })?
            }
        }
        Ok(Worked::Checkpoint)
    }

    /// Keeps the volume as it is now under a name, while it is written to.
    ///
    /// # Errors
    /// There is a snapshot of that name; the pool cannot take it. Nothing is then kept.
    pub fn keep_snapshot(&self, snapshot: &str) -> Result<()> {
        check_snapshot(snapshot)?;
        self.still_writes()?;
        // Nothing is moved or removed meanwhile that the map names.
        let mut kept = lock(&self.keeper);
        if lock(&self.held).descriptor.has_snapshot(snapshot) {
            return Err(there_is(&self.name, snapshot));
        }
        let (map, size, waiting) = loop {
            let mut state = lock(&self.state);
            // The log has room for so many buffers and no more.
            if state.has_room() {
                let (seq, head) = (state.seq, state.ring.head());
                state.close(seq, head);
                let waiting: Vec<u32> =
                    state.closed.iter().map(|closed| closed.buffer.slot).collect();
                break (state.map.clone(), state.size, waiting);
            }
            drop(state);
            self.seal()?;
        };
        let sealed = |slot: &u32| lock(&self.state).slots[*slot as usize].stage != Stage::Closed;
        while !waiting.iter().all(sealed) {
            self.seal()?;
        }
        let moment = lock(&self.state).moment_of(map, size);
        let name = self.next_map(&mut kept);
        self.put_checkpoint(&name, &moment)?;
        let created_ms = self.rim.now_ms();
        self.describe(|new| {
            let (name, map, clones) = (snapshot.to_owned(), name.clone(), Vec::new());
            new.snapshot.push(SnapshotEntry { name, created_ms, size, map, clones });
            None
        })?;
        let ids = moment.segments.iter().flatten().map(|segment| segment.id).collect();
        lock(&self.state).pin(&ids);
        Ok(())
    }
}
