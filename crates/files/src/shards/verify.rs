//! Verify: are all shards intact, and if not, can they be repaired?

use kiln_store::{ShardState, digest_of};
use kiln_stripe::scan::{report, scan};
use kiln_stripe::stripe_statistics::{Findings, indices};
use kiln_stripe::{Damage, Depth, PoolError, Result, Settings, VerifyReport, sinks::in_parallel};

use crate::ShardSet;

/// Checks shards.
///
/// Damage is a finding in the report, not an error.
/// Errors: only what keeps it from reading at all, such as no memory for buffers.
pub fn verify(set: &ShardSet, depth: Depth, settings: &Settings<'_>) -> Result<VerifyReport> {
    let mut findings = Findings::default();
    set.damage.iter().for_each(|damage| findings.push(damage.clone()));
    let (bad_digests, tables) = check_digests(set, &mut findings, settings)?;
    let mut report = report(set, depth);
    report.metadata_bytes_read = set.metadata_bytes + tables;
    report.missing = set.missing();
    let mut bad = vec![false; set.members.len()];
    let structural = set.structurally_damaged();
    for index in report.missing.iter().chain(&structural).chain(&bad_digests) {
        bad[*index] = true;
    }
    if depth >= Depth::Data {
        let scan = scan(set, &[], depth == Depth::Parity, settings)?;
        scan.fill(&mut report, &mut findings, &mut bad);
    } else {
        report.recoverable = set.codec().tolerates(&report.missing);
    }
    report.lost = indices(&bad);
    // A file named as a shard that is none, beside a good shard of that index, is only a note.
    report.clean = report.lost.is_empty()
        && findings.count == 0
        && set.misnamed.is_empty()
        && report.recoverable;
    report.notes.clone_from(&set.notes);
    report.damaged = findings.list;
    report.damaged_count = findings.count;
    Ok(report)
}

/// Compares tables with recorded digests. Returns who fails, and the bytes of tables read.
pub(crate) fn check_digests(
    set: &ShardSet,
    findings: &mut Findings,
    settings: &Settings<'_>,
) -> Result<(Vec<usize>, u64)> {
    let Some(recorded) = &set.digests else { return Ok((Vec::new(), 0)) };
    let readable = |i: &usize| {
        set.members[*i].as_ref().is_some_and(|m| m.reader.state() != ShardState::NoTrailer)
    };
    let present: Vec<usize> = (0..set.members.len()).filter(readable).collect();
    let results = in_parallel(settings.sequence, present, |_, index: usize| {
        let result = match &set.members[index] {
            Some(member) => digest_of(&member.reader).map_err(|error| error.to_string()),
            None => return Ok::<_, PoolError>((index, None)),
        };
        let reason = match result {
            Ok(digest) if digest == recorded[index] => None,
            Ok(_) => Some("its checksum tables do not match the recorded digest".to_owned()),
            Err(error) => Some(error),
        };
        Ok((index, reason))
    })?;
    let bytes = set.layout.tables_bytes().saturating_mul(results.len() as u64);
    let mut bad = Vec::new();
    for (index, reason) in results {
        if let Some(reason) = reason {
            findings.push(Damage { index: Some(index), stripe: None, reason });
            bad.push(index);
        }
    }
    Ok((bad, bytes))
}
