//! A lost shard comes into being again: what every repair does, whoever computes the chunks.
//!
//! A hidden part goes on behind its last good segment, chunk by chunk in the order of stripes. Its
//! digest must be the recorded one, and once it is durable its place must return a shard with that
//! digest. Only then may it be committed, which is the caller's: by a rename, or by a manifest.

use super::reader::digest_of;
use crate::{
    Backend, Capability, Digest, Result, ShardReader, ShardState, ShardWriter, StoreError,
};

impl ShardWriter {
    /// Completes a rebuilt shard: its digest must be the one among `digests` (of all n shards, by
    /// index), also when it is [read back](read_back). A part that is not what was recorded is
    /// removed, since whoever went on from it would get the same again.
    /// Errors: [`StoreError::Mismatch`]; as [`ShardWriter::finish`].
    pub fn finish_rebuilt(
        mut self,
        backend: &dyn Backend,
        size: u64,
        digests: &[Digest],
    ) -> Result<()> {
        let own = self.seal()?;
        let (part, index) = self.part();
        let part = part.to_owned();
        let result = match digests.get(index) == Some(&own) {
            true => self.finish(size, digests).and_then(|()| read_back(backend, &part, &own)),
            false => Err(mismatch(backend, &part, false)),
        };
        result.inspect_err(|error| {
            // Where a part appears only when it is finished there is nothing to remove, but what
            // had the name before.
            let there = backend.capabilities().has(Capability::Append);
            if there && matches!(error, StoreError::Mismatch { .. }) {
                // The mismatch is what the user must hear of.
                let _ = backend.remove(&part);
            }
        })
    }
}

/// Checks that a complete part is returned by its place as a shard with this digest. Header,
/// trailer and all checksum tables are read, not the chunks: those are a scrub's.
/// Errors: [`StoreError::Mismatch`]; I/O errors.
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

fn mismatch(backend: &dyn Backend, part: &str, written: bool) -> StoreError {
    StoreError::Mismatch { place: backend.place(), name: part.to_owned(), written }
}
