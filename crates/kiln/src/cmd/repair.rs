//! `kiln repair`

mod costs;
mod pool_repair;

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use kiln_files::{RepairRequest, discover, raw::repair_raw};
use kiln_store::ReadMode;
use kiln_stripe::RepairReport;
use minijinja::context;
use serde::Serialize;

use self::costs::{Costs, priced};
use crate::exit::{Exit, Failure, Result};
use crate::lists::Indices;
use crate::print::damages;
use crate::setup::{self, Folders, Format, PoolFlags, Prices, RawFlags, ReadFlags, Setup, device};
use crate::{args::help, cmd::multi_object};

pub use pool_repair::{recover, show as show_recovery};

/// No code has more chunks.
const MAX_SHARDS: usize = 256;

/// Rebuild lost and damaged shards
///
/// Reads as little as the code allows: with clay:10+4, a lost shard costs 3.25 times its own size
/// instead of 10 times. A rebuilt shard takes its place only after it matched its recorded
/// checksum; every sub-chunk read on the way is checked too.
#[derive(Debug, Args)]
#[command(after_help = help("repair"))]
pub struct Repair {
    /// Folders with the shards; without any, the pool is repaired
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Shards to rebuild in any case, e.g. 3 or 0,4-6
    #[arg(long, value_name = "LIST")]
    lost: Option<Indices>,
    /// Folder for rebuilt shards, when their own is gone. Created when absent
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Read everything first to find silent damage
    #[arg(long)]
    scan: bool,
    /// Write nothing; report what the repair would read, send and write
    #[arg(long)]
    dry_run: bool,
    /// Costs of reads on the devices, as kiln probe measured them. Without this flag a folder's
    /// own model counts, where every folder has one
    #[arg(long, value_name = "FILE")]
    device_model: Option<PathBuf>,
    /// Read every run by itself, even where models of the devices are known
    #[arg(long, conflicts_with = "device_model")]
    as_runs: bool,
    /// Prices of requests and bytes where the shards are: a table as kiln plan --price takes it,
    /// with zones by nodes = [...] instead of chunks. Read what is cheapest, be it runs joined
    /// through gaps or whole chunks
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device_model", "as_runs"])]
    price: Option<PathBuf>,
    #[command(flatten)]
    reads: ReadFlags,
    /// All objects in the folders, and in all folders below them
    #[arg(long, conflicts_with_all = ["object", "lost", "to"])]
    all: bool,
    /// Of a pool: rebuild the shards of unavailable nodes on other nodes
    #[arg(long, conflicts_with = "folders")]
    away: bool,
    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    raw: RawFlags,
}

impl Repair {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        if self.folders.is_empty() {
            self.refuse_folder_flags()?;
            let prices = self.price.as_deref().map(Prices::of_nodes).transpose()?;
            let request = pool_repair::Asked { away: self.away, dry_run: self.dry_run, prices };
            return pool_repair::run(&self.pool, &request, setup);
        }
        let raw = self.raw.setup()?;
        let costs = self.costs()?;
        // A model is of the device, not of the page cache.
        let mode = self.reads.mode();
        let mode = if matches!(costs, Costs::Of(Some(_))) { setup::direct() } else { mode };
        if self.all {
            multi_object::refuse_raw(raw.is_some())?;
            return self.repair_all(&costs, mode, setup);
        }
        let folders = Folders::to_read(setup, &self.folders, mode)?;
        folders.keep_private(self.raw.object.as_deref());
        let to = Folders::to_write(setup, "--to", self.to.as_slice())?;
        let targets: BTreeMap<_, _> = to
            .nodes()
            .iter()
            .flat_map(|node| (0..MAX_SHARDS).map(move |index| (index, node.clone())))
            .collect();
        let request = RepairRequest {
            lost: self.lost.map_or_else(Vec::new, |Indices(lost)| lost),
            scan: self.scan,
            targets,
            dry_run: self.dry_run,
            devices: costs.devices(&folders)?,
        };
        folders.refuse_unreadable(self.raw.object.as_deref())?;
        let (nodes, settings) = (folders.nodes(), setup.settings());
        let outcome = match raw {
            Some(raw) => repair_raw(&raw.request(), &request, nodes, &settings),
            None => discover(nodes, self.raw.object.as_deref())
                .and_then(|set| kiln_files::repair(&set, &request, &settings)),
        };
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        (report.issued_reads, report.issued_bytes) = folders.issued();
        let (text, report) = told(report, &costs, setup);
        setup.report(&report, || text)
    }

    fn repair_all(&self, costs: &Costs, mode: ReadMode, setup: &Setup) -> Result<Exit> {
        let groups = multi_object::groups(setup, &self.folders, mode)?;
        for group in &groups {
            group.folders.keep_private(Some(&group.object));
        }
        let settings = setup.settings();
        multi_object::each(&groups, setup, |group| {
            let request = RepairRequest {
                scan: self.scan,
                dry_run: self.dry_run,
                devices: costs.devices(&group.folders)?,
                ..RepairRequest::default()
            };
            group.folders.refuse_unreadable(Some(&group.object))?;
            let set = discover(group.folders.nodes(), Some(&group.object))?;
            let mut report = kiln_files::repair(&set, &request, &settings)?;
            report.seconds = setup.seconds() - group.begun.get();
            let (text, report) = told(report, costs, setup);
            Ok((Exit::Done, text, report))
        })
    }

    /// Returns the known costs of reads.
    fn costs(&self) -> Result<Costs> {
        if let Some(path) = &self.price {
            return Prices::of_nodes(path).map(Costs::Paid);
        }
        if self.as_runs {
            return Ok(Costs::Of(None));
        }
        let model = self.device_model.as_deref().map(device::load).transpose()?;
        device::devices(&self.folders, model.as_ref()).map(Costs::Of)
    }

    /// Flags that only shards in folders know; silently ignoring one could hide a mistake.
    fn refuse_folder_flags(&self) -> Result<()> {
        let given = [
            ("--lost", self.lost.is_some()),
            ("--to", self.to.is_some()),
            ("--scan", self.scan),
            ("--all", self.all),
            ("--device-model", self.device_model.is_some()),
            ("--as-runs", self.as_runs),
            ("--format raw", self.raw.format == Format::Raw),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                let problem = "only for shards in folders: name the folders".into();
                Err(Failure::Flag { flag, problem })
            }
        }
    }
}

/// The text of a report, and the report with prices.
fn told(report: RepairReport, costs: &Costs, setup: &Setup) -> (String, impl Serialize + use<>) {
    let damages = damages(&report.damaged, report.damaged.len() as u64);
    let reads_why = report.reads.as_ref().map(|reads| reads.why.clone());
    let report = priced(report, costs);
    (setup.text("repair", &report, context! { damages, reads_why }), report)
}
