//! Reads past the page cache: aligned, submitted together, counted as the device sees them.

use std::io::{self, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path, sync::OnceLock};

use kiln_uring::{MAX_READ, Read, Ring};
use parking_lot::Mutex;

use super::check_range;
use super::open_file::{BatchRead, ReadAt, issued};
use crate::{Operation, Result, StoreError, request_limits};

/// Reads in flight in one ring; larger batches go through it in turn.
const RING_DEPTH: u32 = 128;
/// Contexts kept for the next batch. More threads than this at once make theirs anew.
const IDLE_CONTEXTS: usize = 16;
/// A context with a larger bounce buffer is not kept.
const IDLE_BOUNCE_BYTES: usize = 16 << 20;
/// Reads are never cut into less than this, a multiple of every alignment.
const LONGEST_MIN: u64 = 64 << 10;
/// Alignment where the system does not tell the file's: a page suits every file system.
const PAGE: u64 = 4096;

/// Ways of reading of a [`crate::FileBackend`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the system's page cache.
    #[default]
    Cached,
    /// Past the page cache (`O_DIRECT`), where the file system can; else as `Cached`.
    Direct {
        /// A batch is submitted at once by io_uring, where that is permitted; else (and if this
        /// is false) its reads go one after the other.
        together: bool,
    },
}

impl ReadMode {
    /// Past the page cache and together.
    pub const DIRECT: ReadMode = ReadMode::Direct { together: true };
}

/// Reads asked of the system by a backend: calls and their bytes, alignment included.
#[derive(Debug, Default)]
pub(super) struct Meter {
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Meter {
    pub(super) fn add(&self, reads: u64, bytes: u64) {
        self.reads.fetch_add(reads, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads and bytes so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Contexts of batches in flight, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct BatchContexts {
    idle: Mutex<Vec<BatchContext>>,
    /// Asking for a ring failed once, so it is not asked for again.
    no_rings: AtomicBool,
    /// Bytes of the longest read that the folder's device takes in one piece; asked for once.
    longest: OnceLock<usize>,
}

#[derive(Debug, Default)]
struct BatchContext {
    ring: Option<Ring>,
    bounce: Vec<u8>,
}

impl BatchContexts {
    /// Bytes of the longest read of files in this folder.
    pub(super) fn longest(&self, folder: &Path) -> usize {
        *self.longest.get_or_init(|| longest_read(folder) as usize)
    }

    fn take(&self, with_ring: bool) -> BatchContext {
        let mut idle = self.idle.lock();
        let mut context = idle.pop().unwrap_or_default();
        drop(idle);
        if with_ring && context.ring.is_none() && !self.no_rings.load(Ordering::Relaxed) {
            context.ring = Ring::new(RING_DEPTH).ok();
            self.no_rings.store(context.ring.is_none(), Ordering::Relaxed);
        }
        context
    }

    fn give_back(&self, mut context: BatchContext) {
        if context.bounce.len() > IDLE_BOUNCE_BYTES {
            context.bounce = Vec::new();
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_CONTEXTS {
            idle.push(context);
        }
    }
}

/// Multiples that direct reads of an open file must keep to: of offset and length, of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alignment {
    pub(super) offset: u64,
    pub(super) memory: u64,
}

impl Alignment {
    /// Limits of the file system for this file; `None` when it has no direct reads.
    #[cfg(target_os = "linux")]
    pub(super) fn of(file: &File) -> Option<Alignment> {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let page = Some(Alignment { offset: PAGE, memory: PAGE });
        let Ok(stat) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
            return page;
        };
        if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
            return page;
        }
        let (offset, memory) = (stat.stx_dio_offset_align, stat.stx_dio_mem_align);
        let usable = offset.is_power_of_two() && memory.is_power_of_two();
        usable.then_some(Alignment { offset: offset.into(), memory: memory.into() })
    }

    /// Direct reads are Linux' here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_file: &File) -> Option<Alignment> {
        None
    }
}

/// A batch as aligned reads.
struct Spans {
    /// The reads.
    spans: Vec<Range<u64>>,
    /// For each wanted range the read that holds it; none holds an empty one.
    holders: Vec<Option<usize>>,
    /// For each read the one wanted range that it is exactly, if its address suits.
    alone: Vec<Option<usize>>,
}

impl Spans {
    fn of(wanted: &[BatchRead<'_>], align: Alignment) -> Spans {
        let range = |want: &BatchRead<'_>| want.offset..want.offset + want.buf.len() as u64;
        let ranges: Vec<Range<u64>> = wanted.iter().map(range).collect();
        let spans = issued(&ranges, align.offset);
        let (mut holders, mut alone) = (vec![None; wanted.len()], vec![None; spans.len()]);
        let mut at = 0;
        for (index, range) in ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
            // `issued` keeps the order, so the holder is this read or a later one.
            while !(spans[at].start <= range.start && range.end <= spans[at].end) {
                at += 1;
            }
            let before = holders[..index].iter().rev().flatten().next();
            let first = before.is_none_or(|held| *held != at);
            holders[index] = Some(at);
            let suits = (wanted[index].buf.as_ptr() as u64).is_multiple_of(align.memory);
            alone[at] = (first && suits && spans[at] == *range).then_some(index);
        }
        Spans { spans, holders, alone }
    }

    fn len(&self, index: usize) -> usize {
        (self.spans[index].end - self.spans[index].start) as usize
    }
}

/// A file opened with `O_DIRECT`.
pub(super) struct DirectReader {
    pub(super) file: File,
    pub(super) len: u64,
    pub(super) align: Alignment,
    /// Longer reads are asked for in pieces of this size. The block layer would cut them anyway,
    /// where depends on how their memory lies; so what is asked for is what the device counts.
    pub(super) longest: usize,
    pub(super) together: bool,
    pub(super) contexts: std::sync::Arc<BatchContexts>,
    pub(super) meter: std::sync::Arc<Meter>,
    pub(super) place: String,
    pub(super) name: String,
}

impl ReadAt for DirectReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_batch(&mut [BatchRead::new(offset, buf)])
    }

    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        for read in reads.iter() {
            check_range(&self.place, &self.name, read.offset, read.buf.len(), self.len)?;
        }
        let mut context = self.contexts.take(self.together);
        let outcome = self.read_aligned(&mut context, reads);
        if outcome.is_ok() {
            // After a failure its ring may be of no more use.
            self.contexts.give_back(context);
        }
        outcome.map_err(|error| StoreError::io(Operation::Read, &self.place, &self.name, error))
    }

    fn alignment(&self) -> u64 {
        self.align.offset
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        next_data(&self.file, offset)
    }
}

/// See [`ReadAt::next_data`]. Reads name their offsets, so the file's own position is nobody's.
pub(super) fn next_data(file: &File, offset: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => Some(data),
        Err(rustix::io::Errno::NXIO) => None,
        // Not every file system knows its holes.
        Err(_) => Some(offset),
    }
}

impl DirectReader {
    /// Reads the aligned ranges around what is wanted: into the caller's buffer where one read
    /// fits it exactly and its address is aligned, else into a bounce buffer to copy from.
    fn read_aligned(
        &self,
        context: &mut BatchContext,
        wanted: &mut [BatchRead<'_>],
    ) -> io::Result<()> {
        let plan = Spans::of(wanted, self.align);
        let unit = self.align.offset.max(self.align.memory) as usize;
        let room = |index: usize| plan.len(index).next_multiple_of(unit);
        let bounced = |index: &usize| plan.alone[*index].is_none();
        let total: usize = (0..plan.spans.len()).filter(bounced).map(room).sum();
        let BatchContext { ring, bounce } = context;
        if bounce.len() < total + unit {
            *bounce = vec![0; total + unit];
        }
        let skip = bounce.as_ptr().align_offset(unit).min(unit);
        let mut starts = vec![0; plan.spans.len()];
        {
            let (mut rest, mut next) = (&mut bounce[skip..skip + total], skip);
            let mut own: Vec<Option<&mut [u8]>> =
                wanted.iter_mut().map(|want| Some(&mut *want.buf)).collect();
            let mut reads = Vec::with_capacity(plan.spans.len());
            for (index, span) in plan.spans.iter().enumerate() {
                let buf = match plan.alone[index].and_then(|owner| own[owner].take()) {
                    Some(buf) => buf,
                    None => {
                        let (piece, after) = std::mem::take(&mut rest).split_at_mut(room(index));
                        (rest, starts[index]) = (after, next);
                        next += piece.len();
                        &mut piece[..plan.len(index)]
                    }
                };
                let pieces = (span.start..).step_by(self.longest).zip(buf.chunks_mut(self.longest));
                reads.extend(pieces.map(|(start, piece)| Read::new(start, piece)));
            }
            self.submit(ring.as_mut(), &mut reads)?;
        }
        for (want, holder) in wanted.iter_mut().zip(&plan.holders) {
            if let Some(span) = holder.filter(bounced) {
                let from = starts[span] + (want.offset - plan.spans[span].start) as usize;
                want.buf.copy_from_slice(&bounce[from..from + want.buf.len()]);
            }
        }
        Ok(())
    }

    /// Does aligned reads: through the ring where there is one and more than one read. A file
    /// system that took `O_DIRECT` at open but refuses the reads is read through its cache.
    fn submit(&self, ring: Option<&mut Ring>, reads: &mut [Read<'_>]) -> io::Result<()> {
        let bytes = reads.iter().map(|read| read.buf.len() as u64).sum();
        self.meter.add(reads.len() as u64, bytes);
        let outcome = match ring {
            Some(ring) if reads.len() > 1 => ring.read_all(&self.file, reads),
            _ => Ok(()),
        };
        match outcome.and_then(|()| self.complete(reads)) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                forgo_direct(&self.file)?;
                self.complete(reads)
            }
            outcome => outcome,
        }
    }

    /// Reads what is still missing of each, one after the other.
    fn complete(&self, reads: &mut [Read<'_>]) -> io::Result<()> {
        for read in reads {
            let need = (self.len.saturating_sub(read.offset)).min(read.buf.len() as u64) as usize;
            while read.filled < need {
                let rest = &mut read.buf[read.filled..];
                match self.file.read_at(rest, read.offset + read.filled as u64) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(more) => read.filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Opens a file or a block device by its path, to read from it past the page cache: for measuring
/// it. Nothing is written.
/// Errors: [`StoreError::Io`] when it cannot be opened, or has no direct reads.
pub fn open_device(path: &Path, together: bool) -> Result<Box<dyn ReadAt>> {
    let (place, name) = (path.display().to_string(), String::new());
    let fail = |error| StoreError::io(Operation::Open, &place, "", error);
    let what = "it cannot be read past the page cache";
    let refused = || fail(io::Error::new(io::ErrorKind::Unsupported, what));
    let (mut file, align) = open(path, 0).map_err(fail)?.ok_or_else(refused)?;
    // The metadata of a block device tells no size.
    let len = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let (contexts, meter, longest) =
        (Default::default(), Default::default(), longest_read(path) as usize);
    Ok(Box::new(DirectReader { file, len, align, longest, together, contexts, meter, place, name }))
}

/// Bytes of the longest read that goes to the device of this path as it is, whatever its memory is
/// like: a multiple of every alignment. Longer direct reads are asked for in pieces of that size.
pub fn longest_read(path: &Path) -> u64 {
    let limits = request_limits(path).into_iter();
    let least = limits.min().unwrap_or(u64::MAX).clamp(LONGEST_MIN, MAX_READ as u64);
    least / LONGEST_MIN * LONGEST_MIN
}

/// Turns `O_DIRECT` off.
#[cfg(target_os = "linux")]
fn forgo_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags.difference(rustix::fs::OFlags::DIRECT))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forgo_direct(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Opens a file for direct reads, with these flags beside; `None` where the file system does not
/// have them.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path, flags: i32) -> io::Result<Option<(File, Alignment)>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = flags | rustix::fs::OFlags::DIRECT.bits() as i32;
    match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Alignment::of(&file).map(|align| (file, align))),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open(_path: &Path, _flags: i32) -> io::Result<Option<(File, Alignment)>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, FileBackend, PlaceInfo};

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 167 + i / 256 * 13 + 5) as u8).collect()
    }

    /// Batches of all kinds: aligned and not, touching, overlapping, empty, backwards, to the end.
    fn batches(len: u64) -> Vec<Vec<Range<u64>>> {
        vec![
            vec![],
            vec![0..0],
            vec![0..1],
            vec![0..4096, 8192..12288, 16384..20480],
            vec![100..200, 300..400, 5000..5100, 5100..5100],
            vec![4096..8192, 0..4096, 100..4097],
            vec![4096..8192, 4096..8192, 5000..5001],
            (0..300).map(|i| i * 8192..i * 8192 + 4096).collect(),
            (0..300).map(|i| i * 3000 + 7..i * 3000 + 1507).collect(),
            vec![0..len, len - 1..len, len..len],
        ]
    }

    #[test]
    fn every_way_of_reading_gives_the_same_bytes() {
        let root = tempfile::tempdir().unwrap();
        let bytes = pattern(3_000_001);
        std::fs::write(root.path().join("a"), &bytes).unwrap();
        for mode in [ReadMode::Cached, ReadMode::DIRECT, ReadMode::Direct { together: false }] {
            let disk = FileBackend::open(root.path()).unwrap().with_reads(mode);
            let file = disk.open("a").unwrap();
            for ranges in batches(bytes.len() as u64) {
                let len = |range: &Range<u64>| (range.end - range.start) as usize;
                let mut bufs: Vec<Vec<u8>> = ranges.iter().map(|r| vec![0xaa; len(r)]).collect();
                let mut batch: Vec<BatchRead<'_>> = ranges
                    .iter()
                    .zip(&mut bufs)
                    .map(|(range, buf)| BatchRead::new(range.start, buf))
                    .collect();
                let before = disk.io_counters();
                file.read_batch(&mut batch).unwrap();
                let spans = issued(&ranges, file.alignment());
                let told = disk.io_counters();
                let longest = match mode {
                    ReadMode::Cached => u64::MAX,
                    ReadMode::Direct { .. } => longest_read(root.path()),
                };
                let pieces =
                    spans.iter().map(|span| (span.end - span.start).div_ceil(longest).max(1));
                assert_eq!(told.0 - before.0, pieces.sum::<u64>(), "{mode:?} {ranges:?}");
                let asked = spans.iter().map(|span| span.end - span.start).sum::<u64>();
                assert_eq!(told.1 - before.1, asked, "{mode:?} {ranges:?}");
                for (range, buf) in ranges.iter().zip(&bufs) {
                    assert_eq!(buf[..], bytes[range.start as usize..range.end as usize]);
                }
            }
        }
    }

    #[test]
    fn aligned_buffers_are_filled_without_a_detour() {
        let mut bytes = vec![0; 3 * 4096];
        let start = bytes.as_ptr().align_offset(4096);
        let aligned = &mut bytes[start..start + 4096];
        let align = Alignment { offset: 512, memory: 512 };
        let plan = Spans::of(&[BatchRead::new(512, aligned)], align);
        assert_eq!((plan.alone, plan.holders), (vec![Some(0)], vec![Some(0)]));
        let plan = Spans::of(&[BatchRead::new(512, &mut aligned[1..513])], align);
        assert_eq!(plan.alone, vec![None]);
    }

    #[test]
    fn refused_direct_reads_fall_back_to_the_cache() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        std::fs::write(&path, pattern(9000)).unwrap();
        let Some((file, _)) = open(&path, 0).unwrap() else {
            return eprintln!("SKIPPED: no direct reads on this file system");
        };
        // An alignment that suits no device: the system refuses the reads, as odd ones are.
        let align = Alignment { offset: 1, memory: 1 };
        let (contexts, meter) = Default::default();
        let (place, name) = (String::new(), String::new());
        let reader = DirectReader {
            file,
            len: 9000,
            align,
            longest: 1 << 20,
            together: true,
            contexts,
            meter,
            place,
            name,
        };
        let (mut first, mut last) = ([0; 99], [0; 1001]);
        let mut batch = [BatchRead::new(17, &mut first), BatchRead::new(7999, &mut last)];
        reader.read_batch(&mut batch).unwrap();
        assert_eq!(first[..], pattern(9000)[17..116]);
        assert_eq!(last[..], pattern(9000)[7999..]);
    }
}
