//! Verify: are all shards as they should be, and if not, can they be mended?

use kiln_store::{ShardState, digest_of};
use serde::Serialize;

use crate::frame::{Frame, Held};
use crate::lanes::in_parallel;
use crate::stripe::{Chunks, Planner, StripeReader, frames};
use crate::tally::{Findings, Tally};
use crate::{
    Damage, MAX_DAMAGE_ENTRIES, PoolError, Result, Settings, ShardSet, VerifyReport, pipeline,
};

/// How much [`verify`] reads and computes.
///
/// ```
/// assert!(kiln_pool::Depth::Headers < kiln_pool::Depth::Data);
/// assert_eq!(kiln_pool::Depth::default(), kiln_pool::Depth::Data);
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Headers, trailers, names, and checksum tables against the recorded digests.
    Headers,
    /// All chunk data against its checksums too.
    #[default]
    Data,
    /// All that, and parity computed again from data.
    Parity,
}

/// Checks shards.
///
/// Damage is a finding in the report, not an error.
///
/// # Errors
/// Only what keeps it from looking, such as a full memory of the code's.
///
/// ```
/// # use std::sync::Arc;
/// # use kiln_code::Codec;
/// # use kiln_pool::{EncodeRequest, Node, Settings, Silent, StreamSource};
/// # use kiln_pool::{Depth, discover, encode, verify};
/// # use kiln_store::{Backend, MemoryBackend};
/// # let codec = Codec::new(&"rs:4+2".parse()?)?;
/// # let store = Arc::new(MemoryBackend::new());
/// # let nodes = [Node::new("here", store.clone())];
/// # let req = EncodeRequest {
/// #     codec: &codec, object: "x", run: [1; 16], sub_chunk: Some(64), replace: false,
/// # };
/// # let settings = Settings::new(&Silent);
/// encode(&req, &mut StreamSource::new(&b"some bytes to keep"[..]), &nodes, &settings)?;
/// assert!(verify(&discover(&nodes, None)?, Depth::Data, &settings)?.clean);
/// store.remove("x.05.kiln")?;
/// let report = verify(&discover(&nodes, None)?, Depth::Parity, &settings)?;
/// assert_eq!((report.clean, report.recoverable, report.lost), (false, true, vec![5]));
/// # Ok::<(), kiln_pool::PoolError>(())
/// ```
pub fn verify(set: &ShardSet, depth: Depth, settings: &Settings<'_>) -> Result<VerifyReport> {
    let mut findings = Findings::default();
    set.damage.iter().for_each(|damage| findings.push(damage.clone()));
    let (bad_digests, tables) = check_digests(set, &mut findings)?;
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
        let gone = report.missing.len();
        report.recoverable = gone <= set.codec().shape().m;
    }
    report.lost = crate::tally::indices(&bad);
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

/// A report with nothing found yet.
pub(crate) fn report(chunks: &dyn Chunks, depth: Depth) -> VerifyReport {
    VerifyReport {
        object: chunks.object().to_owned(),
        code: chunks.codec().spec().to_string(),
        order: chunks.codec().order().to_owned(),
        size: chunks.object_bytes(),
        stripes: chunks.stripes(),
        depth,
        recoverable: true,
        ..VerifyReport::default()
    }
}

/// Compares tables with recorded digests. Returns who fails, and the bytes of tables read.
pub(crate) fn check_digests(set: &ShardSet, findings: &mut Findings) -> Result<(Vec<usize>, u64)> {
    let Some(recorded) = &set.digests else { return Ok((Vec::new(), 0)) };
    let readable = |i: &usize| {
        set.members[*i].as_ref().is_some_and(|m| m.reader.state() != ShardState::NoTrailer)
    };
    let present: Vec<usize> = (0..set.members.len()).filter(readable).collect();
    let results = in_parallel(present, |_, index: usize| {
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
    let layout = &set.layout;
    let per_shard: u64 = (0..layout.segments()).map(|segment| layout.table(segment).1).sum();
    let bytes = per_shard * results.len() as u64;
    let mut bad = Vec::new();
    for (index, reason) in results {
        if let Some(reason) = reason {
            findings.push(Damage { index: Some(index), stripe: None, reason });
            bad.push(index);
        }
    }
    Ok((bad, bytes))
}

/// What reading everything showed.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Costs and damage.
    pub tally: Tally,
    /// Stripes with more than m bad chunks: the first of them, and how many.
    pub hopeless: Vec<u64>,
    /// See `hopeless`.
    pub hopeless_count: u64,
}

impl ScanResult {
    /// Writes it into a report.
    pub(crate) fn fill(
        &self,
        report: &mut VerifyReport,
        findings: &mut Findings,
        bad: &mut [bool],
    ) {
        report.bytes_read = self.tally.bytes();
        report.metadata_bytes_read += self.tally.metadata();
        report.recoverable = self.hopeless_count == 0;
        report.unrecoverable_stripes.clone_from(&self.hopeless);
        for index in self.tally.bad_indices() {
            bad[index] = true;
        }
        findings.extend(&self.tally.findings);
    }
}

/// Reads all chunks of all stripes (but those of `excluded`), and with `recompute` compares parity
/// with what data makes it.
pub(crate) fn scan(
    chunks: &dyn Chunks,
    excluded: &[usize],
    recompute: bool,
    settings: &Settings<'_>,
) -> Result<ScanResult> {
    let shape = chunks.codec().shape();
    let reader = StripeReader::new(chunks, Planner::Decode, excluded);
    let spare = if recompute { shape.m } else { 0 };
    let mut result = ScanResult { tally: Tally::new(shape.n()), ..ScanResult::default() };
    settings.observer.begin("verify", Some(chunks.object_bytes()));
    pipeline::run(
        frames(chunks, spare, settings),
        settings.threads(),
        0,
        |stripe, _| Ok(stripe < chunks.stripes()),
        |stripe, frame: &mut Frame| {
            reader.begin(stripe, frame);
            reader.read_whole(stripe, frame, 0..shape.n());
            let good = frame.held.iter().filter(|held| **held == Held::Whole).count();
            frame.hopeless = good < shape.k;
            if recompute && !frame.hopeless {
                check_parity(chunks, &reader, stripe, frame)?;
            }
            Ok(())
        },
        |stripe, frame| {
            if frame.hopeless {
                result.hopeless_count += 1;
                if result.hopeless.len() < MAX_DAMAGE_ENTRIES {
                    result.hopeless.push(stripe);
                }
            }
            for &index in &frame.inconsistent {
                let reason = "parity does not fit data".to_owned();
                let damage = Damage { index: Some(index), stripe: Some(stripe), reason };
                result.tally.bad[index] = true;
                result.tally.findings.push(damage);
            }
            settings.observer.advance(frame.object_bytes);
            result.tally.add(stripe, frame);
            Ok(())
        },
    )?;
    Ok(result)
}

/// Recomputes parity from data into the spare buffers, and compares.
fn check_parity(
    chunks: &dyn Chunks,
    reader: &StripeReader<'_>,
    stripe: u64,
    frame: &mut Frame,
) -> Result<()> {
    let shape = chunks.codec().shape();
    let present: Vec<usize> =
        (shape.k..shape.n()).filter(|&i| frame.held[i] == Held::Whole).collect();
    let data: Vec<usize> = (0..shape.k).collect();
    reader.rebuild(stripe, frame, &data)?;
    let (sources, mut rest) = frame.split(shape.k, shape.n() + shape.m);
    let (stored, fresh) = rest.split_at_mut(shape.m);
    chunks.codec().encode(&sources, fresh)?;
    let differs = |i: &usize| stored[i - shape.k] != fresh[i - shape.k];
    let inconsistent = present.into_iter().filter(differs).collect();
    frame.inconsistent = inconsistent;
    Ok(())
}
