//! One seed from beginning to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_net::Network;

use kiln_pool::{
    GetRequest, Helpers, Index, KeepRule, Membership, NodeConfig, Pool, PoolConfig, PoolKeys,
    PutRequest,
};
use kiln_recovery::sim::{Client, Cluster, Random};
use kiln_recovery::{HelpingAgents, PoolRecovered, PoolRecovery, RecoverOptions, RecoveryError};
use kiln_store::{Backend, MemoryBackend, Result, StoreError};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};

use crate::scenario::{Scenario, Steered, USERS, WRITERS, millis};
use crate::volumes::{Openings, Writer};
use crate::{history::History, keeper::Keeper, losses::Losses, operator::Operator};

/// When the world begins, in ms since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Names of objects: few, so that clients meet.
const NAMES: u64 = 4;
pub type Counts = BTreeMap<String, u64>;

/// State that all clients of a run share.
pub struct ClusterRun {
    pub scenario: Scenario,
    /// All that anybody wrote down, the newest last.
    configs: Arc<Mutex<Vec<PoolConfig>>>,
    /// Of the volume.
    pub blocks: Mutex<Openings>,
    pub history: Mutex<History>,
    pub losses: Mutex<Losses>,
    /// Hosts with a new disk that the pool has not taken yet.
    pub untaken: Mutex<BTreeSet<usize>>,
    /// Repairs of the pool that are under way: their clients, and the epochs at their beginnings.
    repairing: Mutex<BTreeMap<usize, u64>>,
    /// Since when clients are at what they do.
    at_work: Mutex<BTreeMap<usize, Duration>>,
    pub counts: Mutex<Counts>,
    tell: bool,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn settings() -> Settings<'static> {
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
pub fn play(seed: u64, scenario: Scenario, tell: bool) -> Counts {
    if tell {
        println!("{scenario:#?}");
    }
    let new = |_| MemoryBackend::new();
    let disks: Vec<MemoryBackend> = (0..scenario.all_hosts()).map(new).collect();
    let mut config = PoolConfig::new([7; 16], "simulated", scenario.policy.clone());
    config.node.extend((0..scenario.hosts).map(node_at));
    let open = |node: &NodeConfig| Ok(Arc::new(disks[host_of(node)].clone()) as Arc<dyn Backend>);
    if scenario.keeps {
        config.keep = vec![KeepRule { last: 2, ..KeepRule::default() }];
    }
    let mut config = Pool::create(config.clone(), &open).unwrap().config().clone();
    if scenario.sealed {
        config = seal(config, &disks);
    }
    let (faults, scheduled_faults) = (scenario.faults, scenario.scheduled_faults.clone());
    let cluster = Cluster::new(seed, faults, disks)
        .with(scheduled_faults)
        .of_versions(&scenario.versions.0, &scenario.versions.1);
    let run = ClusterRun {
        losses: Mutex::new(Losses::new(scenario.tolerates, &scenario.hurt, scenario.hurt_until())),
        scenario,
        configs: Arc::new(Mutex::new(vec![config])),
        blocks: Mutex::default(),
        history: Mutex::default(),
        untaken: Mutex::default(),
        repairing: Mutex::default(),
        at_work: Mutex::default(),
        counts: Mutex::default(),
        tell,
    };
    let mut programs: Vec<kiln_recovery::sim::Program<'_>> = vec![Box::new(|client| {
        Keeper::new(&run, &client).run();
    })];
    for _ in 0..USERS {
        programs.push(Box::new(|client| run.user(&client)));
    }
    programs.push(Box::new(|client| Operator::new(&run, &client).run()));
    for _ in 0..if run.scenario.volume { WRITERS } else { 0 } {
        programs.push(Box::new(|client| Writer::new(&run, client).run()));
    }
    let end = cluster.run(programs);
    let end = end.unwrap_or_else(|client| panic!("client {client} failed"));
    let mut counts = run.counts.into_inner().unwrap();
    counts.insert("virtual seconds".to_owned(), end.as_secs());
    counts.insert("later message not sent to an earlier agent".to_owned(), cluster.unsent());
    for (what, times) in cluster.misdirected() {
        *counts.entry(what).or_default() += times;
    }
    counts.insert(format!("clusters of {}", run.scenario.code), 1);
    counts.insert("disks hurt".to_owned(), run.scenario.hurt.len() as u64);
    counts
}

/// Has a pool without objects sealed.
fn seal(config: PoolConfig, disks: &[MemoryBackend]) -> PoolConfig {
    let open = |node: &NodeConfig| Ok(Arc::new(disks[host_of(node)].clone()) as Arc<dyn Backend>);
    let keys = PoolKeys::parse(&PoolKeys::text_of(&[9; 32])).unwrap();
    let pool = |config| Pool::open(config, &open).unwrap();
    let begun = pool(PoolConfig { keys, ..config }).members().begin_sealing(&settings()).unwrap();
    let index = Index::in_memory().unwrap();
    pool(begun.unwrap()).members().seal_all(&index, 0, &settings()).unwrap().0
}

impl ClusterRun {
    pub fn count(&self, what: &str) {
        *locked(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    pub fn say(&self, client: &Client, what: impl FnOnce() -> String) {
        if self.tell {
            println!("{:>10.3} {client:?}: {}", client.now().as_secs_f64(), what());
        }
    }

    /// The time as a client has it: no two clocks are the same, and some jump.
    pub fn now_ms(&self, client: &Client) -> u64 {
        let skew = self.scenario.clocks[client.number()].at(client.now());
        (EPOCH_MS + client.now().as_millis() as u64).saturating_add_signed(skew)
    }

    pub fn run_id(client: &Client) -> [u8; 16] {
        let mut run = [0; 16];
        run[..8].copy_from_slice(&client.random().to_le_bytes());
        run[8..].copy_from_slice(&client.random().to_le_bytes());
        run
    }

    /// Returns the maps that were written down, which outlive a program.
    pub fn configs(&self) -> Arc<Mutex<Vec<PoolConfig>>> {
        Arc::clone(&self.configs)
    }

    pub fn write_down(&self, config: &PoolConfig) {
        let mut known = locked(&self.configs);
        if known.last().is_none_or(|last| config.revision > last.revision) {
            known.push(config.clone());
        }
    }

    /// Options of coordinators.
    pub fn repair_options(&self) -> RecoverOptions {
        RecoverOptions {
            strategy: self.scenario.strategy.to_owned(),
            jobs: self.scenario.jobs,
            slice: Some(16),
            windows: 4,
            every: Duration::from_secs(5),
            tries: 3,
            seed: 1,
            // Any plan will do: searches would take a fifth of a run.
            moves: 500,
            ..RecoverOptions::default()
        }
    }

    /// Runs a repair of the pool, and notes what it met.
    pub fn repair(
        &self,
        client: &Client,
        repair: &PoolRecovery<'_>,
    ) -> Result<PoolRecovered, RecoveryError> {
        let epoch = || locked(&self.configs).last().map_or(0, |config| config.revision);
        let begun = locked(&self.repairing).insert(client.number(), epoch());
        assert_eq!(begun, None);
        let done = repair.run();
        let mut repairing = locked(&self.repairing);
        let before = repairing.remove(&client.number());
        let worked = done.as_ref().map_or(0, |done| done.repaired);
        for (what, happened) in [
            ("two repairers met", worked > 0 && !repairing.is_empty()),
            ("map changed during a repair", before != Some(epoch())),
            ("repairer killed", client.is_killed()),
            ("coordinator refused beside another", matches!(done, Err(RecoveryError::Net(_)))),
        ] {
            if happened {
                self.count(what);
            }
        }
        self.say(client, || format!("repaired: {done:?}"));
        done
    }

    /// A client begins something.
    pub fn begins(&self, client: &Client) {
        locked(&self.at_work).insert(client.number(), client.now());
    }

    pub fn ends(&self, client: &Client) {
        locked(&self.at_work).remove(&client.number());
    }

    /// When the first of all that is under way began.
    pub fn began(&self, now: Duration) -> Duration {
        locked(&self.at_work).values().copied().fold(now, Duration::min)
    }

    /// The pool as a process that starts now sees it.
    pub fn open(&self, client: &Client, network: &Network) -> Result<Pool, PoolError> {
        self.open_checked(client, network, self.known(client))
    }

    /// As an operator has it who knows that nodes are gone for good: by the newest map that anybody
    /// has, be it that too few of them can be told.
    pub fn open_by_force(&self, client: &Client, network: &Network) -> Result<Pool, PoolError> {
        self.open_newest(client, network, self.known(client), true)
    }

    /// The newest description, as this program has it: each repairs by its own.
    fn known(&self, client: &Client) -> PoolConfig {
        let known = locked(&self.configs).last().cloned().unwrap_or_else(|| unreachable!());
        PoolConfig { repairer: client.number() as u64 + 1, ..known }
    }

    /// As the commands of `kiln` do: it is asked whether there is a newer map.
    fn open_checked(
        &self,
        client: &Client,
        network: &Network,
        known: PoolConfig,
    ) -> Result<Pool, PoolError> {
        let open = |node: &NodeConfig| open_node(network, node);
        let pool = Pool::open(known.clone(), &open)?.in_sequence(client.sequence());
        match pool.check_map() {
            Ok(()) => Ok(pool),
            Err(PoolError::MapChanged { .. }) => self.open_newest(client, network, known, false),
            Err(error) => Err(error),
        }
    }

    fn open_newest(
        &self,
        client: &Client,
        network: &Network,
        known: PoolConfig,
        force: bool,
    ) -> Result<Pool, PoolError> {
        let open = |node: &NodeConfig| open_node(network, node);
        let sequence = client.sequence();
        let settings = Settings { sequence: Some(&sequence), ..settings() };
        let config = Membership::newest(known, force, &open, &settings)?;
        self.write_down(&config);
        let pool = Pool::open(config, &open)?;
        Ok(pool.in_sequence(sequence.clone()))
    }

    /// The pool as one sees it whose map may be an old one: as the commands of `kiln` do, which ask
    /// some nodes for a newer one, or as a program that has it open since long ago.
    fn open_old(
        &self,
        client: &Client,
        random: &mut Random,
        network: &Network,
    ) -> Result<Pool, PoolError> {
        let known = {
            let configs = locked(&self.configs);
            let old = random.one_in(3).then(|| random.below(configs.len() as u64) as usize);
            configs[old.unwrap_or(configs.len() - 1)].clone()
        };
        match random.below(4) {
            0 => self.open_newest(client, network, known, false),
            1 => {
                let open = |node: &NodeConfig| open_node(network, node);
                Ok(Pool::open(known, &open)?.in_sequence(client.sequence()))
            }
            _ => self.open_checked(client, network, known),
        }
    }

    /// New disks become those of their nodes.
    pub fn take_new_disks(&self, client: &Client) {
        let network = client.network();
        let open = |node: &NodeConfig| open_node(&network, node);
        let hosts = locked(&self.untaken).clone();
        for host in hosts {
            let taken = self.open(client, &network).and_then(|pool| {
                let node = pool.config().node.iter().find(|node| host_of(node) == host);
                // It may have been given up meanwhile.
                let Some(node) = node.cloned() else { return Ok(None) };
                pool.members()
                    .replace_disk(node, Self::run_id(client), &open, &settings())
                    .map(Some)
            });
            self.say(client, || format!("took the new disk of host {host}: {taken:?}"));
            match taken {
                Ok(config) => {
                    config.iter().for_each(|config| self.write_down(config));
                    locked(&self.untaken).remove(&host);
                }
                Err(error) => self.failed("take", client, &error),
            }
        }
    }

    /// Plays a user: one program after the other. Some programs have several threads, which
    /// use one pool.
    fn user(&self, client: &Client) {
        let mut random = Random(client.random());
        let index = Index::in_memory().unwrap();
        for _ in 0..self.scenario.operations {
            client.sleep(millis(&mut random, 12_000));
            client.restart();
            self.begins(client);
            if random.one_in(4) {
                self.several(client, &mut random, &index);
            } else {
                self.act(client, &mut random, &index, None);
            }
            self.ends(client);
        }
    }

    /// Several operations at once, on one open pool.
    fn several(&self, client: &Client, random: &mut Random, index: &Index) {
        let network = client.network();
        let pool = match self.open_old(client, random, &network) {
            Ok(pool) => pool,
            Err(error) => return self.failed("open", client, &error),
        };
        // Every node is looked at once, under a lock, and no thread may wait there for another.
        drop(pool.away());
        client.at_once(2 + random.below(2) as usize, &|| {
            self.act(client, &mut Random(client.random()), index, Some(&pool));
            self.count("done beside others");
        });
    }

    /// Some operation, on a pool that is open or one of its own.
    fn act(&self, client: &Client, random: &mut Random, index: &Index, open: Option<&Pool>) {
        let name = format!("folder/{}", random.below(NAMES));
        // Most operations are reads if agents help to read.
        let helped = self.scenario.steered == Some(Steered::Helpers);
        match random.below(10) {
            1..4 if helped => self.read(client, random, &name, None, open),
            0..4 => self.put(client, random, &name, open),
            4..6 => self.read(client, random, &name, None, open),
            6..8 => {
                let start = random.below(3_000);
                let end = start + random.below(2_000);
                self.read(client, random, &name, Some(start..end), open);
            }
            8 => self.remove(client, random, &name, open),
            _ => self.list(client, random, index, open),
        }
    }

    fn on_pool<T>(
        &self,
        client: &Client,
        random: &mut Random,
        (network, open): (&Network, Option<&Pool>),
        act: impl FnOnce(&Pool) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        match open {
            Some(pool) => act(pool),
            None => act(&self.open_old(client, random, network)?),
        }
    }

    fn put(&self, client: &Client, random: &mut Random, name: &str, open: Option<&Pool>) {
        let sizes = [10, 90, 500, 900, 2_000, 4_000];
        let size = sizes[random.below(6) as usize] + random.below(9) as usize;
        let bytes = data(size, random.next());
        self.say(client, || format!("puts {name}, {size} bytes"));
        let change = locked(&self.history).begin(name, Some(bytes.clone()), client.now());
        let (run, now_ms) = (Self::run_id(client), self.now_ms(client));
        let network = client.network();
        let put = self.on_pool(client, random, (&network, open), |pool| {
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

    fn remove(&self, client: &Client, random: &mut Random, name: &str, open: Option<&Pool>) {
        self.say(client, || format!("removes {name}"));
        let began = client.now();
        let change = locked(&self.history).begin(name, None, began);
        let (run, now_ms) = (Self::run_id(client), self.now_ms(client));
        let network = client.network();
        let removed = self.on_pool(client, random, (&network, open), |pool| {
            pool.remove(name, run, now_ms, &settings())
        });
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

    fn read(
        &self,
        client: &Client,
        random: &mut Random,
        name: &str,
        range: Option<std::ops::Range<u64>>,
        open: Option<&Pool>,
    ) {
        let began = client.now();
        let network = client.network();
        let mut bytes = Vec::new();
        let request = GetRequest { name, range: range.clone() };
        // Objects are so small here that helpers would never pay.
        let fresh = || Self::run_id(client);
        let got = self.on_pool(client, random, (&network, open), |pool| {
            let agents = HelpingAgents::new(&network, pool.config(), &fresh).by("hub").unwrap();
            let steered = self.scenario.steered == Some(Steered::Helpers);
            let helped = client.random().is_multiple_of(2) || steered;
            let helped: Option<&dyn Helpers> = helped.then_some(&agents);
            pool.reader().read_with(&request, helped, &mut bytes, &settings())
        });
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

    fn list(&self, client: &Client, random: &mut Random, index: &Index, open: Option<&Pool>) {
        let network = client.network();
        if self.scenario.sealed {
            let keyless = PoolConfig { keys: PoolKeys::default(), ..self.known(client) };
            let opened = self.open_checked(client, &network, keyless);
            assert!(matches!(opened, Err(PoolError::NoKey { .. })), "{opened:?}");
            self.count("client without a key refused");
        }
        let listed = self.on_pool(client, random, (&network, open), |pool| {
            index.refresh(pool, b"boot", &Silent)
        });
        match listed {
            Ok(_) => self.count("ls done"),
            Err(error) => return self.failed("ls", client, &error),
        }
        let all = index.each("folder/", None, |listed| {
            let known = locked(&self.history).has_size(&listed.name, listed.size);
            assert!(known, "{client:?}: {} never had {} bytes", listed.name, listed.size);
            Ok(true)
        });
        all.unwrap();
    }

    pub fn failed(&self, what: &str, client: &Client, error: &PoolError) {
        assert!(!matches!(error, PoolError::Internal { .. }), "{client:?} {what}: {error}");
        if matches!(error, PoolError::MapChanged { .. }) {
            self.count("client with an old map refused");
        }
        self.count(&format!("{what} failed"));
    }

    /// Checks a read against the history.
    pub fn check(
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
        // With more disks lost than are tolerated a past version is all that there may be.
        let past = found.is_none_or(|found| history.knows(name, found, range));
        if right || (self.scenario.overload && past) {
            return;
        }
        let size = found.map(<[u8]>::len);
        panic!(
            "{client:?} at {:?}: {name} {range:?} read since {began:?} has {size:?} bytes that it \
             cannot have; a past version: {past}\n{history:?}",
            client.now(),
        );
    }
}

/// A host's node, where it is one.
pub fn node_at(host: usize) -> NodeConfig {
    NodeConfig::new(&format!("n{host}"), &format!("kiln+plain://127.0.0.1:{}", host + 1))
}

pub fn host_of(node: &NodeConfig) -> usize {
    node.id[1..].parse().unwrap()
}

pub fn open_node(network: &Network, node: &NodeConfig) -> Result<Arc<dyn Backend>> {
    let address = node
        .url
        .parse()
        .map_err(|_| StoreError::BadName { name: node.url.clone(), why: "it is no address" })?;
    Ok(Arc::new(network.open(&address)))
}
