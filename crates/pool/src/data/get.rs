//! Get: an object, or a part of it, from whatever is left of its shards.

use std::{io::Write, ops::Range};

use kiln_stripe::stripe_statistics::{StripeStatistics, indices};
use kiln_stripe::{Damage, PoolError, Result, Settings, decode::decode_stripes};
use serde::Serialize;

use crate::data::helpers::{Helped, Helpers};
use crate::{
    Key, Manifest, data::cells::decrypted, data::range, data::reader::ObjectReader,
    data::shards::ObjectShards, layout::Body,
};

/// Nothing had to be rebuilt.
const DIRECT: &str = "direct";
/// Times that a read starts again because the object was replaced under it.
const RETRIES: usize = 5;

/// Request to get.
#[derive(Clone, Debug)]
pub struct GetRequest<'a> {
    /// The object.
    pub name: &'a str,
    /// Bytes wanted; `None`: all. What is beyond the end is left out.
    pub range: Option<Range<u64>>,
}

/// Report of a get.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GetReport {
    /// The object.
    pub object: String,
    /// Its size in bytes.
    pub size: u64,
    /// Version of its manifest.
    pub version: u64,
    /// The code, or `inline`.
    pub code: String,
    /// Bytes handed out.
    pub bytes_written: u64,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Contiguous reads of chunk bytes.
    pub read_runs: u64,
    /// Bytes of checksum tables read.
    pub metadata_bytes_read: u64,
    /// Something had to be rebuilt.
    pub degraded: bool,
    /// Strategy: `direct` (nothing had to be), `central` (here, from what its helpers have), the
    /// name of the plan's strategy (helpers computed), or `mixed`.
    pub strategy: String,
    /// Chunk bytes that came to the reader: what it read, and what helpers sent it.
    pub bytes_received: u64,
    /// Of the bytes handed out, those of lost chunks that helpers rebuilt.
    pub bytes_from_helpers: u64,
    /// Why helpers did not rebuild what was lost, or not to the end.
    pub notes: Vec<String>,
    /// Indices of shards that could not be used.
    pub lost: Vec<usize>,
    /// Indices of shards whose nodes could not be asked, from the beginning or at some stripe: no
    /// damage, as far as can be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<usize>,
    /// Indices of shards whose nodes were too late to be waited for, when the read ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<usize>,
    /// Damage met on the way, at most 1000 entries.
    pub damaged: Vec<Damage>,
    /// Amount of damage met.
    pub damaged_count: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// Counts what has been handed out: after the first byte a read cannot start again.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl ObjectReader<'_> {
    /// Writes an object's bytes to `out`, rebuilding around what is missing or damaged. A range
    /// reads only the sub-chunks that it needs, or the cheapest plan for those that are lost.
    ///
    /// Every byte handed out was verified against a checksum or computed from bytes that were.
    /// Errors: [`PoolError::NoObject`], [`PoolError::StripeLost`], [`PoolError::Uncertain`],
    /// [`PoolError::Output`].
    pub fn get(
        &self,
        req: &GetRequest<'_>,
        out: &mut dyn Write,
        settings: &Settings<'_>,
    ) -> Result<GetReport> {
        self.read_with(req, None, out, settings)
    }

    /// The same, with helpers that may rebuild what is lost; what they cannot do is done here. A
    /// shard that they rebuild as a whole has its recorded digest, or is not handed out as whole.
    /// Errors: as [`ObjectReader::get`]; [`PoolError::Mismatch`] when helpers rebuilt a shard of
    /// several stripes that is not what was recorded.
    pub fn read_with(
        &self,
        req: &GetRequest<'_>,
        helpers: Option<&dyn Helpers>,
        out: &mut dyn Write,
        settings: &Settings<'_>,
    ) -> Result<GetReport> {
        self.read_from(self.manifests.manifest(req.name)?, req, helpers, out, settings)
    }

    /// Writes the bytes of several objects, as [`ObjectReader::get`] does for each of them. Small
    /// ones are much faster this way: every node is asked once for all of them. All are done when
    /// this returns, each with its own end, in order.
    /// Errors: a name that is none; [`PoolError::MapChanged`]. Then nothing was written.
    pub fn read_all<W: Write + Send>(
        &self,
        gets: Vec<(GetRequest<'_>, W)>,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<GetReport>>> {
        gets.iter().try_for_each(|(req, _)| self.map.use_object(req.name))?;
        let keys = gets.iter().map(|(req, _)| Ok((Key::of(req.name)?, false)));
        let found = self.manifests.ask_each(&keys.collect::<Result<Vec<_>>>()?)?;
        let gets = gets.into_iter().zip(found).collect();
        self.map.in_parallel(gets, |_, ((req, mut out), found)| {
            let manifest =
                self.manifests.sure(found, req.name).and_then(|found| match found.newest {
                    // One that is on too few homes is completed first.
                    Some(manifest) if found.stable => Ok(manifest),
                    _ => self.manifests.manifest(req.name),
                });
            let read = |manifest| self.read_from(manifest, &req, None, &mut out, settings);
            Ok::<_, PoolError>(manifest.and_then(read))
        })
    }

    /// Reads what a manifest tells of, or, where that is gone, what replaced it.
    fn read_from(
        &self,
        mut manifest: Manifest,
        req: &GetRequest<'_>,
        helpers: Option<&dyn Helpers>,
        out: &mut dyn Write,
        settings: &Settings<'_>,
    ) -> Result<GetReport> {
        for _ in 0..RETRIES {
            let mut counted = Counted { out, bytes: 0 };
            match self.read_version(&manifest, req, helpers, &mut counted, settings) {
                Err(error) if counted.bytes == 0 && is_loss(&error) => {
                    // Its shards may be gone because it was replaced.
                    let now = self.manifests.manifest(req.name)?;
                    if now == manifest {
                        return Err(error);
                    }
                    manifest = now;
                }
                end => return end,
            }
        }
        let what = format!(
            "object {:?} is being replaced faster than it can be read; try again",
            req.name
        );
        Err(PoolError::Refused { what })
    }

    fn read_version(
        &self,
        manifest: &Manifest,
        req: &GetRequest<'_>,
        helpers: Option<&dyn Helpers>,
        out: &mut Counted<'_>,
        settings: &Settings<'_>,
    ) -> Result<GetReport> {
        let settings = &self.map.read_settings(settings);
        let wanted = req.range.clone().unwrap_or(0..manifest.size);
        let wanted = wanted.start.min(manifest.size)..wanted.end.min(manifest.size);
        let mut report = GetReport {
            object: manifest.name.clone(),
            size: manifest.size,
            version: manifest.version,
            code: crate::layout::INLINE.to_owned(),
            strategy: DIRECT.to_owned(),
            ..GetReport::default()
        };
        match &manifest.body {
            Body::Deleted => return Err(PoolError::NoObject { name: req.name.to_owned() }),
            Body::Inline(_) => {
                settings.observer.begin("get", Some(wanted.end.saturating_sub(wanted.start)));
                let bytes = self.inline(manifest)?.unwrap_or_default();
                let part = bytes.get(wanted.start as usize..wanted.end as usize).unwrap_or(&[]);
                out.write_all(part).map_err(|source| PoolError::Output { source })?;
                settings.observer.advance(part.len() as u64);
            }
            Body::Shards(_) => {
                let key = self.map.config.object_key(manifest)?;
                let shards = ObjectShards::open_with(self.map, manifest, settings)?;
                // A reader of whole stripes receives as much without helpers: any k chunks do.
                let insists = helpers.is_some_and(Helpers::insists) && !shards.gone().is_empty();
                let (statistics, helped) =
                    decrypted(manifest.object(), key, wanted, out, |stored, out| {
                        if stored != (0..manifest.stored_size()) || insists {
                            return range::read(&shards, stored, helpers, out, settings);
                        }
                        let statistics = decode_stripes(&shards, &[], |_| (), out, settings)?;
                        Ok((statistics, Helped::default()))
                    })?;
                fill(&mut report, &shards, &statistics, helped);
            }
        }
        out.flush().map_err(|source| PoolError::Output { source })?;
        report.bytes_written = out.bytes;
        Ok(report)
    }

    /// Returns the bytes of an object that lie in its manifest; `None`: they lie elsewhere.
    /// Errors: [`PoolError::NoDataKey`], [`PoolError::Forged`].
    pub fn inline(&self, manifest: &Manifest) -> Result<Option<Vec<u8>>> {
        let Body::Inline(bytes) = &manifest.body else { return Ok(None) };
        let key = self.map.config.object_key(manifest)?;
        let mut out = Vec::with_capacity(manifest.size as usize);
        decrypted(manifest.object(), key, 0..manifest.size, &mut out, |_, out| {
            out.write_all(bytes).map_err(|source| PoolError::Output { source })
        })?;
        Ok(Some(out))
    }
}

/// Errors that a version's disappearance would explain.
fn is_loss(error: &PoolError) -> bool {
    matches!(error, PoolError::StripeLost { .. } | PoolError::NotRecoverable { .. })
}

fn fill(
    report: &mut GetReport,
    shards: &ObjectShards,
    statistics: &StripeStatistics,
    helped: Helped,
) {
    report.code = shards.codec.spec().to_string();
    report.bytes_read = statistics.bytes();
    report.read_runs = statistics.runs();
    report.metadata_bytes_read = statistics.metadata();
    let here = statistics.repaired || statistics.decoded;
    report.degraded = here || helped.rebuilt > 0;
    report.strategy = match (here, helped.strategy.filter(|_| helped.rebuilt > 0)) {
        (false, None) => DIRECT.to_owned(),
        (true, None) => "central".to_owned(),
        (false, Some(strategy)) => strategy,
        (true, Some(_)) => "mixed".to_owned(),
    };
    report.bytes_received = report.bytes_read + helped.received;
    report.bytes_from_helpers = helped.rebuilt;
    report.notes = helped.notes;
    (report.lost, report.late) = (shards.gone(), shards.late());
    report.away = shards.unavailable();
    let is_new = |index: &usize| !report.away.contains(index);
    let away: Vec<usize> = indices(&statistics.away).into_iter().filter(is_new).collect();
    report.away.extend(away);
    report.away.sort_unstable();
    report.damaged.clone_from(&statistics.findings.list);
    report.damaged.retain(|damage| damage.index.is_none_or(|index| !statistics.away[index]));
    report.damaged_count = statistics.findings.count - statistics.away_count;
    debug_assert!(indices(&statistics.helped).len() <= shards.count());
}
