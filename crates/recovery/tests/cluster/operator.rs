//! The operator changes the pool's members: adds nodes, drains, replaces, gives up, takes back, as
//! the commands of `kiln` do, while everything else goes on. And who puts disks where they were
//! before.

use std::sync::Arc;
use std::time::Duration;

use kiln_pool::{
    Index, KeepRule, NodeConfig, NodeFile, NodeState, Pool, PoolConfig, RebalanceRequest,
};
use kiln_recovery::sim::{Client, Random};
use kiln_recovery::{
    Control, OnDemand, PoolRecovered, PoolRecovery, RecoverOptions, RecoveryError,
};
use kiln_store::{Backend, MemoryBackend, checksum};
use kiln_stripe::{PoolError, Result, Silent};

use crate::play::{ClusterRun, host_of, locked, node_at, open_node, settings};
use crate::scenario::{Steered, millis};
use crate::volumes;

/// Time of a second coordinator.
const RIVAL: Duration = Duration::from_secs(300);
/// Disks kept at most, of each kind.
const KEPT: usize = 4;

pub struct Operator<'a> {
    run: &'a ClusterRun,
    client: &'a Client,
    random: Random,
    /// Disks that were taken out, and of which host.
    attic: Vec<(usize, MemoryBackend)>,
    snapshots: Vec<(usize, MemoryBackend)>,
    /// A node was removed by the last change.
    left: bool,
    /// When a coordinator is ended by hand.
    ends: Option<Duration>,
}

/// An operation of the operator.
type Act<'a> = fn(&mut Operator<'a>, &Pool) -> Result<()>;

impl<'a> Operator<'a> {
    pub fn new(run: &'a ClusterRun, client: &'a Client) -> Operator<'a> {
        let random = Random(client.random());
        let (attic, snapshots) = Default::default();
        Operator { run, client, random, attic, snapshots, left: false, ends: None }
    }

    const ACTS: [(&'static str, Act<'a>); 12] = [
        ("keep", Operator::keep_versions),
        ("forge", Operator::forge),
        ("add-node", Operator::add_node),
        ("drain", Operator::drain),
        ("undo", Operator::undo),
        ("repair --away", Operator::repair_away),
        ("forget", Operator::forget),
        ("replace", Operator::replace),
        ("weigh", Operator::weigh),
        ("rebalance", Operator::rebalance),
        ("old disk", Operator::old_disk),
        ("snapshot", Operator::snapshot),
    ];

    const HAND_OVER: (&'static str, Act<'a>) = ("hand over", Operator::hand_over);
    const RIVAL: (&'static str, Act<'a>) = ("another coordinator", Operator::rival);
    const SPREAD: (&'static str, Act<'a>) = ("weigh and rebalance", Operator::spread);
    const DRAIN: (&'static str, Act<'a>) = ("drain", Operator::drain);

    pub fn run(mut self) {
        let steered = self.run.scenario.steered;
        for change in 0..self.run.scenario.changes {
            // The last drains of a log begin when its writers are gone.
            let most = if steered == Some(Steered::DrainLog) { 60_000 } else { 15_000 };
            self.client.sleep(millis(&mut self.random, most));
            self.client.restart();
            let act = self.random.below(Self::ACTS.len() as u64) as usize;
            // Where snapshots do harm at all, they are to do it often.
            let snapshot = self.run.scenario.calm && self.random.one_in(3);
            let returns = std::mem::take(&mut self.left) && self.random.one_in(2);
            let (what, act) = match Self::ACTS[if snapshot { Self::ACTS.len() - 1 } else { act }] {
                _ if steered == Some(Steered::DrainLog) => Self::DRAIN,
                _ if change == 0 && steered == Some(Steered::HandOver) => Self::HAND_OVER,
                _ if change == 0 && steered == Some(Steered::Rival) => Self::RIVAL,
                _ if change == 0 && steered == Some(Steered::Spread) => Self::SPREAD,
                _ if returns => ("add-node", Operator::add_node as Act<'a>),
                act => act,
            };
            self.run.begins(self.client);
            let network = self.client.network();
            let done = self.run.open(self.client, &network).and_then(|pool| act(&mut self, &pool));
            self.run.ends(self.client);
            self.run.say(self.client, || format!("{what}: {done:?}"));
            match done {
                Ok(()) => {}
                Err(error) => self.run.failed(what, self.client, &error),
            }
        }
    }

    fn some<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.random.below(of.len() as u64) as usize).cloned()
    }

    fn nodes(pool: &Pool, state: NodeState) -> Vec<NodeConfig> {
        let nodes = pool.config().node.iter();
        nodes.filter(|node| node.state == state).cloned().collect()
    }

    /// One that can be done without: as many domains stay as the code needs.
    fn spare(&mut self, pool: &Pool) -> Option<NodeConfig> {
        let nodes = Self::nodes(pool, NodeState::In);
        (nodes.len() > self.run.scenario.domains).then(|| self.some(&nodes)).flatten()
    }

    fn did(&self, what: &str, config: &PoolConfig) {
        self.run.write_down(config);
        self.run.count(what);
        self.run.say(self.client, || format!("{what}: epoch {}", config.revision));
    }

    fn fresh_disk(&self) -> [u8; 16] {
        ClusterRun::run_id(self.client)
    }

    fn swap(&mut self, host: usize, disk: MemoryBackend) -> MemoryBackend {
        self.run.say(self.client, || format!("puts another disk into host {host}"));
        self.client.swap_disk(host, disk)
    }

    fn keep(&mut self, host: usize, disk: MemoryBackend) {
        if self.attic.len() < KEPT {
            self.attic.push((host, disk));
        }
    }

    fn may_hurt(&self, host: usize) -> bool {
        locked(&self.run.losses).may(host, self.client.now())
    }

    /// A node of a host that has none: one that never had, or one that is no longer a member.
    fn add_node(&mut self, pool: &Pool) -> Result<()> {
        let member = |host: &usize| pool.config().node.iter().any(|node| host_of(node) == *host);
        let free: Vec<usize> = (0..self.run.scenario.all_hosts()).filter(|h| !member(h)).collect();
        let Some(host) = self.some(&free) else { return Ok(()) };
        let network = self.client.network();
        let open = |node: &NodeConfig| open_node(&network, node);
        let add = |disk| pool.members().add_node(node_at(host), disk, &open, &settings());
        let files = |disk: &MemoryBackend| {
            let names = disk.list().unwrap_or_default();
            names.iter().any(|name| NodeFile::parse(name).is_some())
        };
        let used = self.client.snapshot(host);
        if used.list().is_ok_and(|names| !names.is_empty()) {
            // It may be a member by a change that we did not hear the end of.
            if !self.may_hurt(host) {
                return Ok(());
            }
            let old = match self.some(&self.attic.clone()) {
                Some((_, old)) if self.random.one_in(2) => old,
                _ => used,
            };
            let has_files = files(&old);
            let before = self.swap(host, old);
            let taken = add(self.fresh_disk());
            assert!(taken.is_err() || !has_files, "an old disk was taken for a new one: {taken:?}");
            self.run.count("old disk refused");
            self.keep(host, before);
            drop(self.swap(host, MemoryBackend::new()));
            if taken.is_ok() {
                locked(&self.run.untaken).insert(host);
                return Ok(());
            }
        }
        let config = add(self.fresh_disk())?;
        self.did("node added", &config);
        Ok(())
    }

    /// As `kiln pool drain` does.
    fn drain(&mut self, pool: &Pool) -> Result<()> {
        let leaving = Self::nodes(pool, NodeState::Leaving);
        let node = match self.some(&leaving).or_else(|| self.spare(pool)) {
            Some(node) if node.state.is_in() => self.with_log(pool)?.unwrap_or(node),
            Some(node) => node,
            None => return Ok(()),
        };
        let ids = [node.id.clone()];
        if node.state.is_in() {
            let config = pool.members().set_state(&ids, NodeState::Leaving, false, &settings())?;
            self.did("drain begun", &config);
        }
        self.recover(false)?;
        let network = self.client.network();
        let pool = self.run.open(self.client, &network)?;
        let index = Index::in_memory()?;
        index.refresh(&pool, b"", &Silent)?;
        let mut left = 0;
        index.each("", None, |listed| {
            let here = listed.nodes.contains(&node.id) || listed.manifests.contains(&node.id);
            left += u64::from(here);
            Ok(true)
        })?;
        if left == 0
            && pool.config().is_settled()
            && volumes::leaves(self.run, self.client, &node.id)?
        {
            let config = pool.members().forget(&ids, false, &settings())?;
            self.did("drained", &config);
            self.left = true;
        }
        Ok(())
    }

    /// A node with a copy of the volume's log, where the scenario is steered to drain one.
    fn with_log(&mut self, pool: &Pool) -> Result<Option<NodeConfig>, PoolError> {
        if self.run.scenario.steered != Some(Steered::DrainLog) {
            return Ok(None);
        }
        let on = volumes::nodes_of_log(self.run, self.client)?;
        let on = pool.config().node.iter().filter(|node| on.contains(&node.id));
        Ok(self.some(&on.cloned().collect::<Vec<_>>()))
    }

    /// As `kiln pool drain` does beside a coordinator, which moves the shards meanwhile.
    fn hand_over(&mut self, pool: &Pool) -> Result<()> {
        // Until then there are objects.
        self.client.sleep(millis(&mut self.random, 20_000));
        let Some(node) = self.spare(pool) else { return Ok(()) };
        let config =
            pool.members().set_state(&[node.id], NodeState::Leaving, false, &settings())?;
        self.did("drain handed over", &config);
        self.client.sleep(millis(&mut self.random, 45_000));
        Ok(())
    }

    fn undo(&mut self, pool: &Pool) -> Result<()> {
        let leaving = Self::nodes(pool, NodeState::Leaving);
        let Some(node) = self.some(&leaving) else { return Ok(()) };
        let config = pool.members().set_state(&[node.id], NodeState::In, false, &settings())?;
        self.did("drain undone", &config);
        Ok(())
    }

    /// As `kiln repair --away` does.
    fn repair_away(&mut self, pool: &Pool) -> Result<()> {
        if let Some(config) = pool.members().attend(|_| true, &settings())? {
            self.did("done without, or taken back", &config);
        }
        self.recover(true)
    }

    /// As `kiln pool forget` does, which names first what would be lost.
    fn forget(&mut self, pool: &Pool) -> Result<()> {
        let Some(node) = self.spare(pool) else { return Ok(()) };
        let ids = [node.id.clone()];
        let index = Index::in_memory()?;
        index.refresh(pool, b"", &Silent)?;
        let (_, lost) = pool.members().lost_without(&ids, &index, 1)?;
        if lost > 0 || !self.may_hurt(host_of(&node)) {
            return Ok(());
        }
        let config = pool.members().forget(&ids, false, &settings())?;
        self.did("forgotten", &config);
        self.left = true;
        Ok(())
    }

    /// A disk is replaced although nothing is wrong with it.
    fn replace(&mut self, pool: &Pool) -> Result<()> {
        let Some(node) = self.some(&pool.config().node) else { return Ok(()) };
        let host = host_of(&node);
        if !self.may_hurt(host) {
            return Ok(());
        }
        let old = self.swap(host, MemoryBackend::new());
        self.keep(host, old);
        self.run.count("replaced");
        locked(&self.run.untaken).insert(host);
        self.run.take_new_disks(self.client);
        if self.random.one_in(2) {
            self.client.sleep(millis(&mut self.random, 10_000));
            return self.old_disk(pool);
        }
        Ok(())
    }

    fn weigh(&mut self, pool: &Pool) -> Result<()> {
        let at = self.random.below(pool.config().node.len() as u64) as usize;
        let weight = [0.5, 1.0, 3.0][self.random.below(3) as usize];
        let config = pool.members().change(false, &settings(), |next| {
            next.node[at].weight = weight;
            Ok(())
        })?;
        self.did("weighed", &config);
        Ok(())
    }

    fn rebalance(&mut self, pool: &Pool) -> Result<()> {
        let index = Index::in_memory()?;
        index.refresh(pool, b"", &Silent)?;
        let now_ms = self.run.now_ms(self.client);
        let request = RebalanceRequest { now_ms, dry_run: false };
        let report = pool.repairer().rebalance(&index, &request, &settings())?;
        self.run.say(self.client, || format!("rebalanced: {report:?}"));
        let mut counts = locked(&self.run.counts);
        *counts.entry("shards moved".to_owned()).or_default() += report.shards_moved;
        Ok(())
    }

    /// As `kiln pool weight` and `kiln pool rebalance` do, when there are objects.
    fn spread(&mut self, pool: &Pool) -> Result<(), PoolError> {
        self.client.sleep(millis(&mut self.random, 30_000));
        self.weigh(pool)?;
        let network = self.client.network();
        let pool = self.run.open(self.client, &network)?;
        self.rebalance(&pool)
    }

    /// A disk of before is back in its host for a while.
    fn old_disk(&mut self, _: &Pool) -> Result<()> {
        let Some((host, old)) = self.some(&self.attic.clone()) else { return Ok(()) };
        if self.client.lost().contains(&host) || !self.may_hurt(host) {
            return Ok(());
        }
        let now = self.swap(host, old);
        self.run.count("old disk back");
        self.client.sleep(millis(&mut self.random, 20_000));
        drop(self.swap(host, now));
        Ok(())
    }

    /// As `kiln pool keep` does: refused as long as a member is of an earlier release.
    fn keep_versions(&mut self, pool: &Pool) -> Result<()> {
        let kept = pool.members().change(false, &settings(), |next| {
            next.keep = vec![KeepRule { last: 2, ..KeepRule::default() }];
            Ok(())
        });
        if let Err(PoolError::Refused { what }) = &kept
            && what.contains(" reads 2")
        {
            self.run.count("feature refused by an earlier member");
            return Ok(());
        }
        self.did("versions kept from now on", &kept?);
        Ok(())
    }

    /// A node of a sealed pool gets a map without a seal, of a later epoch.
    fn forge(&mut self, pool: &Pool) -> Result<()> {
        let node = self.some(&pool.config().node).filter(|_| self.run.scenario.sealed);
        let Some(host) = node.map(|node| host_of(&node)).filter(|host| self.may_hurt(*host)) else {
            return Ok(());
        };
        let (revision, sealed) = (pool.config().revision + 1_000, Vec::new());
        let forged = PoolConfig { revision, sealed, ..pool.config().clone() };
        let summed = |text: String| {
            let sum = checksum(text.as_bytes());
            text + &format!("# checksum = {sum:08x}\n")
        };
        let text = summed(summed(format!("# epoch = {revision} ")) + &forged.to_toml()?);
        let disk = self.client.snapshot(host);
        disk.put("kiln-pool.toml", text.into_bytes());
        drop(self.swap(host, disk));
        let network = self.client.network();
        let found = self.run.open(self.client, &network)?.config().revision;
        assert!(found < revision, "a forged map counts");
        self.run.count("forged map refused");
        Ok(())
    }

    /// A disk is as it was a while ago. Only where nothing else goes wrong, see
    /// [`crate::scenario::Scenario::calm`].
    fn snapshot(&mut self, pool: &Pool) -> Result<()> {
        let now = self.some(&pool.config().node).map(|node| host_of(&node));
        if !self.run.scenario.calm {
            return Ok(());
        }
        if let (Some(host), true) = (now, self.snapshots.len() < KEPT) {
            self.snapshots.push((host, self.client.snapshot(host)));
        }
        self.client.sleep(millis(&mut self.random, 15_000));
        let Some((host, old)) = self.some(&self.snapshots.clone()) else { return Ok(()) };
        if !self.client.lost().contains(&host) && self.may_hurt(host) {
            drop(self.swap(host, old.crash(0)));
            self.run.count("snapshot restored");
        }
        Ok(())
    }

    /// As `kiln repair` does.
    fn recover(&mut self, away: bool) -> Result<()> {
        let options = RecoverOptions::on_demand(OnDemand { away, dry_run: false });
        let report = self.recover_as("an operator", options)?;
        assert_eq!(report.repaired, report.central);
        Ok(())
    }

    /// Repairs beside a coordinator that agents have not heard of for a while.
    fn rival(&mut self, _: &Pool) -> Result<()> {
        self.client.sleep(millis(&mut self.random, 30_000));
        let options = RecoverOptions { wait_ms: 0, ..self.run.repair_options() };
        // It may wait for a node that only this operator can add.
        self.ends = Some(self.client.now() + RIVAL);
        let done = self.recover_as("another coordinator", options);
        self.ends = None;
        done.map(drop)
    }

    fn recover_as(&mut self, who: &str, options: RecoverOptions) -> Result<PoolRecovered> {
        let network = self.client.network();
        let index = Index::in_memory()?;
        let recovery = PoolRecovery {
            open: &|| self.run.open(self.client, &network).map(Arc::new),
            index: &|pool: &Pool| index.refresh(pool, b"", &Silent).map(|_| index.clone()),
            network: &network,
            who,
            options,
            control: self,
            settings: settings(),
            fresh: &|| ClusterRun::run_id(self.client),
            scrubbing: None,
            idle: None,
        };
        self.run.repair(self.client, &recovery).map_err(|error| match error {
            RecoveryError::Pool(error) => error,
            other if who == "an operator" => panic!("a repair on demand asks no agent: {other}"),
            other => PoolError::Refused { what: other.to_string() },
        })
    }
}

impl Control for Operator<'_> {
    fn stopped(&self) -> bool {
        self.ends.is_some_and(|end| self.client.now() >= end)
    }

    fn now_ms(&self) -> u64 {
        self.run.now_ms(self.client)
    }
}
