//! `kiln man`

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::args::help;
use crate::exit::{Exit, Failure, Result};
use crate::setup::{Setup, local};

/// Write man pages, one for each command, made of what --help says
#[derive(Debug, Args)]
#[command(after_help = help("man"))]
pub struct Man {
    /// Folder for the pages; created when absent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub fn run(self, _: &Setup) -> Result<Exit> {
        let folder = local(&self.folder)?;
        let failed = |source| Failure::Io { action: "write to", path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(super::Program::command(), folder).map_err(failed)?;
        Ok(Exit::Done)
    }
}
