//! A generation: one writer, and one set of nodes that its log is on.
//!
//! A process that opens a volume begins one, and so does a writer after a node of its log failed.
//! All that is not yet in segments is written to the new log first; then the volume's description
//! names it, over the version that the writer knows. So there is one writer whose log counts, and
//! what any other one is still about to acknowledge cannot be: its log was closed, or is named no
//! more.

use std::{collections::BTreeSet, sync::Arc};

use kiln_pool::Key;
use kiln_pool::layout::{Candidate, place};
use kiln_store::{Backend, Capabilities, Capability, StoreError};
use kiln_stripe::names;

use crate::description::{Held, swap};
use crate::descriptor::{Descriptor, LogCopy};
use crate::record::{self, BatchId, Change, MAX_BLOCKS, MAX_ENTRIES, Trust};
use crate::state::{Buffer, State};
use crate::{BLOCK, Result, Rim, VolumeError, logs::Logs, ring::Ring};

/// The log that is written to.
#[derive(Default)]
pub(crate) struct Generation {
    pub volume: [u8; 16],
    pub number: u64,
    /// Authentication of its batches.
    pub trust: Trust,
    pub logs: Logs,
    pub places: Vec<LogCopy>,
    pub scratch: Vec<u8>,
    /// The description may name another log: nothing is acknowledged with this one any more.
    pub unsure: bool,
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Nodes on which something failed, and how.
pub(crate) type Failed = Vec<(String, StoreError)>;

/// Makes the files of a new log on nodes in distinct domains.
fn make_logs(
    rim: &Rim,
    volume: &str,
    id: [u8; 16],
    number: u64,
    size: u64,
    without: &BTreeSet<String>,
    full: &mut Option<String>,
) -> Result<Vec<(LogCopy, Box<dyn kiln_store::LogFile>)>> {
    let pool = rim.pool();
    let config = pool.config();
    let need = config.policy.manifest_copies;
    let mut without = without.clone();
    let file = format!("{}.{number:08x}.{}.log", names::hex(&id), &names::hex(&rim.id())[..8]);
    let key = Key::of(&file)?;
    let able = Capabilities::of(&[Capability::Log]);
    let mut made: Vec<(LogCopy, Box<dyn kiln_store::LogFile>)> = Vec::new();
    loop {
        let usable = |node: &&kiln_pool::NodeConfig| {
            let fits = |store: &Arc<dyn Backend>| able.lacking(store.capabilities()).is_none();
            !node.is_leaving()
                && !without.contains(&node.id)
                && pool.place(&node.id).as_ref().is_some_and(fits)
        };
        let taken: Vec<&str> = (made.iter())
            .filter_map(|(copy, _)| config.position(&copy.node))
            .map(|at| &config.node[at].domain[..])
            .collect();
        let nodes: Vec<&kiln_pool::NodeConfig> = config.node.iter().filter(usable).collect();
        let candidates: Vec<Candidate<'_>> = nodes.iter().map(|node| node.candidate()).collect();
        let chosen = place(&key, &candidates, need - made.len(), &taken);
        if chosen.len() + made.len() < need {
            let have = made.len() + chosen.len();
            let places: Vec<LogCopy> = made.into_iter().map(|(copy, _)| copy).collect();
            remove_logs(rim, places.iter());
            let lacks = |node: &&kiln_pool::NodeConfig| {
                let store = pool.place(&node.id);
                store.is_some_and(|store| able.lacking(store.capabilities()).is_some())
            };
            if let Some(node) = config.node.iter().find(lacks) {
                let what = format!(
                    "volume {volume:?}: its log needs nodes that can keep one in {need} failure \
                     domains, and there are {have}; node {} cannot keep one",
                    node.id
                );
                return Err(VolumeError::Usage { what });
            }
            if let Some(why) = full.take() {
                let why = format!("no room for its log ({why}); free space, or open it to read");
                return Err(VolumeError::Stalled { name: volume.to_owned(), why, full: true });
            }
            return Err(VolumeError::TooFewNodes { name: volume.to_owned(), need, have });
        }
        for at in chosen {
            let node = nodes[at].id.clone();
            let store = pool.place_to_write(&node);
            let log = store.map(|store| store.create_log(&file, size));
            match log {
                Some(Ok(log)) => made.push((LogCopy { node, file: file.clone() }, log)),
                end => {
                    note_full(full, end.and_then(Result::err).as_ref());
                    without.insert(node);
                }
            }
        }
        if made.len() == need {
            return Ok(made);
        }
    }
}

/// Notes a failure that is a lack of room.
fn note_full(full: &mut Option<String>, error: Option<&StoreError>) {
    if let Some(error) = error.filter(|error| error.is_full()) {
        *full = Some(error.to_string());
    }
}

/// Returns the authentication of a log that is begun now.
pub(crate) fn trust_now(rim: &Rim) -> Trust {
    rim.pool().config().log_sealer().map_or(Trust::Checksums, Trust::Seal)
}

/// Returns the authentication of batches in the log that a description names.
pub(crate) fn trust_of(rim: &Rim, found: &Descriptor) -> Result<Trust> {
    if found.log_key.is_empty() {
        return Ok(Trust::Checksums);
    }
    let sealer = rim.pool().config().log_sealer_by(&found.log_key)?;
    Ok(sealer.map_or(Trust::Checksums, Trust::Seal))
}

/// Removes logs that are not needed, where they can be reached.
pub(crate) fn remove_logs<'a>(rim: &Rim, copies: impl Iterator<Item = &'a LogCopy>) {
    let pool = rim.pool();
    for copy in copies {
        if let Some(store) = pool.place(&copy.node) {
            // What stays is found by a check of the volume.
            let _ = store.remove(&copy.file);
            let _ = store.remove(&closed_name(&copy.file));
        }
    }
}

/// Returns the name of a log that was taken from its writer.
pub(crate) fn closed_name(file: &str) -> String {
    format!("{file}.closed")
}

/// Writes what a buffer holds to a log.
fn relog(
    buffer: &Buffer,
    generation: &mut Generation,
    ring: &mut Ring,
    seq: &mut u64,
) -> Result<(), Failed> {
    let mut changes: Vec<Change<'_>> = Vec::new();
    let mut all: Vec<Vec<Change<'_>>> = Vec::new();
    let mut blocks = 0;
    for change in buffer.changes() {
        if blocks + change.data_blocks() > MAX_BLOCKS || changes.len() == MAX_ENTRIES {
            all.push(std::mem::take(&mut changes));
            blocks = 0;
        }
        blocks += change.data_blocks();
        changes.push(change);
    }
    all.push(changes);
    for changes in all.iter().filter(|changes| !changes.is_empty()) {
        let (volume, number) = (generation.volume, generation.number);
        let id = BatchId { volume, generation: number, seq: *seq + 1 };
        let mut bytes = Vec::new();
        record::encode(&id, changes, &generation.trust, &mut bytes);
        // A log has room for four segments, and less than that is ever not sealed.
        let room = ring.room(bytes.len() as u64).ok_or_else(Vec::new)?;
        generation.logs.write(room.offset, &Arc::new(bytes))?;
        ring.take(&room);
        *seq += 1;
    }
    Ok(())
}

/// Begins a generation: a new log with all that is not in segments, named by the description.
pub(crate) fn begin(
    rim: &Rim,
    volume: &str,
    held: &mut Held,
    state: &mut State,
    change: impl Fn(&mut Descriptor),
    without: &BTreeSet<String>,
) -> Result<Generation> {
    let number = held.descriptor.generation + 1;
    let mut without = without.clone();
    let (id, log_size) = (held.descriptor.id_bytes(), held.descriptor.log_size);
    let (first, mut full) = (state.seq + 1, None);
    loop {
        let made = make_logs(rim, volume, id, number, log_size, &without, &mut full)?;
        let places: Vec<LogCopy> = made.iter().map(|(copy, _)| copy.clone()).collect();
        let logs = Logs::new(made, rim.threads);
        let trust = trust_now(rim);
        let mut generation =
            Generation { volume: id, number, trust, logs, places, ..Generation::default() };
        let (mut ring, mut seq) = (Ring::new(log_size), state.seq);
        let mut starts = Vec::new();
        let written = state.unsealed().try_for_each(|buffer| {
            let start = ring.head();
            relog(buffer, &mut generation, &mut ring, &mut seq)?;
            starts.push((start, seq));
            Ok(())
        });
        if let Err(failed) = written {
            remove_logs(rim, generation.places.iter());
            let failed: Failed = failed;
            if failed.is_empty() {
                let what = "its log is too small for what is not in segments".to_owned();
                return Err(VolumeError::Damaged { name: volume.to_owned(), what });
            }
            failed.iter().for_each(|(_, error)| note_full(&mut full, Some(error)));
            without.extend(failed.into_iter().map(|(node, _)| node));
            continue;
        }
        let mut new = held.descriptor.clone();
        change(&mut new);
        (new.generation, new.first_seq) = (number, first);
        new.log.clone_from(&generation.places);
        new.log_key = generation.trust.key();
        // Where that fails it may be there all the same, seen by the next writer: the new log
        // stays, with all that it has.
        let run = swap(rim, volume, Some(held.run), &new)?;
        let before = std::mem::replace(held, Held { descriptor: new, run });
        state.relogged(ring, &starts);
        remove_logs(rim, before.descriptor.log.iter());
        return Ok(generation);
    }
}

impl Buffer {
    /// Returns its changes of blocks.
    fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let freed = self.freed.iter().map(|(block, count)| Change::Freed { block, count });
        let live = self.live_runs().map(|run| {
            let bytes = &self.data[run.start * BLOCK..run.end * BLOCK];
            Change::Data { block: self.blocks[run.start], bytes }
        });
        freed.chain(live)
    }
}
