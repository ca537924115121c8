//! `kiln pool restore`

use std::path::PathBuf;

use clap::Args;
use kiln_pool::{PoolConfig, PoolError};
use kiln_store::Absent;

use crate::exit::{Exit, Failure};
use crate::print::{Stream, count};
use crate::setup::{PoolFlags, Setup};

/// A node's copy of the description.
const COPY: &str = "kiln-pool.toml";
/// Most bytes of it.
const MAX_BYTES: u64 = 1 << 20;

// Arguments; the summary is in `pool.rs`.
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
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let path = self.pool.path();
        if path.exists() && !self.force {
            return Err(Failure::Exists { path });
        }
        let mut best: Option<PoolConfig> = None;
        for place in &self.places {
            let store = setup.open_to_keep(place, Absent::Refuse, "a node of a pool")?;
            let file = store.open(COPY)?;
            let mut bytes = vec![0; file.len().min(MAX_BYTES) as usize];
            file.read_at(0, &mut bytes)?;
            let config = PoolConfig::from_toml(&String::from_utf8_lossy(&bytes))?;
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
        // A place is required.
        let Some(config) = best else { return Ok(Exit::Done) };
        self.pool.write(&config)?;
        // Other nodes may know a newer one; the file is brought up to date by that.
        let pool = self.pool.open(setup)?;
        if setup.json {
            Stream::Stdout.json(pool.config())?;
        } else if !setup.quiet {
            let nodes = count(pool.config().node.len() as u64, "node");
            let name = &pool.config().name;
            Stream::Stdout
                .text(&format!("pool {name}: {nodes}, described in {}\n", path.display()))?;
        }
        Ok(Exit::Done)
    }
}
