//! Looking at every file of every node.

use kiln_store::{ShardReader, StoreError};
use kiln_stripe::names::{self, Kind};
use kiln_stripe::{Node, Result, sinks::in_parallel};

/// A file that is, or should be, a shard.
#[derive(Debug)]
pub(crate) struct Found {
    /// Position of its node.
    pub node: usize,
    pub name: String,
    /// Kind, object and index as its name tells.
    pub kind: Kind,
    /// See `kind`.
    pub named: Option<(String, usize)>,
}

/// A file and what opening it as a shard gave.
pub(crate) type Opened = (Found, Result<ShardReader, StoreError>);

/// All files of interest.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Shards, parts, and files named like shards.
    pub found: Vec<Opened>,
    /// Nodes that could not be listed, by position.
    pub failures: Vec<(usize, StoreError)>,
    /// Places that were searched, for messages.
    pub places: String,
}

impl Scan {
    /// Looks at all nodes. Nodes that cannot be listed are failures noted; an error only
    /// if no node can.
    pub(crate) fn new(nodes: &[Node], object: Option<&str>) -> Result<Scan> {
        let lists = in_parallel(None, nodes.iter().collect(), |_, node: &Node| {
            Ok::<_, StoreError>(node.store.list())
        })?;
        let places: Vec<String> = nodes.iter().map(|node| node.store.place()).collect();
        let mut scan = Scan { places: places.join(", "), ..Scan::default() };
        let mut todo = Vec::new();
        for (node, list) in lists.into_iter().enumerate() {
            match list {
                Ok(files) => todo.extend(files.into_iter().map(|name| (node, name))),
                Err(error) => scan.failures.push((node, error)),
            }
        }
        if scan.failures.len() == nodes.len()
            && let Some((_, error)) = scan.failures.pop()
        {
            return Err(error.into());
        }
        for (node, name) in todo {
            scan.found.extend(look(nodes, node, name, object));
        }
        Ok(scan)
    }
}

fn look(nodes: &[Node], node: usize, name: String, object: Option<&str>) -> Option<Opened> {
    let (kind, named) = names::parse(&name)?;
    // A part belongs to the object that its name tells: only we make such names.
    let other = |wanted: &str| named.as_ref().is_some_and(|(object, _)| object != wanted);
    if kind != Kind::Final && object.is_some_and(other) {
        return None;
    }
    let reader = ShardReader::open(&*nodes[node].store, &name);
    match &reader {
        Ok(reader) if object.is_some_and(|wanted| reader.info().object != wanted) => return None,
        Err(_) if named.is_none() || object.is_some_and(other) => return None,
        _ => {}
    }
    Some((Found { node, name, kind, named }, reader))
}
