//! `kiln pool restore`

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use kiln_pool::{NodeConfig, Pool, PoolConfig};
use kiln_store::{Absent, Backend, StoreError};
use kiln_stripe::{Observer, PoolError, names::IDENTITY};
use minijinja::context;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup};

/// A node's copy of the description.
const COPY: &str = "kiln-pool.toml";
/// Most bytes of it.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Restore {
    /// Nodes of the pool, as folders or URLs: one is enough, more may know of later changes
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<PathBuf>,
    /// Replace a description that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Restore {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let path = self.pool.path();
        if path.exists() && !self.force {
            return Err(Failure::Exists { path });
        }
        let keys = self.pool.seal_key().keys()?;
        let data_keys = self.pool.data_key().keys()?.ids();
        let (mut best, mut refused, mut moved) = (None::<PoolConfig>, None, BTreeMap::new());
        for place in &self.places {
            let store = setup.open_to_keep(place, Absent::Refuse, "a node of a pool")?;
            let bytes = read(&*store, COPY)?;
            let known = read(&*store, IDENTITY).ok().and_then(|text| String::from_utf8(text).ok());
            let known: Option<toml::Table> = known.and_then(|text| toml::from_str(&text).ok());
            let id = known.as_ref().and_then(|known| known.get("node")?.as_str());
            let at = |id| Some((id, place.to_str()?));
            if let Some((id, place)) = id.and_then(at) {
                moved.insert(id.to_owned(), super::node(place, id)?.url);
            }
            let config = match PoolConfig::from_copy(&bytes, &keys) {
                Ok(config) if data_keys.is_empty() || config.is_encrypted() => config,
                Ok(_) => {
                    let what = "copy of the pool's description: it is of no encrypted pool, and a \
                                data key is at hand; name other nodes, or move the key's file away";
                    return Err(PoolError::Refused { what: what.into() }.into());
                }
                Err(error) => {
                    setup.observer.warn(&format!("{}: {error}", place.display()));
                    refused = Some(error);
                    continue;
                }
            };
            match &best {
                Some(known) if known.id != config.id => {
                    let what = format!(
                        "the places are of two pools, {:?} and {:?}; name those of one",
                        known.name, config.name
                    );
                    return Err(PoolError::Refused { what }.into());
                }
                Some(known) if known.revision >= config.revision => {}
                _ => best = Some(config),
            }
        }
        let mut config = match (best, refused) {
            (Some(config), _) => config,
            (None, Some(error)) => return Err(error.into()),
            // A place is required.
            (None, None) => return Ok(Exit::Done),
        };
        // Disks may be somewhere else by now: where they were named.
        for node in &mut config.node {
            node.url = moved.remove(&node.id).unwrap_or_else(|| node.url.clone());
        }
        let open = |node: &NodeConfig| setup.open_node(node, Absent::Refuse);
        match Pool::open(config.clone(), &open) {
            Ok(pool) => pool.members().check_unsealed()?,
            // Without its key it can be written, and not used.
            Err(PoolError::NoKey { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.pool.replace(&config)?;
        // Other nodes may know a newer one; the file is brought up to date by that.
        let pool = self.pool.open(setup)?;
        let path = path.display().to_string();
        setup.tell("pool description", pool.config(), context! { path })
    }
}

/// Reads a small file of a node.
fn read(store: &dyn Backend, name: &str) -> Result<Vec<u8>, StoreError> {
    let file = store.open(name)?;
    let mut bytes = vec![0; file.len().min(MAX_BYTES) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
