//! Making a volume, and opening one: from its checkpoint, its segments and its log.

use std::{collections::BTreeSet, sync::Arc};

use kiln_pool::GetRequest;
use kiln_store::{MAX_LOG, ReadAt, StoreError};
use kiln_stripe::{PoolError, Silent};

use crate::checkpoint::{self, Checkpoint};
use crate::description::{Held, look_up, name_of, swap};
use crate::descriptor::{Descriptor, Era, LogCopy, check_sizes};
use crate::generation::{begin, closed_name, trust_of};
use crate::replay::{Batches, collect, hole};
use crate::segment::{SegmentId, Stripes};
use crate::{Result, Rim, VolumeError, record, record::Trust, state::State, volume::Volume};

/// Numbers that are looked for after the last segment that is there: more than were ever on their
/// way at once.
const GAP: u64 = 16;

/// A volume that is to be.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// Bytes that it has for its users, in whole blocks of 4096.
    pub size: u64,
    /// Bytes of data that are sealed together: 64 KiB to 128 MiB.
    pub segment: u64,
    /// Bytes of each copy of the log: at least four segments.
    pub log: u64,
}

impl CreateRequest {
    /// The usual volume of a size.
    pub fn of(size: u64) -> CreateRequest {
        CreateRequest { size, segment: 32 << 20, log: 128 << 20 }
    }
}

/// Options of opening a volume.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The writer, for messages.
    pub writer: String,
    /// Take the volume from a writer that lives.
    pub take_over: bool,
    /// Nothing is to be written. What is in a log is still made into segments first, unless the
    /// pool is full: then it is read from the log.
    pub read_only: bool,
}

impl OpenRequest {
    /// For writing, unless another process does.
    pub fn of(writer: &str) -> OpenRequest {
        OpenRequest { writer: writer.to_owned(), take_over: false, read_only: false }
    }
}

impl Volume {
    /// Makes an empty volume.
    /// Errors: [`VolumeError::Exists`]; sizes that cannot be; what the pool says.
    pub fn create(rim: &Rim, name: &str, req: &CreateRequest) -> Result<()> {
        check_sizes(req.size, req.segment, req.log)?;
        name_of(name)?;
        if rim.with(|pool| Ok::<_, PoolError>(pool.config().is_encrypted()))? {
            let what = "the pool is encrypted, and logs of volumes would not be; make the volume \
                        in a pool that is not, and encrypt its file system";
            return Err(VolumeError::Usage { what: what.into() });
        }
        let new = Descriptor::new(rim.id(), req.size, req.segment, req.log, rim.now_ms());
        create_from(rim, name, &new)
    }

    /// Opens a volume: from now on this is its one writer. In a pool without room for another log
    /// it becomes that with its first write that finds room, which what is freed makes, too: until
    /// then the writer before loses its log, but may make another and go on.
    /// Errors: [`VolumeError::NoVolume`]; [`VolumeError::InUse`] while its writer lives and it is
    /// not to be taken over; [`VolumeError::NoLog`], [`VolumeError::Damaged`]: what was
    /// acknowledged cannot be read; [`VolumeError::TooFewNodes`].
    pub fn open(rim: &Arc<Rim>, name: &str, req: &OpenRequest) -> Result<Volume> {
        let mut tries = 0;
        loop {
            let held = look_up(rim, name)?;
            match open_version(rim, name, req, held) {
                // Its description was changed meanwhile: a snapshot, or another writer.
                Err(VolumeError::Deposed { .. }) if tries < 3 => tries += 1,
                end => return end,
            }
        }
    }
}

/// Puts the description of a new volume.
pub(crate) fn create_from(rim: &Rim, name: &str, new: &Descriptor) -> Result<()> {
    match swap(rim, name, None, new) {
        Ok(_) => Ok(()),
        Err(VolumeError::Deposed { .. } | VolumeError::Pool(PoolError::Conflict { .. })) => {
            Err(VolumeError::Exists { name: name.to_owned() })
        }
        Err(error) => Err(error),
    }
}

fn open_version(rim: &Arc<Rim>, name: &str, req: &OpenRequest, mut held: Held) -> Result<Volume> {
    let found = &held.descriptor;
    found.check_stays(name)?;
    let id = found.id_bytes();
    // Before anything is taken from another client.
    let trust = trust_of(rim, found)?;
    // First of all: what its writer has not acknowledged by now it never will.
    let copies = close_logs(rim, name, req, found)?;
    let mut batches = Batches::new();
    for copy in &copies {
        collect(copy, id, found.generation, &trust, found.first_seq, &mut batches);
    }
    drop(copies);
    let last = batches.last_key_value().map_or(found.first_seq.saturating_sub(1), |last| *last.0);
    let (mut state, absent) = sealed(rim, name, found, last)?;
    let number = found.generation + 1;
    (state.generation, state.seq) = (number, state.log_seq.max(found.first_seq.saturating_sub(1)));
    let first = state.next_number();
    replay_log(name, batches, &trust, &mut state)?;
    state.pin(&pins(rim, name, found)?);
    let change = |new: &mut Descriptor| {
        new.writer.clone_from(&req.writer);
        if let Some(era) = new.era.last_mut() {
            era.absent.extend(&absent);
        }
        new.era.push(Era { generation: number, first, absent: Vec::new() });
    };
    let generation = match begin(rim, name, &mut held, &mut state, change, &BTreeSet::new()) {
        Err(error) if error.is_full() => {
            // The log of before stays as it is, and holds what was acknowledged.
            if req.read_only {
                return Ok(Volume::assemble_reader(name, rim, state, held));
            }
            state.abandoned.extend(&absent);
            held.descriptor.writer.clone_from(&req.writer);
            return Ok(Volume::assemble_without_log(name, rim, state, held));
        }
        begun => begun?,
    };
    Ok(Volume::assemble(name, rim, req.read_only, state, generation, held))
}

/// Reads the part of a volume that is in objects: its map, as the checkpoint has it, and newer
/// segments; with the numbers that [`replay_segments`] gives. `last`: the last batch of its log.
pub(crate) fn sealed(
    rim: &Rim,
    name: &str,
    found: &Descriptor,
    last: u64,
) -> Result<(State, Vec<u64>)> {
    let mut state = State::new(found.id_bytes(), found.size, found.segment, found.log_size);
    state.fit(Stripes::of(rim.pool().reader().stripe_bytes(found.segment)?));
    if let Some(map) = &found.checkpoint {
        let Checkpoint { head, segments, map } = load(rim, name, map)?;
        state.load(map, &segments, &head);
        state.skip_to(found.next_number);
    }
    let absent = replay_segments(rim, name, found, last, &mut state)?;
    Ok((state, absent))
}

/// Takes the log from its writer, and reads what its copies hold.
pub(crate) fn close_logs(
    rim: &Rim,
    name: &str,
    req: &OpenRequest,
    found: &Descriptor,
) -> Result<Vec<Vec<u8>>> {
    let (pool, mut copies, mut last) = (rim.pool(), Vec::new(), None);
    for LogCopy { node, file } in &found.log {
        let Some(store) = pool.place(node) else { continue };
        let closed = closed_name(file);
        let taken = store.close_log(file, &closed, req.take_over);
        match taken.and_then(|()| read_log(&*store.open(&closed)?)) {
            Ok(bytes) => copies.push(bytes),
            Err(StoreError::InUse { holder, .. }) => {
                let writer = holder
                    .map_or(found.writer.clone(), |holder| format!("{} ({holder})", found.writer));
                return Err(VolumeError::InUse { name: name.to_owned(), writer });
            }
            // A disk that was replaced, or fails: another copy will do.
            Err(error) => last = Some(error),
        }
    }
    if copies.is_empty() && !found.log.is_empty() {
        if let Some(error) = last.filter(|error| !error.is_not_found()) {
            return Err(error.into());
        }
        let nodes = found.log.iter().map(|copy| copy.node.clone()).collect();
        return Err(VolumeError::NoLog { name: name.to_owned(), nodes });
    }
    Ok(copies)
}

pub(crate) fn read_log(file: &dyn ReadAt) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; file.len().min(MAX_LOG) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Reads a map from the pool.
pub(crate) fn load(rim: &Rim, name: &str, map: &str) -> Result<Checkpoint> {
    let bytes = std::cell::RefCell::new(Vec::new());
    let req = GetRequest { name: map, range: None };
    let settings = rim.settings(&Silent);
    rim.with(|pool| {
        let mut bytes = bytes.borrow_mut();
        bytes.clear();
        pool.get(&req, &mut *bytes, &settings)
    })?;
    checkpoint::parse(&bytes.borrow()).ok_or_else(|| {
        let what = format!("its map {map:?} cannot be read");
        VolumeError::Damaged { name: name.to_owned(), what }
    })
}

/// Takes over segments that are newer than the map; gives the numbers between them that are not
/// there, or do not count: what was written without the log does up to its batch `last`, since
/// only then it was acknowledged.
fn replay_segments(
    rim: &Rim,
    name: &str,
    found: &Descriptor,
    last: u64,
    state: &mut State,
) -> Result<Vec<u64>> {
    let (mut absent, mut missing) = (Vec::new(), Vec::new());
    let mut number = found.next_number;
    while missing.len() < GAP as usize {
        let generation = found.generation_of(number);
        let id =
            generation.map(|generation| SegmentId { volume: state.volume, generation, number });
        let object = match &id {
            None => None,
            Some(id) => match rim.with(|pool| pool.open_object(&id.name())) {
                Err(PoolError::NoObject { .. }) => None,
                object => Some((object?, id)),
            },
        };
        match object {
            None => missing.push(number),
            Some((object, id)) => {
                let head = crate::work::read_head(rim, name, &object, id)?;
                let current = id.generation == found.generation;
                if current && head.seq.is_some_and(|seq| seq > last) {
                    missing.push(number);
                } else {
                    state.replay_segment(&head);
                    absent.append(&mut missing);
                }
            }
        }
        number += 1;
    }
    Ok(absent)
}

/// Takes up what the log has beyond segments.
fn replay_log(name: &str, mut batches: Batches, trust: &Trust, state: &mut State) -> Result<()> {
    let first = state.seq + 1;
    let batches = batches.split_off(&first);
    if let Some(missing) = hole(&batches, first) {
        let what = format!(
            "batch {missing} of its log was acknowledged, and no copy at hand has it whole; bring \
             back the nodes with its log, if there are more"
        );
        return Err(VolumeError::Damaged { name: name.to_owned(), what });
    }
    for (seq, bytes) in &batches {
        let Some(batch) = record::parse(bytes, trust) else { continue };
        state.take_up(*seq, 0, &batch.changes, &batch.sums);
    }
    Ok(())
}

/// Segments that the snapshots of a volume need.
pub(crate) fn pins(rim: &Rim, name: &str, found: &Descriptor) -> Result<BTreeSet<SegmentId>> {
    let mut ids = BTreeSet::new();
    for entry in &found.snapshot {
        ids.extend(load(rim, name, &entry.map)?.segments.iter().map(|segment| segment.id));
    }
    Ok(ids)
}
