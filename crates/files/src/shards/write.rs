//! Encode: a source becomes n shards, all or none.
//!
//! All shards are written as parts (hidden names). When every part is complete and durable the
//! parts are renamed. A reader that sees one renamed shard may therefore count all complete parts
//! of the same run as shards, and the next encode or repair finishes the renames. Before the first
//! rename readers see nothing, and an equal encode goes on where the parts end.

pub(crate) mod commit;
mod prepare;
mod recode;

use self::commit::{Rename, commit, secure_names};
pub(crate) use self::prepare::roll_forward_all as roll_forward;
use self::prepare::{Start, prepare, remove_parts};
pub use self::recode::recode;
use kiln_code::Codec;
use kiln_store::{Digest, ShardInfo, SumKind, segment_stripes};
use kiln_stripe::encode::{check_unchanged, encode_shards};
use kiln_stripe::geometry::{most_sub_chunk, stripe_memory};
use kiln_stripe::node::{Part, check_nodes, lock, node_of};
use kiln_stripe::{
    EncodeReport, Node, PoolError, Result, Settings, ShardPlace, Source, default_sub_chunk,
};
use kiln_stripe::{names, sinks::in_parallel};

/// Request to encode.
///
/// ```
/// use std::sync::Arc;
/// use kiln_code::Codec;
/// use kiln_files::{EncodeRequest, decode, discover, encode};
/// use kiln_stripe::{Node, Settings, Silent, StreamSource};
/// use kiln_store::MemoryBackend;
/// let codec = Codec::new(&"rs:4+2".parse()?)?;
/// let node = Node::new("here", Arc::new(MemoryBackend::new()));
/// let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * 7 % 251) as u8).collect();
/// let req = EncodeRequest {
///     codec: &codec, object: "numbers", run: [1; 16], sub_chunk: Some(1024), replace: false,
/// };
/// let settings = Settings::new(&Silent);
/// let nodes = [node];
/// encode(&req, &mut StreamSource::new(&bytes[..]), &nodes, &settings)?;
/// let mut back = Vec::new();
/// decode(&discover(&nodes, None)?, &mut back, &settings)?;
/// assert_eq!(back, bytes);
/// # Ok::<(), kiln_stripe::PoolError>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct EncodeRequest<'a> {
    /// The code.
    pub codec: &'a Codec,
    /// Object's name: 1 to 200 bytes, no '/', no leading '.'.
    pub object: &'a str,
    /// A fresh random identifier; not used when an interrupted encode is resumed.
    pub run: [u8; 16],
    /// Bytes of a sub-chunk; `None` for [`kiln_stripe::default_sub_chunk`].
    pub sub_chunk: Option<u32>,
    /// Replace shards of the same object that are already there.
    pub replace: bool,
}

/// Encodes a source into n shards on one node or on n nodes.
///
/// Memory is bounded by `settings.memory` whatever the size. An encode of an equal request that
/// was interrupted is resumed (regular files only).
/// Errors: when `replace` is not set, [`PoolError::Exists`] for shards of the object that are
/// there, and [`PoolError::Refused`] for those of the same input; [`PoolError::Changed`]; store and
/// input errors. Parts are then removed and nothing else is touched.
pub fn encode(
    req: &EncodeRequest<'_>,
    source: &mut dyn Source,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<EncodeReport> {
    names::check_object(req.object)?;
    let n = req.codec.shape().n();
    check_nodes(nodes, n)?;
    let info = shard_info(req, source)?;
    let _locks = lock(nodes, settings, true)?;
    match prepare(req, &info, nodes, settings)? {
        Start::Done { info } => finished(req, &info, nodes, settings),
        Start::At { info, stripes, leftovers } => {
            let result = write_parts(req, &info, stripes, source, nodes, settings);
            let (size, _) = result.inspect_err(|_| remove_parts(req.object, nodes))?;
            let renames: Vec<Rename> = (0..n).map(|i| Rename::part(req.object, i, nodes)).collect();
            commit(&renames, &leftovers, nodes)?;
            let layout = info.layout()?;
            let resumed = stripes.saturating_mul(layout.stripe_bytes(0)).min(size);
            report(req, &info, size, resumed, nodes, settings)
        }
    }
}

fn shard_info(req: &EncodeRequest<'_>, source: &dyn Source) -> Result<ShardInfo> {
    let shape = req.codec.shape();
    let too_large = |what: &str| PoolError::Usage { what: format!("{what} is too large") };
    let alpha = u32::try_from(shape.alpha).map_err(|_| too_large("alpha"))?;
    let sub_chunk = req.sub_chunk.unwrap_or_else(|| default_sub_chunk(shape));
    let most = most_sub_chunk(shape);
    if sub_chunk == 0 || u64::from(sub_chunk) > most {
        let stripe = stripe_memory(shape, sub_chunk.into());
        let what = format!(
            "sub-chunks of {sub_chunk} bytes make stripes of {stripe} bytes, parity included; \
             give a size from 1 to {most} bytes"
        );
        return Err(PoolError::Usage { what });
    }
    let info = ShardInfo {
        spec: req.codec.spec().explicit(),
        object: req.object.to_owned(),
        run: req.run,
        source: source.identity().unwrap_or_default(),
        index: 0,
        k: u16::try_from(shape.k).map_err(|_| too_large("k"))?,
        n: u16::try_from(shape.n()).map_err(|_| too_large("k+m"))?,
        alpha,
        sub_chunk,
        segment_stripes: segment_stripes(alpha, sub_chunk),
        sums: SumKind::default(),
        size: source.size(),
    };
    info.check()?;
    Ok(info)
}

/// Writes all parts completely and durably; returns the object's size and the digests.
fn write_parts(
    req: &EncodeRequest<'_>,
    info: &ShardInfo,
    first: u64,
    source: &mut dyn Source,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<(u64, Vec<Digest>)> {
    let part = |index: usize| {
        let store = &*nodes[node_of(index, nodes)].store;
        Some(Part { index, store, name: names::part(req.object, index) })
    };
    let parts: Vec<_> = (0..usize::from(info.n)).map(part).collect();
    // What is kept `prepare` has just read and verified.
    let written = encode_shards(req.codec, info, &parts, first, source, settings)?;
    // After the first rename readers count on all parts: none may vanish then.
    secure_names(req.object, nodes, settings)?;
    // Once more: the last sync may have taken its time.
    check_unchanged(source, req.object)?;
    Ok(written)
}

fn info_of(info: &ShardInfo, index: usize) -> ShardInfo {
    ShardInfo { index: index as u16, ..info.clone() }
}

fn finished(
    req: &EncodeRequest<'_>,
    info: &ShardInfo,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<EncodeReport> {
    let text = format!("an interrupted encode of {:?} was complete; finished it", req.object);
    settings.observer.warn(&text);
    let size = info.size.unwrap_or(0);
    report(req, info, size, size, nodes, settings)
}

fn report(
    req: &EncodeRequest<'_>,
    info: &ShardInfo,
    size: u64,
    resumed_bytes: u64,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<EncodeReport> {
    let shape = req.codec.shape();
    let info = ShardInfo { size: Some(size), ..info.clone() };
    let layout = info.layout()?;
    let shards = in_parallel(settings.sequence, (0..shape.n()).collect(), |_, index: usize| {
        let node = &nodes[node_of(index, nodes)];
        let name = names::shard(req.object, index);
        let bytes = node.store.open(&name)?.len();
        Ok::<_, PoolError>(ShardPlace { index, node: node.name.clone(), name, bytes })
    })?;
    Ok(EncodeReport {
        object: req.object.to_owned(),
        code: req.codec.spec().to_string(),
        order: req.codec.order().to_owned(),
        run: names::hex(&info.run),
        size,
        stripes: layout.stripes(),
        k: shape.k,
        m: shape.m,
        margin: req.codec.margin(&[]),
        alpha: shape.alpha,
        sub_chunk: u64::from(info.sub_chunk),
        chunk: u64::from(info.sub_chunk) * shape.alpha as u64,
        bytes_written: shards.iter().map(|shard| shard.bytes).sum(),
        resumed_bytes,
        seconds: 0.0,
        shards,
    })
}
