//! `kiln get`

use std::path::{Path, PathBuf};
use std::{cell::Cell, ops::Range};

use clap::Args;
use kiln_folders::attributes_in;
use kiln_net::Address;
use kiln_plan::Basis;
use kiln_pool::{GetReport, GetRequest, Helpers, Pool};
use kiln_recovery::HelpingAgents;
use kiln_stripe::{Observer, PoolError};
use minijinja::context;

use crate::args::{byte_range, help, in_pool};
use crate::exit::{Exit, Failure, Result};
use crate::lists::named;
use crate::print::{damages, worked_around};
use crate::setup::{At, Output, OutputTarget, PoolFlags, Setup, fresh_run, moment};

/// Agents rebuild what is lost where that makes a read shorter.
const AUTO: &str = "auto";

/// Get an object out of a pool
///
/// Missing and damaged pieces are rebuilt on the way; every byte is checked. A range reads only
/// what it needs.
#[derive(Debug, Args)]
#[command(after_help = help("get"))]
pub struct Get {
    /// Name of the object
    #[arg(value_parser = in_pool)]
    name: String,
    /// File to write; - writes to standard output [default: the last part of NAME]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The object as it was then, as for kiln ls
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) at: Option<At>,
    /// Only LENGTH bytes, beginning at START; sizes as in 64KiB
    #[arg(long, value_name = "START+LENGTH", value_parser = byte_range)]
    range: Option<Range<u64>>,
    /// Rebuild lost chunks by: auto, central (on this machine), or by agents, with a strategy
    /// of kiln plan --strategy
    #[arg(long, value_name = "NAME", default_value = AUTO)]
    strategy: String,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Get {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let (opened, object) = match &self.at {
            Some(at) => {
                let (pool, object) = self.pool.object_at(&self.name, at, setup)?;
                (Some(pool), object)
            }
            None => (None, self.name.clone()),
        };
        // First see whether there is anything to get, then touch the output.
        let is_folder = Cell::new(false);
        let look = |pool: &Pool| {
            pool.manifest(&object).inspect_err(|error| {
                is_folder
                    .set(matches!(error, PoolError::NoObject { .. }) && folder(pool, &self.name));
            })
        };
        let found = match opened {
            Some(pool) => look(&pool).map(|manifest| (pool, manifest)).map_err(Failure::from),
            None => self.pool.open_for(setup, look),
        };
        if is_folder.get() && found.is_err() {
            let name = self.name.trim_end_matches('/');
            setup.observer.warn(&format!("{name:?} is a folder; kiln cp pool:{name} TO copies it"));
        }
        let (pool, manifest) = found?;
        if let Some(range) = &self.range
            && range.start > manifest.size
        {
            let problem = format!("begins past the end: {} has {} bytes", self.name, manifest.size);
            return Err(Failure::Flag { flag: "--range", problem });
        }
        let last = self.name.rsplit('/').next().unwrap_or_default();
        let path = self.output.unwrap_or_else(|| Path::new(last).to_owned());
        let place = OutputTarget::new(&path)?;
        let mut output = Output::open(&place, self.force)?;
        let req = GetRequest { name: &object, range: self.range };
        let agents = agents(&self.strategy, &pool, setup)?;
        let helpers = agents.as_ref().map(|agents| agents as &dyn Helpers);
        let outcome = pool.reader().read_with(&req, helpers, &mut output, &setup.settings());
        setup.observer.finish();
        let mut report = outcome?;
        output.finish()?;
        report.seconds = setup.seconds();
        warn(&report, setup);
        let damages = damages(&report.damaged, report.damaged_count);
        setup.tell("get", &report, context! { damages })
    }
}

/// Returns whether a name is known as that of a folder.
fn folder(pool: &Pool, name: &str) -> bool {
    pool.writer().has(&attributes_in(name.trim_end_matches('/'))).unwrap_or(false)
}

/// The agents that may rebuild what is lost, if there are some and they are wanted.
fn agents<'a>(
    strategy: &'a str,
    pool: &'a Pool,
    setup: &'a Setup,
) -> Result<Option<HelpingAgents<'a>>> {
    let mut urls = pool.config().node.iter().map(|node| &node.url);
    // What one node computes, this one does.
    if strategy != AUTO && kiln_plan::strategy(strategy)?.basis == Basis::OneNode {
        return Ok(None);
    }
    let Some(address) = urls.find(|url| Address::is_meant(url)) else {
        return match strategy {
            AUTO => Ok(None),
            _ => {
                let problem = "no node of this pool is an agent; folders cannot compute".to_owned();
                Err(Failure::Flag { flag: "--strategy", problem })
            }
        };
    };
    let network = setup.network(&address.parse()?)?;
    let agents = HelpingAgents::new(network, pool.config(), &fresh_run);
    Ok(Some(if strategy == AUTO { agents } else { agents.by(strategy)? }))
}

/// The output is correct despite the damage, but the pool should be repaired.
pub fn warn(report: &GetReport, setup: &Setup) {
    for note in report.notes.iter().filter(|_| report.bytes_from_helpers > 0 || setup.verbose) {
        setup.observer.warn(&format!("{}: {note}; decoded here", report.object));
    }
    let mut lost = report.lost.clone();
    lost.retain(|index| !report.away.contains(index));
    let object = &report.object;
    if !report.away.is_empty() {
        let away = named(&report.away);
        setup.observer.warn(&format!(
            "{object}: nodes that cannot be asked have {away}; the output is complete, kiln status \
             says why"
        ));
    }
    if let Some(found) = worked_around(&lost, report.damaged_count) {
        let advice = "the output is complete, but run kiln scrub";
        setup.observer.warn(&format!("{object}: {found}; {advice}"));
    }
}
