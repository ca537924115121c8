//! The share of one node in a placed repair, as it travels.
//!
//! A part of a plan (`kiln_plan::NodeExecution`) with everything that the node needs to carry it
//! out: names of its shards, addresses of the others, the geometry. A node that reads one believes
//! nothing of it: `Assignment::check` holds every number against its limit.

mod cost;

use kiln_code::{Dag, DagBuilder, Hint, Matrix, dag::At};
use kiln_plan::{Execution, Source};
use kiln_store::{Digest, Layout, ShardInfo, SumKind, check_name};
use std::{collections::BTreeSet, ops::Range};

pub(crate) use self::cost::Cost;
use super::field::{Field, Reader};
use crate::{NetError, Result};

/// Bytes of an assignment, at most.
pub const ASSIGNMENT_MAX: usize = 64 << 20;
/// Windows under way at a node, at most.
pub const WINDOWS_MAX: u32 = 256;
/// Positions of all pieces of a node together, at most.
const POSITIONS_MAX: usize = 1 << 24;

macro_rules! records {
    ($($(#[doc = $doc:literal])* $name:ident {
        $($(#[doc = $field_doc:literal])* $field:ident: $type:ty),* $(,)?
    })*) => {$(
        $(#[doc = $doc])*
        #[allow(missing_docs)] // of fields that their names describe
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl Field for $name {
            const LEAST: usize = 0 $(+ <$type as Field>::LEAST)*;

            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self> {
                Ok(Self { $($field: Field::take(reader)?,)* })
            }
        }
    )*};
}

records! {
    /// The address of another node.
    Peer {
        node: u32,
        /// Its address, as [`crate::Address`] reads it.
        address: String,
    }
    /// A shard that the node reads.
    SourceFile {
        /// The chunk, which is the shard's index.
        chunk: u32,
        name: String,
    }
    /// A shard that the node writes.
    TargetFile {
        /// The chunk, which is the shard's index.
        chunk: u32,
        /// Name of the file while it is written.
        part: String,
        /// Its name when it is complete and verified.
        name: String,
    }
    /// The header fields that all shards of the run share.
    Geometry {
        spec: String,
        object: String,
        run: [u8; 16],
        source: [u8; 16],
        /// Data chunks.
        k: u16,
        /// All chunks.
        n: u16,
        alpha: u32,
        /// Bytes of a sub-chunk.
        sub_chunk: u32,
        segment_stripes: u32,
        /// Bytes of the object.
        size: u64,
        /// Digests of all n shards, in pieces of 16 bytes: one of each shard, or two where the
        /// digests are trees.
        digests: Vec<[u8; 16]>,
    }
    /// The header of one fragment in a bundle.
    FragmentHeader {
        piece: u32,
        at: u32,
        /// Bytes of the whole piece.
        total: u32,
        /// Bytes of it in the payload.
        len: u32,
    }
    /// A run of positions.
    Run {
        start: u32,
        /// One after the last.
        end: u32,
    }
    /// Sub-chunks that are made and used together.
    PieceInfo {
        id: u32,
        sub_chunks: u32,
        /// The chunk that it is read from; without runs none.
        chunk: u32,
        /// The positions that are read; empty when it is computed.
        runs: Vec<Run>,
    }
    /// A vertex that is read or made.
    Place { chunk: u32, position: u32 }
    /// A matrix over GF(2^8).
    MatrixInfo {
        rows: u32,
        /// Row by row.
        entries: Vec<u8>,
    }
    /// A group of vertices from the same sources.
    StepInfo {
        matrix: u32,
        /// Vertices: inputs first, then what steps made, in their order.
        sources: Vec<u32>,
    }
    /// An output of a DAG.
    OutputInfo { at: Place, vertex: u32 }
    DagInfo {
        /// Its inputs, ascending.
        inputs: Vec<Place>,
        matrices: Vec<MatrixInfo>,
        /// Its steps, sources before users.
        steps: Vec<StepInfo>,
        outputs: Vec<OutputInfo>,
    }
    /// A piece and who gets it.
    SendInfo { piece: u32, to: u32 }
    /// Sub-chunks that are kept.
    PersistInfo {
        piece: u32,
        chunk: u32,
        /// Position of each of its sub-chunks.
        positions: Vec<u32>,
    }
    /// A round of a node's work, as in `kiln_plan`.
    RoundInfo {
        reads: Vec<u32>,
        /// Pieces waited for.
        receives: Vec<u32>,
        /// The computation; a DAG without outputs: none.
        dag: DagInfo,
        /// Pieces the DAG reads.
        inputs: Vec<u32>,
        /// Pieces the DAG makes.
        outputs: Vec<u32>,
        /// Pieces to send.
        sends: Vec<SendInfo>,
        /// Pieces to keep.
        persists: Vec<PersistInfo>,
    }
    /// The share of one node.
    Assignment {
        me: u32,
        first: u64,
        /// One after the last stripe.
        end: u64,
        /// Bytes of every sub-chunk in one window.
        slice: u32,
        /// Windows under way at once.
        windows: u32,
        /// Bytes a second that the node may send or receive for this; 0: no limit.
        rate: u64,
        geometry: Geometry,
        peers: Vec<Peer>,
        sources: Vec<SourceFile>,
        targets: Vec<TargetFile>,
        pieces: Vec<PieceInfo>,
        rounds: Vec<RoundInfo>,
        from: OldRun,
    }
}

/// The run that a recode reads: its data shards have the chunks of the new ones, in stripes of the
/// same length. Where there is none it takes no bytes, so that agents of before there were recodes
/// take every other assignment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OldRun(pub Option<Box<Geometry>>);

impl Field for OldRun {
    const LEAST: usize = 0;

    fn put(&self, out: &mut Vec<u8>) {
        if let Some(old) = &self.0 {
            old.put(out);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let none = reader.is_at_end();
        Ok(OldRun(if none { None } else { Some(Box::new(Field::take(reader)?)) }))
    }
}

impl Geometry {
    /// The geometry that a shard tells, with the object's size and the digests of all shards,
    /// which a header may not know.
    pub fn of(info: &ShardInfo, size: u64, digests: &[Digest]) -> Geometry {
        let pieces = digests.iter().flat_map(|digest| digest.as_bytes().chunks_exact(16));
        Geometry {
            spec: info.spec.clone(),
            object: info.object.clone(),
            run: info.run,
            source: info.source,
            k: info.k,
            n: info.n,
            alpha: info.alpha,
            sub_chunk: info.sub_chunk,
            segment_stripes: info.segment_stripes,
            size,
            digests: pieces.map(|piece| std::array::from_fn(|at| piece[at])).collect(),
        }
    }

    /// Returns the header of the shard of this run with this index.
    pub fn shard(&self, index: u32) -> ShardInfo {
        ShardInfo {
            spec: self.spec.clone(),
            object: self.object.clone(),
            run: self.run,
            source: self.source,
            index: u16::try_from(index).unwrap_or(u16::MAX),
            k: self.k,
            n: self.n,
            alpha: self.alpha,
            sub_chunk: self.sub_chunk,
            segment_stripes: self.segment_stripes,
            size: Some(self.size),
            sums: self.sums(),
        }
    }

    /// Returns the kind of checksum of sub-chunks, as the digests tell.
    fn sums(&self) -> SumKind {
        match self.digests.len() == usize::from(self.n) {
            true => SumKind::Crc32c,
            false => SumKind::Blake3,
        }
    }

    /// The digests of all shards.
    pub fn all_digests(&self) -> Result<Vec<Digest>> {
        let (sums, bytes) = (self.sums(), self.digests.concat());
        let each = bytes.chunks_exact(sums.digest_len());
        let digests: Vec<Digest> = each.filter_map(|bytes| Digest::new(sums, bytes)).collect();
        let whole = bytes.len() == sums.digest_len() * usize::from(self.n);
        let wrong = || NetError::protocol("digests that are not as many as the shards");
        whole.then_some(digests).ok_or_else(wrong)
    }
}

impl DagInfo {
    /// The same DAG, without its hints.
    pub fn of(dag: &Dag) -> DagInfo {
        let place = |at: &At| Place { chunk: at.chunk, position: at.position };
        let matrix = |matrix: &Matrix| MatrixInfo {
            rows: matrix.rows() as u32,
            entries: (0..matrix.rows()).flat_map(|r| matrix.row(r).to_vec()).collect(),
        };
        let step = |step: kiln_code::dag::Step<'_>| StepInfo {
            matrix: step.matrix_index as u32,
            sources: step.sources.to_vec(),
        };
        DagInfo {
            inputs: dag.inputs().iter().map(place).collect(),
            matrices: dag.matrices().iter().map(matrix).collect(),
            steps: dag.steps().map(step).collect(),
            outputs: dag
                .outputs()
                .iter()
                .map(|(at, vertex)| OutputInfo { at: place(at), vertex: *vertex })
                .collect(),
        }
    }

    /// The DAG; nothing when it has no outputs.
    /// Errors: numbers that name nothing, or matrices that do not fit.
    pub fn build(&self) -> Result<Option<Dag>> {
        if self.outputs.is_empty() {
            return Ok(None);
        }
        let at = |place: &Place| At { chunk: place.chunk, position: place.position };
        let wrong = |what: &dyn std::fmt::Display| bad(format!("a DAG that is none: {what}"));
        let mut builder = DagBuilder::new();
        let mut vertices: Vec<_> = Vec::new();
        for input in &self.inputs {
            vertices.push(builder.input(at(input), Hint::default()));
        }
        let mut matrices = Vec::new();
        for info in &self.matrices {
            let rows = info.rows as usize;
            let cols = info.entries.len().checked_div(rows).unwrap_or(0);
            let matrix = Matrix::new(rows, cols, info.entries.clone()).map_err(|e| wrong(&e))?;
            matrices.push((builder.matrix(&matrix), rows));
        }
        for step in &self.steps {
            let Some(&(matrix, rows)) = matrices.get(step.matrix as usize) else {
                return Err(wrong(&"no such matrix"));
            };
            let known = |source: &u32| vertices.get(*source as usize).copied();
            let sources: Option<Vec<_>> = step.sources.iter().map(known).collect();
            let sources = sources.ok_or_else(|| wrong(&"a source before it is made"))?;
            let hints = vec![Hint::default(); rows];
            let made = builder.step(matrix, &sources, &hints).map_err(|error| wrong(&error))?;
            vertices.extend((0..rows).map(|row| made.symbol(row)));
        }
        for output in &self.outputs {
            let Some(&symbol) = vertices.get(output.vertex as usize) else {
                return Err(wrong(&"an output that is never made"));
            };
            builder.output(at(&output.at), symbol);
        }
        builder.finish().map(Some).map_err(|error| wrong(&error))
    }
}

fn bad(what: impl Into<String>) -> NetError {
    NetError::protocol(what)
}

impl Assignment {
    /// The same with the peers that it sends to, by their addresses, and the files that it reads of
    /// a node's shards, which are given by their chunks.
    pub fn connected(
        self,
        address: impl Fn(usize) -> String,
        shards: &[(usize, String)],
    ) -> Assignment {
        let to: BTreeSet<u32> =
            self.rounds.iter().flat_map(|round| &round.sends).map(|send| send.to).collect();
        let peers = to.into_iter().map(|node| Peer { node, address: address(node as usize) });
        let read: BTreeSet<u32> =
            self.pieces.iter().filter(|p| !p.runs.is_empty()).map(|p| p.chunk).collect();
        let shards = shards.iter().map(|(chunk, name)| (*chunk as u32, name));
        let sources = shards
            .filter(|(chunk, _)| read.contains(chunk))
            .map(|(chunk, name)| SourceFile { chunk, name: name.clone() });
        Assignment { peers: peers.collect(), sources: sources.collect(), ..self }
    }

    /// The rounds and pieces of a node of a plan; the rest is the caller's.
    pub fn of(execution: &Execution, node: usize) -> Option<Assignment> {
        let work = execution.node_execution(node)?;
        let mut used = BTreeSet::new();
        let rounds = work.rounds.iter().map(|round| {
            used.extend(round.reads.iter().chain(&round.receives));
            used.extend(round.inputs.iter().chain(&round.outputs));
            used.extend(round.sends.iter().map(|(piece, _)| piece));
            used.extend(round.persists.iter().map(|persist| &persist.piece));
            RoundInfo {
                reads: round.reads.clone(),
                receives: round.receives.clone(),
                dag: round.dag.as_ref().map(DagInfo::of).unwrap_or_default(),
                inputs: round.inputs.clone(),
                outputs: round.outputs.clone(),
                sends: round
                    .sends
                    .iter()
                    .map(|&(piece, to)| SendInfo { piece, to: to as u32 })
                    .collect(),
                persists: round
                    .persists
                    .iter()
                    .map(|persist| PersistInfo {
                        piece: persist.piece,
                        chunk: persist.chunk as u32,
                        positions: persist.positions.clone(),
                    })
                    .collect(),
            }
        });
        let rounds = rounds.collect();
        let piece = |id: u32| {
            let piece = &execution.pieces()[id as usize];
            let (chunk, runs) = match &piece.source {
                Source::Disk { chunk, runs } if piece.home == node => (
                    *chunk as u32,
                    runs.iter().map(|r| Run { start: r.start, end: r.end }).collect(),
                ),
                _ => (0, Vec::new()),
            };
            PieceInfo { id, sub_chunks: piece.sub_chunks as u32, chunk, runs }
        };
        let pieces = used.into_iter().map(piece).collect();
        Some(Assignment { me: node as u32, pieces, rounds, ..Assignment::default() })
    }

    /// The same for a recode from the data shards of another run: each shard that the node has is
    /// written as a shard of the new run, too.
    #[must_use]
    pub fn recoding(mut self, from: Geometry) -> Assignment {
        let alpha = self.geometry.alpha;
        self.from = OldRun(Some(Box::new(from)));
        let mine: Vec<u32> = self.sources.iter().map(|source| source.chunk).collect();
        for chunk in mine {
            let positions = |piece: &PieceInfo| -> Vec<u32> {
                piece.runs.iter().flat_map(|run| run.start..run.end).collect()
            };
            let mut read: Vec<(u32, Vec<u32>)> = (self.pieces.iter())
                .filter(|piece| piece.chunk == chunk && !piece.runs.is_empty())
                .map(|piece| (piece.id, positions(piece)))
                .collect();
            let mut all: Vec<u32> =
                read.iter().flat_map(|(_, positions)| positions).copied().collect();
            all.sort_unstable();
            if !all.into_iter().eq(0..alpha) {
                // Pieces that overlap, or leave something out: one more is the chunk.
                let id = self.pieces.last().map_or(0, |piece| piece.id + 1);
                let runs = vec![Run { start: 0, end: alpha }];
                self.pieces.push(PieceInfo { id, sub_chunks: alpha, chunk, runs });
                self.rounds.insert(0, RoundInfo { reads: vec![id], ..RoundInfo::default() });
                read = vec![(id, (0..alpha).collect())];
            }
            for (piece, positions) in read {
                let mut rounds = self.rounds.iter_mut();
                if let Some(round) = rounds.find(|round| round.reads.contains(&piece)) {
                    round.persists.push(PersistInfo { piece, chunk, positions });
                }
            }
        }
        self
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    /// From bytes, checked.
    /// Errors: [`NetError::Protocol`] says what does not hold.
    pub fn decode(bytes: &[u8]) -> Result<Assignment> {
        let mut reader = Reader::new(bytes);
        let assignment = Assignment::take(&mut reader)?;
        reader.end()?;
        assignment.check()?;
        Ok(assignment)
    }

    /// The geometry of the shards.
    /// Errors: numbers outside of the shard format's limits.
    pub fn layout(&self) -> Result<Layout> {
        let info = self.geometry.shard(0);
        info.check()?;
        Ok(info.layout()?)
    }

    fn check(&self) -> Result<()> {
        let (geometry, layout) = (&self.geometry, self.layout()?);
        if self.first >= self.end || self.end > layout.stripes() {
            return Err(bad(format!(
                "stripes {}..{} of {}",
                self.first,
                self.end,
                layout.stripes()
            )));
        }
        if self.slice == 0 || self.windows == 0 || self.windows > WINDOWS_MAX {
            return Err(bad(format!("1 to {WINDOWS_MAX} windows of at least a byte")));
        }
        geometry.all_digests()?;
        if let Some(old) = &self.from.0 {
            self.check_old(old, &layout)?;
        }
        let n = u32::from(geometry.n);
        let names = self.targets.iter().flat_map(|t| [&t.part, &t.name]);
        for name in names.chain(self.sources.iter().map(|s| &s.name)) {
            check_name(name)?;
        }
        let mut chunks =
            self.sources.iter().map(|s| s.chunk).chain(self.targets.iter().map(|t| t.chunk));
        if chunks.any(|chunk| chunk >= n) {
            return Err(bad(format!("chunks are below {n}")));
        }
        let mut positions = 0usize;
        for (rank, piece) in self.pieces.iter().enumerate() {
            let mut end = 0;
            let good = |run: &Run| {
                let good = run.start >= end && run.start < run.end && run.end <= geometry.alpha;
                end = run.end;
                good
            };
            let whole: u64 =
                piece.runs.iter().map(|r| u64::from(r.end.saturating_sub(r.start))).sum();
            let runs = piece.runs.is_empty()
                || (piece.runs.iter().all(good)
                    && whole == u64::from(piece.sub_chunks)
                    && self.sources.iter().any(|source| source.chunk == piece.chunk));
            let ascending = rank == 0 || self.pieces[rank - 1].id < piece.id;
            positions = positions.saturating_add(piece.sub_chunks as usize);
            if !runs || !ascending || piece.sub_chunks == 0 || positions > POSITIONS_MAX {
                return Err(bad(format!("piece {} is none", piece.id)));
            }
        }
        self.rounds.iter().try_for_each(|round| self.check_round(round))?;
        Cost::of(self, &layout).map(drop)
    }

    /// Refuses a run whose data chunks are not those of the new one, or work that leaves segments
    /// which are not whole.
    fn check_old(&self, old: &Geometry, layout: &Layout) -> Result<()> {
        let info = old.shard(0);
        info.check()?;
        old.all_digests()?;
        let old_layout = info.layout()?;
        let same = |stripe: u64| old_layout.chunk_len(stripe) == layout.chunk_len(stripe);
        let data = self.sources.iter().all(|source| source.chunk < u32::from(old.k));
        let fits = (old.k, old.size) == (self.geometry.k, self.geometry.size)
            && old_layout.stripes() == layout.stripes()
            && same(self.first)
            && same(self.end - 1)
            && self.end.is_multiple_of(layout.segment_stripes());
        if fits && data { Ok(()) } else { Err(bad("a recode of other chunks")) }
    }

    /// Bytes of a piece in a window: where pieces are made room for, it is for so many.
    /// Errors: there is no such piece, or it is longer than a frame can say.
    pub(crate) fn piece_bytes(&self, id: u32, slice: &Range<usize>) -> Result<usize> {
        let bytes = (self.piece(id)?.sub_chunks as usize).checked_mul(slice.len());
        let fits = bytes.filter(|bytes| u32::try_from(*bytes).is_ok());
        fits.ok_or_else(|| bad(format!("piece {id} is too long")))
    }

    fn check_round(&self, round: &RoundInfo) -> Result<()> {
        let lists = [&round.reads, &round.receives, &round.inputs, &round.outputs];
        let named = lists.into_iter().flatten().copied();
        let named = named.chain(round.sends.iter().map(|send| send.piece));
        for id in named.chain(round.persists.iter().map(|persist| persist.piece)) {
            self.piece(id)?;
        }
        let outputs = round.dag.outputs.iter().map(|output| &output.at);
        for at in round.dag.inputs.iter().chain(outputs) {
            if at.position >= self.piece(at.chunk)?.sub_chunks {
                return Err(bad(format!(
                    "a DAG names more sub-chunks than piece {} has",
                    at.chunk
                )));
            }
        }
        let known = |send: &SendInfo| self.peers.iter().any(|peer| peer.node == send.to);
        if !round.sends.iter().all(known) {
            return Err(bad("something is to be sent to nobody"));
        }
        let unread = |id: &u32| self.piece(*id).is_ok_and(|piece| piece.runs.is_empty());
        if round.reads.iter().any(unread) {
            return Err(bad("a piece is read that is not on the disk"));
        }
        for persist in &round.persists {
            let fits = self.piece(persist.piece)?.sub_chunks as usize == persist.positions.len()
                && persist.positions.iter().all(|position| *position < self.geometry.alpha)
                && self.targets.iter().any(|target| target.chunk == persist.chunk);
            if !fits {
                return Err(bad("sub-chunks are kept for no shard"));
            }
        }
        Ok(())
    }

    /// A piece by its number.
    pub fn piece(&self, id: u32) -> Result<&PieceInfo> {
        let at = self.pieces.binary_search_by_key(&id, |piece| piece.id);
        at.map(|at| &self.pieces[at]).map_err(|_| bad(format!("piece {id} is unknown")))
    }

    /// Windows of a whole stripe; the last stripe may have fewer.
    fn slices(&self, sub_len: usize) -> u64 {
        (sub_len as u64).div_ceil(u64::from(self.slice)).max(1)
    }

    /// All windows of the assignment.
    pub fn window_count(&self, layout: &Layout) -> u64 {
        let last = self.end - 1;
        let whole = self.slices(layout.sub_len(self.first));
        (last - self.first) * whole + self.slices(layout.sub_len(last))
    }

    /// The stripe of a window, and the bytes of each of its sub-chunks.
    pub fn window(&self, layout: &Layout, window: u64) -> (u64, Range<usize>) {
        // Only the last stripe of an object can be shorter, and it is the last here too.
        let whole = self.slices(layout.sub_len(self.first));
        let stripe = (self.first + window / whole).min(self.end - 1);
        let slice = (window - (stripe - self.first) * whole) as usize;
        let (sub_len, len) = (layout.sub_len(stripe), self.slice as usize);
        (stripe, (slice * len).min(sub_len)..((slice + 1) * len).min(sub_len))
    }
}

#[cfg(test)]
pub(crate) mod tests;
