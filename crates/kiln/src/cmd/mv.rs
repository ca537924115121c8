//! `kiln mv`

use clap::Args;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Failure, Result};
use crate::print::{count, fields};
use crate::setup::{PoolFlags, Setup};
use crate::transfer::local_tree::{joined, split};
use crate::transfer::{Transfer, refuse_reserved};

/// Give objects of a pool other names
///
/// An object is written again under the new name, complete and on disk, before the old one is
/// removed, so it takes as much room and time as a copy. One that was interrupted may leave both;
/// the same command with --force goes on.
#[derive(Debug, Args)]
#[command(after_help = help("mv"))]
pub struct Mv {
    /// The object's name
    #[arg(value_parser = in_pool)]
    from: String,
    /// Its new name; FOLDER/ stands for the last word of the old one in that folder
    #[arg(value_parser = in_pool)]
    to: String,
    /// FROM and TO are folders: move all objects in the first into the second
    #[arg(short, long)]
    recursive: bool,
    /// Replace objects of the new names
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Mv {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let (from, to) = (self.from.trim_end_matches('/'), self.to.trim_end_matches('/'));
        let to = match !self.recursive && self.to.ends_with('/') {
            true => joined(to, split(from).1),
            false => to.to_owned(),
        };
        let lies_in = from.is_empty() || to.starts_with(&format!("{from}/"));
        if from == to || (self.recursive && lies_in) {
            let problem = format!("{to} is {from} itself, or lies in it");
            return Err(Failure::Flag { flag: "TO", problem });
        }
        [from, &to].into_iter().try_for_each(refuse_reserved)?;
        let transfer =
            Transfer { pool: &pool, index: &index, setup, force: self.force, skip: false };
        let from = if self.recursive { from } else { &self.from };
        let (moved, bytes, told) = transfer.rename(from, &to, self.recursive)?;
        setup.observer.finish();
        let report = fields! { moved: moved, bytes: bytes, seconds: setup.seconds() };
        setup.report(&report, || format!("{} moved\n", count(moved, "object")))?;
        told.end_quietly(setup)
    }
}
