//! Carries out the recovery of a pool whose nodes are agents: surveys it, runs several repairs at
//! once, and has what they rebuilt put in place. What is next is decided by [`Scheduler`].

mod claims;
mod repair;
mod scrub;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, ops::Range, time::Duration};

use kiln_pool::{Index, Key, Pool, ScrubReport, repair::queue::RepairQueue};
use kiln_stripe::{Depth, PoolError, Settings};

use self::claims::Claims;
use crate::batch::{Batch, DamagedObject, Rules, Snapshot};
use crate::coalescer::{Commits, Looks};
use crate::report::RepairOutcome;
use crate::schedule::{Next, Scheduler};
use crate::{
    Now, Phase, PoolRecovered, RateLimits, RecoverOptions, RecoveryError, RecoveryState, Result,
    ScrubPosition,
};
use kiln_net::{Address, NetError, Network, Turn};

/// Interval at which requests to stop are looked at while there is nothing to do.
const LOOK: Duration = Duration::from_millis(200);

/// Controls a recovery, and receives its reports.
pub trait Control: Sync {
    /// Limits from now on.
    fn limits(&self) -> RateLimits {
        RateLimits::default()
    }

    /// Returns whether to stop. What was begun stays for the next run.
    fn stopped(&self) -> bool {
        false
    }

    /// The time, in ms since 1970.
    fn now_ms(&self) -> u64;

    /// So many bytes are to be rebuilt, from now on.
    fn begin(&self, _bytes: u64) {}

    /// So many more bytes are rebuilt.
    fn advance(&self, _bytes: u64) {}

    /// Something that people should know although the recovery goes on.
    fn warn(&self, _message: &str) {}

    /// Reports that the state may have changed; `state` returns it. Called many
    /// times a second; `changed`: something else is done from now on.
    fn tell(&self, _changed: bool, _state: &dyn Fn() -> RecoveryState) {}

    /// A scrub is here now; this is to be durable when the call returns.
    /// Errors: in words: it could not be kept. Then the next process reads some of it again.
    fn keep_scrub(&self, _position: &ScrubPosition) -> Result<(), String> {
        Ok(())
    }

    /// A part of a scrub found something. Where the scrub is, is kept after this returns.
    fn found(&self, _part: &ScrubReport) {}
}

/// Scrubs on the schedule of [`RecoverOptions::scrub_every`].
pub struct Scrubbing<'a> {
    /// Opens the pool as [`PoolRecovery::open`] does, for reads at the pace of scrubs.
    pub open: &'a (dyn Fn() -> Result<Pool, PoolError> + Sync),
    /// The position that the process before reached.
    pub position: ScrubPosition,
    /// Depth of the reads of each object.
    pub depth: Depth,
}

/// A recovery of a pool.
pub struct PoolRecovery<'a> {
    /// Opens the pool anew, to see who is there.
    pub open: &'a (dyn Fn() -> Result<Arc<Pool>, PoolError> + Sync),
    /// Opens the local index and brings it up to date. It is closed again while repairs run, so
    /// that others can list the pool.
    pub index: &'a (dyn Fn(&Pool) -> Result<Index, PoolError> + Sync),
    /// Connections to agents.
    pub network: &'a Network,
    /// Name of this coordinator, for others: they are refused meanwhile.
    pub who: &'a str,
    /// The options.
    pub options: RecoverOptions,
    /// Limits, and who hears of progress.
    pub control: &'a dyn Control,
    /// Settings of repairs that are computed here.
    pub settings: Settings<'a>,
    /// Makes fresh names of tasks, and of this recovery.
    pub fresh: &'a (dyn Fn() -> [u8; 16] + Sync),
    /// Settings of scrubs.
    pub scrubbing: Option<Scrubbing<'a>>,
    /// Some other work, while nothing is to be repaired; whether there is more of it.
    pub idle: Option<&'a (dyn Fn(&Pool) -> bool + Sync)>,
}

/// State that all threads of a recovery share. No lock is held while agents are waited for.
struct Shared<'a> {
    recovery: &'a PoolRecovery<'a>,
    rules: Rules,
    scheduler: Mutex<Scheduler>,
    pool: Mutex<Arc<Pool>>,
    /// The turn to commit what waits.
    commit_turn: Turn,
    commits: Mutex<Commits>,
    /// The turn to look for what waits.
    look_turn: Turn,
    looks: Mutex<Looks>,
    /// Claims that keep other coordinators away.
    claims: Claims,
    /// The index of a repair on demand, which is open from its beginning to its end.
    index: Mutex<Option<Index>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PoolRecovery<'_> {
    /// Repairs what is damaged, the most endangered first, and with `stay` goes on watching.
    /// Errors: no such strategy or node; another one recovers the pool ([`NetError::Taken`]); the
    /// pool cannot be opened at all; the index. An object that cannot be repaired is in the report,
    /// and the others are.
    pub fn run(&self) -> Result<PoolRecovered> {
        let start = self.network.now();
        let rules = Rules::new(&self.options.strategy, self.options.seed);
        let mut rules = rules.map_err(RecoveryError::from)?;
        rules.moves = rules.moves.min(self.options.moves);
        let now_ms = self.control.now_ms();
        self.control.tell(true, &|| RecoveryState { now_ms, ..RecoveryState::default() });
        let pool = (self.open)()?;
        for id in &self.options.to {
            if pool.config().position(id).is_none() {
                let what = format!("the pool has no node {id:?}");
                return Err(PoolError::Usage { what }.into());
            }
        }
        let scheduler = Scheduler::new(self.options.clone());
        let scheduler = match &self.scrubbing {
            Some(scrubbing) => scheduler.scrubbing(scrubbing.position.clone()),
            None => scheduler,
        };
        let shared = Shared {
            recovery: self,
            rules,
            scheduler: Mutex::new(scheduler),
            pool: Mutex::new(pool),
            commit_turn: Turn::default(),
            commits: Mutex::default(),
            look_turn: Turn::default(),
            looks: Mutex::default(),
            claims: Claims::new((self.fresh)()),
            index: Mutex::default(),
        };
        shared.run()?;
        let scheduler = shared.scheduler.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(PoolRecovered {
            stopped: self.control.stopped(),
            seconds: self.network.now().saturating_sub(start).as_secs_f64(),
            ..scheduler.report()
        })
    }

    fn now(&self) -> Now {
        Now { elapsed: self.network.now(), ms: self.control.now_ms() }
    }
}

impl Shared<'_> {
    fn run(&self) -> Result<()> {
        let (recovery, control) = (self.recovery, self.recovery.control);
        let (mut next, mut opened) = (Next::Survey, Some(self.pool()));
        while !control.stopped() {
            next = match next {
                Next::Survey => match self.survey(opened.take()) {
                    Ok(next) => next,
                    Err(taken @ RecoveryError::Net(NetError::Taken { .. })) => return Err(taken),
                    Err(error) => {
                        let why = error.to_string();
                        let next = self.scheduler().survey_failed(recovery.now(), &why);
                        let Some(next) = next else { return Err(error) };
                        control.warn(&why);
                        next
                    }
                },
                Next::Plan(wants) => {
                    self.enter(Phase::Repairing, None);
                    self.work(wants)?;
                    self.scheduler().worked(!self.pool().is_backfilling())
                }
                Next::Scrub(after) => {
                    scrub::part(self, after.as_deref());
                    Next::Survey
                }
                Next::Rest(_) if recovery.idle.is_some_and(|idle| idle(&self.pool())) => {
                    Next::Survey
                }
                Next::Rest(time) => {
                    self.enter(Phase::Waiting, Some(time));
                    self.pause(time);
                    Next::Survey
                }
                Next::Settle | Next::End => break,
            };
        }
        Ok(())
    }

    /// Something else is done from now on; `rest`: for so long.
    fn enter(&self, phase: Phase, rest: Option<Duration>) {
        self.scheduler().enter(self.recovery.now(), phase, rest);
        self.tell(true);
    }

    fn tell(&self, changed: bool) {
        self.recovery.control.tell(changed, &|| self.scheduler().state(self.recovery.now()));
    }

    fn pause(&self, time: Duration) {
        let recovery = self.recovery;
        let until = recovery.network.now() + time;
        while !recovery.control.stopped() {
            let left = until.saturating_sub(recovery.network.now());
            if left.is_zero() {
                return;
            }
            recovery.network.sleep(LOOK.min(left));
            self.tell(false);
        }
    }

    /// Surveys the pool: nodes, damage, and the next step. It is opened anew unless it just was.
    fn survey(&self, opened: Option<Arc<Pool>>) -> Result<Next> {
        let (recovery, on_demand) = (self.recovery, self.recovery.options.on_demand);
        self.enter(Phase::Surveying, None);
        let mut pool = opened.map_or_else(|| self.reopen(), Ok)?;
        if on_demand.is_some() {
            self.scheduler().missing(recovery.now(), pool.missing());
        } else {
            self.claims.take(recovery.network, &pool, recovery.who)?;
            pool = self.attend(pool)?;
        }
        if !on_demand.is_some_and(|demand| demand.dry_run) {
            pool.repairer().readmit(true, recovery.now().ms, &recovery.settings);
        }
        let index = (recovery.index)(&pool)?;
        *locked(&self.index) = on_demand.map(|_| index.clone());
        let now = recovery.now();
        let mut seen = RepairQueue::new(Scheduler::rules(&recovery.options));
        let status = pool.repairer().survey(&index, &mut seen, now.ms)?;
        let mut parts: BTreeMap<Key, BTreeMap<u16, usize>> = BTreeMap::new();
        for &(key, index, node) in &status.unfinished {
            parts.entry(key).or_default().insert(index, node);
        }
        let due = self.scheduler().due(now, &seen);
        let mut wants = Vec::new();
        for damaged in due {
            let key = damaged.key;
            let Some(listed) = index.by_key(&key)? else {
                self.scheduler().gone(&key);
                continue;
            };
            let suspects = index.damage_of(&key)?;
            let parts = parts.remove(&key).unwrap_or_default();
            wants.push(DamagedObject { listed, damaged: Some(damaged), suspects, parts });
        }
        let next = self.scheduler().surveyed(recovery.now(), &status, wants);
        let Next::Settle = next else { return Ok(next) };
        match pool.repairer().settle(&status, &index, &recovery.settings) {
            Ok(map) => self.scheduler().settled(map.map(|map| map.revision)),
            Err(error) if on_demand.is_some() => return Err(error.into()),
            Err(error) => recovery.control.warn(&error.to_string()),
        }
        Ok(self.scheduler().idle(recovery.now()))
    }

    /// Nodes that were unavailable for long do not take part any more, and those that are back do.
    fn attend(&self, mut pool: Arc<Pool>) -> Result<Arc<Pool>> {
        let (now, control) = (self.recovery.now(), self.recovery.control);
        loop {
            if let Some(said) = self.scheduler().missing(now, pool.missing()) {
                control.warn(&said);
            }
            let given_up = |id: &str| self.scheduler().gave_up_node(now, id);
            match pool.members().attend(given_up, &self.recovery.settings) {
                Ok(None) => return Ok(pool),
                // Others may have gone meanwhile.
                Ok(Some(_)) => pool = self.reopen()?,
                // It can be tried again at the next survey.
                Err(error) => {
                    control.warn(&error.to_string());
                    return Ok(pool);
                }
            }
        }
    }

    /// Plans a batch jointly and works it off.
    fn work(&self, wants: Vec<DamagedObject>) -> Result<()> {
        let (recovery, control) = (self.recovery, self.recovery.control);
        let bytes = self.scheduler().bytes();
        control.begin(bytes);
        let pool = self.pool();
        let began = recovery.network.now();
        let batch = Arc::new(match recovery.options.on_demand {
            Some(_) => Batch::unplanned(wants),
            None => Batch::new(wants, &self.snapshot(&pool), &self.rules)?,
        });
        let took = recovery.network.now().saturating_sub(began);
        self.scheduler().begin(recovery.now(), Arc::clone(&batch), took.as_secs_f64());
        self.tell(true);
        let threads = recovery.options.at_once().min(batch.repairs().len());
        recovery.network.at_once(threads, &|| {
            while !control.stopped() {
                let jobs = self.scheduler().take_together();
                if jobs.is_empty() {
                    break;
                }
                for (at, ended) in jobs.clone().zip(self.guarded(&batch, jobs)) {
                    let stopped = control.stopped();
                    let warning = self.scheduler().ended(recovery.now(), at, &ended, stopped);
                    if let Some(warning) = warning {
                        control.warn(&warning);
                    }
                }
            }
        });
        let damage = self.scheduler().finish();
        if !damage.is_empty() && recovery.options.on_demand.is_none() {
            let index = (recovery.index)(&pool)?;
            pool.repairer().note_damage(&damage, &index, &recovery.settings)?;
        }
        Ok(())
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        locked(&self.scheduler)
    }

    /// Agents of the pool by position, as addresses; `None`: it is another kind of node.
    fn agents(pool: &Pool) -> Vec<Option<String>> {
        let agent = |node: &kiln_pool::NodeConfig| {
            let address = Some(&node.url).filter(|url| Address::is_meant(url))?;
            address.parse().ok().map(|address: Address| address.to_string())
        };
        pool.config().node.iter().map(agent).collect()
    }

    /// The pool as planners see it: without agents that failed lately.
    fn snapshot<'p>(&self, pool: &'p Pool) -> Snapshot<'p> {
        let config = pool.config();
        let suspects = self.scheduler().suspects(self.recovery.now());
        let nodes = config.node.iter().zip(Shared::agents(pool)).enumerate();
        let usable = nodes.map(|(at, (node, agent))| {
            pool.place(&node.id).is_some() && agent.is_some() && !suspects.contains(&at)
        });
        let usable = usable.collect();
        let to = &self.recovery.options.to;
        let to = to.iter().filter_map(|id| config.position(id)).collect::<Vec<_>>();
        Snapshot { config, usable, to: (!to.is_empty()).then_some(to) }
    }

    /// Repairs the objects of jobs; a panic fails these jobs only.
    fn guarded(&self, batch: &Batch, jobs: Range<usize>) -> Vec<RepairOutcome> {
        let panicked = |_| RepairOutcome::failed(PoolError::Internal { what: "a panic".into() });
        let run = std::panic::AssertUnwindSafe(|| self.repair_each(batch, jobs.clone()));
        let ended = std::panic::catch_unwind(run);
        ended.unwrap_or_else(|_| jobs.map(panicked).collect())
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&locked(&self.pool))
    }

    /// Looks again who is there.
    fn reopen(&self) -> Result<Arc<Pool>> {
        let pool = (self.recovery.open)()?;
        *locked(&self.pool) = Arc::clone(&pool);
        Ok(pool)
    }
}
