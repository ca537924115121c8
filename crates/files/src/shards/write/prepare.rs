//! Obstacles of an encode: shards of the object, parts of an earlier try.

use kiln_store::{ShardInfo, ShardReader, ShardState, valid_segments};
use kiln_stripe::names::{self, Kind};
use kiln_stripe::{Node, PoolError, Result, Settings, node::node_of, sinks::in_parallel};

use super::commit::{Rename, commit};
use super::{EncodeRequest, info_of};
use crate::shards::set::Scan;

/// Start of an encode.
pub(super) enum Start {
    /// An earlier, equal encode was complete but for renames, which are done now.
    Done {
        /// Its header.
        info: ShardInfo,
    },
    /// Write from this stripe on.
    At {
        /// Header of the parts; its run is that of the parts resumed.
        info: ShardInfo,
        /// Stripes that the parts hold already.
        stripes: u64,
        /// Shards to remove when the new ones are in place: (node, name).
        leftovers: Vec<(usize, String)>,
    },
}

/// Files of the object on the nodes.
struct Present {
    /// Shards in place: node, name, and what it says.
    finals: Vec<(usize, String, ShardReader)>,
    /// Parts of encodes.
    parts: Vec<(usize, String, ShardReader)>,
    /// Files named like shards of the object that are none.
    broken: Vec<(usize, String)>,
}

impl Present {
    fn look(object: &str, nodes: &[Node]) -> Result<Present> {
        let scan = Scan::new(nodes, Some(object))?;
        // If one node cannot be listed, an encode could overwrite or duplicate what is there.
        if let Some((_, error)) = scan.failures.into_iter().next() {
            return Err(error.into());
        }
        let mut present = Present { finals: Vec::new(), parts: Vec::new(), broken: Vec::new() };
        for (found, opened) in scan.found {
            match (found.kind, opened) {
                (Kind::Final, Ok(reader)) => present.finals.push((found.node, found.name, reader)),
                (Kind::Part, Ok(reader)) => present.parts.push((found.node, found.name, reader)),
                (Kind::Final, Err(_)) => present.broken.push((found.node, found.name)),
                _ => {}
            }
        }
        Ok(present)
    }
}

/// Looks, finishes what can be finished, refuses what must be refused, and clears the way.
pub(super) fn prepare(
    req: &EncodeRequest<'_>,
    info: &ShardInfo,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<Start> {
    let mut present = Present::look(req.object, nodes)?;
    let rolled = roll_forward(req.object, &present, nodes)?;
    if rolled {
        present = Present::look(req.object, nodes)?;
    }
    let same = equal_set(info, &present, nodes);
    if rolled && same {
        let run = present.finals.first().map_or(info.run, |(_, _, reader)| reader.info().run);
        return Ok(Start::Done { info: ShardInfo { run, ..info.clone() } });
    }
    let occupied = !present.finals.is_empty() || !present.broken.is_empty();
    if occupied && !req.replace {
        if same {
            let what = format!("{:?} is already encoded here, from the same input", req.object);
            return Err(PoolError::Refused { what });
        }
        let count = present.finals.len() + present.broken.len();
        let what = format!("{count} shards of {:?} are here already", req.object);
        return Err(PoolError::Exists { what });
    }
    let leftovers = leftovers(req.object, &present, nodes, usize::from(info.n));
    let (info, stripes) = resume(info, &present, nodes, settings)?;
    if stripes == 0 {
        clear(req.object, nodes)?;
    }
    Ok(Start::At { info, stripes, leftovers })
}

/// Finishes the renames of an encode that stopped among them. True when there were any.
pub(crate) fn roll_forward_all(object: &str, nodes: &[Node]) -> Result<bool> {
    roll_forward(object, &Present::look(object, nodes)?, nodes)
}

fn roll_forward(object: &str, present: &Present, nodes: &[Node]) -> Result<bool> {
    let in_place = |run: &[u8; 16]| present.finals.iter().any(|(_, _, r)| r.info().run == *run);
    let pending: Vec<&(usize, String, ShardReader)> = (present.parts.iter())
        .filter(|(_, _, r)| r.state() == ShardState::Complete && in_place(&r.info().run))
        .collect();
    let Some((_, _, first)) = pending.first() else { return Ok(false) };
    let run = first.info().run;
    let renames: Vec<Rename> = (pending.iter())
        .filter(|(_, _, reader)| reader.info().run == run)
        .map(|(node, name, reader)| Rename {
            node: *node,
            from: name.clone(),
            to: names::shard(object, usize::from(reader.info().index)),
        })
        .filter(|rename| !overwrites_sibling(rename, &run, present))
        .collect();
    let replaced = |node: usize, name: &str| renames.iter().any(|r| r.node == node && r.to == name);
    let leftovers: Vec<(usize, String)> = (present.finals.iter())
        .filter(|(node, name, reader)| reader.info().run != run && !replaced(*node, name))
        .map(|(node, name, _)| (*node, name.clone()))
        .collect();
    commit(&renames, &leftovers, nodes)?;
    Ok(true)
}

/// True when another shard of the same run stands under the new name: it would be lost.
fn overwrites_sibling(rename: &Rename, run: &[u8; 16], present: &Present) -> bool {
    present.finals.iter().any(|(node, name, reader)| {
        let info = reader.info();
        (*node, name) == (rename.node, &rename.to)
            && info.run == *run
            && names::shard(&info.object, usize::from(info.index)) != rename.to
    })
}

/// Returns whether the shards in place are all n, whole, from the same input by the same code.
fn equal_set(info: &ShardInfo, present: &Present, nodes: &[Node]) -> bool {
    let Some((_, _, first)) = present.finals.first() else { return false };
    let run = first.info().run;
    let whole = |index: usize| {
        let (node, name) = (node_of(index, nodes), names::shard(&info.object, index));
        present.finals.iter().any(|(at, called, reader)| {
            let said = ShardInfo { run: info.run, size: info.size, ..reader.info().clone() };
            (*at, called) == (node, &name)
                && reader.state() == ShardState::Complete
                && reader.info().run == run
                && reader.size() == info.size
                && said == info_of(info, index)
        })
    };
    info.source != [0; 16] && (0..usize::from(info.n)).all(whole)
}

/// Shards in place whose names the new ones will not take.
fn leftovers(object: &str, present: &Present, nodes: &[Node], n: usize) -> Vec<(usize, String)> {
    let taken = |at: usize, name: &str| {
        (0..n).any(|i| at == node_of(i, nodes) && name == names::shard(object, i))
    };
    let finals = present.finals.iter().map(|(node, name, _)| (*node, name.clone()));
    finals
        .chain(present.broken.iter().cloned())
        .filter(|(node, name)| !taken(*node, name))
        .collect()
}

/// Returns how much of the parts of an equal, interrupted encode can be kept, and under which run.
fn resume(
    info: &ShardInfo,
    present: &Present,
    nodes: &[Node],
    settings: &Settings<'_>,
) -> Result<(ShardInfo, u64)> {
    let fresh = (info.clone(), 0);
    let Some((_, _, first)) = present.parts.first() else { return Ok(fresh) };
    if info.source == [0; 16] {
        return Ok(fresh);
    }
    let info = ShardInfo { run: first.info().run, ..info.clone() };
    let n = usize::from(info.n);
    let here = |index: usize| {
        let (node, name) = (node_of(index, nodes), names::part(&info.object, index));
        present.parts.iter().any(|(at, called, reader)| {
            (*at, called) == (node, &name) && *reader.info() == info_of(&info, index)
        })
    };
    if !(0..n).all(here) {
        return Ok(fresh);
    }
    settings.observer.begin("resume", None);
    // As many at once as there are workers: each reads all it keeps and computes checksums.
    let mut least = u64::MAX;
    let indices: Vec<usize> = (0..n).collect();
    for batch in indices.chunks(settings.threads().min(16)) {
        let counts = in_parallel(settings.sequence, batch.to_vec(), |_, index: usize| {
            let store = &*nodes[node_of(index, nodes)].store;
            valid_segments(store, &names::part(&info.object, index), &info_of(&info, index))
        })?;
        least = counts.into_iter().fold(least, u64::min);
    }
    let stripes = least * u64::from(info.segment_stripes);
    Ok(if stripes == 0 { fresh } else { (info, stripes) })
}

/// Removes all parts of the object, an encode's and a repair's.
fn clear(object: &str, nodes: &[Node]) -> Result<()> {
    for node in nodes {
        for name in node.store.list()? {
            if is_part_of(object, &name) {
                node.store.remove(&name)?;
            }
        }
    }
    Ok(())
}

fn is_part_of(object: &str, name: &str) -> bool {
    match names::parse(name) {
        Some((Kind::Part | Kind::RepairPart, Some((named, _)))) => named == object,
        _ => false,
    }
}

/// Removes what can be removed after a failure; the failure itself is what the user must see.
pub(super) fn remove_parts(object: &str, nodes: &[Node]) {
    for node in nodes {
        for name in node.store.list().unwrap_or_default() {
            if is_part_of(object, &name) {
                let _ = node.store.remove(&name);
            }
        }
    }
}
