//! Writing shards, from the first byte to the last, never going back.

use std::sync::Arc;

use super::info::{encode_header, encode_trailer};
use super::layout::{BLOCK, LAST_STRIPE_ALIGN};
use super::reader::read_header;
use super::table::{self, Origin};
use crate::{
    Append, Backend, Capability, Digest, DigestBuilder, Layout, ReadAt, Result, ShardInfo,
    StoreError, SumKind,
};

/// Data is read for verification in pieces of about this many bytes.
const VERIFY_PIECE: usize = 1 << 20;

/// Writes one shard, append only.
///
/// In a place without [`Capability::Append`] the file appears when it is finished.
///
/// The order is: chunks of stripe 0, 1, ..., then [`ShardWriter::seal`], then
/// [`ShardWriter::finish`]. Write under a temporary name and rename after `finish`: a shard with
/// its final name is complete. After an error the writer refuses everything; open the part again
/// with [`ShardWriter::resume`], or remove it.
pub struct ShardWriter {
    file: Box<dyn Append>,
    name: String,
    info: ShardInfo,
    layout: Layout,
    /// Checksums of the segment being written.
    entries: Vec<u8>,
    digest: DigestBuilder,
    stripes: u64,
    /// Bytes of the latest chunk.
    last_chunk: usize,
    sealed: Option<Digest>,
    failed: bool,
}

impl std::fmt::Debug for ShardWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardWriter")
            .field("name", &self.name)
            .field("info", &self.info)
            .field("stripes", &self.stripes)
            .finish_non_exhaustive()
    }
}

impl ShardWriter {
    /// Starts a new shard under `name`, over whatever was there: writes the header.
    /// Errors: [`StoreError::BadField`] when `info` is outside the format's limits; I/O errors.
    pub fn create(backend: &dyn Backend, name: &str, info: &ShardInfo) -> Result<Self> {
        info.check()?;
        let mut file = backend.write_once(name)?;
        file.append(&encode_header(info))?;
        Self::over(file, name, info)
    }

    /// Opens an unfinished part again, keeping at most `max_stripes` stripes in whole segments.
    ///
    /// Everything kept is read and verified (see [`valid_segments`]). Where nothing can be kept
    /// the part starts anew. [`ShardWriter::stripes`] tells where to go on.
    pub fn resume(
        backend: &dyn Backend,
        name: &str,
        info: &ShardInfo,
        max_stripes: u64,
    ) -> Result<Self> {
        Self::reopen(backend, name, info, max_stripes, true)
    }

    /// Opens a part to append stripe `first` to it: 0 starts anew, more goes on behind segments
    /// whose data a call of [`valid_segments`] has just verified; here only their tables are.
    /// Errors: [`StoreError::Misuse`] when the part does not have `first` stripes (any more); I/O
    /// errors.
    pub fn at(backend: &dyn Backend, name: &str, info: &ShardInfo, first: u64) -> Result<Self> {
        let writer = match first {
            0 => Self::create(backend, name, info)?,
            _ => Self::reopen(backend, name, info, first, false)?,
        };
        let what = || format!("it has {} stripes to keep, not {first}", writer.stripes);
        if writer.stripes == first { Ok(writer) } else { Err(writer.misuse("resume", what())) }
    }

    fn reopen(
        backend: &dyn Backend,
        name: &str,
        info: &ShardInfo,
        max_stripes: u64,
        deep: bool,
    ) -> Result<Self> {
        info.check()?;
        let layout = info.layout()?;
        let appends = backend.capabilities().has(Capability::Append);
        let most = if appends { max_stripes / layout.segment_stripes() } else { 0 };
        let mut digest = info.digest_builder();
        let kept = scan(backend, name, info, most, deep, |entries| digest.add(entries))?;
        if kept == 0 {
            return Self::create(backend, name, info);
        }
        let (offset, len) = layout.table(kept - 1);
        let file = backend.append(name, offset + len)?;
        let mut writer = Self::over(file, name, info)?;
        writer.stripes = kept * layout.segment_stripes();
        writer.digest = digest;
        Ok(writer)
    }

    fn over(file: Box<dyn Append>, name: &str, info: &ShardInfo) -> Result<Self> {
        let layout = info.layout()?;
        Ok(Self {
            file,
            name: name.to_string(),
            info: info.clone(),
            // Kept stripes are full ones, and before the first there is no short one either.
            last_chunk: info.alpha as usize * info.sub_chunk as usize,
            layout,
            entries: Vec::new(),
            digest: info.digest_builder(),
            stripes: 0,
            sealed: None,
            failed: false,
        })
    }

    /// Appends the next stripe's chunk with its alpha checksums, which the caller's workers
    /// computed (see [`crate::checksums`]); a full segment's table follows by itself.
    ///
    /// Only the last chunk of an object may be shorter than alpha * sub_chunk bytes, and its
    /// length must be the one that [`Layout`] gives for the object's size.
    pub fn append_chunk(&mut self, chunk: &[u8], sums: &[u8]) -> Result<()> {
        self.check_chunk(chunk, sums)?;
        self.failed = true;
        let segment_full = self.stripes.is_multiple_of(self.layout.segment_stripes());
        if segment_full && self.stripes > 0 {
            // Only now is it certain that the table before was not the last one.
            let segment = self.layout.segment_of(self.stripes);
            let padding = self.layout.padding(segment - 1) as usize;
            self.file.append(&[0; BLOCK as usize][..padding])?;
        }
        debug_assert_eq!(self.file.len(), self.layout.offset(self.stripes, 0));
        self.file.append(chunk)?;
        self.entries.extend_from_slice(sums);
        self.stripes += 1;
        self.last_chunk = chunk.len();
        if self.stripes.is_multiple_of(self.layout.segment_stripes()) {
            self.write_table()?;
        }
        self.failed = false;
        Ok(())
    }

    /// As [`Append::drop_behind`], for the chunks that are to come.
    pub fn drop_behind(&mut self) {
        self.file.drop_behind();
    }

    /// Name of the part, and index of its shard.
    pub(super) fn part(&self) -> (&str, usize) {
        (&self.name, usize::from(self.info.index))
    }

    /// Stripes in the part so far, kept ones included.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Makes all that was appended durable.
    pub fn sync(&mut self) -> Result<()> {
        self.check_usable("sync")?;
        self.failed = true;
        self.file.sync()?;
        self.failed = false;
        Ok(())
    }

    /// Writes the last table and gives the shard's digest; no chunk may follow. Calling it again
    /// gives the same digest.
    pub fn seal(&mut self) -> Result<Digest> {
        self.check_usable("seal")?;
        if let Some(digest) = self.sealed {
            return Ok(digest);
        }
        if !self.entries.is_empty() {
            self.failed = true;
            self.write_table()?;
            self.failed = false;
        }
        let roots = table::encode_roots(&self.info, &self.digest.roots());
        if !roots.is_empty() {
            self.failed = true;
            self.file.append(&roots)?;
            self.failed = false;
        }
        let digest = self.digest.digest();
        self.sealed = Some(digest);
        Ok(digest)
    }

    /// Writes the trailer with the object's size and the digests of all n shards in order of
    /// index, and makes the whole shard durable.
    /// Errors: [`StoreError::Misuse`] when the size does not fit the chunks written, or the digests
    /// are not n or disagree about this shard.
    pub fn finish(mut self, size: u64, digests: &[Digest]) -> Result<()> {
        let own = self.seal()?;
        let all_fit = digests.iter().all(|digest| digest.kind() == self.info.sums);
        if digests.len() != usize::from(self.info.n) || !all_fit {
            return Err(
                self.misuse("finish", format!("{} digests, or of another kind", digests.len()))
            );
        }
        if digests[usize::from(self.info.index)] != own {
            return Err(self.misuse("finish", "the digest of this shard is another".into()));
        }
        let info = ShardInfo { size: Some(size), ..self.info.clone() };
        let layout = info.layout()?;
        let last = self.stripes.saturating_sub(1);
        let fits = layout.stripes() == self.stripes
            && (self.stripes == 0 || layout.chunk_len(last) == self.last_chunk)
            && layout.trailer_offset() == self.file.len()
            && self.info.size.is_none_or(|known| known == size);
        if !fits {
            let what = format!("size {size} does not fit {} stripes", self.stripes);
            return Err(self.misuse("finish", what));
        }
        self.file.append(&encode_trailer(&info, digests, layout.trailer_offset()))?;
        self.file.complete()
    }

    fn write_table(&mut self) -> Result<()> {
        let segment = self.layout.segment_of(self.stripes - 1);
        self.file.append(&table::encode(&self.info, segment, &self.entries))?;
        self.digest.add(&self.entries);
        self.entries.clear();
        Ok(())
    }

    fn check_usable(&self, op: &'static str) -> Result<()> {
        match self.failed {
            true => Err(self.misuse(op, "an earlier write failed".into())),
            false => Ok(()),
        }
    }

    fn check_chunk(&self, chunk: &[u8], sums: &[u8]) -> Result<()> {
        const OP: &str = "append_chunk";
        self.check_usable(OP)?;
        if self.sealed.is_some() {
            return Err(self.misuse(OP, "the shard is sealed".into()));
        }
        let alpha = self.info.alpha as usize;
        let sum_len = self.info.sums.sum_len();
        if sums.len() != alpha * sum_len {
            let what = format!("{} bytes of checksums, not {alpha} of {sum_len}", sums.len());
            return Err(self.misuse(OP, what));
        }
        let full = alpha * self.info.sub_chunk as usize;
        if self.stripes >= self.layout.stripes() || self.last_chunk != full {
            return Err(self.misuse(OP, "the last stripe was already written".into()));
        }
        let sub_len = chunk.len() / alpha;
        let fits = match self.info.size {
            Some(_) => chunk.len() == self.layout.chunk_len(self.stripes),
            None => {
                let short = (sub_len as u64).is_multiple_of(LAST_STRIPE_ALIGN) && sub_len > 0;
                chunk.len() == full
                    || (chunk.len() == sub_len * alpha && short && sub_len * alpha < full)
            }
        };
        if !fits {
            return Err(self.misuse(OP, format!("a chunk of {} bytes", chunk.len())));
        }
        // Checked before writing and again after reading; readers rely on it.
        debug_assert!(all_are_of(self.info.sums, chunk, sub_len, sums));
        Ok(())
    }

    fn misuse(&self, op: &'static str, what: String) -> StoreError {
        StoreError::Misuse { op, name: self.name.clone(), what }
    }
}

/// Counts the whole segments from the start of an unfinished part that can be kept: its header
/// equals `info`, and their tables and all their data verify. 0 for an absent or foreign file.
///
/// Reads everything it counts. Segments are whole when they have all their stripes at full
/// length; a shorter last one never counts. A place without [`Capability::Append`] keeps none:
/// nothing can be added to what is there.
/// Errors: when the file exists and cannot be opened. Unreadable data only ends the count.
pub fn valid_segments(backend: &dyn Backend, name: &str, info: &ShardInfo) -> Result<u64> {
    info.check()?;
    if !backend.capabilities().has(Capability::Append) {
        return Ok(0);
    }
    scan(backend, name, info, u64::MAX, true, |_| {})
}

/// Verifies segments from the start, at most `most`, and shows each good one's table.
fn scan(
    backend: &dyn Backend,
    name: &str,
    info: &ShardInfo,
    most: u64,
    deep: bool,
    mut keep: impl FnMut(&[u8]),
) -> Result<u64> {
    let file = match backend.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(0),
        Err(error) => return Err(error),
    };
    if !read_header(&*file).is_ok_and(|header| header == *info) {
        return Ok(0);
    }
    let layout = info.layout()?;
    let place = backend.place();
    let origin = Origin { place: &place, name };
    let whole = layout.full_stripes() / layout.segment_stripes();
    let read = |segment, padding| -> Option<Arc<[u8]>> {
        let entries = table::read(&*file, origin, info, &layout, segment, padding).ok()?;
        (!deep || data_verifies(&*file, &layout, info.sums, segment, &entries)).then_some(entries)
    };
    let mut kept = 0;
    while kept < whole.min(most) {
        // The zeros before this segment belong to it here: the last table kept stays unpadded.
        let padding_good = kept == 0 || padding_is_zero(&*file, &layout, kept - 1);
        let Some(entries) = padding_good.then(|| read(kept, 0)).flatten() else { break };
        keep(&entries);
        kept += 1;
    }
    Ok(kept)
}

fn padding_is_zero(file: &dyn ReadAt, layout: &Layout, segment: u64) -> bool {
    let (offset, len) = layout.table(segment);
    let mut zeros = vec![0; layout.padding(segment) as usize];
    file.read_at(offset + len, &mut zeros).is_ok() && zeros.iter().all(|&byte| byte == 0)
}

/// Returns whether all data of a whole segment has the checksums of its table.
fn data_verifies(
    file: &dyn ReadAt,
    layout: &Layout,
    kind: SumKind,
    segment: u64,
    entries: &[u8],
) -> bool {
    let range = layout.segment_range(segment);
    let sub_len = layout.sub_len(range.start);
    let per_piece = (VERIFY_PIECE / sub_len).max(1);
    let count = entries.len() / kind.sum_len();
    let mut buf = vec![0; sub_len * per_piece.min(count)];
    let mut offset = layout.offset(range.start, 0);
    // Full chunks of a segment lie side by side, so pieces may run across them.
    entries.chunks(per_piece * kind.sum_len()).all(|sums| {
        let piece = &mut buf[..sums.len() / kind.sum_len() * sub_len];
        let read = file.read_at(offset, piece);
        offset += piece.len() as u64;
        read.is_ok() && all_are_of(kind, piece, sub_len, sums)
    })
}

/// Returns whether sub-chunks have these checksums.
fn all_are_of(kind: SumKind, chunk: &[u8], sub_len: usize, sums: &[u8]) -> bool {
    let mut each = chunk.chunks(sub_len).zip(sums.chunks_exact(kind.sum_len()));
    each.all(|(sub, sum)| kind.is_of(sub, sum))
}
