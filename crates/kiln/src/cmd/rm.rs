//! `kiln rm`

use clap::Args;
use kiln_pool::Pool;
use kiln_stripe::PoolError;
use serde::Serialize;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::print::{Stream, count};
use crate::setup::{PoolFlags, Setup, fresh_run, now_ms};
use crate::transfer::refuse_reserved;

const EXAMPLES: &str = "\
Examples:
  kiln rm photos/2024/beach.jpg
  kiln rm -r photos/2024            all objects whose names begin with photos/2024/";

/// Printed at an interrupt.
pub const INTERRUPTED: &str = "removals so far stay; rerun to remove the rest";

/// Remove objects from a pool
///
/// Once the command has ended the object is gone, even if a node that was unavailable comes back
/// with its shards; the next scrub removes them.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Rm {
    /// Names of objects
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// NAME is a folder: remove all objects in it
    #[arg(short, long)]
    recursive: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Serialize)]
struct Report {
    removed: Vec<String>,
}

impl Rm {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let mut names = self.names;
        names.iter().try_for_each(|name| refuse_reserved(name))?;
        let mut opened = None;
        if self.recursive {
            let pool = opened.insert(self.pool.open(setup)?);
            let index = self.pool.index_to_list(pool, setup)?;
            let folders = std::mem::take(&mut names);
            for folder in folders {
                let prefix = format!("{}/", folder.trim_end_matches('/'));
                index.each(&prefix, None, |listed| {
                    names.push(listed.name);
                    Ok(true)
                })?;
                if names.is_empty() {
                    return Err(PoolError::NoObject { name: prefix }.into());
                }
            }
        }
        let first = names.first().cloned().unwrap_or_default();
        let mut left = names.iter().peekable();
        let mut remove = |pool: &Pool, _seen: bool| {
            while let Some(name) = left.peek() {
                pool.remove(name, fresh_run(), now_ms(), &setup.settings())?;
                left.next();
            }
            Ok(())
        };
        match &opened {
            Some(pool) => remove(pool, true)?,
            None => {
                let see = |pool: &Pool| pool.writer().has(&first);
                self.pool.open_to_change(setup, see, remove).map(drop)?;
            }
        }
        setup.observer.finish();
        if setup.json {
            Stream::Stdout.json(&Report { removed: names })?;
        } else if !setup.quiet {
            Stream::Stdout.text(&format!("{} removed\n", count(names.len() as u64, "object")))?;
        }
        Ok(Exit::Done)
    }
}
