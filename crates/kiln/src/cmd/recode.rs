//! `kiln recode`

use std::path::PathBuf;

use clap::Args;
use kiln_files::discover;
use kiln_store::ReadMode;
use kiln_stripe::PoolError;
use minijinja::context;
use uuid::Uuid;

use crate::exit::{Exit, Result};
use crate::setup::{self, Folders, Setup};
use crate::{args::help, print::fields};

/// Write shards again in another code
///
/// The object is read past what is lost or damaged and written by the other code. The new shards
/// take the places of the old ones when all of them are complete, on disk, and read back.
#[derive(Debug, Args)]
#[command(after_help = help("recode"))]
pub struct Recode {
    /// The folder with all shards; or folders, one for each shard of the new code or more
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The code, as kiln codes lists them
    #[arg(long, value_name = "CODE")]
    to: String,
    /// The object, where the folders have several
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Recode also where fewer losses are survived than before
    #[arg(long)]
    lower_safety: bool,
}

impl Recode {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let codec = setup::codec(&self.to)?;
        let folders = Folders::to_read(setup, &self.folders, ReadMode::Cached)?;
        folders.keep_private(self.object.as_deref());
        folders.refuse_unreadable(self.object.as_deref())?;
        let set = discover(folders.nodes(), self.object.as_deref())?;
        let (before, after) = (set.codec().margin(&[]), codec.margin(&[]));
        if after < before && !self.lower_safety {
            let (old, new) = (set.codec().spec(), codec.spec());
            let what = format!(
                "code {new}: it survives fewer losses than {old} ({after}, not {before}); \
                 --lower-safety allows that"
            );
            return Err(PoolError::Refused { what }.into());
        }
        let run = *Uuid::new_v4().as_bytes();
        let outcome = kiln_files::recode(&set, &codec, run, &setup.settings());
        setup.observer.finish();
        let (encode, bytes_read) = outcome?.unzip();
        let (from, to) = (set.codec().spec().to_string(), codec.spec().to_string());
        let report = fields! {
            object: set.object(),
            from: from,
            to: to,
            bytes_read: bytes_read.unwrap_or(0),
            encode or none: encode,
            seconds: setup.seconds(),
        };
        setup.tell("recode", &report, context! { size => set.size() })
    }
}
