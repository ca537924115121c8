//! One seed from beginning to end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_node::net::{Control, HelpingAgents, Network, PoolRecovery};
use kiln_node::recovery::RecoverOptions;
use kiln_node::sim::{Client, Cluster, Random};
use kiln_pool::queue::{RepairQueue, Rules};
use kiln_pool::{
    GetRequest, Helpers, Index, NodeConfig, Pool, PoolConfig, PoolError, PutRequest, ScrubReport,
    ScrubRequest, Settings, Silent, StreamSource,
};
use kiln_store::{Backend, MemoryBackend, StoreError};

use crate::history::History;
use crate::scenario::{Scenario, USERS, millis};

/// When the world begins, in ms since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Names of objects: few, so that clients meet.
const NAMES: u64 = 4;
/// Looks after the pool until it must be whole.
const ROUNDS: usize = 8;

pub type Counts = BTreeMap<String, u64>;

/// What all clients of a run share.
struct ClusterRun {
    scenario: Scenario,
    /// As one who saw the pool last wrote it down.
    config: Mutex<PoolConfig>,
    history: Mutex<History>,
    counts: Mutex<Counts>,
    tell: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settings() -> Settings<'static> {
    Settings { threads: 1, memory: 1 << 20, ..Settings::new(&Silent) }
}

/// Position-dependent bytes that no other change has.
fn data(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = seed.to_le_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Plays a seed; says what came of it. Panics where an invariant is broken.
pub fn play(seed: u64, tell: bool) -> Counts {
    let scenario = Scenario::of_seed(seed);
    if tell {
        println!("{scenario:#?}");
    }
    let disks: Vec<MemoryBackend> = (0..scenario.hosts).map(|_| MemoryBackend::new()).collect();
    let mut config = PoolConfig::new([7; 16], "simulated", scenario.policy.clone());
    for host in 0..scenario.hosts {
        let url = format!("kiln+plain://127.0.0.1:{}", host + 1);
        config.node.push(NodeConfig::new(&format!("n{host}"), &url));
    }
    let at = |node: &NodeConfig| config.position(&node.id).unwrap();
    let open = |node: &NodeConfig| Ok(Arc::new(disks[at(node)].clone()) as Arc<dyn Backend>);
    let config = Pool::create(config.clone(), &open).unwrap().config().clone();
    let (faults, scheduled_faults) = (scenario.faults, scenario.scheduled_faults.clone());
    let cluster = Cluster::new(seed, faults, disks).with(scheduled_faults);
    let (history, counts) = (Mutex::default(), Mutex::default());
    let config = Mutex::new(config);
    let run = ClusterRun { scenario, config, history, counts, tell };
    let mut programs: Vec<kiln_node::sim::Program<'_>> = vec![Box::new(|client| {
        Keeper::new(&run, &client).run();
    })];
    for _ in 0..USERS {
        programs.push(Box::new(|client| run.user(&client)));
    }
    let end = cluster.run(programs);
    let end = end.unwrap_or_else(|client| panic!("client {client} failed"));
    let mut counts = run.counts.into_inner().unwrap();
    counts.insert("virtual seconds".to_owned(), end.as_secs());
    counts.insert(format!("clusters of {}", run.scenario.code), 1);
    counts.insert("disks hurt".to_owned(), run.scenario.hurt.len() as u64);
    counts
}

impl ClusterRun {
    fn count(&self, what: &str) {
        *locked(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    fn say(&self, client: &Client, what: impl FnOnce() -> String) {
        if self.tell {
            println!("{:>10.3} {client:?}: {}", client.now().as_secs_f64(), what());
        }
    }

    fn now_ms(client: &Client) -> u64 {
        EPOCH_MS + client.now().as_millis() as u64
    }

    fn run_id(client: &Client) -> [u8; 16] {
        let mut run = [0; 16];
        run[..8].copy_from_slice(&client.random().to_le_bytes());
        run[8..].copy_from_slice(&client.random().to_le_bytes());
        run
    }

    fn write_down(&self, config: &PoolConfig) {
        let mut known = locked(&self.config);
        if config.revision > known.revision {
            *known = config.clone();
        }
    }

    /// The pool as a process that starts now sees it.
    fn open(&self, client: &Client, network: &Network) -> Result<Pool, PoolError> {
        let open = |node: &NodeConfig| open_node(network, node);
        let sequence = client.sequence();
        let settings = Settings { sequence: Some(&sequence), ..settings() };
        let known = locked(&self.config).clone();
        let config = Pool::newest(known, &open, &settings)?;
        self.write_down(&config);
        let pool = Pool::open(config, &open)?;
        Ok(pool.in_sequence(sequence.clone()))
    }

    /// What a person does: one program after the other.
    fn user(&self, client: &Client) {
        let mut random = Random(client.random());
        for _ in 0..self.scenario.operations {
            client.sleep(millis(&mut random, 12_000));
            client.restart();
            let name = format!("folder/{}", random.below(NAMES));
            match random.below(10) {
                0..4 => self.put(client, &mut random, &name),
                4..6 => self.read(client, &name, None),
                6..8 => {
                    let start = random.below(3_000);
                    let end = start + random.below(2_000);
                    self.read(client, &name, Some(start..end));
                }
                8 => self.remove(client, &name),
                _ => self.list(client),
            }
        }
    }

    fn put(&self, client: &Client, random: &mut Random, name: &str) {
        let sizes = [10, 90, 500, 900, 2_000, 4_000];
        let size = sizes[random.below(6) as usize] + random.below(9) as usize;
        let bytes = data(size, random.next());
        self.say(client, || format!("puts {name}, {size} bytes"));
        let change = locked(&self.history).begin(name, Some(bytes.clone()), client.now());
        let (run, now_ms) = (Self::run_id(client), Self::now_ms(client));
        let network = client.network();
        let put = self.open(client, &network).and_then(|pool| {
            let request = PutRequest { name, run, now_ms, replace: true };
            pool.put(&request, &mut StreamSource::new(&bytes[..]), &settings())
        });
        self.say(client, || format!("has put {name}: {put:?}"));
        match put {
            Ok(_) => {
                locked(&self.history).done(name, change, client.now());
                self.count("put done");
            }
            Err(PoolError::Refused { .. }) => {
                locked(&self.history).refused(name, change);
                self.count("put refused");
            }
            Err(error) => self.failed("put", client, &error),
        }
    }

    fn remove(&self, client: &Client, name: &str) {
        self.say(client, || format!("removes {name}"));
        let began = client.now();
        let change = locked(&self.history).begin(name, None, began);
        let (run, now_ms) = (Self::run_id(client), Self::now_ms(client));
        let network = client.network();
        let removed = self
            .open(client, &network)
            .and_then(|pool| pool.remove(name, run, now_ms, &settings()));
        self.say(client, || format!("has removed {name}: {removed:?}"));
        match removed {
            Ok(()) => {
                locked(&self.history).done(name, change, client.now());
                self.count("rm done");
            }
            Err(PoolError::NoObject { .. }) => {
                locked(&self.history).refused(name, change);
                self.check(client, name, None, None, began);
            }
            Err(error) => self.failed("rm", client, &error),
        }
    }

    fn read(&self, client: &Client, name: &str, range: Option<std::ops::Range<u64>>) {
        let began = client.now();
        let network = client.network();
        let mut bytes = Vec::new();
        let request = GetRequest { name, range: range.clone() };
        // Objects are so small here that helpers would never pay.
        let fresh = || Self::run_id(client);
        let config = locked(&self.config).clone();
        let agents = HelpingAgents::new(&network, &config, &fresh).by("hub").unwrap();
        let helpers: Option<&dyn Helpers> = client.random().is_multiple_of(2).then_some(&agents);
        let got = self
            .open(client, &network)
            .and_then(|pool| pool.read_with(&request, helpers, &mut bytes, &settings()));
        self.say(client, || format!("has read {name} {range:?}: {got:?}"));
        match got {
            Ok(report) => {
                self.check(client, name, Some(&bytes), range.as_ref(), began);
                self.count("get done");
                if report.degraded {
                    self.count("get degraded");
                }
                if report.bytes_from_helpers > 0 {
                    self.count("get by helpers");
                }
                if report.bytes_from_helpers > 0 && !report.notes.is_empty() {
                    self.count("get by helpers that gave up");
                }
            }
            Err(PoolError::NoObject { .. }) => self.check(client, name, None, None, began),
            Err(error) => {
                // What was given out before the failure is of some version.
                self.failed("get", client, &error);
            }
        }
    }

    fn list(&self, client: &Client) {
        let network = client.network();
        let listed = self.open(client, &network).and_then(|pool| {
            let index = Index::in_memory()?;
            index.refresh(&pool, b"", &Silent)
        });
        match listed {
            Ok(_) => self.count("ls done"),
            Err(error) => self.failed("ls", client, &error),
        }
    }

    fn failed(&self, what: &str, client: &Client, error: &PoolError) {
        assert!(!matches!(error, PoolError::Internal { .. }), "{client:?} {what}: {error}");
        self.count(&format!("{what} failed"));
    }

    /// What a reader found must be what it may find.
    fn check(
        &self,
        client: &Client,
        name: &str,
        found: Option<&[u8]>,
        range: Option<&std::ops::Range<u64>>,
        began: Duration,
    ) {
        let mut history = locked(&self.history);
        let right = history.allows(name, found, range, began, client.now());
        if range.is_none() && !self.scenario.overload {
            let ahead = history.see(name, found, began, client.now());
            assert!(ahead, "{client:?}: {name} read since {began:?} went back\n{history:#?}");
        }
        if right
            || (self.scenario.overload && range.is_none() && self.is_past(&history, name, found))
        {
            return;
        }
        let size = found.map(<[u8]>::len);
        panic!(
            "{client:?} at {:?}: {name} {range:?} read since {began:?} has {size:?} bytes that it \
             cannot have; a past version: {}\n{history:?}",
            client.now(),
            found.is_none_or(|found| history.knows(name, found)),
        );
    }

    /// With more disks lost than the code tolerates, all copies of the newest manifest may be among
    /// them, and nothing is left to say that there was one.
    fn is_past(&self, history: &History, name: &str, found: Option<&[u8]>) -> bool {
        found.is_none_or(|found| history.knows(name, found))
    }
}

fn open_node(network: &Network, node: &NodeConfig) -> Result<Arc<dyn Backend>, StoreError> {
    let address = node
        .url
        .parse()
        .map_err(|_| StoreError::BadName { name: node.url.clone(), why: "it is no address" })?;
    Ok(Arc::new(network.open(&address)))
}

/// Looks after the pool: recovers, scrubs, replaces disks, and in the end makes it whole.
struct Keeper<'a> {
    run: &'a ClusterRun,
    client: &'a Client,
    random: Random,
    index: Index,
    /// Hosts with a new disk that the pool has not taken yet.
    replaced: Vec<usize>,
}

/// When a recovery has to stop.
struct Until<'a> {
    client: &'a Client,
    end: Duration,
    tell: bool,
}

impl Control for Until<'_> {
    fn stopped(&self) -> bool {
        self.client.is_killed() || self.client.now() >= self.end
    }

    fn now_ms(&self) -> u64 {
        ClusterRun::now_ms(self.client)
    }

    fn warn(&self, message: &str) {
        if self.tell {
            println!("{:>10.3} recovery: {message}", self.client.now().as_secs_f64());
        }
    }
}

impl<'a> Keeper<'a> {
    fn new(run: &'a ClusterRun, client: &'a Client) -> Keeper<'a> {
        let random = Random(client.random());
        let (index, replaced) = (Index::in_memory().unwrap(), Vec::new());
        Keeper { run, client, random, index, replaced }
    }

    fn run(mut self) {
        while !self.client.is_last() {
            self.client.sleep(millis(&mut self.random, 15_000));
            self.client.restart();
            match self.random.below(4) {
                0 => drop(self.scrub(24 * 3_600_000)),
                1 => self.replace_disks(),
                _ => {
                    let wait = [0, 10_000][self.random.below(2) as usize];
                    self.recover(wait, 60_000);
                }
            }
        }
        self.client.restart();
        self.finish();
    }

    /// People replace broken disks, sooner or later.
    fn replace_disks(&mut self) {
        for host in self.client.lost() {
            self.run.say(self.client, || format!("replaces the disk of host {host}"));
            self.client.replace_disk(host);
            self.replaced.push(host);
        }
        self.take_replaced();
    }

    fn take_replaced(&mut self) {
        let network = self.client.network();
        let open = |node: &NodeConfig| open_node(&network, node);
        let (run, client) = (self.run, self.client);
        self.replaced.retain(|host| {
            let taken = run.open(client, &network).and_then(|pool| {
                let node = pool.config().node[*host].clone();
                pool.replace_disk(node, ClusterRun::run_id(client), &open, &settings())
            });
            run.say(client, || format!("took the new disk of host {host}: {taken:?}"));
            match taken {
                Ok(config) => {
                    run.write_down(&config);
                    false
                }
                Err(error) => {
                    run.failed("take", client, &error);
                    true
                }
            }
        });
    }

    fn recover(&mut self, wait_ms: u64, most_ms: u64) {
        let network = self.client.network();
        let end = self.client.now() + Duration::from_millis(most_ms);
        let control = Until { client: self.client, end, tell: self.run.tell };
        let index = |pool: &Pool| {
            self.index.refresh(pool, b"boot", &Silent)?;
            Ok(self.index.clone())
        };
        let recovery = PoolRecovery {
            open: &|| self.run.open(self.client, &network),
            index: &index,
            network: &network,
            who: "a client",
            options: RecoverOptions {
                strategy: self.run.scenario.strategy.to_owned(),
                jobs: self.run.scenario.jobs,
                slice: Some(16),
                windows: 4,
                wait_ms,
                every: Duration::from_secs(5),
                tries: 3,
                seed: 1,
                ..RecoverOptions::default()
            },
            control: &control,
            settings: settings(),
            fresh: &|| ClusterRun::run_id(self.client),
        };
        let recovered = recovery.run();
        self.run.say(self.client, || format!("recovered: {recovered:?}"));
        match recovered {
            Ok(done) => {
                let mut counts = locked(&self.run.counts);
                let agents = done.repaired - done.central;
                *counts.entry("repaired by agents".to_owned()).or_default() += agents;
                *counts.entry("repaired here".to_owned()).or_default() += done.central;
                *counts.entry("planned again".to_owned()).or_default() += done.replanned_count;
            }
            Err(_) => self.run.count("recovery failed"),
        }
    }

    fn scrub(&mut self, grace_ms: u64) -> Result<ScrubReport, PoolError> {
        let network = self.client.network();
        let scrubbed = self.run.open(self.client, &network).and_then(|pool| {
            self.index.refresh(&pool, b"boot", &Silent)?;
            let mut queue = RepairQueue::new(Rules::default());
            let now_ms = ClusterRun::now_ms(self.client);
            let request = ScrubRequest { now_ms, grace_ms, ..ScrubRequest::default() };
            pool.scrub(&self.index, &mut queue, &request, &settings())
        });
        self.run.say(self.client, || format!("scrubbed: {scrubbed:?}"));
        match &scrubbed {
            Ok(_) => self.run.count("scrub done"),
            Err(error) => self.run.failed("scrub", self.client, error),
        }
        scrubbed
    }

    /// All faults are over: the pool becomes whole, and everything can be read.
    fn finish(mut self) {
        self.run.say(self.client, || "all is healed".to_owned());
        let lost = self.client.heal();
        self.replaced.extend(lost);
        // Connections that were cut end, and with them their locks.
        self.client.sleep(Duration::from_secs(60));
        self.take_replaced();
        self.index = Index::in_memory().unwrap();
        let overload = self.run.scenario.overload;
        let mut last = None;
        for _ in 0..ROUNDS {
            let report = self.scrub(0);
            if report.as_ref().is_ok_and(|report| report.clean && report.leftovers == 0) {
                last = None;
                break;
            }
            last = Some(report);
            self.recover(0, 600_000);
        }
        assert!(overload || last.is_none(), "the pool does not become whole: {last:#?}");
        let names = locked(&self.run.history).names();
        for name in names {
            self.last_read(&name, None, overload);
            let start = self.random.below(3_000);
            let end = start + self.random.below(2_000);
            self.last_read(&name, Some(start..end), overload);
        }
    }

    fn last_read(&self, name: &str, range: Option<std::ops::Range<u64>>, overload: bool) {
        let began = self.client.now();
        let network = self.client.network();
        let mut bytes = Vec::new();
        let request = GetRequest { name, range: range.clone() };
        let got = (self.run.open(self.client, &network))
            .and_then(|pool| pool.get(&request, &mut bytes, &settings()));
        let run = self.run;
        match got {
            Ok(_) => {
                run.check(self.client, name, Some(&bytes), range.as_ref(), began);
                run.count("right in the end");
            }
            Err(PoolError::NoObject { .. }) => run.check(self.client, name, None, None, began),
            Err(
                PoolError::StripeLost { .. }
                | PoolError::NotRecoverable { .. }
                | PoolError::Uncertain { .. },
            ) if overload => run.count("lost in the end, and said so"),
            Err(error) => panic!("{name} cannot be read when all is healed: {error}"),
        }
    }
}
