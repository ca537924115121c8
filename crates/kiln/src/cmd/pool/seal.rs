//! `kiln pool seal`

use clap::Args;
use kiln_pool::{Membership, NodeConfig};
use kiln_store::Absent;
use minijinja::context;

use super::create::{SEAL_KEY, make_pool_key};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{KeyFile, PoolFlags, Setup, logs, now_ms, volumes};

#[derive(Debug, Args)]
pub struct Seal {
    /// Seal nothing; put a new key before the old one in the key's file. Copy the file to all who
    /// use the pool, then kiln pool seal exchanges the keys
    #[arg(long)]
    new_key: bool,
    /// When all is sealed by the first key of the key's file, take the others out of it
    #[arg(long, conflicts_with = "new_key")]
    drop_old_keys: bool,
    /// The key is lost: accept what the nodes have as it is, and seal it by a new key. Anyone who
    /// could write to a node may have forged its contents, which cannot be detected any more
    #[arg(long, conflicts_with_all = ["new_key", "drop_old_keys"])]
    lost_key: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Seal {
    pub fn run(mut self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("repair")?;
        if self.lost_key {
            self.do_without_key(setup)?;
        }
        // The pool may not say yet that it has one.
        self.pool.pool_key = Some(self.pool.seal_key().path);
        let made = make_pool_key(&self.pool.seal_key(), SEAL_KEY, setup)?;
        let mut pool = self.pool.open(setup)?;
        if self.new_key {
            let seals = pool.config().keys.ids().first() == pool.config().sealed.first();
            let about = ("all who use the pool", "seal", "seal");
            return another_key(&self.pool.seal_key(), (made, seals), about, setup);
        }
        if let Some(config) = pool.members().begin_sealing(&setup.settings())? {
            pool = self.pool.reopen(config, setup)?;
        }
        let index = self.pool.index(&pool, setup)?;
        // What a volume's log has must count when the seals of before do not any more.
        let rim = volumes::rim_over(pool, &self.pool, setup);
        logs::reseal(&rim, &index, setup)?;
        let outcome = rim.pool().members().seal_all(&index, now_ms(), &setup.settings());
        setup.observer.finish();
        let (config, report) = outcome?;
        self.pool.write(&config)?;
        if self.drop_old_keys {
            self.pool.seal_key().drop_after(&report.key)?;
        }
        setup.tell("pool seal", &report, context! {})
    }

    /// Has the pool believe what its nodes have, unless its key is there.
    fn do_without_key(&self, setup: &Setup) -> Result<()> {
        let config = self.pool.config_without_keys()?;
        if config.sealed.is_empty() {
            // Of a run that was cut short, or there never was a key.
            return Ok(());
        }
        let file = self.pool.seal_key();
        if file.path.exists() && file.keys()?.ids().iter().any(|id| config.sealed.contains(id)) {
            let file = file.path.display();
            let problem = format!("{file} has the pool's key; --new-key makes another one");
            return Err(Failure::Flag { flag: "--lost-key", problem });
        }
        let open = |node: &NodeConfig| setup.open_node(node, Absent::Refuse);
        self.pool.write(&Membership::without_key(config, &open, &setup.settings())?)
    }
}

/// Adds a key to a file that was not `made` now, unless one is there that is not in use yet: of a
/// run that was cut short.
pub(super) fn another_key(
    file: &KeyFile,
    (made, in_use): (bool, bool),
    (users, command, does): (&str, &str, &str),
    setup: &Setup,
) -> Result<Exit> {
    if !made && in_use {
        file.add()?;
    }
    let path = file.path.display().to_string();
    let more = context! { path, in_use, users, command, does };
    setup.tell("another key", &serde_json::json!({ "keys": file.keys()?.ids() }), more)
}
