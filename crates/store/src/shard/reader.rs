//! Reading shards: every byte that leaves here has been checked.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use parking_lot::Mutex;

use super::info::{Kind, RecordFlaw, TAIL, parse_record, parse_tail};
use super::layout::BLOCK;
use super::table::{self, Origin};
use crate::checksum::root_of;
use crate::{
    Backend, BatchRead, Digest, Layout, ReadAt, Result, ShardInfo, StoreError, SumKind, issued,
    read_ranges,
};

/// Tables kept in memory per open shard: several threads work on neighbouring stripes, which lie
/// in the same segment or the next.
const CACHED_TABLES: usize = 4;

/// Bytes at the end of a shard that are read at once: tail and record of 20 chunks and short names.
const END: u64 = 512;

/// Fault of a table that is whole, but does not have its digest.
const FOREIGN: &str = "it is not of this shard's digest";

/// Intact ends of a shard. Chunk data may be damaged in any state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardState {
    /// Header and trailer are.
    Complete,
    /// Only the header is: the shard is truncated or unfinished, or its trailer is corrupt.
    NoTrailer,
    /// Only the trailer is.
    NoHeader,
}

/// Cost of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCost {
    /// Bytes of chunk data read.
    pub data_bytes: u64,
    /// Contiguous runs of chunk data.
    pub runs: u64,
    /// Bytes asked of the device for them: more where reads must be aligned.
    pub device_bytes: u64,
    /// Reads asked of the device for them: fewer where aligned runs touch each other.
    pub device_reads: u64,
    /// Bytes of checksum tables read, padding included; 0 where the table was in memory.
    pub metadata_bytes: u64,
}

/// Reads one shard; usable from several threads at once through `&self`.
pub struct ShardReader {
    file: Box<dyn ReadAt>,
    place: String,
    name: String,
    info: ShardInfo,
    layout: Layout,
    state: ShardState,
    damage: Option<String>,
    digests: Option<Vec<Digest>>,
    tables: Mutex<Tables>,
    /// Required digest, where another source vouches for it.
    expected: Option<Digest>,
}

/// Cached tables of a shard.
#[derive(Default)]
struct Tables {
    /// The latest ones used, with their segments.
    latest: VecDeque<(u64, Arc<[u8]>)>,
    /// The hashes of all of them, once they were found to be those of the digest.
    roots: Option<Arc<[u8]>>,
}

impl std::fmt::Debug for ShardReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardReader")
            .field("place", &self.place)
            .field("name", &self.name)
            .field("info", &self.info)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl ShardReader {
    /// Opens a shard whose header or trailer is intact; [`ShardReader::state`] says which.
    /// Errors: [`StoreError::NotAShard`] for other files, [`StoreError::Damaged`] when both ends
    /// are bad or contradict each other, [`StoreError::Version`] for a later format.
    pub fn open(backend: &dyn Backend, name: &str) -> Result<Self> {
        let file = backend.open(name)?;
        let place = backend.place();
        let header = read_header(&*file);
        let trailer = read_trailer(&*file);
        let (state, damage, info, digests) = match (header, trailer) {
            (Err(RecordFlaw::Version(found)), _) | (_, Err(RecordFlaw::Version(found))) => {
                let (name, supported) = (name.to_string(), super::info::VERSION);
                return Err(StoreError::Version { place, name, found, supported });
            }
            (Ok(header), Ok((trailer, digests))) => {
                if !header.agrees(&trailer) {
                    let what = "it contradicts the header".to_string();
                    let (part, name) = ("trailer".to_string(), name.to_string());
                    return Err(StoreError::Damaged { place, name, part, what });
                }
                (ShardState::Complete, None, trailer, Some(digests))
            }
            (Ok(header), Err(flaw)) => {
                let what = cut_short(&header, file.len());
                let what = what.unwrap_or_else(|| format!("trailer: {flaw}"));
                (ShardState::NoTrailer, Some(what), header, None)
            }
            (Err(flaw), Ok((trailer, digests))) => {
                (ShardState::NoHeader, Some(format!("header: {flaw}")), trailer, Some(digests))
            }
            (Err(header), Err(trailer)) => return Err(neither(place, name, header, trailer)),
        };
        let (layout, tables) = (info.layout()?, Mutex::default());
        let name = name.to_string();
        Ok(Self { file, place, name, info, layout, state, damage, digests, tables, expected: None })
    }

    /// Believes no table that does not belong to this digest, as whoever knows the shard recorded
    /// it. Where digests are trees nothing can be read then that was not written with the object;
    /// where they are not, [`digest_of`] tells, of the whole shard.
    #[must_use]
    pub fn expecting(mut self, digest: Digest) -> Self {
        self.expected = Some(digest);
        self
    }

    /// Returns the shard's description; from the trailer where that is intact.
    pub fn info(&self) -> &ShardInfo {
        &self.info
    }

    /// Returns the ends that are intact.
    pub fn state(&self) -> ShardState {
        self.state
    }

    /// Describes the fault of the other end, unless the state is complete.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The backend's place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Bytes of the file when it was opened.
    pub fn file_len(&self) -> u64 {
        self.file.len()
    }

    /// Stripes from the first on that the file has room for, with their checksum tables: none
    /// beyond can be read, whatever the header says.
    pub fn stripes_there(&self) -> u64 {
        self.layout.stripes_within(self.file_len())
    }

    /// The first stripe from this one on that may be readable, or the number of all stripes. Those
    /// passed over are in segments beyond the file's end, or with their checksum table in a hole of
    /// it: a sparse file costs as much as it holds, not as much as it declares.
    pub fn next_stripe(&self, stripe: u64) -> u64 {
        let (layout, there) = (&self.layout, self.stripes_there());
        let mut next = stripe;
        while next < there {
            let segment = layout.segment_of(next);
            let (table, len) = layout.table(segment);
            let Some(data) = self.file.next_data(table) else { break };
            if data < table + len {
                return next;
            }
            next = layout.segment_at(data).max(segment + 1) * layout.segment_stripes();
        }
        layout.stripes()
    }

    /// Digests of all n shards, in order of index, if the trailer is intact.
    pub fn digests(&self) -> Option<&[Digest]> {
        self.digests.as_deref()
    }

    /// Bytes of the object, if known.
    pub fn size(&self) -> Option<u64> {
        self.layout.size()
    }

    /// Geometry; meaningful for the last stripe only once the size is known.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Gives a shard that lost its trailer the object's size, as known from its siblings.
    /// Errors: [`StoreError::Misuse`] when the shard knows another size.
    pub fn with_size(&mut self, size: u64) -> Result<()> {
        if let Some(known) = self.size().filter(|&known| known != size) {
            return Err(self.misuse("with_size", format!("the size is {known}, not {size}")));
        }
        let info = ShardInfo { size: Some(size), ..self.info.clone() };
        self.layout = info.layout()?;
        self.info = info;
        Ok(())
    }

    /// Reads runs of sub-chunk positions of one stripe into `buf`, one after the other, with one
    /// read per run, all submitted together, and verifies every sub-chunk.
    ///
    /// `buf` must have room for exactly these sub-chunks. The segment's checksum table is read
    /// first, once, and kept for later calls.
    /// Errors: [`StoreError::BadSubChunks`] names all bad ones among those read; `buf` then holds
    /// what the disk gave. Other errors leave `buf` undefined.
    pub fn read_runs(&self, stripe: u64, runs: &[Range<u32>], buf: &mut [u8]) -> Result<ReadCost> {
        self.check_stripe("read_runs", stripe)?;
        let sub_len = self.layout.sub_len(stripe);
        let alpha = self.info.alpha;
        if let Some(run) = runs.iter().find(|run| run.start >= run.end || run.end > alpha) {
            return Err(self.misuse("read_runs", format!("run {run:?} is not within 0..{alpha}")));
        }
        let wanted: u64 = runs.iter().map(|run| u64::from(run.end - run.start)).sum();
        if wanted.checked_mul(sub_len as u64) != Some(buf.len() as u64) {
            let what = format!("{wanted} sub-chunks of {sub_len} bytes do not fill the buffer");
            return Err(self.misuse("read_runs", what));
        }
        let (table, metadata_bytes) = self.table(self.layout.segment_of(stripe))?;
        let mut batch = Vec::with_capacity(runs.len());
        let mut rest = &mut *buf;
        for run in runs {
            let len = (run.end - run.start) as usize * sub_len;
            let (piece, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            batch.push(BatchRead::new(self.layout.offset(stripe, run.start), piece));
        }
        self.file.read_batch(&mut batch)?;
        self.all_good(stripe, &table, runs, buf)?;
        Ok(ReadCost { metadata_bytes, ..self.cost_of(stripe, runs) })
    }

    /// Returns the reads that [`ShardReader::read_runs`] asks of the device for these runs, tables
    /// left out. Nothing is read for it.
    pub fn cost_of(&self, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
        let wanted = self.layout.ranges(stripe, runs);
        let bytes =
            |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum();
        let reads = issued(&wanted, self.file.alignment());
        ReadCost {
            data_bytes: bytes(&wanted),
            runs: runs.len() as u64,
            device_bytes: bytes(&reads),
            device_reads: reads.len() as u64,
            metadata_bytes: 0,
        }
    }

    /// Returns the alignment of reads: 1 unless reads go past the page cache.
    pub fn alignment(&self) -> u64 {
        self.file.alignment()
    }

    /// Reads ranges of the file as they are, one after the other into `bytes`, all submitted
    /// together. Ranges may reach past the end of the file, where the bytes stay as they were.
    /// Whatever is used of the bytes must pass [`ShardReader::check_runs`].
    /// Errors: the disk's error; `bytes` are then undefined.
    pub fn read_unchecked(&self, ranges: &[Range<u64>], bytes: &mut [u8]) -> Result<()> {
        read_ranges(&*self.file, ranges, bytes)
    }

    /// Checks runs of sub-chunks, one after the other in `bytes`, that were read in another way;
    /// gives the bytes read for the checksum table.
    pub fn check_runs(&self, stripe: u64, runs: &[Range<u32>], bytes: &[u8]) -> Result<u64> {
        self.check_stripe("check_runs", stripe)?;
        let (table, metadata_bytes) = self.table(self.layout.segment_of(stripe))?;
        self.all_good(stripe, &table, runs, bytes)?;
        Ok(metadata_bytes)
    }

    /// Refuses bytes among which a sub-chunk is bad, naming all that are.
    fn all_good(&self, stripe: u64, table: &[u8], runs: &[Range<u32>], bytes: &[u8]) -> Result<()> {
        let subs = self.bad_among(stripe, table, runs, bytes);
        if subs.is_empty() {
            return Ok(());
        }
        let (place, name) = (self.place.clone(), self.name.clone());
        Err(StoreError::BadSubChunks { place, name, stripe, subs })
    }

    /// The sub-chunks whose bytes do not have their recorded checksums, ascending.
    fn bad_among(&self, stripe: u64, table: &[u8], runs: &[Range<u32>], bytes: &[u8]) -> Vec<u32> {
        let kind = self.info.sums;
        let of = |sub: u32| sub as usize * kind.sum_len()..(sub as usize + 1) * kind.sum_len();
        let sums = &table[self.table_range(stripe)];
        let found =
            bytes.chunks_exact(self.layout.sub_len(stripe)).zip(runs.iter().cloned().flatten());
        let mut bad: Vec<u32> =
            found.filter(|(b, sub)| !kind.is_of(b, &sums[of(*sub)])).map(|(_, sub)| sub).collect();
        bad.sort_unstable();
        bad.dedup();
        bad
    }

    /// The recorded checksums of a stripe's chunk: alpha of them, in order of position.
    pub fn sums(&self, stripe: u64) -> Result<Vec<u8>> {
        self.check_stripe("sums", stripe)?;
        let (table, _) = self.table(self.layout.segment_of(stripe))?;
        Ok(table[self.table_range(stripe)].to_vec())
    }

    /// Returns the place of a stripe's entries in its segment's table.
    fn table_range(&self, stripe: u64) -> Range<usize> {
        let chunk = self.info.alpha as usize * self.info.sums.sum_len();
        let first = (stripe % self.layout.segment_stripes()) as usize * chunk;
        first..first + chunk
    }

    fn check_stripe(&self, op: &'static str, stripe: u64) -> Result<()> {
        if self.size().is_none() {
            let (place, name) = (self.place.clone(), self.name.clone());
            return Err(StoreError::SizeUnknown { place, name });
        }
        let stripes = self.layout.stripes();
        if stripe >= stripes {
            return Err(self.misuse(op, format!("stripe {stripe} of {stripes}")));
        }
        Ok(())
    }

    /// A segment's table and the bytes read for it. The lock is held while reading, so threads
    /// that want the same table wait for one read instead of doing their own.
    fn table(&self, segment: u64) -> Result<(Arc<[u8]>, u64)> {
        let mut tables = self.tables.lock();
        let latest = &mut tables.latest;
        if let Some(at) = latest.iter().position(|(cached, _)| *cached == segment) {
            // Cannot fail: the lock is held since the position was found.
            let hit = latest.remove(at).expect("the position was just found");
            latest.push_back(hit.clone());
            return Ok((hit.1, 0));
        }
        let roots_read = self.verify_roots(&mut tables)?;
        let origin = Origin { place: &self.place, name: &self.name };
        // Of a file that is cut within the zeros after a table nothing is lost by that.
        let (offset, len) = self.layout.table(segment);
        let padding =
            self.layout.padding(segment).min(self.file.len().saturating_sub(offset + len));
        let table = table::read(&*self.file, origin, &self.info, &self.layout, segment, padding)?;
        if let Some(roots) = &tables.roots {
            let hash = root_of(&table);
            if roots[32 * segment as usize..][..32] != hash {
                return Err(table::damaged(origin, segment, FOREIGN));
            }
        }
        if tables.latest.len() == CACHED_TABLES {
            tables.latest.pop_front();
        }
        tables.latest.push_back((segment, Arc::clone(&table)));
        Ok((table, len + padding + roots_read))
    }

    /// Makes sure of trees of digests: makes sure, once, that the hashes of all tables are those of
    /// the digest that is expected, or else of the one that the shard has of itself. The bytes
    /// read.
    fn verify_roots(&self, tables: &mut Tables) -> Result<u64> {
        if self.info.sums == SumKind::Crc32c || tables.roots.is_some() {
            return Ok(0);
        }
        let origin = Origin { place: &self.place, name: &self.name };
        let roots = table::read_roots(&*self.file, origin, &self.info, &self.layout)?;
        let own = || self.digests.as_ref()?.get(usize::from(self.info.index)).copied();
        if let Some(digest) = self.expected.or_else(own)
            && digest.as_bytes() != root_of(&roots)
        {
            return Err(table::damaged(origin, table::ROOTS, FOREIGN));
        }
        tables.roots = Some(roots);
        Ok(self.layout.roots().1)
    }

    fn misuse(&self, op: &'static str, what: String) -> StoreError {
        StoreError::Misuse { op, name: self.name.clone(), what }
    }
}

/// The digest of a shard, computed from its (verified) tables, to compare with the recorded one.
/// Errors: as [`ShardReader::sums`]; the first bad table ends it.
pub fn digest_of(reader: &ShardReader) -> Result<Digest> {
    if reader.size().is_none() {
        reader.check_stripe("digest_of", 0)?;
    }
    let mut digest = reader.info.digest_builder();
    for segment in 0..reader.layout.segments() {
        digest.add(&reader.table(segment)?.0);
    }
    Ok(digest.digest())
}

/// The header of an open file.
pub(super) fn read_header(file: &dyn ReadAt) -> Result<ShardInfo, RecordFlaw> {
    if file.len() < BLOCK {
        return Err(RecordFlaw::NoMagic(format!("it has only {} bytes", file.len())));
    }
    let mut block = [0; BLOCK as usize];
    file.read_at(0, &mut block).map_err(RecordFlaw::Unread)?;
    Ok(parse_record(&block, Kind::Header)?.0)
}

/// The trailer of an open file, found from its end.
fn read_trailer(file: &dyn ReadAt) -> Result<(ShardInfo, Vec<Digest>), RecordFlaw> {
    let len = file.len();
    if len < BLOCK + TAIL as u64 {
        return Err(RecordFlaw::NoMagic(format!("it has only {len} bytes")));
    }
    // Most records are in what is read with the tail: a read less, where each is a request.
    let mut end = vec![0; (len - BLOCK).min(END) as usize];
    file.read_at(len - end.len() as u64, &mut end).map_err(RecordFlaw::Unread)?;
    let Some((_, tail)) = end.split_last_chunk::<TAIL>() else {
        return Err(RecordFlaw::NoMagic(format!("it has only {len} bytes")));
    };
    let record_len = parse_tail(tail, len)?;
    let whole = TAIL + record_len;
    let offset = len - whole as u64;
    let record = match end.len().checked_sub(whole) {
        Some(before) => end.split_off(before),
        None => {
            let mut record = vec![0; record_len];
            file.read_at(offset, &mut record).map_err(RecordFlaw::Unread)?;
            record
        }
    };
    let record = &record[..record_len];
    let (info, digests) = parse_record(record, Kind::Trailer)?;
    let expected = info.layout().map_err(RecordFlaw::Unread)?.trailer_offset();
    if expected != offset {
        return Err(RecordFlaw::Bad(format!("it lies at {offset} instead of {expected}")));
    }
    Ok((info, digests))
}

/// Describes a file that cannot hold the stripes of its header.
fn cut_short(info: &ShardInfo, have: u64) -> Option<String> {
    info.size?;
    let need = info.layout().ok()?.trailer_offset();
    (have < need).then(|| format!("it is cut short: {have} bytes long, of more than {need}"))
}

/// The error for a file with neither end intact.
fn neither(place: String, name: &str, header: RecordFlaw, trailer: RecordFlaw) -> StoreError {
    let name = name.to_string();
    match (header, trailer) {
        (RecordFlaw::Unread(error), _) | (_, RecordFlaw::Unread(error)) => error,
        (RecordFlaw::NoMagic(why), RecordFlaw::NoMagic(_)) => {
            StoreError::NotAShard { place, name, why }
        }
        (header, trailer) => {
            let (part, what) = ("header and trailer".into(), format!("{header}; {trailer}"));
            StoreError::Damaged { place, name, part, what }
        }
    }
}
