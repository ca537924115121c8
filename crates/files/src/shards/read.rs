//! Decode: shards become the object again.

use std::{io::Write, ops::Range};

use kiln_store::DigestBuilder;
use kiln_stripe::decode::{decode_bytes, decode_stripes, report};
use kiln_stripe::{DecodeReport, PoolError, Result, Settings, chunks::Shards};

use crate::ShardSet;

/// Writes the object's bytes to `out`, rebuilding around whatever is missing or damaged.
///
/// Every byte handed out was verified against a checksum or computed from bytes that were. Data
/// shards that are missing or damaged are also checked against their recorded digests, at the end.
///
/// # Errors
/// [`PoolError::StripeLost`] at the first stripe with too many bad chunks (what was before it
/// has been handed out), [`PoolError::Mismatch`], [`PoolError::Output`].
///
/// [`crate::EncodeRequest`] has an example.
pub fn decode(
    set: &ShardSet,
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<DecodeReport> {
    let k = set.codec().shape().k;
    let suspects: Vec<usize> =
        (0..k).filter(|&i| set.members[i].as_ref().is_none_or(|m| m.damaged)).collect();
    let mut digests: Vec<DigestBuilder> =
        suspects.iter().map(|&index| set.info_of(index).digest_builder()).collect();
    let statistics = decode_stripes(
        set,
        &suspects,
        |frame| {
            for (digest, &index) in digests.iter_mut().zip(&suspects) {
                digest.add(&frame.sums[index]);
            }
        },
        out,
        settings,
    )?;
    if let Some(recorded) = &set.digests {
        for (digest, &index) in digests.iter().zip(&suspects) {
            if digest.digest() != recorded[index] {
                let todo = "do not use the output; keep all shards and report this".into();
                return Err(PoolError::Mismatch { object: set.object().to_owned(), index, todo });
            }
        }
    }
    let mut report = filled(set, report(set, &statistics));
    report.verified = set.digests.is_some() || suspects.is_empty();
    Ok(report)
}

/// Returns what a report says of the set itself.
pub(super) fn filled(set: &ShardSet, mut report: DecodeReport) -> DecodeReport {
    report.lost = set.missing();
    report.metadata_bytes_read += set.metadata_bytes;
    report.notes.clone_from(&set.notes);
    report.damaged_count += set.damage.len() as u64;
    report.damaged.splice(0..0, set.damage.iter().cloned());
    report
}

/// Writes some bytes of the object to `out`, as far as it has them, and reads no chunk that has
/// none of them. Every byte was verified against a checksum or computed from bytes that were; what
/// is rebuilt of a shard is not compared with its digest, which is of the whole shard.
/// Errors: as [`decode`]; [`PoolError::Usage`] where the object ends before the range begins.
pub fn decode_range(
    set: &ShardSet,
    range: Range<u64>,
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<DecodeReport> {
    let size = set.size();
    if range.start > size {
        let what = format!("{} ends after {size} bytes, before the range begins", set.object());
        return Err(PoolError::Usage { what });
    }
    let range = range.start..range.end.clamp(range.start, size);
    let len = range.end - range.start;
    let statistics = decode_bytes(set, range, &[], |_| {}, out, settings)?;
    let mut report = filled(set, report(set, &statistics));
    report.bytes_written = len;
    report.verified = true;
    Ok(report)
}
