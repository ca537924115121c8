//! A lost shard comes into being again: what every repair does, whoever computes the chunks.
//!
//! A hidden part goes on behind its last good segment, chunk by chunk in the order of stripes. Its
//! digest must be the recorded one, and once it is durable its place must return a shard with that
//! digest. Only then may it be committed, which is the caller's: by a rename, or by a manifest.

use super::reader::digest_of;
use crate::{
    Backend, Digest, Result, ShardInfo, ShardReader, ShardState, ShardWriter, StoreError,
    valid_segments,
};

/// Writes one rebuilt shard under a hidden name.
///
/// ```
/// use kiln_store::{MemoryBackend, ShardInfo, ShardRebuild, checksum};
/// let info = ShardInfo {
///     spec: "rep:2".into(), object: "log".into(), run: [1; 16], source: [0; 16],
///     index: 1, k: 1, n: 2, alpha: 1, sub_chunk: 32, segment_stripes: 8, size: Some(32),
/// };
/// let disk = MemoryBackend::new();
/// let mut shard = ShardRebuild::open(&disk, ".log.01.part", &info, 0)?;
/// shard.append(&[5; 32], &[checksum(&[5; 32])])?;
/// let digest = shard.seal()?;
/// shard.finish(&disk, 32, &[digest, digest])?;
/// // A copy that ends up with another digest than recorded does not stay.
/// let mut other = ShardRebuild::open(&disk, ".log.01.part", &info, 0)?;
/// other.append(&[6; 32], &[checksum(&[6; 32])])?;
/// assert!(other.finish(&disk, 32, &[digest, digest]).is_err());
/// assert!(disk.bytes(".log.01.part").is_none());
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct ShardRebuild {
    writer: ShardWriter,
    part: String,
    index: usize,
}

impl ShardRebuild {
    /// Stripes that the part of an interrupted rebuild has in whole segments that verify: the most
    /// that [`ShardRebuild::open`] can go on from. Reads all of them; 0 where there is no part.
    ///
    /// # Errors
    /// As [`valid_segments`].
    pub fn kept(backend: &dyn Backend, part: &str, info: &ShardInfo) -> Result<u64> {
        Ok(valid_segments(backend, part, info)? * u64::from(info.segment_stripes))
    }

    /// Opens a part to append stripe `first` to it: 0 starts anew, more goes on from what
    /// [`ShardRebuild::kept`] has verified.
    ///
    /// # Errors
    /// [`StoreError::Misuse`] when the part does not have `first` stripes (any more); I/O errors.
    pub fn open(backend: &dyn Backend, part: &str, info: &ShardInfo, first: u64) -> Result<Self> {
        let writer = match first {
            0 => ShardWriter::create(backend, part, info)?,
            _ => ShardWriter::resume_verified(backend, part, info, first)?,
        };
        if writer.stripes() != first {
            let what = format!("it has {} stripes to keep, not {first}", writer.stripes());
            return Err(StoreError::Misuse { op: "resume", name: part.to_owned(), what });
        }
        Ok(ShardRebuild { writer, part: part.to_owned(), index: usize::from(info.index) })
    }

    /// Appends the next stripe's chunk with its alpha checksums; see [`ShardWriter::append_chunk`].
    pub fn append(&mut self, chunk: &[u8], sums: &[u32]) -> Result<()> {
        self.writer.append_chunk(chunk, sums)
    }

    /// Makes all that was appended durable.
    pub fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// The digest of what was appended; nothing may follow.
    pub fn seal(&mut self) -> Result<Digest> {
        self.writer.seal()
    }

    /// Completes the part: its digest must be the one among `digests` (of all n shards, by index),
    /// also when it is read back. A part that is not what was recorded is removed, since whoever
    /// went on from it would get the same again.
    ///
    /// # Errors
    /// [`StoreError::Mismatch`]; [`StoreError::Misuse`] when size or digests do not fit; I/O
    /// errors.
    pub fn finish(mut self, backend: &dyn Backend, size: u64, digests: &[Digest]) -> Result<()> {
        let own = self.writer.seal()?;
        let result = match digests.get(self.index) == Some(&own) {
            true => {
                self.writer.finish(size, digests)?;
                Self::read_back(backend, &self.part, &own)
            }
            false => Err(mismatch(backend, &self.part, false)),
        };
        result.inspect_err(|error| {
            if matches!(error, StoreError::Mismatch { .. }) {
                // The mismatch is what the user must hear of.
                let _ = backend.remove(&self.part);
            }
        })
    }

    /// Checks that a complete part is returned by its place as a shard with this digest. Header,
    /// trailer and all checksum tables are read, not the chunks: those are a scrub's.
    ///
    /// # Errors
    /// [`StoreError::Mismatch`]; I/O errors.
    pub fn read_back(backend: &dyn Backend, part: &str, digest: &Digest) -> Result<()> {
        // Without size or trailer it may still be readable, but it is not what was written.
        let whole = |reader: &ShardReader| reader.state() == ShardState::Complete;
        let found = ShardReader::open(backend, part)
            .and_then(|reader| Ok(whole(&reader) && digest_of(&reader)? == *digest));
        match found {
            Ok(true) => Ok(()),
            Err(error) if !error.is_damage() => Err(error),
            _ => Err(mismatch(backend, part, true)),
        }
    }
}

fn mismatch(backend: &dyn Backend, part: &str, written: bool) -> StoreError {
    StoreError::Mismatch { place: backend.place(), name: part.to_owned(), written }
}
