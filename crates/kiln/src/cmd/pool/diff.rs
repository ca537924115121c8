//! `kiln pool diff`

use clap::Args;
use kiln_folders::is_attributes;
use kiln_pool::Version;
use kiln_stripe::Observer;

use crate::exit::{Exit, Failure};
use crate::setup::{At, PoolFlags, Setup, moment};
use crate::{
    args::in_pool,
    print::{fields, one_line},
    transfer::is_internal,
};

// Arguments; the summary is in `pool.rs`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The earlier time, as for kiln ls --at, or a snapshot
    #[arg(value_parser = moment)]
    from: At,

    /// The later one [default: now]
    #[arg(value_parser = moment)]
    to: Option<At>,

    /// Only objects whose names begin with this
    #[arg(long, default_value = "", value_parser = in_pool)]
    prefix: String,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Diff {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let (from, prefix) = self.from.among(pool.config(), &self.prefix)?;
        let to = self.to.as_ref().map(|to| to.among(pool.config(), prefix)).transpose()?;
        let prefix = to.map_or(prefix, |(_, prefix)| prefix);
        let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let mut text = String::new();
        for (name, versions) in index.versions(prefix)? {
            if is_attributes(&name) || (is_internal(&name) && !prefix.starts_with('.')) {
                continue;
            }
            let is_then = |one: &&Version| match to {
                Some((to, _)) => one.was_at(to),
                None => one.until_ms.is_none(),
            };
            let before = versions.iter().find(|one| one.was_at(from));
            let (word, list) = match (before, versions.iter().find(is_then)) {
                (None, Some(_)) => ("added  ", &mut added),
                (Some(_), None) => ("removed", &mut removed),
                (Some(before), Some(then)) if before.run != then.run => ("changed", &mut changed),
                _ => continue,
            };
            text += &format!("{word}  {}\n", one_line(&name));
            list.push(name);
        }
        setup.observer.finish();
        let sees_all = pool.sees_all()?;
        setup.report(&fields! { added: added, changed: changed, removed: removed }, || text)?;
        if sees_all {
            return Ok(Exit::Done);
        }
        setup.observer.warn("more nodes are down than the manifest quorum tolerates");
        Ok(Exit::NotRecoverable)
    }
}
