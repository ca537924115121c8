//! Carries out the repair of one object of a pool, as [`ObjectRepair`] says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{ops::Range, time::Duration};

use kiln_plan::Plan;
use kiln_pool::repair::{Looked, MissingShards, Needs, RebuiltShards};
use kiln_pool::{Pool, PoolConfig, RepairRequest};
use kiln_stripe::{PoolError, Result};

use super::{Shared, locked};
use crate::batch::{Batch, DamagedObject, PlannedRepair};
use crate::coalescer::{Coalescer, OfObject};
use crate::object_repair::{Commit, ObjectRepair, agents_can};
use crate::report::{Outcome, RepairOutcome};
use crate::run::recover::RepairWatcher;
use crate::{ByPrice, FinalFailure, OnDemand, PlacedRepair, Repaired, ShownPlan};
use kiln_net::task::{TransferCounters, as_many, default_slice};
use kiln_net::{Turn, proto::assignment::Geometry};

/// Between two tries of a commit.
const BETWEEN: Duration = Duration::from_millis(500);
/// Windows under way at each agent for one repair at least: disk, computing and network overlap.
const LEAST_WINDOWS: u32 = 3;

/// Tells progress of one repair as what it adds to all.
struct Watch<'a> {
    shared: &'a Shared<'a>,
    /// The job, and its object.
    at: usize,
    object: &'a str,
    config: &'a PoolConfig,
    told: AtomicU64,
}

impl Watch<'_> {
    fn id(&self, node: usize) -> String {
        self.config.node.get(node).map_or_else(String::new, |node| node.id.clone())
    }
}

impl RepairWatcher for Watch<'_> {
    fn kept(&self, bytes: u64, _total: u64) {
        let before = self.told.fetch_max(bytes, Ordering::Relaxed);
        let more = bytes.saturating_sub(before);
        self.shared.scheduler().keep(self.shared.recovery.now(), self.at, more);
        self.shared.recovery.control.advance(more);
        self.shared.tell(false);
    }

    fn planned(&self, plan: &Plan, sub_bytes: u64) {
        let (object, plan) = (self.object.to_owned(), plan.clone());
        let nodes = self.config.node.iter().map(|node| node.id.clone()).collect();
        self.shared.scheduler().planned(self.at, ShownPlan { object, plan, nodes, sub_bytes });
    }

    fn moved(&self, nodes: &[(usize, TransferCounters)]) {
        self.shared.scheduler().moved(self.at, nodes, &|node| self.id(node));
    }

    fn beside(&self) -> u64 {
        self.shared.scheduler().kept()
    }

    fn replanned(&self, why: &str) {
        self.shared.recovery.control.warn(&format!("planned again {why}"));
    }

    fn rate(&self) -> Option<u64> {
        Some(self.shared.rate())
    }

    fn stopped(&self) -> bool {
        self.shared.recovery.control.stopped()
    }
}

impl Shared<'_> {
    /// Repairs the objects of jobs, here if they are several.
    pub fn repair_each(&self, batch: &Batch, jobs: Range<usize>) -> Vec<RepairOutcome> {
        let pool = self.pool();
        match self.recovery.options.on_demand {
            Some(one) => self.on_demand(&pool, &batch.repairs()[jobs], one),
            None if jobs.len() == 1 => vec![self.repair(&pool, batch, jobs.start)],
            None => {
                let name = |at: usize| &batch.repairs()[at].want.listed.name[..];
                let due = jobs.map(|at| (name(at), self.request(batch, at)));
                self.central_each(&pool, &due.collect::<Vec<_>>())
            }
        }
    }

    /// The request that is made for the object of a job.
    fn request(&self, batch: &Batch, at: usize) -> RepairRequest {
        let job = &batch.repairs()[at];
        RepairRequest {
            now_ms: self.recovery.control.now_ms(),
            away: true,
            suspects: job.want.suspects.clone(),
            rebuild_leaving: batch.rebuilds_leaving(job),
        }
    }

    /// Repairs the object of a job, by agents where they can.
    fn repair(&self, pool: &Arc<Pool>, batch: &Batch, at: usize) -> RepairOutcome {
        let (want, req) = (&batch.repairs()[at].want, self.request(batch, at));
        let (name, agents) = (&want.listed.name, Shared::agents(pool));
        let looked = self.look_together(at, name);
        let needs =
            looked.and_then(|it| pool.repairer().needs_of(&it, &req, &self.recovery.settings));
        let lacking = match needs {
            Ok(Needs::Rebuild(lacking)) if agents_can(pool.config(), &agents, &lacking) => {
                Arc::from(lacking)
            }
            Ok(Needs::Nothing) => return Outcome::Whole.into(),
            Ok(_) => return self.central(pool, name, req),
            Err(PoolError::NoObject { .. }) => return Outcome::Gone.into(),
            Err(error) => return RepairOutcome::failed(error),
        };
        let load = self.scheduler().load().clone();
        match ObjectRepair::new(batch, at, &self.snapshot(pool), &lacking, &load) {
            Some(object_repair) => self.rebuild(pool, at, object_repair, &lacking, &agents),
            // Not all shards have a place: those that have get it, and the manifest its copies.
            None => self.central(pool, name, req),
        }
    }

    /// The limit of each node now.
    fn rate(&self) -> u64 {
        let limits = self.recovery.control.limits();
        self.scheduler().rate(limits)
    }

    /// The repair that is computed here.
    fn central(&self, pool: &Pool, name: &str, req: RepairRequest) -> RepairOutcome {
        let mut outcomes = self.central_each(pool, &[(name, req)]);
        outcomes.pop().unwrap_or_default()
    }

    /// Repairs that are computed here, together.
    fn central_each(&self, pool: &Pool, due: &[(&str, RepairRequest)]) -> Vec<RepairOutcome> {
        let outcome = |end| match end {
            Ok(repaired) => RepairOutcome::here(repaired),
            Err(PoolError::NoObject { .. }) => Outcome::Gone.into(),
            Err(error) => RepairOutcome::failed(error),
        };
        let ends = pool.repairer().repair_all(due, &self.recovery.settings);
        ends.into_iter().map(outcome).collect()
    }

    /// The repairs that a command asked for. The index notes them at once: a run that is cut short
    /// has its damage behind it.
    fn on_demand(&self, pool: &Pool, jobs: &[PlannedRepair], one: OnDemand) -> Vec<RepairOutcome> {
        let (away, now_ms) = (one.away, self.recovery.control.now_ms());
        let (mut outcomes, mut due) = (Vec::new(), Vec::new());
        for (at, job) in jobs.iter().enumerate() {
            let (name, suspects) = (&job.want.listed.name[..], job.want.suspects.clone());
            let req = RepairRequest { now_ms, away, suspects, rebuild_leaving: false };
            let ended = self.not_rebuilt(pool, &job.want, &req, one);
            if matches!(ended, Ok(None)) {
                due.push((at, (name, req)));
            }
            outcomes.push(ended.map_or_else(RepairOutcome::failed, Option::unwrap_or_default));
        }
        let (at, due): (Vec<usize>, Vec<_>) = due.into_iter().unzip();
        let mut known = Vec::new();
        for (at, ended) in at.into_iter().zip(self.central_each(pool, &due)) {
            let want = &jobs[at].want;
            let repaired = ended.here.is_some() && !want.suspects.is_empty();
            if let Some(damaged) = want.damaged.as_ref().filter(|_| repaired) {
                known.push((at, (damaged.key, ended.damaged.clone().unwrap_or_default())));
            }
            outcomes[at] = ended;
        }
        let (at, left): (Vec<usize>, Vec<_>) = known.into_iter().unzip();
        if let (false, Some(index)) = (left.is_empty(), &*locked(&self.index))
            && let Err(error) = pool.repairer().note_left(&left, index)
        {
            let failed = || PoolError::Refused { what: error.to_string() };
            at.into_iter().for_each(|at| outcomes[at] = RepairOutcome::failed(failed()));
        }
        outcomes
    }

    /// Does what a command does with an object without rebuilding it; `None`: it is rebuilt.
    fn not_rebuilt(
        &self,
        pool: &Pool,
        want: &DamagedObject,
        req: &RepairRequest,
        OnDemand { away, dry_run }: OnDemand,
    ) -> Result<Option<RepairOutcome>> {
        let (name, repairer, settings) =
            (&want.listed.name, pool.repairer(), &self.recovery.settings);
        let Some(damaged) = &want.damaged else { return Ok(Some(Outcome::Whole.into())) };
        if damaged.transient && !away {
            // Copies of its manifest need not wait for the nodes with its shards.
            let renewed = !dry_run && repairer.renew_copies(name, req.now_ms, settings)?;
            let outcome = if renewed { Outcome::Repaired } else { Outcome::Whole };
            let known = renewed && !want.suspects.is_empty();
            if let (true, Some(index)) = (known, &*locked(&self.index)) {
                repairer.note_renewed(&damaged.key, index)?;
            }
            return Ok(Some(RepairOutcome { waits: true, ..outcome.into() }));
        }
        if dry_run {
            let expected = repairer.expected_reads(name, req, settings)?;
            let outcome = Outcome::Repaired.into();
            return Ok(Some(RepairOutcome { rebuilt: damaged.bytes, expected, ..outcome }));
        }
        Ok(None)
    }

    /// The repair that the agents compute.
    fn rebuild(
        &self,
        pool: &Pool,
        at: usize,
        mut object_repair: ObjectRepair,
        lacking: &Arc<MissingShards>,
        agents: &[Option<String>],
    ) -> RepairOutcome {
        let options = &self.recovery.options;
        let suspects = self.scheduler().suspects(self.recovery.now());
        let nodes = object_repair.helpers(pool.config(), agents, lacking, &suspects);
        let copies = !lacking.leaving.is_empty();
        let prices = options.prices.as_ref().filter(|_| !copies).map(|prices| {
            let nodes = pool.config().node.iter().map(|node| &node.id[..]);
            ByPrice::new(prices.of(nodes), self.rules.named())
        });
        let plan = object_repair.plan_for(&nodes).filter(|_| prices.is_none());
        let name = |index: u16| (lacking.part(index), lacking.file(index));
        let shard = object_repair.want.shard_bytes();
        let alpha = lacking.info.alpha as usize;
        let windows = (options.windows / options.at_once() as u32).max(LEAST_WINDOWS);
        // The other repairs use the time that the first window of one leaves idle.
        let usual = || default_slice(alpha, shard * options.at_once() as u64 / alpha as u64);
        let slice = options.slice.unwrap_or_else(usual);
        let repair = PlacedRepair {
            codec: &lacking.codec,
            geometry: Geometry::of(&lacking.info, object_repair.want.listed.size, &lacking.digests),
            targets: (object_repair.targets.iter())
                .map(|&(index, node)| (usize::from(index), node, name(index).0, name(index).1))
                .collect(),
            strategy: plan.as_ref().map_or(self.rules.single(), |plan| plan.strategy()),
            first: plan,
            prices,
            nodes,
            copies,
            in_place: false,
            slice,
            windows: match options.slice {
                Some(_) => windows,
                None => as_many(windows, alpha, slice),
            },
            rate: self.rate(),
            seed: options.seed,
            moves: options.moves,
        };
        for (_, node) in &object_repair.targets {
            self.scheduler().add_load(*node, shard);
        }
        let (object, config, told) =
            (&object_repair.want.listed.name, pool.config(), AtomicU64::new(0));
        let watch = Watch { shared: self, at, object, config, told };
        match repair.run(self.recovery.network, (self.recovery.fresh)(), &watch) {
            Ok(done) => self.commit(pool, at, lacking, &object_repair.targets, done),
            Err(failure) => self.failed(pool, lacking, &object_repair.targets, *failure),
        }
    }

    /// Has the rebuilt shards of a job put in place.
    fn commit(
        &self,
        pool: &Pool,
        at: usize,
        lacking: &Arc<MissingShards>,
        targets: &[(u16, usize)],
        done: Repaired,
    ) -> RepairOutcome {
        let id = |node: usize| pool.config().node[node].id.clone();
        let nodes = targets.iter().map(|&(index, node)| (index, id(node))).collect();
        let rebuilt = RebuiltShards { lacking: Arc::clone(lacking), nodes };
        let mut commit = Commit::default();
        let outcome = loop {
            if let Some(outcome) = commit.tried(self.commit_together(at, &rebuilt)) {
                break outcome;
            }
            self.recovery.network.sleep(BETWEEN);
            if let Err(error) = self.reopen() {
                break Outcome::Failed(error);
            }
        };
        RepairOutcome::repaired(pool.config(), outcome, done)
    }

    /// Looks for a job's object at the nodes: the question is of all objects that are asked for
    /// then.
    fn look_together(&self, at: usize, name: &str) -> Result<Looked> {
        self.together(&self.look_turn, &self.looks, at, name.to_owned(), |names| {
            let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
            self.pool().repairer().look_for(&names)
        })
    }

    /// Waits until a commit has put a job's shards in place: another job's, or one of its own with
    /// all that wait then.
    fn commit_together(&self, at: usize, rebuilt: &RebuiltShards) -> Result<bool> {
        self.together(&self.commit_turn, &self.commits, at, rebuilt.clone(), |rebuilt| {
            let (now_ms, settings) = (self.recovery.control.now_ms(), &self.recovery.settings);
            self.pool().repairer().put_rebuilt(rebuilt, now_ms, settings)
        })
    }

    /// Waits until what a job wants was done: by another job, or here with all that wait then.
    fn together<W: OfObject, E>(
        &self,
        turn: &Turn,
        all: &Mutex<Coalescer<W, E>>,
        at: usize,
        wanted: W,
        act: impl Fn(&[W]) -> Vec<Result<E>>,
    ) -> Result<E> {
        locked(all).wait(at, wanted);
        loop {
            let _turn = self.recovery.network.take(turn);
            if let Some(end) = locked(all).ended(at) {
                return end;
            }
            let (jobs, wanted) = locked(all).take();
            if jobs.is_empty() {
                // Who had the turn for this job panicked.
                return Err(PoolError::Internal { what: "nobody did it".into() });
            }
            let ends = act(&wanted);
            locked(all).end(jobs, ends);
        }
    }

    /// Takes note of who failed; a part on a disk that failed only takes its room.
    fn failed(
        &self,
        pool: &Pool,
        lacking: &MissingShards,
        targets: &[(u16, usize)],
        failure: FinalFailure,
    ) -> RepairOutcome {
        if let Some(node) = failure.node {
            let storage = !failure.error.is_retryable();
            self.scheduler().suspect(self.recovery.now(), node, storage);
            for (index, to) in targets.iter().filter(|(_, to)| storage && *to == node) {
                if let Some(place) = pool.place(&pool.config().node[*to].id) {
                    // A scrub removes what stays.
                    let _ = place.remove(&lacking.part(*index));
                }
            }
        }
        RepairOutcome::gave_up(failure)
    }
}
