//! Finding the manifest in force: all nodes are asked, the newest answer counts.

use std::cmp::Ordering;

use kiln_store::Backend;

use super::Pool;
use super::small::read_small;
use crate::engine::sinks::in_parallel;
use crate::{Body, Key, MAX_MANIFEST, Manifest, NodeFile, PoolError, Result};

/// What the nodes say of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The newest manifest; it may say that the object was removed.
    pub newest: Option<Manifest>,
    /// Nodes (by position) that hold just this one.
    pub copies: Vec<usize>,
    /// Nodes that hold an older one.
    pub stale: Vec<usize>,
    /// Older manifests, one of each.
    pub older: Vec<Manifest>,
    /// Nodes whose copy cannot be read, and why.
    pub corrupt: Vec<(usize, String)>,
    /// Domains that are unavailable, have a corrupt copy, or a disk that is being backfilled and
    /// has none.
    pub away: Vec<String>,
}

impl Found {
    /// The manifest of an object that is there.
    pub(crate) fn data(&self) -> Option<&Manifest> {
        self.newest.as_ref().filter(|manifest| manifest.body.is_data())
    }
}

/// Reads one node's copy.
pub(crate) fn read_copy(
    store: &dyn Backend,
    key: &Key,
    pool: &[u8; 16],
) -> std::result::Result<Option<Manifest>, String> {
    let name = NodeFile::Manifest { key: *key }.name();
    let bytes = read_small(store, &name, MAX_MANIFEST as u64).map_err(|e| e.to_string())?;
    let Some(bytes) = bytes else { return Ok(None) };
    let at = |why: String| format!("{name} in {}: {why}", store.place());
    let manifest = Manifest::from_bytes(&bytes).map_err(at)?;
    if manifest.pool != *pool || Key::of(&manifest.name).ok() != Some(*key) {
        return Err(at("it is the manifest of something else".into()));
    }
    Ok(Some(manifest))
}

impl Pool {
    /// Asks all nodes. Whether the answer can be relied upon is for [`Pool::look`] to say.
    pub(crate) fn ask(&self, key: &Key) -> Result<Found> {
        let pool = self.config.id_bytes();
        let answers =
            in_parallel(self.sequence.as_ref(), self.present().collect(), |_, (at, store)| {
                Ok::<_, PoolError>((at, read_copy(store, key, &pool)))
            })?;
        let mut found = Found::default();
        let mut held: Vec<(usize, Manifest)> = Vec::new();
        let mut unsure = Vec::new();
        for (at, answer) in answers {
            match answer {
                Ok(Some(manifest)) => held.push((at, manifest)),
                Ok(None) if self.nodes[at].backfilling => unsure.push(at),
                Ok(None) => {}
                Err(why) => found.corrupt.push((at, why)),
            }
        }
        found.newest = held.iter().map(|(_, m)| m).max_by(|a, b| a.order(b)).cloned();
        for (at, manifest) in held {
            if found.newest.as_ref().is_some_and(|new| new.order(&manifest) == Ordering::Equal) {
                found.copies.push(at);
            } else {
                found.stale.push(at);
                if !found.older.contains(&manifest) {
                    found.older.push(manifest);
                }
            }
        }
        let unsure = (self.nodes.iter().enumerate())
            .filter(|(at, node)| {
                let corrupt = found.corrupt.iter().any(|(corrupt, _)| corrupt == at);
                node.store.is_err() || corrupt || unsure.contains(at)
            })
            .map(|(_, node)| node.config.domain.clone());
        found.away = unsure.collect();
        found.away.sort();
        found.away.dedup();
        Ok(found)
    }

    /// Asks all nodes and makes sure that no newer version can hide.
    ///
    /// Copies of a manifest are in distinct domains, so one of them answers while fewer domains
    /// than copies are unavailable.
    ///
    /// # Errors
    /// [`PoolError::Uncertain`] when more are.
    pub(crate) fn look(&self, key: &Key, name: &str) -> Result<Found> {
        let found = self.ask(key)?;
        let copies = self.config.policy.manifest_copies;
        if found.away.len() >= copies {
            let (name, away) = (name.to_owned(), found.away);
            return Err(PoolError::Uncertain { name, away, copies });
        }
        if let Some(manifest) = &found.newest
            && manifest.name != name
        {
            let what =
                format!("{name:?} and {:?} have the same key; choose another name", manifest.name);
            return Err(PoolError::Refused { what });
        }
        Ok(found)
    }

    /// The manifest of an object that is there.
    ///
    /// # Errors
    /// [`PoolError::NoObject`]; [`PoolError::Uncertain`] while too many nodes do not answer;
    /// [`PoolError::Refused`] where another name has the same key.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        let found = self.look(&Key::of(name)?, name)?;
        match found.newest {
            Some(manifest) if !matches!(manifest.body, Body::Deleted) => Ok(manifest),
            _ => Err(PoolError::NoObject { name: name.to_owned() }),
        }
    }
}
