//! `kiln rm`

use std::collections::BTreeSet;

use clap::Args;
use kiln_folders::is_attributes;
use kiln_pool::{MAX_TOGETHER, Pool};
use kiln_stripe::{Observer, PoolError};

use crate::args::{help, in_pool};
use crate::exit::{Exit, Result};
use crate::setup::{Confirm, PoolFlags, Setup, fresh_run, now_ms};
use crate::{
    print::{count, fields},
    transfer::refuse_reserved,
};

/// Remove objects from a pool
///
/// Once the command has ended the object is gone, even if a node that was unavailable comes back
/// with its shards; the next scrub removes them.
#[derive(Debug, Args)]
#[command(after_help = help("rm"))]
pub struct Rm {
    /// Names of objects
    #[arg(required = true, value_name = "NAME", value_parser = in_pool)]
    names: Vec<String>,
    /// NAME is a folder: remove all objects in it
    #[arg(short, long)]
    pub(super) recursive: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Rm {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let mut names = self.names;
        names.iter().try_for_each(|name| refuse_reserved(name))?;
        let mut opened = None;
        if self.recursive {
            let pool = opened.insert(self.pool.open(setup)?);
            let index = self.pool.index_to_list(pool, setup)?;
            let folders = std::mem::take(&mut names);
            for folder in folders {
                let prefix = format!("{}/", folder.trim_end_matches('/'));
                let before = names.len();
                index.each(&prefix, None, |listed| {
                    names.push(listed.name);
                    Ok(true)
                })?;
                if names.len() == before {
                    return Err(PoolError::NoObject { name: prefix }.into());
                }
            }
        }
        if self.recursive {
            self.confirm.ask_at_terminal(&format!("{} would be removed", objects(&names)))?;
        }
        let first = names.first().cloned().unwrap_or_default();
        let mut removal = Removal { left: names, removed: Vec::new(), failures: Vec::new() };
        let mut remove = |pool: &Pool, _seen: bool| removal.go_on(pool, setup);
        match &opened {
            Some(pool) => remove(pool, true)?,
            None => {
                let see = |pool: &Pool| pool.writer().has(&first);
                self.pool.open_to_change(setup, see, remove).map(drop)?;
            }
        }
        setup.observer.finish();
        let Removal { removed, failures, .. } = removal;
        let mut failures = failures.into_iter();
        if let Some(first) = failures.next() {
            failures.for_each(|error| setup.observer.warn(&error.to_string()));
            return Err(first.into());
        }
        let objects = objects(&removed);
        setup.report(&fields! { removed: removed }, || format!("{objects} removed\n"))
    }
}

/// Counts what `kiln ls` lists.
fn objects(names: &[String]) -> String {
    count(names.iter().filter(|name| !is_attributes(name)).count() as u64, "object")
}

/// Objects on their way out.
struct Removal {
    left: Vec<String>,
    removed: Vec<String>,
    failures: Vec<PoolError>,
}

impl Removal {
    /// Removes those that are left, many at a time; one that fails keeps none of the others.
    fn go_on(&mut self, pool: &Pool, setup: &Setup) -> Result<(), PoolError> {
        let mut seen = BTreeSet::new();
        self.left.retain(|name| seen.insert(name.clone()));
        while !self.left.is_empty() {
            let names = &self.left[..self.left.len().min(MAX_TOGETHER)];
            let each: Vec<_> = names.iter().map(|name| (&name[..], fresh_run(), None)).collect();
            let ends = pool.writer().remove_all(&each, now_ms(), &setup.settings())?;
            let names: Vec<String> = self.left.drain(..ends.len()).collect();
            let mut changed = None;
            for (name, end) in names.into_iter().zip(ends) {
                match end {
                    Ok(()) => self.removed.push(name),
                    // By the new map it is tried again.
                    Err(error @ PoolError::MapChanged { .. }) => {
                        changed = Some(error);
                        self.left.push(name);
                    }
                    Err(error) => self.failures.push(error),
                }
            }
            if let Some(error) = changed {
                return Err(error);
            }
        }
        Ok(())
    }
}
