//! `kiln volume`

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use kiln_volume::{
    CreateRequest, LiveChange, NAMES, OpenRequest, Rim, Volume, VolumeError, VolumeInfo, volume_of,
};
use minijinja::context;

use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::print::{count, fields};
use crate::setup::{Confirm, PoolFlags, Setup, volumes};
use crate::sizes;

/// Time that a volume's server has to answer, and interval of checking.
const ANSWER: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(500);

/// Block devices in a pool
///
/// A volume is a disk for programs that want one: virtual machines, file systems, databases. It
/// takes space as it is written to. Each has one user at a time (kiln nbd); snapshots and clones of
/// a volume share what is not overwritten.
#[derive(Debug, Args)]
#[command(after_help = help("volume"))]
pub struct VolumeCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an empty volume
    Create(Create),
    /// List volumes and their snapshots
    Ls(Ls),
    /// Show what the pool says of a volume
    Stat(One),
    /// Remove a volume (--yes), or a snapshot (VOLUME@SNAPSHOT; the volume may be in use)
    Rm(Remove),
    /// Change the size of a volume, which may be in use when it grows; blocks past a smaller one
    /// are lost, and need --yes
    Resize(Resize),
    /// Keep a volume as it is now under a name; it may be in use
    Snapshot(Snapshot),
    /// Make a new volume of a snapshot
    Clone(CloneOf),
    /// Read all of a volume, and remove what nothing needs
    Check(One),
}

// Arguments; the summaries are above.
#[derive(Debug, Args)]
struct Create {
    /// Name of the volume, without slashes
    name: String,
    /// Size, e.g. 100GiB
    #[arg(value_parser = size)]
    size: u64,
    /// Bytes that are made into whole stripes together
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32MiB")]
    segment: u64,
    /// Bytes of each copy of the log [default: four segments]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    log: Option<u64>,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct Ls {
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct One {
    /// Name of the volume
    name: String,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct Remove {
    /// Name of the volume, or VOLUME@SNAPSHOT
    name: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct Resize {
    /// Name of the volume
    name: String,
    /// New size, e.g. 200GiB
    #[arg(value_parser = size)]
    size: u64,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct Snapshot {
    /// Name of the volume
    name: String,
    /// Name of the snapshot
    snapshot: String,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct CloneOf {
    /// The snapshot, as VOLUME@SNAPSHOT
    snapshot: String,
    /// Name of the new volume
    name: String,
    #[command(flatten)]
    pool: PoolFlags,
}

impl VolumeCommand {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        match self.action {
            Action::Create(create) => create.run(setup),
            Action::Ls(ls) => ls.run(setup),
            Action::Stat(one) => one.stat(setup),
            Action::Rm(remove) => remove.run(setup),
            Action::Resize(resize) => resize.run(setup),
            Action::Snapshot(snapshot) => snapshot.run(setup),
            Action::Clone(clone) => clone.run(setup),
            Action::Check(one) => one.check(setup),
        }
    }
}

/// Says what was done with a volume, or with one of its snapshots.
fn done(setup: &Setup, volume: &str, snapshot: Option<&str>, done: &'static str) -> Result<Exit> {
    setup.observer.finish();
    let changed = fields! {
        volume: volume,
        snapshot or none: snapshot,
        done: done,
    };
    setup.tell("change of a volume", &changed, context! {})
}

impl Create {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let log = self.log.unwrap_or(4 * self.segment);
        let create = CreateRequest { size: self.size, segment: self.segment, log };
        Volume::create(&rim, &self.name, &create)?;
        done(setup, &self.name, None, "created")
    }
}

impl Ls {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let names = volumes::listed(&self.pool, &rim.pool(), setup, &format!("{NAMES}/"))?;
        setup.observer.finish();
        let names = names.iter().filter_map(|name| volume_of(name));
        let volumes: Vec<VolumeInfo> =
            names.map(|name| Volume::info(&rim, name)).collect::<Result<_, _>>()?;
        setup.show("volumes", &fields! { volumes: volumes }, context! {})
    }
}

impl One {
    fn stat(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let info = Volume::info(&rim, &self.name)?;
        setup.show("volume", &info, context! {})
    }
    fn check(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let request = OpenRequest::of(&volumes::writer("kiln volume check"));
        let volume = Volume::open(&rim, &self.name, &request)?;
        let pool = rim.pool();
        let objects = |prefix: &str| volumes::listed(&self.pool, &pool, setup, prefix);
        let report = volume.check(&objects, &setup.observer)?;
        volume.close()?;
        setup.observer.finish();
        let more = context! { name => &self.name };
        setup.show("check of a volume", &report, more)?;
        Ok(if report.damaged_count > 0 { Exit::NotRecoverable } else { Exit::Done })
    }
}

/// The end of what was tried; where somebody uses the volume, that one is asked to do it, who looks
/// every few seconds for what others want of it.
fn or_ask(
    tried: Result<(), VolumeError>,
    rim: &Rim,
    name: &str,
    change: LiveChange<'_>,
) -> Result<(), VolumeError> {
    let Err(VolumeError::InUse { .. }) = tried else { return tried };
    let until = Instant::now() + ANSWER;
    Volume::ask(rim, name, change, || {
        std::thread::sleep(LOOK);
        Instant::now() < until
    })
}

impl Remove {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let writer = volumes::writer("kiln volume rm");
        if let Some((name, snapshot)) = self.name.split_once('@') {
            let change = LiveChange::RemoveSnapshot(snapshot);
            let removed = Volume::remove_snapshot(&rim, name, snapshot, &writer);
            or_ask(removed, &rim, name, change)?;
            return done(setup, name, Some(snapshot), "removed");
        }
        let info = Volume::info(&rim, &self.name)?;
        // One with clones cannot be removed at all.
        if info.snapshots.iter().all(|snapshot| snapshot.clones.is_empty()) {
            let size = sizes::show(info.size);
            let used = match info.writer.is_empty() {
                true => "not in use".to_owned(),
                false => format!("in use by {}", info.writer),
            };
            let snapshots = count(info.snapshots.len() as u64, "snapshot");
            self.confirm.ask(&format!(
                "volume {:?} of {size} ({used}) and its {snapshots} are lost",
                self.name
            ))?;
        }
        let pool = rim.pool();
        let objects = |prefix: &str| volumes::listed(&self.pool, &pool, setup, prefix);
        Volume::remove(&rim, &self.name, &objects, &writer)?;
        done(setup, &self.name, None, "removed")
    }
}

impl Resize {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let writer = volumes::writer("kiln volume resize");
        let (name, size) = (&self.name, sizes::show(self.size));
        let allow = |blocks: u64| {
            let blocks = count(blocks, "block");
            let what = format!("volume {name:?}: {blocks} of 4 KiB written past {size} are lost");
            Ok(self.confirm.ask(&what)?)
        };
        let resized = Volume::resize(&rim, name, self.size, &writer, allow);
        or_ask(resized, &rim, &self.name, LiveChange::Grow(self.size))?;
        done(setup, &self.name, None, "resized")
    }
}

impl Snapshot {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let rim = volumes::rim(&self.pool, setup)?;
        let writer = volumes::writer("kiln volume snapshot");
        let kept = Volume::snapshot(&rim, &self.name, &self.snapshot, &writer);
        or_ask(kept, &rim, &self.name, LiveChange::Snapshot(&self.snapshot))?;
        done(setup, &self.name, Some(&self.snapshot), "kept")
    }
}

impl CloneOf {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let Some((name, snapshot)) = self.snapshot.split_once('@') else {
            let problem = "write it as VOLUME@SNAPSHOT".to_owned();
            return Err(Failure::Flag { flag: "SNAPSHOT", problem });
        };
        let rim = volumes::rim(&self.pool, setup)?;
        Volume::clone_snapshot(&rim, name, snapshot, &self.name)?;
        done(setup, &self.name, None, "cloned")
    }
}
