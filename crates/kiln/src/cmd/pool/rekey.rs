//! `kiln pool rekey`

use clap::Args;
use minijinja::context;

use super::seal::another_key;
use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup, now_ms};

#[derive(Debug, Args)]
pub struct Rekey {
    /// Change nothing in the pool; put a new key before the old one in the data key's file. Copy
    /// the file to all who read or write objects, then kiln pool rekey exchanges the keys
    #[arg(long)]
    new_key: bool,
    /// When the first key of the data key's file wraps the keys of all objects, take the others out
    /// of it
    #[arg(long, conflicts_with = "new_key")]
    drop_old_keys: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Rekey {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("repair")?;
        let mut pool = self.pool.open(setup)?;
        let current = pool.members().data_key()?.to_owned();
        if self.new_key {
            let (file, ids) = (self.pool.data_key(), pool.config().data_keys.ids());
            let in_use = ids.first().is_some_and(|first| *first == current);
            let users = "all who read or write objects";
            return another_key(&file, (false, in_use), (users, "rekey", "wrap"), setup);
        }
        if let Some(config) = pool.members().begin_rekeying(&setup.settings())? {
            pool = self.pool.reopen(config, setup)?;
        }
        let index = self.pool.index(&pool, setup)?;
        let outcome = pool.members().rewrap_all(&index, now_ms(), &setup.settings());
        setup.observer.finish();
        let (config, report) = outcome?;
        self.pool.write(&config)?;
        if self.drop_old_keys {
            self.pool.data_key().drop_after(&report.key)?;
        }
        setup.tell("pool rekey", &report, context! {})
    }
}
