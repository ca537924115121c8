//! The work behind a task: reading and verifying, computing, writing and verifying. Blocking, and
//! without a state machine's memory of what comes when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, ops::Range};

use bytes::{Bytes, BytesMut};
use kiln_code::Program;
use kiln_store::{
    Backend, Digest, Layout, ShardInfo, ShardReader, ShardWriter, StoreError, checksums,
};

use crate::proto::assignment::{Assignment, PersistInfo, PieceInfo};
use crate::{NetError, Result};

/// Open files and programs of a task. Parts that are not put in place stay when it is dropped: the
/// next task for the same shard goes on where they end.
pub struct TaskExecutor {
    spec: Arc<Assignment>,
    layout: Layout,
    digests: Vec<Digest>,
    backend: Arc<dyn Backend>,
    readers: Vec<(u32, ShardReader)>,
    programs: Vec<Option<Program>>,
    stripes: Mutex<BTreeMap<u64, Arc<Mutex<Stripe>>>>,
    targets: Mutex<Vec<Target>>,
}

/// The sub-chunks of a stripe that this node reads, by chunk, verified.
#[derive(Default)]
struct Stripe {
    chunks: Option<Vec<Chunk>>,
    /// Windows that have taken their slices.
    taken: u64,
}

struct Chunk {
    chunk: u32,
    runs: Vec<Range<u32>>,
    bytes: Vec<u8>,
}

/// A shard that is being rebuilt.
struct Target {
    chunk: u32,
    writer: Option<ShardWriter>,
    next: u64,
    /// Stripes that are not complete or not their turn, with the bytes that they have.
    early: BTreeMap<u64, (Vec<u8>, usize)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TaskExecutor {
    /// Opens the shards and compiles the programs of an assignment.
    pub fn new(spec: Arc<Assignment>, backend: Arc<dyn Backend>) -> Result<TaskExecutor> {
        let (layout, digests) = (spec.layout()?, spec.geometry.all_digests()?);
        let read = spec.from.0.as_deref().unwrap_or(&spec.geometry);
        let recorded = read.all_digests()?;
        let mut readers = Vec::new();
        for source in &spec.sources {
            let reader = ShardReader::open(&*backend, &source.name)?;
            let (info, said) = (reader.info(), read.shard(source.chunk));
            if (info.run, info.index) != (said.run, said.index) {
                return Err(misuse("read", &source.name, "it is a shard of another run or index"));
            }
            // Buffers are made by what the assignment says: the file must say the same.
            let sizes = |info: &ShardInfo| (info.k, info.n, info.alpha, info.sub_chunk);
            if sizes(info) != sizes(&said) {
                return Err(misuse("read", &source.name, "it is a shard of another geometry"));
            }
            if info.sums != said.sums {
                return Err(misuse("read", &source.name, "its checksums are of another kind"));
            }
            let digest = recorded.get(source.chunk as usize).copied();
            let digest = digest.ok_or_else(|| {
                misuse("read", &source.name, "it is a shard that the object does not have")
            })?;
            readers.push((source.chunk, reader.expecting(digest)));
        }
        let kernel =
            kiln_code::active().map_err(|error| misuse("compute", "", &error.to_string()))?;
        let mut programs = Vec::new();
        for round in &spec.rounds {
            let program = match round.dag.build()? {
                None => None,
                Some(dag) => {
                    let program = Program::compile(&dag, kernel);
                    Some(program.map_err(|error| misuse("compute", "", &error.to_string()))?)
                }
            };
            if program.is_none() != round.outputs.is_empty() {
                return Err(NetError::protocol("a round whose DAG is not what it makes"));
            }
            programs.push(program);
        }
        let mut targets = Vec::new();
        for target in &spec.targets {
            let info = spec.geometry.shard(target.chunk);
            let mut writer = ShardWriter::at(&*backend, &target.part, &info, spec.first)?;
            writer.drop_behind();
            let (chunk, next) = (target.chunk, spec.first);
            targets.push(Target { chunk, writer: Some(writer), next, early: BTreeMap::new() });
        }
        let (stripes, targets) = (Mutex::default(), Mutex::new(targets));
        Ok(TaskExecutor { spec, layout, digests, backend, readers, programs, stripes, targets })
    }

    /// The pieces that a window reads. A stripe is read and verified once, whole runs at a time.
    pub fn load(&self, window: u64) -> Result<Vec<(u32, Bytes)>, StoreError> {
        let (number, slice) = self.spec.window(&self.layout, window);
        let sub_len = self.layout.sub_len(number);
        let stripe = Arc::clone(locked(&self.stripes).entry(number).or_default());
        let mut stripe = locked(&stripe);
        if stripe.chunks.is_none() {
            stripe.chunks = Some(self.read(number, sub_len)?);
        }
        let chunks = stripe.chunks.as_deref().unwrap_or_default();
        let reads = self.spec.rounds.iter().flat_map(|round| &round.reads);
        let pieces =
            self.spec.pieces.iter().filter(|piece| reads.clone().any(|id| *id == piece.id));
        let gathered = pieces.map(|piece| (piece.id, gather(chunks, piece, sub_len, &slice)));
        let gathered = gathered.collect();
        stripe.taken += 1;
        if stripe.taken == (sub_len as u64).div_ceil(u64::from(self.spec.slice)).max(1) {
            locked(&self.stripes).remove(&number);
        }
        Ok(gathered)
    }

    fn read(&self, stripe: u64, sub_len: usize) -> Result<Vec<Chunk>, StoreError> {
        let mut chunks = Vec::new();
        for (chunk, reader) in &self.readers {
            let mine = self.spec.pieces.iter().filter(|piece| piece.chunk == *chunk);
            let runs = merged(mine.flat_map(|piece| &piece.runs).map(|run| run.start..run.end));
            let count: usize = runs.iter().map(|run| run.len()).sum();
            let mut bytes = vec![0; count * sub_len];
            match &self.spec.from.0 {
                // The chunk is the same, cut into other sub-chunks; all of them are wanted.
                Some(old) => {
                    let all = 0..old.alpha;
                    reader.read_runs(stripe, std::slice::from_ref(&all), &mut bytes)?;
                }
                None if count > 0 => drop(reader.read_runs(stripe, &runs, &mut bytes)?),
                None => {}
            }
            chunks.push(Chunk { chunk: *chunk, runs, bytes });
        }
        Ok(chunks)
    }

    /// Runs the program of a round.
    pub fn compute(
        &self,
        window: u64,
        round: usize,
        inputs: &[Bytes],
    ) -> Result<Vec<Bytes>, StoreError> {
        let (_, slice) = self.spec.window(&self.layout, window);
        let bad = |what: &str| StoreError::Misuse {
            op: "compute",
            name: String::new(),
            what: what.to_owned(),
        };
        let (Some(program), Some(info)) =
            (self.programs.get(round).and_then(Option::as_ref), self.spec.rounds.get(round))
        else {
            return Err(bad("there is no such round"));
        };
        let mut made = Vec::new();
        for id in &info.outputs {
            let bytes = self.spec.piece_bytes(*id, &slice);
            made.push(vec![0; bytes.map_err(|error| bad(&error.to_string()))?]);
        }
        let inputs: Vec<&[u8]> = inputs.iter().map(|bytes| &bytes[..]).collect();
        let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(|bytes| &mut bytes[..]).collect();
        program.run(&inputs, &mut outputs).map_err(|error| bad(&error.to_string()))?;
        Ok(made.into_iter().map(Bytes::from).collect())
    }

    /// Puts sub-chunks where they belong; whole stripes are written in their order. Gives the
    /// bytes that were kept.
    pub fn persist(&self, window: u64, round: usize, pieces: &[Bytes]) -> Result<u64, StoreError> {
        let (stripe, slice) = self.spec.window(&self.layout, window);
        let Some(info) = self.spec.rounds.get(round) else { return Ok(0) };
        let (mut kept, most) = (0, self.spec.windows as usize);
        let mut targets = locked(&self.targets);
        for (persist, bytes) in info.persists.iter().zip(pieces) {
            if let Some(target) = targets.iter_mut().find(|t| t.chunk == persist.chunk) {
                kept += bytes.len() as u64;
                target.place(&self.layout, (stripe, &slice), persist, bytes, most)?;
            }
        }
        Ok(kept)
    }

    /// Completes the shards: their digests must be the recorded ones, also when read back. Those of
    /// a recode have none yet: the caller appends what is left, once all are there.
    pub fn finish(&self) -> Result<(), StoreError> {
        let geometry = &self.spec.geometry;
        for target in locked(&self.targets).iter_mut() {
            let Some(mut writer) = target.writer.take() else { continue };
            if self.spec.from.0.is_some() {
                writer.sync()?;
                continue;
            }
            writer.finish_rebuilt(&*self.backend, geometry.size, &self.digests)?;
        }
        Ok(())
    }

    /// Gives the completed shards their names.
    pub fn commit(&self) -> Result<(), StoreError> {
        let mut files = self.spec.targets.iter();
        files.try_for_each(|file| self.backend.rename(&file.part, &file.name))
    }
}

impl Target {
    fn place(
        &mut self,
        layout: &Layout,
        (stripe, slice): (u64, &Range<usize>),
        persist: &PersistInfo,
        bytes: &[u8],
        most: usize,
    ) -> Result<(), StoreError> {
        let sub_len = layout.sub_len(stripe);
        let whole = layout.chunk_len(stripe);
        if stripe < self.next {
            return Ok(());
        }
        // More stripes than windows are under way: some of them never become complete.
        if !self.early.contains_key(&stripe) && self.early.len() > most {
            let (op, name) = ("write", String::new());
            let what = "rounds that keep only parts of stripes".to_owned();
            return Err(StoreError::Misuse { op, name, what });
        }
        let (chunk, have) = self.early.entry(stripe).or_insert_with(|| (vec![0; whole], 0));
        for (position, piece) in persist.positions.iter().zip(bytes.chunks(slice.len())) {
            let at = *position as usize * sub_len + slice.start;
            chunk[at..at + slice.len()].copy_from_slice(piece);
        }
        *have += bytes.len();
        while self.early.get(&self.next).is_some_and(|(chunk, have)| *have == chunk.len()) {
            let (Some((chunk, _)), Some(writer)) =
                (self.early.remove(&self.next), self.writer.as_mut())
            else {
                break;
            };
            let mut sums = Vec::new();
            checksums(layout.sums(), &chunk, layout.sub_len(self.next), &mut sums);
            writer.append_chunk(&chunk, &sums)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// The bytes of a window's slice of all sub-chunks of a piece.
fn gather(chunks: &[Chunk], piece: &PieceInfo, sub_len: usize, slice: &Range<usize>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(piece.sub_chunks as usize * slice.len());
    let Some(chunk) = chunks.iter().find(|chunk| chunk.chunk == piece.chunk) else {
        return Bytes::new();
    };
    for run in &piece.runs {
        // The run lies within one of the merged runs.
        let mut before = 0;
        for whole in &chunk.runs {
            if whole.start <= run.start && run.end <= whole.end {
                let first = before + (run.start - whole.start) as usize;
                for sub in first..first + (run.end - run.start) as usize {
                    let at = sub * sub_len;
                    bytes.extend_from_slice(&chunk.bytes[at + slice.start..at + slice.end]);
                }
            }
            before += whole.len();
        }
    }
    bytes.freeze()
}

/// Runs in ascending order, those that touch or overlap as one.
fn merged(runs: impl Iterator<Item = Range<u32>>) -> Vec<Range<u32>> {
    let mut all: Vec<Range<u32>> = runs.collect();
    all.sort_unstable_by_key(|run| run.start);
    let mut merged: Vec<Range<u32>> = Vec::new();
    for run in all {
        match merged.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => merged.push(run),
        }
    }
    merged
}

fn misuse(op: &'static str, name: &str, what: &str) -> NetError {
    StoreError::Misuse { op, name: name.to_owned(), what: what.to_owned() }.into()
}
