//! `kiln sync`

mod compare;
mod into_pool;
mod out_of_pool;

use std::path::Path;

use clap::Args;
use kiln_stripe::PoolError;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, local};
use crate::{args::help, names::MARK, transfer::Transfer};

/// Copy into a folder what another one has, and the first has not or has otherwise
///
/// One of the two is in the pool. A file is taken for the same where its size and its time of
/// change are those that were recorded when it was copied; where none is recorded, when the object
/// is newer than the file. An interrupted sync goes on when the same command is given again.
#[derive(Debug, Args)]
#[command(after_help = help("sync"))]
pub struct Sync {
    /// A folder, or pool:FOLDER
    from: String,
    /// pool:FOLDER, or a folder
    to: String,
    /// Copy nothing; say what would be copied or removed, and why
    #[arg(long)]
    dry_run: bool,
    /// Files of one size are the same
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
    /// Compare all bytes, whatever sizes and times say
    #[arg(long)]
    checksum: bool,
    /// Also remove what the source does not have
    #[arg(long)]
    delete: bool,
    /// Refuse to remove more than N files. Without this flag an empty source removes none
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<usize>,
    /// Keep what is replaced or removed in a folder on the target's side (pool:FOLDER into a pool)
    #[arg(long, value_name = "FOLDER")]
    backup_dir: Option<String>,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Sync {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        pool.config().check_data_key()?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let transfer = Transfer { pool: &pool, index: &index, setup, force: true, skip: false };
        let report = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(to)) => self.put(&transfer, folder(&self.from)?, to)?,
            (Some(from), None) => self.get(&transfer, from, local(self.to.as_ref())?)?,
            _ => {
                let problem =
                    "exactly one of the two folders must be in the pool; write it as pool:FOLDER"
                        .into();
                return Err(Failure::Flag { flag: "TO", problem });
            }
        };
        report.end(setup)
    }
}

/// A folder that must be there: an absent one (a disk that is not mounted) is not an empty one.
fn folder(path: &str) -> Result<&Path> {
    let path = local(path.as_ref())?;
    match path.is_dir() {
        true => Ok(path),
        false => Err(no_folder("FROM", &path.display().to_string())),
    }
}

fn no_folder(flag: &'static str, name: &str) -> Failure {
    Failure::Flag { flag, problem: format!("{name} is not a folder; use kiln cp for files") }
}

impl Sync {
    /// Asks for a word more before much is removed: more than `--max-delete`, or anything where
    /// the source has nothing, as the mount point of a disk that is not mounted.
    fn check_removals(&self, has_data: bool, count: usize) -> Result<()> {
        let what = match self.max_delete {
            Some(most) if count > most => {
                format!("{count} removals exceed --max-delete {most}; raise it to go on")
            }
            None if count > 0 && !has_data && self.delete => format!(
                "the source is empty (not mounted?): {count} files would be removed; give \
                 --max-delete {count} to go on"
            ),
            _ => return Ok(()),
        };
        Err(PoolError::Refused { what }.into())
    }
}
