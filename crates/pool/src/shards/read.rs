//! Decode: shards become the object again.

use std::io::Write;

use kiln_store::DigestBuilder;

use crate::engine::chunks::Shards;
use crate::engine::decode::{decode_stripes, report};
use crate::{DecodeReport, PoolError, Result, Settings, ShardSet};

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
    let mut report = report(set, &statistics);
    report.lost = set.missing();
    report.metadata_bytes_read += set.metadata_bytes;
    report.verified = set.digests.is_some() || suspects.is_empty();
    report.notes.clone_from(&set.notes);
    report.damaged_count += set.damage.len() as u64;
    report.damaged.splice(0..0, set.damage.iter().cloned());
    Ok(report)
}
