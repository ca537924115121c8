//! A volume in a simulated cluster: clients that write to it and take it from each other, while
//! nodes come, go and lose their disks. A client that opens it finds what was acknowledged before,
//! and nothing that was never written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{collections::BTreeMap, time::Duration};

use kiln_pool::{Membership, NodeConfig, Pool, PoolConfig};
use kiln_recovery::sim::{Client, Random};
use kiln_stripe::{Result, Settings};
use kiln_volume::{CreateRequest, LogReport, Op, OpenRequest, Rim, Volume, VolumeError};

use crate::blocks::{Change, History, Tag};
use crate::play::{ClusterRun, locked, open_node, settings};
use crate::{common::BLOCK, scenario::millis};

const NAME: &str = "disk";
const SIZE: u64 = 256 << 10;
const SEGMENT: u64 = 64 << 10;
/// Writes that an opening has numbers for.
const NUMBERS: Tag = 1 << 20;

/// One who opened the volume, and from then on had it, until another one did.
struct Opening {
    generation: u64,
    began: Duration,
    ended: Duration,
    /// Blocks that were read then.
    found: Vec<Tag>,
    /// History of the writes of this one since.
    history: Arc<Mutex<History>>,
}

/// All that opened the volume.
#[derive(Default)]
pub struct Openings {
    all: Vec<Opening>,
    created: bool,
    /// Of each name the generation that last kept or removed a snapshot, and what that one holds,
    /// where it is known.
    snapshots: BTreeMap<String, (u64, Option<Vec<Tag>>)>,
    /// Clones that were begun.
    clones: u64,
}

impl Openings {
    /// A snapshot was kept, and holds this; or its state is unknown now.
    fn note(&mut self, snapshot: &str, generation: u64, holds: Option<Vec<Tag>>) {
        let known = self.snapshots.get(snapshot).map_or(0, |(generation, _)| *generation);
        // One who lost the volume hears late of what it did.
        if generation >= known {
            self.snapshots.insert(snapshot.to_owned(), (generation, holds));
        }
    }

    /// Returns the contents of a snapshot, where they are known.
    fn held_by(&self, snapshot: &str) -> Option<(u64, Vec<Tag>)> {
        let (generation, holds) = self.snapshots.get(snapshot)?;
        Some((*generation, holds.clone()?))
    }

    /// Each found what the one before it left.
    fn check(&self) {
        let mut order: Vec<&Opening> = self.all.iter().collect();
        order.sort_by_key(|opening| opening.generation);
        let mut before = Arc::new(Mutex::new(History::new(SIZE)));
        for opening in order {
            let what = format!("opened as generation {}", opening.generation);
            locked(&before).allows(&opening.found, &what);
            before = Arc::clone(&opening.history);
        }
        for one in &self.all {
            let later = |other: &&Opening| one.ended < other.began;
            let older = self.all.iter().filter(later).find(|it| it.generation <= one.generation);
            assert!(older.is_none(), "a later opening has an older generation");
        }
    }
}

/// Fresh identities that follow from the seed.
fn ids(client: &Client) -> impl Fn() -> [u8; 16] + Send + Sync + 'static {
    let next = AtomicU64::new(client.random());
    move || {
        let mut random = Random(next.fetch_add(1, Ordering::Relaxed));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_le_bytes());
        id[8..].copy_from_slice(&random.next().to_le_bytes());
        id
    }
}

/// A volume's view of a pool, for a command that does one thing.
fn rim(run: &ClusterRun, client: &Client, pool: Pool) -> Arc<Rim> {
    let now_ms = run.now_ms(client);
    Arc::new(Rim::new(pool, ids(client), move || now_ms).in_sequence())
}

/// Nodes with copies of the log.
fn nodes_of(log: Option<LogReport>) -> Vec<String> {
    log.into_iter().flat_map(|log| log.copies).map(|(id, _)| id).collect()
}

/// Nodes with copies of the volume's log, if it has one now.
pub fn nodes_of_log(run: &ClusterRun, client: &Client) -> Result<Vec<String>> {
    let network = client.network();
    let rim = rim(run, client, run.open(client, &network)?);
    Ok(Volume::log_report(&rim, NAME).map_or_else(|_| Vec::new(), nodes_of))
}

/// As `kiln pool drain` does before a node leaves: whether no log is on it any more.
pub fn leaves(run: &ClusterRun, client: &Client, node: &str) -> Result<bool> {
    if !locked(&run.blocks).created {
        return Ok(true);
    }
    let network = client.network();
    let rim = rim(run, client, run.open(client, &network)?);
    let looked = match Volume::log_report(&rim, NAME).map(nodes_of) {
        Ok(on) if on.iter().any(|id| id == node) => {
            let closed = Volume::close_unused(&rim, NAME, "drain");
            run.say(client, || format!("closed the volume for a drain: {closed:?}"));
            run.count(if closed.is_ok() { "volume closed for a drain" } else { "drain waits" });
            closed.map(|()| true)
        }
        log => log.map(|_| true),
    };
    Ok(looked.unwrap_or(false))
}

/// All faults are over: the volume can be opened, and has what it must have.
pub fn check_all(run: &ClusterRun, client: &Client, pool: Pool) {
    if !locked(&run.blocks).created {
        return;
    }
    let rim = rim(run, client, pool);
    let req = OpenRequest { take_over: true, ..OpenRequest::of("keeper") };
    let began = client.now();
    let volume = Volume::open(&rim, NAME, &req);
    let volume = volume.unwrap_or_else(|error| panic!("the volume cannot be opened: {error}"));
    let found = History::read(&volume, "in the end");
    let opening = Opening {
        generation: volume.generation(),
        began,
        ended: client.now(),
        history: Arc::new(Mutex::new(History::of(&found, 0))),
        found: found.clone(),
    };
    let mut openings = locked(&run.blocks);
    openings.all.push(opening);
    openings.check();
    drop(openings);
    // Nothing is gone that a snapshot needs, or a clone.
    for snapshot in Volume::info(&rim, NAME).unwrap().snapshots {
        let name = format!("clone of {}", snapshot.name);
        Volume::clone_snapshot(&rim, NAME, &snapshot.name, &name).unwrap();
        let holds = clone_holds(&rim, &name).unwrap();
        if let Some((_, kept)) = locked(&run.blocks).held_by(&snapshot.name) {
            assert!(holds == kept, "{name}: {holds:?}, not {kept:?}");
            run.count("snapshot as it was kept");
        }
        run.count("snapshot right in the end");
        // Made under faults: there with all that it needs, or not there.
        for name in &snapshot.clones {
            if clone_holds(&rim, name).is_some() {
                Volume::remove(&rim, name, &|_| Ok(Vec::new()), "keeper").unwrap();
                run.count("clone right in the end");
            }
        }
    }
    assert_eq!(found, History::read(&volume, "after its clones"));
    volume.close().unwrap();
    run.count("volume right in the end");
}

/// Returns the contents of a clone; `None`: it was named before it was to be made, or still is
/// after it was removed.
fn clone_holds(rim: &Arc<Rim>, name: &str) -> Option<Vec<Tag>> {
    let req = OpenRequest { take_over: true, ..OpenRequest::of("keeper") };
    let clone = match Volume::open(rim, name, &req) {
        Err(VolumeError::NoVolume { .. }) => return None,
        // Its removal was cut short.
        Err(VolumeError::Removing { .. }) => {
            Volume::remove(rim, name, &|_| Ok(Vec::new()), "keeper").unwrap();
            return None;
        }
        clone => clone.unwrap_or_else(|error| panic!("{name} cannot be opened: {error}")),
    };
    let found = History::read(&clone, name);
    clone.close().unwrap();
    Some(found)
}

/// A client that opens the volume again and again.
pub struct Writer<'a> {
    run: &'a ClusterRun,
    client: Arc<Client>,
    random: Random,
}

/// One who has it open.
struct Session {
    volume: Volume,
    history: Arc<Mutex<History>>,
}

impl<'a> Writer<'a> {
    pub fn new(run: &'a ClusterRun, client: Client) -> Writer<'a> {
        let random = Random(client.random());
        Writer { run, client: Arc::new(client), random }
    }

    pub fn run(mut self) {
        let mut left: Option<Session> = None;
        for _ in 0..self.run.scenario.operations {
            self.client.sleep(millis(&mut self.random, 12_000));
            self.client.restart();
            if let Some(session) = left.take() {
                // Another client may have taken it meanwhile.
                self.work(&session);
            }
            let Some(session) = self.open() else { continue };
            self.work(&session);
            match self.random.below(3) {
                0 => {
                    let closed = session.volume.close();
                    self.run.say(&self.client, || format!("closed the volume: {closed:?}"));
                    self.run.count(if closed.is_ok() { "volume closed" } else { "close failed" });
                }
                1 => drop(session),
                _ => left = Some(session),
            }
        }
    }

    /// The pool, opened again whenever the volume wants that.
    fn rim(&self) -> Result<Arc<Rim>> {
        let (configs, client) = (self.run.configs(), Arc::clone(&self.client));
        let open = move || open_newest(&configs, &client);
        let now_ms = self.run.now_ms(&self.client);
        let rim = Rim::new(open()?, ids(&self.client), move || now_ms).in_sequence();
        Ok(Arc::new(rim.reopening(Box::new(open))))
    }

    fn open(&mut self) -> Option<Session> {
        let rim = match self.rim() {
            Ok(rim) => rim,
            Err(error) => {
                self.run.failed("volume open", &self.client, &error);
                return None;
            }
        };
        let take_over = self.random.one_in(2);
        let writer = format!("{:?}", self.client);
        let began = self.client.now();
        let opened = Volume::open(&rim, NAME, &OpenRequest { writer, take_over, read_only: false });
        self.run.say(&self.client, || format!("opened the volume ({take_over}): {opened:?}"));
        let volume = match opened {
            Ok(volume) => volume,
            Err(VolumeError::NoVolume { .. }) => {
                self.create(&rim);
                return None;
            }
            Err(error) => {
                self.failed("volume open", &error);
                return None;
            }
        };
        let generation = volume.generation();
        if generation == 0 {
            // The writer before may go on until this one has a log: it has taken nothing over yet.
            self.run.count("volume opened without room for a log");
            return None;
        }
        let found = match History::try_read(&volume, "just opened") {
            Ok(found) => found,
            Err(error) => {
                self.failed("volume read", &error);
                return None;
            }
        };
        self.run.count(if take_over { "volume taken over" } else { "volume opened by right" });
        self.run.count("volume opened");
        let mut openings = locked(&self.run.blocks);
        let numbers = (openings.all.len() as Tag + 1) * NUMBERS;
        let history = Arc::new(Mutex::new(History::of(&found, numbers)));
        let ended = self.client.now();
        let shared = Arc::clone(&history);
        openings.all.push(Opening { generation, began, ended, found, history: shared });
        Some(Session { volume, history })
    }

    fn create(&self, rim: &Rim) {
        let create = CreateRequest { size: SIZE, segment: SEGMENT, log: 4 * SEGMENT };
        let created = Volume::create(rim, NAME, &create);
        self.run.say(&self.client, || format!("made the volume: {created:?}"));
        match created {
            Ok(()) | Err(VolumeError::Exists { .. }) => locked(&self.run.blocks).created = true,
            Err(error) => self.failed("volume create", &error),
        }
    }

    /// Works with an open volume.
    fn work(&mut self, session: &Session) {
        for _ in 0..1 + self.random.below(6) {
            self.client.sleep(millis(&mut self.random, 4_000));
            let end = match self.random.below(10) {
                0 => self.read(session),
                8 => self.snapshots(session),
                9 => self.clones(),
                7 if self.random.one_in(3) => self.grow(session),
                1 => session.volume.attend().map(drop),
                2 => session.volume.seal().and_then(|_| session.volume.keep()).map(drop),
                _ => self.write(session),
            };
            match end {
                Ok(()) => {}
                Err(VolumeError::Deposed { .. }) => return self.run.count("writer deposed"),
                Err(error) => self.failed("volume work", &error),
            }
        }
    }

    /// Snapshots come and go under the writer.
    fn snapshots(&mut self, session: &Session) -> Result<(), VolumeError> {
        let name = ["a", "b"][self.random.below(2) as usize];
        let (volume, what) = (&session.volume, ["kept", "removed"]);
        let removes = self.random.one_in(2);
        let end = if removes { volume.drop_snapshot(name) } else { volume.keep_snapshot(name) };
        self.run.say(&self.client, || format!("{} {name}: {end:?}", what[usize::from(removes)]));
        // There is one of this name, or none, or a clone needs it.
        if matches!(end, Err(VolumeError::Usage { .. })) {
            return Ok(());
        }
        let generation = volume.generation();
        let note = |holds| locked(&self.run.blocks).note(name, generation, holds);
        note(None);
        end?;
        self.run.count(if removes { "snapshot removed" } else { "snapshot kept" });
        if !removes {
            note(Some(History::try_read(volume, "just kept")?));
        }
        Ok(())
    }

    /// Makes a volume of a snapshot, writes to it, and mostly removes it again.
    fn clones(&mut self) -> Result<(), VolumeError> {
        let snapshot = ["a", "b"][self.random.below(2) as usize];
        let (before, name) = {
            let mut openings = locked(&self.run.blocks);
            openings.clones += 1;
            (openings.held_by(snapshot), format!("clone {}", openings.clones))
        };
        let (rim, writer) = (self.rim()?, format!("{:?}", self.client));
        let made = Volume::clone_snapshot(&rim, NAME, snapshot, &name);
        self.run.say(&self.client, || format!("made {name} of {snapshot}: {made:?}"));
        match made {
            // There is none of this name, or it went meanwhile.
            Err(VolumeError::Usage { .. }) => return Ok(()),
            made => made?,
        }
        self.run.count("cloned");
        let clone = Volume::open(&rim, &name, &OpenRequest::of(&writer))?;
        let found = History::try_read(&clone, &name)?;
        let after = locked(&self.run.blocks).held_by(snapshot);
        if let Some((_, holds)) = before.filter(|before| Some(before) == after.as_ref()) {
            assert!(found == holds, "{name} of {snapshot}: {found:?}, not {holds:?}");
            self.run.count("clone is its snapshot");
        }
        let mut history = History::of(&found, NUMBERS << 20);
        let changes = history.plan(&mut self.random);
        history.write(&clone, &changes)?;
        history.allows(&History::try_read(&clone, &name)?, &name);
        clone.close()?;
        if !self.random.one_in(3) {
            Volume::remove(&rim, &name, &|_| Ok(Vec::new()), &writer)?;
            self.run.count("clone removed");
        }
        Ok(())
    }

    /// Makes the volume larger, up to twice of what it was made with.
    fn grow(&mut self, session: &Session) -> Result<(), VolumeError> {
        let blocks = session.volume.size() / BLOCK as u64 + 1 + self.random.below(12);
        if blocks > 2 * SIZE / BLOCK as u64 {
            return Ok(());
        }
        let end = locked(&session.history).grow(&session.volume, blocks as usize);
        self.run.say(&self.client, || format!("grown to {blocks} blocks: {end:?}"));
        end?;
        self.run.count("volume grown");
        Ok(())
    }

    fn write(&mut self, session: &Session) -> Result<(), VolumeError> {
        let changes = locked(&session.history).plan(&mut self.random);
        locked(&session.history).begin(&changes);
        let ops: Vec<Op<'_>> = changes.iter().map(Change::op).collect();
        let end = session.volume.write(&ops);
        self.run.say(&self.client, || format!("wrote blocks: {end:?}"));
        end?;
        locked(&session.history).acknowledge(&changes);
        self.run.count("blocks written");
        Ok(())
    }

    fn read(&self, session: &Session) -> Result<(), VolumeError> {
        let found = History::try_read(&session.volume, "while it is open")?;
        locked(&session.history).allows(&found, "while it is open");
        self.run.count("blocks read");
        Ok(())
    }

    fn failed(&self, what: &str, error: &VolumeError) {
        self.run.say(&self.client, || format!("{what}: {error}"));
        assert!(!matches!(error, VolumeError::Damaged { .. }), "{what}: {error}");
        match error {
            VolumeError::Pool(error) => self.run.failed(what, &self.client, error),
            _ => self.run.count(&format!("{what} failed")),
        }
    }
}

fn open_newest(configs: &Mutex<Vec<PoolConfig>>, client: &Client) -> Result<Pool> {
    let network = client.network();
    let open = |node: &NodeConfig| open_node(&network, node);
    let sequence = client.sequence();
    let settings = Settings { sequence: Some(&sequence), ..settings() };
    let known = locked(configs).last().cloned().unwrap_or_else(|| unreachable!());
    let known = PoolConfig { repairer: client.number() as u64 + 1, ..known };
    let config = Membership::newest(known, false, &open, &settings)?;
    Ok(Pool::open(config, &open)?.in_sequence(sequence.clone()))
}
