//! `kiln cp`

use std::path::Path;

use clap::Args;
use kiln_pool::PoolError;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::setup::{PoolFlags, Setup, local};
use crate::transfer::local_tree::LocalTree;
use crate::transfer::{Item, MARK, Report, Transfer, name_of_file, path_below};

const EXAMPLES: &str = "\
Examples:
  kiln cp photos pool:photos            every file below photos, as photos/...
  kiln cp film.mkv pool:films/          one file, as films/film.mkv
  kiln cp pool:photos/2024 back         all objects below photos/2024/, into the folder back
  kiln cp pool:films/film.mkv f.mkv     one object; into f.mkv where that is a folder
  kiln cp photos pool:photos --skip     only what is not there yet, e.g. after an interruption
  kiln sync photos pool:photos          what has changed, too";

/// Printed at an interrupt.
pub const INTERRUPTED: &str = "copies so far stay; rerun with --skip to copy the rest";

/// Copy files and folders into a pool, or out of it
///
/// Each file becomes an object, atomically; a file that cannot be read is told at the end and the
/// others are copied (exit code 4). What is in a folder goes into the other one, whether that is
/// there or not. Modes, times, symbolic links and empty folders are kept, in an object
/// .kiln-attributes for each folder, and come back with a copy out of the pool; what is left out
/// (devices, pipes, names that are not UTF-8) is named.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Cp {
    /// A folder or file, or pool:NAME
    from: String,

    /// pool:NAME, or a folder or file
    to: String,

    /// Replace what is there
    #[arg(long, conflicts_with = "skip")]
    force: bool,

    /// Leave what is there as it is
    #[arg(long)]
    skip: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Cp {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let transfer = Transfer::new(&pool, &index, setup, self.force, self.skip);
        let report = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(to)) => copy_in(&transfer, local(self.from.as_ref())?, to)?,
            (Some(from), None) => copy_out(&transfer, from, local(self.to.as_ref())?)?,
            _ => {
                let problem =
                    "exactly one of the two paths must be in the pool; write it as pool:NAME"
                        .into();
                return Err(Failure::Flag { flag: "TO", problem });
            }
        };
        report.end(setup)
    }
}

fn copy_in(transfer: &Transfer<'_>, from: &Path, to: &str) -> Result<Report, Failure> {
    let mut report = Report::default();
    let name = match from.is_dir() {
        true => to.trim_matches('/').to_owned(),
        false => name_of_file(transfer, from, to)?,
    };
    // A link that is named itself is followed; links inside are kept as links.
    let whole = from.canonicalize();
    let from = whole.as_deref().unwrap_or(from);
    transfer.put(LocalTree::new(from, &name)?, &mut report)?;
    Ok(report)
}

fn copy_out(transfer: &Transfer<'_>, from: &str, to: &Path) -> Result<Report, Failure> {
    let mut report = Report::default();
    let prefix = from.trim_end_matches('/');
    let (objects, folders) = transfer.listed(prefix)?;
    if objects.is_empty() && folders.is_empty() {
        return Err(PoolError::NoObject { name: from.to_owned() }.into());
    }
    // One object goes to the path itself, unless that is a folder or written as one.
    let single = objects.len() == 1 && objects[0].name == prefix;
    let into = to.is_dir() || to.as_os_str().to_string_lossy().ends_with('/');
    let items: Vec<Item> = (objects.into_iter())
        .map(|object| {
            let path = match single && !into {
                true => to.to_owned(),
                false => path_below(to, prefix, &object.name),
            };
            Item { path, bytes: object.bytes, version: object.version, name: object.name }
        })
        .collect();
    transfer.get(&items, &mut report)?;
    transfer.write_others(prefix, &folders, to)?;
    Ok(report)
}
