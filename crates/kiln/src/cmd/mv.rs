//! `kiln mv`

use std::collections::BTreeSet;

use clap::Args;
use kiln_folders::{Folders, attributes_in, folders_of};
use kiln_pool::PutReport;
use kiln_stripe::PoolError;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, fresh_run, now_ms};
use crate::transfer::local_tree::{joined, split};
use crate::transfer::put::{Entries, add_entry};
use crate::transfer::{self, Transfer, refuse_reserved};
use crate::{fields, print::count, transfer::pool_tree::PoolTree};

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
        if from == to || (self.recursive && to.starts_with(&format!("{from}/"))) {
            let problem = format!("{to} is {from} itself, or lies in it");
            return Err(Failure::Flag { flag: "TO", problem });
        }
        [from, &to].into_iter().try_for_each(refuse_reserved)?;
        let transfer =
            Transfer { pool: &pool, index: &index, setup, force: self.force, skip: false };
        let tree = match self.recursive {
            true => PoolTree::new(&transfer, from)?,
            false => PoolTree::one(&transfer, &self.from)?,
        };
        let is_moved = |name: &&String| !self.recursive || name.len() > from.len();
        if self.recursive && !tree.has_inside(from) {
            return Err(PoolError::NoObject { name: format!("{from}/") }.into());
        }
        let new = |name: &str| format!("{to}{}", &name[from.len()..]);
        let (mut moved, mut bytes) = (0, 0);
        let (mut made, mut entries) = (BTreeSet::new(), Entries::new());
        let mut told = transfer::Report::default();
        for name in tree.objects.keys().filter(is_moved) {
            let to = new(name);
            match self.one(&transfer, name, &to, &mut made) {
                Ok(put) => {
                    if let Some(entry) = &tree.objects[name].entry {
                        let link = entry.link().filter(|_| self.recursive).cloned();
                        let entry = entry.at_version(put.version, put.created_ms).with_link(link);
                        add_entry(&mut entries, &to, entry);
                    }
                    bytes += put.size;
                    moved += 1;
                }
                Err(failure) if !self.recursive => return Err(failure),
                Err(failure) => told.fail(name, &failure),
            }
        }
        // Entries that stay need their folders.
        if self.recursive && told.is_whole() {
            for (name, entry) in &tree.others {
                add_entry(&mut entries, &new(name), entry.clone());
            }
            if let Some(own) = transfer.take_entry(from, &mut told)? {
                add_entry(&mut entries, &to, own);
            }
            moved += tree.folders_in(from).len() as u64;
        }
        transfer.add_attributes(entries, &mut told);
        if self.recursive && told.is_whole() {
            let gone = tree.folders_in(from).into_iter().map(|folder| attributes_in(folder));
            transfer.remove(&gone.collect::<Vec<_>>(), &mut told);
        }
        setup.observer.finish();
        let report = fields! { moved: moved, bytes: bytes, seconds: setup.seconds() };
        setup.report(&report, || format!("{} moved\n", count(moved, "object")))?;
        told.end_quietly(setup)
    }

    /// Moves an object; folders above that were `made` before are not made again.
    fn one(
        &self,
        transfer: &Transfer<'_>,
        name: &str,
        to: &str,
        made: &mut BTreeSet<String>,
    ) -> Result<PutReport> {
        let folders = Folders(transfer.pool);
        folders.refuse_nested(Some(transfer.index), to)?;
        let above: BTreeSet<String> =
            folders_of(to).map(str::to_owned).filter(|name| !made.contains(name)).collect();
        let names = above.iter().map(|name| &name[..]).collect();
        folders.make_folders(fresh_run(), now_ms(), &names)?;
        made.extend(above);
        let put = transfer.duplicate(name, to, self.force)?;
        transfer.pool.remove(name, fresh_run(), now_ms(), &transfer.setup.settings())?;
        Ok(put)
    }
}
