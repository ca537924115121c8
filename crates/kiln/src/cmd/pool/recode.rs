//! `kiln pool recode`

use clap::Args;
use kiln_net::Address;
use kiln_pool::{Pool, RecodeReport, RecodeRequest, Recoder};
use kiln_recovery::HelpingAgents;
use kiln_stripe::Observer;
use minijinja::context;

use super::{domains::check_domains, settle};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, fresh_run, now_ms};
use crate::transfer::records::{Entries, add_entry};
use crate::transfer::{self, Transfer};
use crate::{args::in_pool, transfer::pool_tree::PoolTree};

/// Bytes of objects that a coordinator recodes before it looks for damage again.
const ROUND_BYTES: u64 = 1 << 30;

#[derive(Debug, Args)]
pub struct Recode {
    /// Objects, and folders with all that is in them [default: the whole pool]
    #[arg(value_name = "NAME", value_parser = in_pool)]
    names: Vec<String>,
    /// The code, as kiln codes lists them [default: that of pool.toml for the size and age]
    #[arg(long, value_name = "CODE")]
    to: Option<String>,
    /// Give it to new objects, too: pool.toml is changed to what kiln pool create writes for CODE
    #[arg(long, requires = "to", conflicts_with = "dry_run")]
    new_objects: bool,
    /// Recode also where fewer losses are survived than before
    #[arg(long)]
    lower_safety: bool,
    /// Only say what would be read and written
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Recode {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let mut names: Vec<String> =
            self.names.iter().map(|name| name.trim_end_matches('/').to_owned()).collect();
        if let Some(name) = names.iter().find(|name| of_volume(name)) {
            return Err(Failure::Reserved { name: name.clone() });
        }
        if names.is_empty() {
            names.push(String::new());
        }
        let mut pool = self.pool.open(setup)?;
        if let (true, Some(code)) = (self.new_objects, &self.to) {
            pool = self.change_policy(pool, code, setup)?;
        }
        let index = self.pool.index_to_list(&pool, setup)?;
        let transfer = Transfer { pool: &pool, index: &index, setup, force: true, skip: false };
        let mut told = transfer::Report::default();
        if !self.dry_run {
            date_attributes(&transfer, &names, &mut told)?;
        }
        let agents = agents(&pool, setup)?;
        let req = RecodeRequest {
            names: &names,
            skip: &of_volume,
            to: self.to.as_deref(),
            at_most: u64::MAX,
            lower_safety: self.lower_safety,
            dry_run: self.dry_run,
            nodes: agents.as_ref().map(|agents| agents as &dyn Recoder),
            fresh: &|| (fresh_run(), now_ms()),
        };
        let outcome = pool.writer().recode(&index, &req, &setup.settings());
        setup.observer.finish();
        let report = RecodeReport { seconds: setup.seconds(), ..outcome? };
        setup.tell("pool recode", &report, context! {})?;
        match report.failed_count {
            0 => told.end_quietly(setup),
            _ => Ok(Exit::Io),
        }
    }

    /// Gives new objects a code, and manifests as many copies as that needs.
    fn change_policy(&self, pool: Pool, code: &str, setup: &Setup) -> Result<Pool> {
        let _lock = self.pool.lock("config")?;
        let mut config = pool.config().clone();
        config.policy = config.policy.with_code(code)?;
        if config.policy == pool.config().policy {
            return Ok(pool);
        }
        check_domains(&config, "--to")?;
        let edit = |next: &mut kiln_pool::PoolConfig| {
            next.policy = config.policy;
            Ok(())
        };
        let agreed = pool.members().change(false, &setup.settings(), edit)?;
        let pool = self.pool.reopen(agreed, setup)?;
        if pool.config().is_settled() {
            return Ok(pool);
        }
        let _lock = self.pool.lock("repair")?;
        settle(&self.pool, pool, setup)
    }
}

/// The agents that recode the shards that they have, if there are some.
fn agents<'a>(pool: &'a Pool, setup: &'a Setup) -> Result<Option<HelpingAgents<'a>>> {
    let mut urls = pool.config().node.iter().map(|node| &node.url);
    let Some(url) = urls.find(|url| Address::is_meant(url)) else { return Ok(None) };
    let network = setup.network(&url.parse()?)?;
    let agents = HelpingAgents::new(network, pool.config(), &fresh_run);
    Ok(Some(agents.paced(setup.limit_rate().unwrap_or(0))))
}

/// Gives objects the codes of the tiers that they have reached, some at a time; returns whether
/// there may be more.
pub fn recode_by_tier(flags: &PoolFlags, pool: &Pool, setup: &Setup) -> bool {
    by_tier(flags, pool, setup).unwrap_or_else(|failure| {
        setup.observer.warn(&format!("tiers: {failure}"));
        false
    })
}

fn by_tier(flags: &PoolFlags, pool: &Pool, setup: &Setup) -> Result<bool> {
    if pool.config().tier.is_empty() {
        return Ok(false);
    }
    let agents = agents(pool, setup)?;
    let req = RecodeRequest {
        names: &[String::new()],
        skip: &of_volume,
        to: None,
        at_most: ROUND_BYTES,
        lower_safety: false,
        dry_run: false,
        nodes: agents.as_ref().map(|agents| agents as &dyn Recoder),
        fresh: &|| (fresh_run(), now_ms()),
    };
    let report = pool.writer().recode(&flags.index(pool, setup)?, &req, &setup.settings())?;
    if let Some((object, why)) = report.failed.first() {
        setup.observer.warn(&format!("{object}: not recoded for its tier: {why}"));
    }
    Ok(report.recoded > 0)
}

/// Returns whether an object is a volume's.
fn of_volume(name: &str) -> bool {
    format!("{name}/").starts_with(kiln_volume::OBJECTS)
}

/// Notes when objects were put beside what is kept of their files: recoding leaves that as it is,
/// unlike their versions.
fn date_attributes(
    transfer: &Transfer<'_>,
    names: &[String],
    told: &mut transfer::Report,
) -> Result<()> {
    let mut entries = Entries::new();
    for name in names {
        let tree = PoolTree::new(transfer, name)?;
        for (name, object) in tree.objects {
            if let Some(entry) = object.entry.filter(|entry| !entry.is_dated()) {
                add_entry(&mut entries, &name, entry.at_version(object.version, object.put));
            }
        }
    }
    transfer.record(&entries, told);
    Ok(())
}
