//! The renames that make parts shards.

use kiln_store::{Capability, move_file};
use kiln_stripe::{Node, Result, Settings, names, node::node_of, sinks::in_parallel};

/// One file to rename on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    /// Position of the node.
    pub node: usize,
    pub from: String,
    pub to: String,
}

impl Rename {
    /// From the part of an encode to the shard in place.
    pub(crate) fn part(object: &str, index: usize, nodes: &[Node]) -> Rename {
        Rename {
            node: node_of(index, nodes),
            from: names::part(object, index),
            to: names::shard(object, index),
        }
    }
}

/// Makes the names of all files on these nodes durable.
///
/// A sync of a file makes its bytes durable, but a power cut may still take a new file's name. A
/// store makes names durable with every rename and removal; so a file is made and removed.
pub(crate) fn secure_names(object: &str, nodes: &[Node], settings: &Settings<'_>) -> Result<()> {
    in_parallel(settings.sequence, nodes.iter().collect(), |_, node: &Node| {
        if !node.store.capabilities().has(Capability::Append) {
            // A file has its name there when it is there at all.
            return Ok(());
        }
        let marker = names::marker(object);
        drop(node.store.append(&marker, 0)?);
        node.store.remove(&marker)
    })?;
    Ok(())
}

/// Renames complete and durable parts, and removes `leftovers` (node, name): shards of the object
/// that the new run replaces without taking their names.
///
/// While one part is left, readers know that this run is the one to take. So leftovers go before
/// the last rename: at no moment are there two runs between which a reader could not choose.
pub(crate) fn commit(
    renames: &[Rename],
    leftovers: &[(usize, String)],
    nodes: &[Node],
) -> Result<()> {
    let rename = |rename: &Rename| move_file(&*nodes[rename.node].store, &rename.from, &rename.to);
    let Some((last, rest)) = renames.split_last() else { return Ok(()) };
    rest.iter().try_for_each(rename)?;
    for (node, name) in leftovers {
        nodes[*node].store.remove(name)?;
    }
    Ok(rename(last)?)
}
