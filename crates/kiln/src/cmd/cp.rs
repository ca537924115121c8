//! `kiln cp`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use kiln_stripe::PoolError;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{At, PoolFlags, Setup, local, moment};
use crate::transfer::get::{
    Destination, Item, Others, created, hard_links, inside, no_file_name, set_all, write_others,
};
use crate::transfer::local_tree::LocalTree;
use crate::transfer::pool_tree::PoolTree;
use crate::transfer::raw_names::path_of;
use crate::transfer::records::{Entries, add_entry};
use crate::transfer::{Report, Transfer, name_of_file};
use crate::{args::help, names::MARK, transfer::attributes::Entry};

/// Copy files and folders into a pool, or out of it
///
/// Each file becomes an object, atomically; a file that cannot be read is told at the end and the
/// others are copied (exit code 4). What is in a folder goes into the other one, whether that is
/// there or not. Modes, times, owners, extended attributes, links and empty folders are kept, in an
/// object .kiln-attributes for each folder, and come back with a copy out of the pool; devices,
/// sockets and pipes are left out, with a warning.
#[derive(Debug, Args)]
#[command(after_help = help("cp"))]
pub struct Cp {
    /// A folder or file, or pool:NAME
    from: String,
    /// pool:NAME, or a folder or file
    to: String,
    /// Taken for those who are used to it: folders are copied whole anyway
    #[arg(short = 'r', long = "recursive", hide = true)]
    _recursive: bool,
    /// Replace what is there
    #[arg(long, conflicts_with = "skip")]
    force: bool,
    /// Leave what is there as it is
    #[arg(long)]
    skip: bool,
    /// Out of a pool as it was then, as for kiln ls; pool:NAME@TIME says the same
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<At>,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Cp {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        pool.config().check_data_key()?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let (force, skip) = (self.force, self.skip);
        let transfer = Transfer { pool: &pool, index: &index, setup, force, skip };
        let report = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(to)) if self.at.is_none() => {
                self.copy_in(&transfer, local(self.from.as_ref())?, to)?
            }
            (Some(from), None) => {
                let (from, at) = self.then(&transfer, from)?;
                copy_out(&transfer, from, at, local(self.to.as_ref())?)?
            }
            _ => {
                let problem =
                    "exactly one of the two paths must be in the pool; write it as pool:NAME"
                        .into();
                return Err(Failure::Flag { flag: "TO", problem });
            }
        };
        report.end(setup)
    }

    /// The name to copy out, and as of when.
    fn then<'n>(
        &self,
        transfer: &Transfer<'_>,
        from: &'n str,
    ) -> Result<(&'n str, Option<u64>), Failure> {
        let dated = from.rsplit_once('@').filter(|_| self.at.is_none());
        let config = transfer.pool.config();
        let time = |name: &str, at| moment(at).ok()?.of(config, name.trim_matches('/')).ok();
        let dated = dated.and_then(|(name, at)| Some((name, time(name, at)?)));
        match dated {
            // A name that is there is meant.
            Some((name, at)) if PoolTree::new(transfer, from)?.is_empty() => Ok((name, Some(at))),
            _ => {
                let at = self.at.as_ref().map(|at| at.of(config, from.trim_matches('/')));
                Ok((from, at.transpose()?))
            }
        }
    }

    fn copy_in(&self, transfer: &Transfer<'_>, from: &Path, to: &str) -> Result<Report> {
        let mut report = Report::default();
        // A link that is named itself is followed.
        let failed = |source| Failure::Io { action: "read", path: from.to_owned(), source };
        from.metadata().map_err(failed)?;
        let name = match from.is_dir() {
            true => to.trim_matches('/').to_owned(),
            false => name_of_file(transfer, from, to)?,
        };
        // A name that is given itself is meant, of whatever kind.
        let excluded = from.is_dir().then(|| self.pool.own_paths(transfer.pool));
        let mut tree = LocalTree::new(from, &name, excluded.unwrap_or_default());
        if !from.is_dir() && !tree.left_out.is_empty() {
            let problem = "not copied; kiln put reads pipes and devices".to_owned();
            return Err(Failure::NotUsable { path: from.to_owned(), problem });
        }
        let (mut files, mut entries) = (BTreeMap::new(), Entries::new());
        for (name, local) in &tree.entries {
            match local.entry {
                Entry::File { .. } => drop(files.insert(&name[..], local)),
                _ => add_entry(&mut entries, name, local.entry.clone()),
            }
        }
        transfer.put(&files, &BTreeSet::new(), &mut entries, &mut report)?;
        transfer.record(&entries, &mut report);
        report.add_local(&mut tree);
        Ok(report)
    }
}

fn copy_out(transfer: &Transfer<'_>, from: &str, at: Option<u64>, to: &Path) -> Result<Report> {
    let mut report = Report::default();
    let prefix = from.trim_matches('/');
    let mut tree = match at {
        None => PoolTree::new(transfer, prefix)?,
        Some(at) => PoolTree::of_versions(transfer, prefix, |versions| {
            versions.iter().find(|one| one.was_at(at))
        })?,
    };
    if tree.is_empty() {
        return Err(PoolError::NoObject { name: from.to_owned() }.into());
    }
    // One object goes to the path itself, unless that is a folder or written as one.
    let single = tree.objects.len() == 1 && tree.objects.contains_key(prefix);
    let into = to.is_dir() || to.as_os_str().to_string_lossy().ends_with('/');
    let to = match single && !into {
        true => Destination::File(to.to_owned()),
        false => Destination::Below(created(to)?),
    };
    let (mut items, mut links) = (Vec::new(), Vec::new());
    let firsts = hard_links(&tree);
    for (name, object) in &tree.objects {
        let item = |name, object| {
            inside(prefix, name).map(|inside| Item { name, inside: path_of(inside), object })
        };
        let first = firsts.get(&name[..]).and_then(|(first, object)| item(*first, object));
        match (item(&name[..], object), first) {
            (Some(item), None) => items.push(item),
            (Some(item), Some(first)) => links.push((item, first)),
            (None, _) => report.fail(name, &no_file_name(name)),
        }
    }
    transfer.fetch_with_links(items, links, &to, &mut report);
    if let Destination::Below(out) = &to {
        let others = tree.others.iter();
        let others =
            others.filter_map(|(name, entry)| Some((path_of(inside(prefix, name)?), entry)));
        let others: Others<'_> = others.collect();
        write_others(out, &others, transfer.force, transfer.skip, &mut report);
        let folders = others.into_iter().filter(|(_, entry)| matches!(entry, Entry::Folder { .. }));
        set_all(out, &folders.collect(), &mut report);
        transfer.set_root(out, prefix, &mut report);
    }
    report.add_pool(&mut tree);
    Ok(report)
}
