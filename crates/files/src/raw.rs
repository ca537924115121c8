//! The same operations on bare chunks: files `NAME.0 .. NAME.n-1` without any metadata, as users
//! of Ceph, ISA-L and zfec have them. File i is all chunks i, one after the other.
//!
//! Nothing is checksummed: only absence and a wrong length are seen and, by [`verify_raw`],
//! parity that does not fit the data.

mod files;

use std::io::Write;

use kiln_code::Codec;
use kiln_store::Append;
use kiln_stripe::encode::{Cut, encode_stripes, shrunk};
use kiln_stripe::node::{check_nodes, node_of};
use kiln_stripe::rebuild::{Rebuild, chunk_bytes};
use kiln_stripe::repair_statistics::{PassStatistics, RepairStatistics};
use kiln_stripe::sinks::{ShardSinks, in_parallel};
use kiln_stripe::stripe_statistics::{Findings, StripeStatistics, indices};
use kiln_stripe::{
    DecodeReport, Depth, EncodeReport, Node, PoolError, RepairReport, Result, Settings, ShardPlace,
    Source, VerifyReport, decode, default_sub_chunk, names, scan,
};
use kiln_stripe::{estimate::estimate_stripes, geometry::most_sub_chunk};

use self::files::{RawFiles, name, part};
use crate::RepairRequest;

/// Description of bare chunks, as shards have it in their headers.
#[derive(Copy, Clone, Debug)]
pub struct RawRequest<'a> {
    /// The code.
    pub codec: &'a Codec,
    /// NAME of the files; `None` when files of only one name are there. Encode needs it.
    pub object: Option<&'a str>,
    /// Bytes of one chunk of one stripe. `None`: as for shards, but an object of less than one
    /// stripe gets the smallest chunks of 16-byte multiples of sub-chunks that hold it.
    pub chunk: Option<u64>,
    /// Bytes of the object. Encode ignores it; decode needs it; verify and repair do not.
    pub size: Option<u64>,
    /// Encode: replace files of the same names.
    pub replace: bool,
}

impl RawRequest<'_> {
    /// Bytes of a sub-chunk of a full stripe.
    fn sub_chunk(&self) -> Result<usize> {
        let shape = self.codec.shape();
        let Some(chunk) = self.chunk else { return Ok(default_sub_chunk(shape) as usize) };
        let alpha = shape.alpha as u64;
        let limit = most_sub_chunk(shape) * alpha;
        if chunk == 0 || !chunk.is_multiple_of(alpha) || chunk > limit {
            let what = format!(
                "chunks of {chunk} bytes do not fit {}: give a multiple of {alpha}, at most \
                 {limit}",
                self.codec.spec()
            );
            return Err(PoolError::Usage { what });
        }
        Ok((chunk / alpha) as usize)
    }

    /// Bytes of a sub-chunk and number of stripes of an object of this size.
    fn cut(&self, size: u64) -> Result<(usize, u64)> {
        let shape = self.codec.shape();
        let sub = self.sub_chunk()?;
        let stripe = (sub * shape.alpha * shape.k) as u64;
        if self.chunk.is_none() && size < stripe {
            return Ok((shrunk(shape, size).min(sub), u64::from(size > 0)));
        }
        Ok((sub, size.div_ceil(stripe)))
    }
}

/// Encodes to bare chunks; the last stripe is padded with zeros to full length.
/// Errors: as [`crate::encode`]. There is nothing to resume: bare chunks have no header that says
/// which run they are of.
pub fn encode_raw(
    req: &RawRequest<'_>,
    source: &mut dyn Source,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<EncodeReport> {
    let Some(object) = req.object else {
        return Err(PoolError::Usage { what: "raw chunks need a name".into() });
    };
    names::check_object(object)?;
    let shape = req.codec.shape();
    check_nodes(nodes, shape.n())?;
    let sub_chunk = req.sub_chunk()?;
    if !req.replace {
        refuse_present(object, req.codec, nodes)?;
    }
    let cut = Cut::bare(shape, sub_chunk, source.size(), req.chunk.is_none());
    let written = write_parts(req.codec, object, &cut, source, nodes, settings);
    let size = written.inspect_err(|_| {
        for index in 0..shape.n() {
            // The failure itself is what the user must see.
            let _ = nodes[node_of(index, nodes)].store.remove(&part(object, index));
        }
    })?;
    for index in 0..shape.n() {
        let store = &nodes[node_of(index, nodes)].store;
        store.rename(&part(object, index), &name(req.codec, object, index))?;
    }
    encode_report(req, object, size, nodes)
}

fn refuse_present(object: &str, codec: &Codec, nodes: &[Node]) -> Result<()> {
    let names: Vec<String> = (0..codec.shape().n()).map(|i| name(codec, object, i)).collect();
    for node in nodes {
        let files = node.store.list()?;
        if let Some(file) = names.iter().find(|name| files.contains(name)) {
            let what = format!("{file} is in {} already", node.store.place());
            return Err(PoolError::Exists { what });
        }
    }
    Ok(())
}

fn write_parts(
    codec: &Codec,
    object: &str,
    cut: &Cut,
    source: &mut dyn Source,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<u64> {
    let files =
        in_parallel(settings.sequence, (0..codec.shape().n()).collect(), |_, index: usize| {
            nodes[node_of(index, nodes)].store.append(&part(object, index), 0)
        })?;
    let mut sinks = ShardSinks::new(files, settings);
    let size = encode_stripes(object, codec, cut, 0, source, &mut sinks, settings)?;
    in_parallel(settings.sequence, sinks.into_inner(), |_, mut file: Box<dyn Append>| file.sync())?;
    if source.changed().map_err(|source| PoolError::Input { source })? {
        return Err(PoolError::Changed { object: object.to_owned() });
    }
    Ok(size)
}

fn encode_report(
    req: &RawRequest<'_>,
    object: &str,
    size: u64,
    nodes: &[Node],
) -> Result<EncodeReport> {
    let shape = req.codec.shape();
    let (sub_chunk, stripes) = req.cut(size)?;
    let chunk = (sub_chunk * shape.alpha) as u64;
    let place = |index: usize| ShardPlace {
        index,
        node: nodes[node_of(index, nodes)].name.clone(),
        name: name(req.codec, object, index),
        bytes: stripes * chunk,
    };
    Ok(EncodeReport {
        object: object.to_owned(),
        code: req.codec.spec().to_string(),
        order: req.codec.order().to_owned(),
        size,
        stripes,
        k: shape.k,
        m: shape.m,
        margin: req.codec.margin(&[]),
        alpha: shape.alpha,
        sub_chunk: sub_chunk as u64,
        chunk,
        bytes_written: stripes * chunk * shape.n() as u64,
        shards: (0..shape.n()).map(place).collect(),
        ..EncodeReport::default()
    })
}

/// Decodes from bare chunks. Needs the object's size.
/// Errors: as [`crate::decode`]; [`PoolError::Usage`] when the size does not fit the files.
pub fn decode_raw(
    req: &RawRequest<'_>,
    nodes: &[Node],
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<DecodeReport> {
    if req.size.is_none() {
        let what = "raw chunks do not carry the object's size: give it with --size".into();
        return Err(PoolError::Usage { what });
    }
    let files = RawFiles::open(req, nodes)?;
    let statistics = decode::decode_stripes(&files, &[], |_| {}, out, settings)?;
    let mut report = decode::report(&files, &statistics);
    report.lost = files.absent();
    report.damaged_count += files.damage.len() as u64;
    report.damaged.splice(0..0, files.damage.iter().cloned());
    Ok(report)
}

/// Recomputes parity from data and compares.
pub fn verify_raw(
    req: &RawRequest<'_>,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<VerifyReport> {
    let files = RawFiles::open(req, nodes)?;
    let mut findings = Findings::default();
    files.damage.iter().for_each(|damage| findings.push(damage.clone()));
    let mut report = scan::report(&files, Depth::Parity);
    report.missing = files.absent();
    let mut bad = vec![false; req.codec.shape().n()];
    report.missing.iter().for_each(|&index| bad[index] = true);
    scan::scan(&files, &[], true, settings)?.fill(&mut report, &mut findings, &mut bad);
    report.lost = indices(&bad);
    report.clean = report.lost.is_empty() && findings.count == 0;
    report.damaged = findings.list;
    report.damaged_count = findings.count;
    Ok(report)
}

/// Rebuilds missing files, files of a wrong length, and those given as lost. `scan` means nothing
/// here. What is rebuilt cannot be verified: the report says so.
pub fn repair_raw(
    req: &RawRequest<'_>,
    repair: &RepairRequest,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<RepairReport> {
    let files = RawFiles::open(req, nodes)?;
    let n = req.codec.shape().n();
    if let Some(index) = repair.lost.iter().find(|&&index| index >= n) {
        let what = format!("there is no chunk {index}: the code has chunks 0 to {}", n - 1);
        return Err(PoolError::Usage { what });
    }
    let mut flags = vec![false; n];
    files.absent().into_iter().chain(repair.lost.iter().copied()).for_each(|i| flags[i] = true);
    let targets = indices(&flags);
    let mut totals = RepairStatistics::for_nodes((0..n).map(|index| files.node_name(index)));
    files.damage.iter().for_each(|damage| totals.findings.push(damage.clone()));
    totals.unverified = true;
    if !targets.is_empty() {
        let places: Vec<Node> =
            targets.iter().map(|&index| files.place(repair, index)).collect::<Result<_>>()?;
        let statistics = if repair.dry_run {
            estimate_stripes(&files, &targets, &repair.lost, repair.devices.as_ref())?
        } else {
            rebuild(&files, repair, &targets, &places, settings)?
        };
        totals.findings.extend(&statistics.findings);
        totals.add(&PassStatistics {
            targets: &targets,
            target_nodes: places.iter().map(|node| node.name.clone()).collect(),
            statistics: &statistics,
            written_each: chunk_bytes(&files, 0),
        });
    }
    Ok(totals.into_report(&files, repair.dry_run))
}

fn rebuild(
    files: &RawFiles<'_>,
    repair: &RepairRequest,
    targets: &[usize],
    places: &[Node],
    settings: &Settings<'_>,
) -> Result<StripeStatistics> {
    let object = files.object.as_str();
    let sinks = targets.iter().zip(places);
    let sinks: Vec<Box<dyn Append>> = sinks
        .map(|(&index, node)| node.store.append(&part(object, index), 0))
        .collect::<Result<_, _>>()?;
    let mut sinks = ShardSinks::new(sinks, settings);
    let devices = repair.devices.as_ref();
    let job = Rebuild { chunks: files, targets, discard: &repair.lost, first: 0, devices };
    let result = job.run(&mut sinks, settings).and_then(|statistics| {
        in_parallel(settings.sequence, sinks.into_inner(), |_, mut file: Box<dyn Append>| {
            file.sync()
        })?;
        Ok(statistics)
    });
    let statistics = result.inspect_err(|_| {
        for (&index, node) in targets.iter().zip(places) {
            let _ = node.store.remove(&part(object, index));
        }
    })?;
    for (&index, node) in targets.iter().zip(places) {
        node.store.rename(&part(object, index), &name(files.codec, object, index))?;
    }
    Ok(statistics)
}
