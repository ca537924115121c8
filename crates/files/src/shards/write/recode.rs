//! Recode: the shards of an object are written in another code, in place of those that are there.

use kiln_code::Codec;
use kiln_store::{Digest, read_back};
use kiln_stripe::decode::DecodedSource;
use kiln_stripe::node::{lock, node_of};
use kiln_stripe::sinks::in_parallel;
use kiln_stripe::{EncodeReport, Node, PoolError, Result, Settings, Silent, names};

use super::commit::{Rename, commit};
use super::prepare::{Start, prepare, remove_parts, roll_forward_all};
use super::{EncodeRequest, report, shard_info, write_parts};
use crate::shards::set::{ShardSet, discover};

/// Writes an object in another code: on the node that has all of its shards, or on the first of as
/// many nodes as there are shards then, or more. The new shards are complete, durable, and read
/// back before the first of them takes its place; a crash leaves the old ones or the new ones.
/// Returns also how many chunk bytes were read; `None`: it has the code already.
/// Errors: as [`crate::decode`] and [`crate::encode`]; [`PoolError::Usage`] for too few nodes;
/// [`PoolError::Changed`]: the object was encoded anew meanwhile. Nothing is then changed.
pub fn recode(
    set: &ShardSet,
    codec: &Codec,
    run: [u8; 16],
    settings: &Settings<'_>,
) -> Result<Option<(EncodeReport, u64)>> {
    let (object, nodes, n) = (set.object(), &set.nodes[..], codec.shape().n());
    if nodes.len() > 1 && nodes.len() < n {
        let spec = codec.spec();
        let what = format!("code {spec}: it makes {n} shards; give one folder, or {n} or more");
        return Err(PoolError::Usage { what });
    }
    if set.info.spec == codec.spec().explicit() {
        let _locks = lock(nodes, settings, true)?;
        // It may be one that was interrupted among its renames.
        roll_forward_all(object, nodes)?;
        return Ok(None);
    }
    let settings = &Settings { memory: settings.memory / 2, ..*settings };
    let reads = Settings { observer: &Silent, ..*settings };
    let mut source = DecodedSource::new(set, &reads);
    let req = EncodeRequest { codec, object, run, sub_chunk: None, replace: true };
    let info = shard_info(&req, &source)?;
    let _locks = lock(nodes, settings, true)?;
    let Start::At { info, leftovers, .. } = prepare(&req, &info, nodes, settings)? else {
        return Err(PoolError::Internal { what: "a recode that was resumed".into() });
    };
    if discover(nodes, Some(object))?.info.run != set.info.run {
        return Err(PoolError::Changed { object: object.to_owned() });
    }
    let written = write_parts(&req, &info, 0, &mut source, nodes, settings)
        .and_then(|written| verify_parts(object, nodes, &written.1, settings).map(|()| written.0));
    let size = written.map_err(|error| {
        remove_parts(object, nodes);
        source.error.take().unwrap_or(error)
    })?;
    let renames: Vec<Rename> = (0..n).map(|index| Rename::part(object, index, nodes)).collect();
    commit(&renames, &leftovers, nodes)?;
    Ok(Some((report(&req, &info, size, 0, nodes, settings)?, source.bytes_read)))
}

/// Reads parts back from their nodes.
fn verify_parts(
    object: &str,
    nodes: &[Node],
    digests: &[Digest],
    settings: &Settings<'_>,
) -> Result<()> {
    let digests: Vec<(usize, &Digest)> = digests.iter().enumerate().collect();
    in_parallel(settings.sequence, digests, |_, (index, digest)| {
        let store = &*nodes[node_of(index, nodes)].store;
        read_back(store, &names::part(object, index), digest)
            .map_err(|error| PoolError::rebuilt(error, object, index))
    })?;
    Ok(())
}
