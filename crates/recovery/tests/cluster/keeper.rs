//! Upkeep of the pool: a coordinator that recovers, a scrub now and then, and new disks in
//! place of lost ones. In the end, when nothing goes wrong any more, the pool must become whole.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{
    GetRequest, Index, NodeConfig, NodeState, Pool, PoolConfig, ScrubReport, ScrubRequest,
};
use kiln_recovery::sim::{Client, Random};
use kiln_recovery::{
    Control, PoolRecovery, RecoverOptions, RecoveryState, ScrubPosition, Scrubbing,
};
use kiln_store::MemoryBackend;
use kiln_stripe::{Depth, PoolError, Result, Silent};

use crate::play::{ClusterRun, host_of, locked, node_at, open_node, settings};
use crate::scenario::{Steered, millis};
use crate::{index_file::IndexFile, volumes};

/// Looks after the pool until it must be whole.
const ROUNDS: usize = 8;

/// Looks after the pool: recovers, scrubs, replaces disks, and in the end makes it whole.
pub struct Keeper<'a> {
    run: &'a ClusterRun,
    client: &'a Client,
    random: Random,
    /// Follows the pool from beginning to end.
    index: Index,
    /// Its file, where it has one.
    file: Option<IndexFile>,
    /// Position of scheduled scrubs.
    position: Mutex<ScrubPosition>,
}

/// When a recovery has to stop.
struct Until<'a> {
    run: &'a ClusterRun,
    client: &'a Client,
    end: Duration,
    position: &'a Mutex<ScrubPosition>,
}

impl Control for Until<'_> {
    fn stopped(&self) -> bool {
        self.client.is_killed() || self.client.now() >= self.end
    }

    fn now_ms(&self) -> u64 {
        self.run.now_ms(self.client)
    }

    fn warn(&self, message: &str) {
        self.run.say(self.client, || format!("recovery: {message}"));
    }

    fn tell(&self, _changed: bool, state: &dyn Fn() -> RecoveryState) {
        let state = state();
        assert!(state.kept_bytes <= state.planned_bytes, "{state:?}");
        assert!(state.waits.windows(2).all(|two| two[0].until_ms <= two[1].until_ms), "{state:?}");
        let running: u64 = state.running.iter().map(|repair| repair.lost.len() as u64).sum();
        assert!(running == 0 || state.survey.is_some(), "{state:?}");
    }

    fn keep_scrub(&self, position: &ScrubPosition) -> Result<(), String> {
        let before = std::mem::replace(&mut *locked(self.position), position.clone());
        // Parts of one round go on from each other; rounds are counted one by one.
        match before.is_under_way() && before.began_ms == position.began_ms {
            true => assert!(before.after < position.after || position.after.is_none()),
            false => assert!(before.rounds <= position.rounds),
        }
        let ended = position.rounds - before.rounds;
        assert!(ended <= 1, "{before:?} {position:?}");
        *locked(&self.run.counts).entry("scheduled scrubs".to_owned()).or_default() += ended;
        Ok(())
    }
}

impl<'a> Keeper<'a> {
    pub fn new(run: &'a ClusterRun, client: &'a Client) -> Keeper<'a> {
        let mut random = Random(client.random());
        // Files take their time.
        let file = random.one_in(4).then(IndexFile::new);
        let index = file.as_ref().map_or_else(|| Index::in_memory().unwrap(), IndexFile::open);
        let position = Mutex::default();
        Keeper { run, client, random, index, file, position }
    }

    pub fn run(mut self) {
        while !self.client.is_last() {
            self.client.sleep(millis(&mut self.random, 15_000));
            self.client.restart();
            self.reopen_index();
            let drains = self.run.scenario.steered == Some(Steered::HandOver);
            match self.random.below(4) {
                // Shards that leave are the coordinator's to move.
                0 if !drains => drop(self.scrub(24 * 3_600_000)),
                1 if !drains || !self.client.lost().is_empty() => self.replace_disks(),
                _ => {
                    let wait = [0, 10_000][self.random.below(2) as usize];
                    // Some stay, and scrub, until they are stopped.
                    let stay = self.random.one_in(4);
                    self.recover(wait, 60_000, stay);
                }
            }
        }
        self.client.restart();
        self.finish();
    }

    /// Another process opens the index; something may have happened to its file.
    fn reopen_index(&mut self) {
        let Some(file) = &mut self.file else { return };
        self.index = Index::in_memory().unwrap();
        if self.random.one_in(2) {
            let what = file.fault(&mut self.random);
            self.run.count(&format!("index {what}"));
            self.run.say(self.client, || format!("the index is {what}"));
        }
        self.index = file.open();
        if self.index.remade().is_some() {
            self.run.count("index made anew");
        }
    }

    fn boot(&self) -> Vec<u8> {
        self.file.as_ref().map_or_else(Vec::new, IndexFile::boot)
    }

    /// People replace broken disks, sooner or later.
    fn replace_disks(&self) {
        for host in self.client.lost() {
            self.run.say(self.client, || format!("replaces the disk of host {host}"));
            self.client.replace_disk(host);
            locked(&self.run.untaken).insert(host);
        }
        self.run.take_new_disks(self.client);
    }

    fn recover(&mut self, wait_ms: u64, most_ms: u64, stay: bool) {
        let network = self.client.network();
        let end = self.client.now() + Duration::from_millis(most_ms);
        let position = &self.position;
        let control = Until { run: self.run, client: self.client, end, position };
        let index = |pool: &Pool| {
            self.index.refresh(pool, &self.boot(), &Silent)?;
            Ok(self.index.clone())
        };
        let recovery = PoolRecovery {
            open: &|| self.run.open(self.client, &network).map(Arc::new),
            index: &index,
            network: &network,
            who: "a client",
            options: RecoverOptions {
                wait_ms,
                stay,
                scrub_every: Some(Duration::from_secs(20)),
                ..self.run.repair_options()
            },
            control: &control,
            settings: settings(),
            fresh: &|| ClusterRun::run_id(self.client),
            idle: None,
            scrubbing: Some(Scrubbing {
                open: &|| self.run.open(self.client, &network),
                position: locked(&self.position).clone(),
                depth: Depth::Data,
            }),
        };
        match self.run.repair(self.client, &recovery) {
            Ok(done) => {
                let mut counts = locked(&self.run.counts);
                let agents = done.repaired - done.central;
                let copied = done.strategies.get("copied").map_or(0, |row| row.objects);
                *counts.entry("repaired by agents".to_owned()).or_default() += agents;
                *counts.entry("copied by agents".to_owned()).or_default() += copied;
                *counts.entry("repaired here".to_owned()).or_default() += done.central;
                *counts.entry("planned again".to_owned()).or_default() += done.replanned_count;
            }
            Err(_) => self.run.count("recovery failed"),
        }
    }

    fn scrub(&mut self, grace_ms: u64) -> Result<ScrubReport> {
        let since = self.run.began(self.client.now());
        let network = self.client.network();
        let scrubbed = self.run.open(self.client, &network).and_then(|pool| {
            self.index.refresh(&pool, &self.boot(), &Silent)?;
            let mut queue = RepairQueue::new(Rules::default());
            let now_ms = self.run.now_ms(self.client);
            let request = ScrubRequest { now_ms, grace_ms, ..ScrubRequest::default() };
            pool.repairer().scrub(&self.index, &mut queue, &request, &settings())
        });
        self.run.say(self.client, || format!("scrubbed: {scrubbed:?}"));
        match &scrubbed {
            Ok(report) => {
                self.run.count("scrub done");
                let tells = report.clean && !self.run.scenario.volume;
                if tells && locked(&self.run.losses).whole(since) > 0 {
                    self.run.count("made up for");
                }
            }
            Err(error) => self.run.failed("scrub", self.client, error),
        }
        scrubbed
    }

    /// All faults are over: the pool becomes whole, and everything can be read.
    fn finish(mut self) {
        self.run.say(self.client, || "all is healed".to_owned());
        locked(&self.run.untaken).extend(self.client.heal());
        // Connections that were cut end, and with them their locks.
        self.client.sleep(Duration::from_secs(60));
        let overload = self.run.scenario.overload;
        if !self.all_take_part() {
            // Its map has changed too often since all was in place.
            drop(self.scrub(0));
            self.recover(0, 600_000, false);
            assert!(self.all_take_part() || overload, "some nodes cannot take part");
        }
        let mut last = None;
        for _ in 0..ROUNDS {
            let report = self.scrub(0);
            if report.as_ref().is_ok_and(|report| report.clean && report.leftovers == 0) {
                last = None;
                break;
            }
            last = Some(report);
            self.recover(0, 600_000, false);
        }
        assert!(overload || last.is_none(), "the pool does not become whole: {last:#?}");
        let names = locked(&self.run.history).names();
        let mut there = Vec::new();
        let network = self.client.network();
        let pool = self.run.open(self.client, &network).unwrap();
        for name in names {
            if let Some(size) = self.last_read(&pool, &name, None, overload) {
                there.push((name.clone(), size));
            }
            let start = self.random.below(3_000);
            let end = start + self.random.below(2_000);
            self.last_read(&pool, &name, Some(start..end), overload);
        }
        self.check_kept(&pool);
        let mut listed = Vec::new();
        if self.run.scenario.volume {
            volumes::check_all(self.run, self.client, pool);
        }
        let all = self.index.each("folder/", None, |entry| {
            listed.push((entry.name, entry.size));
            Ok(true)
        });
        all.unwrap();
        assert!(overload || listed == there, "listed are {listed:?}, and there are {there:?}");
    }

    /// Versions that are kept are of what was put.
    fn check_kept(&self, pool: &Pool) {
        for version in self.index.versions("folder/").unwrap().into_values().flatten() {
            let (Some(_), mut bytes) = (version.until_ms, Vec::new()) else { continue };
            let request = GetRequest { name: &version.object, range: None };
            match pool.get(&request, &mut bytes, &settings()) {
                Ok(_) => self.run.count("kept version read"),
                Err(error) => {
                    assert!(self.run.scenario.overload, "{version:?} cannot be read: {error}");
                    continue;
                }
            }
            let known = locked(&self.run.history).knows(&version.name, &bytes, None);
            assert!(known, "{version:?} was never put");
        }
    }

    /// Every host has the disk that the pool's map names, and every node is a member. `false`: the
    /// pool refused that, and wants to be repaired first.
    fn all_take_part(&self) -> bool {
        let network = self.client.network();
        self.run.take_new_disks(self.client);
        let open = || match self.run.open(self.client, &network) {
            Err(PoolError::MapNotAgreed { .. }) => {
                self.run.count("opened by force");
                self.run.open_by_force(self.client, &network).unwrap()
            }
            pool => pool.unwrap(),
        };
        for (node, why) in open().away() {
            self.run.say(self.client, || format!("{} gets an empty disk: {why}", node.id));
            let host = host_of(node);
            drop(self.client.swap_disk(host, MemoryBackend::new()));
            locked(&self.run.untaken).insert(host);
        }
        self.run.take_new_disks(self.client);
        let mut pool = open();
        let gone: Vec<NodeConfig> = pool.away().into_iter().map(|(node, _)| node.clone()).collect();
        if !gone.is_empty() {
            if !self.give_up(&pool, &gone) {
                return false;
            }
            pool = open();
        }
        let not_in = pool.config().node.iter().filter(|node| !node.state.is_in());
        let ids: Vec<String> = not_in.map(|node| node.id.clone()).collect();
        if !ids.is_empty() {
            return self.changed(pool.members().set_state(&ids, NodeState::In, false, &settings()));
        }
        true
    }

    fn changed(&self, map: Result<PoolConfig>) -> bool {
        match map {
            Ok(config) => {
                self.run.write_down(&config);
                true
            }
            // Nodes that missed the newest change have no say in the next one before a repair.
            Err(PoolError::Refused { .. } | PoolError::MapNotAgreed { .. }) => false,
            Err(error) => panic!("the members cannot be changed: {error}"),
        }
    }

    /// So many disks are lost that no change of the map can be agreed on, and no node is left that
    /// could come back. As an operator does then: the lost ones are given up by force, after a look
    /// at what that loses, and their hosts join with empty disks as new nodes. All that is asked of
    /// the pool from then on is what is asked without force.
    fn give_up(&self, pool: &Pool, gone: &[NodeConfig]) -> bool {
        let ids: Vec<String> = gone.iter().map(|node| node.id.clone()).collect();
        match pool.members().forget(&ids, false, &settings()) {
            Err(PoolError::MapNotAgreed { .. }) => {}
            // Its history is full, and the lost ones were out: they are given up as they are.
            ordinary => {
                self.changed(ordinary);
                return false;
            }
        }
        let index = Index::in_memory().unwrap();
        index.refresh(pool, b"", &Silent).unwrap();
        let (lost, _) = pool.members().lost_without(&ids, &index, 10).unwrap();
        assert!(self.run.scenario.overload || lost.is_empty(), "{lost:?} are lost with {ids:?}");
        if !self.changed(pool.members().forget(&ids, true, &settings())) {
            return false;
        }
        self.run.count("given up by force");
        self.run.say(self.client, || format!("gave up {ids:?} by force"));
        let network = self.client.network();
        let open = |node: &NodeConfig| open_node(&network, node);
        gone.iter().map(host_of).all(|host| {
            drop(self.client.swap_disk(host, MemoryBackend::new()));
            locked(&self.run.untaken).remove(&host);
            let (node, disk) = (node_at(host), ClusterRun::run_id(self.client));
            let pool = self.run.open(self.client, &network).unwrap();
            self.changed(pool.members().add_node(node, disk, &open, &settings()))
        })
    }

    /// Reads what must be readable; gives its size, where it is there.
    fn last_read(
        &self,
        pool: &Pool,
        name: &str,
        range: Option<std::ops::Range<u64>>,
        overload: bool,
    ) -> Option<u64> {
        let began = self.client.now();
        let mut bytes = Vec::new();
        let request = GetRequest { name, range: range.clone() };
        let got = pool.get(&request, &mut bytes, &settings());
        let run = self.run;
        match got {
            Ok(_) => {
                run.check(self.client, name, Some(&bytes), range.as_ref(), began);
                run.count("right in the end");
                return Some(bytes.len() as u64);
            }
            Err(PoolError::NoObject { .. }) => run.check(self.client, name, None, None, began),
            Err(
                PoolError::StripeLost { .. }
                | PoolError::NotRecoverable { .. }
                | PoolError::Uncertain { .. },
            ) if overload => run.count("lost in the end, and said so"),
            Err(error) => panic!("{name} cannot be read when all is healed: {error}"),
        }
        None
    }
}
