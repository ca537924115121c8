//! `kiln put`

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_folders::{Folders, Way};
use kiln_pool::{Pool, PutRequest};
use kiln_stripe::{Observer, Source, StreamSource};
use minijinja::context;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, fresh_run, input, local, now_ms};
use crate::{transfer::raw_names::to_pool, transfer::refuse_reserved};

/// Put a file into a pool
///
/// Readers see the old object, or none, until the new one is complete and on disk; then the new
/// one. The code follows from the size, as the pool's policy says.
#[derive(Debug, Args)]
#[command(after_help = help("put"))]
pub struct Put {
    /// File to put; - reads standard input
    input: PathBuf,
    /// Name of the object [default: the file's name]
    #[arg(value_parser = in_pool)]
    name: Option<String>,
    /// Replace an object of that name
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Put {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let name = match (&self.name, self.input.file_name()) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) if self.input != Path::new("-") => to_pool(name),
            _ => {
                let problem = "standard input has no name: give one for the object".into();
                return Err(Failure::Flag { flag: "NAME", problem });
            }
        };
        refuse_reserved(&name)?;
        let mut source = source(&self.input)?;
        let req =
            PutRequest { name: &name, run: fresh_run(), now_ms: now_ms(), replace: self.force };
        let see = |pool: &Pool| Folders(pool).look(&name);
        let make = |pool: &Pool, way: Way| {
            Folders(pool).make_way(&req, &way, &|| self.pool.index_to_list(pool, setup).ok())?;
            Ok(way)
        };
        let (pool, way) = self.pool.open_to_change(setup, see, make)?;
        let outcome = Folders(&pool).put(&req, &way, &mut *source, &setup.settings());
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        if !report.missing.is_empty() {
            let text = format!(
                "{name}: {} of {} shards were not written because their nodes are unavailable; \
                run kiln repair when they are back",
                report.missing.len(),
                report.nodes.len()
            );
            setup.observer.warn(&text);
        }
        setup.tell("put", &report, context! {})
    }
}

/// Opens a file, or standard input.
pub fn source(path: &Path) -> Result<Box<dyn Source>> {
    if path == Path::new("-") {
        return Ok(Box::new(StreamSource::new(io::stdin())));
    }
    let path = local(path)?;
    if path.is_dir() {
        let problem = format!("{} is a folder; use kiln cp", path.display());
        return Err(Failure::Flag { flag: "INPUT", problem });
    }
    input(path)
}
