//! Recovery of a whole pool whose nodes are agents: surveys it, plans many repairs jointly, runs
//! several at once, and has what they rebuilt put in place.
//!
//! Nothing is remembered between runs: a new survey finds what is still damaged, and parts that a
//! repair had begun are gone on with where they lie.

mod job;
mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_pool::queue::{self, Damaged, RepairQueue};
use kiln_pool::{Index, Key, Pool, PoolError, PoolStatus, Settings};

pub use self::report::{NodeLoad, PoolRecovered, StrategyLoad};
use super::{Address, Network};
use crate::Result;
use crate::batch::{Batch, Rules, Snapshot, Want};
use job::{Ended, Outcome};

/// Objects that are planned together at most.
const BATCH: usize = 4096;
/// How long an agent that failed is not asked for help.
const SUSPECT: Duration = Duration::from_secs(30);
/// How long an agent whose storage failed gets no shards.
const FULL: Duration = Duration::from_secs(600);
/// Wait after the first failure of an object, and the longest.
const BACKOFF_MS: (u64, u64) = (1_000, 60_000);
/// How often wishes are looked at while there is nothing to do.
const LOOK: Duration = Duration::from_millis(200);
/// Between two surveys while too few nodes can be reached.
const BETWEEN: Duration = Duration::from_secs(2);

/// Limits of traffic in bytes a second; 0: none.
///
/// ```
/// assert_eq!(kiln_node::net::RateLimits::default().total, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// What each node may send, and what it may receive.
    pub node: u64,
    /// What all nodes together may send.
    pub total: u64,
}

impl RateLimits {
    /// The limit of each node, when the busiest one carries this part of all that is sent.
    ///
    /// ```
    /// use kiln_node::net::RateLimits;
    /// let limits = RateLimits { node: 20, total: 100 };
    /// assert_eq!(limits.of_node(Some(0.1)), 10);
    /// assert_eq!(limits.of_node(Some(0.5)), 20);
    /// assert_eq!(RateLimits::default().of_node(None), 0);
    /// ```
    #[must_use]
    pub fn of_node(&self, concentration: Option<f64>) -> u64 {
        // Without a plan the worst: one node carries everything.
        let share = concentration.unwrap_or(1.0).clamp(0.0, 1.0);
        let share = match self.total {
            0 => 0,
            total => ((total as f64 * share) as u64).max(1),
        };
        match (self.node, share) {
            (0, rate) | (rate, 0) => rate,
            (a, b) => a.min(b),
        }
    }
}

/// What the outside tells a recovery, and hears from it.
pub trait Control: Sync {
    /// Limits from now on.
    fn limits(&self) -> RateLimits {
        RateLimits::default()
    }

    /// Whether to stop. What was begun stays for the next run.
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
}

/// How to recover.
///
/// ```
/// let options = kiln_node::net::RecoverOptions::default();
/// assert_eq!((&options.strategy[..], options.stay), ("joint", false));
/// ```
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// A strategy of `kiln_plan`, or `joint`: the best of all for each object.
    pub strategy: String,
    /// Ids of the nodes that get what is rebuilt; empty: those that have room.
    pub to: Vec<String>,
    /// Repairs at once.
    pub jobs: usize,
    /// Bytes of each sub-chunk that travel together; `None`: as the code's shape asks for.
    pub slice: Option<u32>,
    /// Windows under way at each agent, of all repairs together.
    pub windows: u32,
    /// How long a node must be away before its shards are rebuilt elsewhere, in ms.
    pub wait_ms: u64,
    /// Go on looking after the pool when all is repaired.
    pub stay: bool,
    /// How often the pool is surveyed while there is nothing to repair.
    pub every: Duration,
    /// How often an object's repair is tried; with `stay` for ever.
    pub tries: u32,
    /// How long to go on trying while nodes cannot be reached without which nothing can be done.
    pub patience: Duration,
    /// Seed of all choices.
    pub seed: u64,
}

impl Default for RecoverOptions {
    fn default() -> RecoverOptions {
        RecoverOptions {
            strategy: crate::batch::JOINT.to_owned(),
            to: Vec::new(),
            jobs: 4,
            slice: None,
            windows: 16,
            wait_ms: 10 * 60_000,
            stay: false,
            every: Duration::from_secs(30),
            tries: 6,
            patience: Duration::from_secs(60),
            seed: 1,
        }
    }
}

/// A recovery of a pool.
pub struct PoolRecovery<'a> {
    /// Opens the pool anew, to see who is there.
    pub open: &'a (dyn Fn() -> Result<Pool, PoolError> + Sync),
    /// Opens the local index and brings it up to date. It is closed again while repairs run, so
    /// that others can list the pool.
    pub index: &'a (dyn Fn(&Pool) -> Result<Index, PoolError> + Sync),
    /// Connections to agents.
    pub network: &'a Network,
    /// What is wanted.
    pub options: RecoverOptions,
    /// Limits, and who hears of progress.
    pub control: &'a dyn Control,
    /// What repairs that are computed here may use.
    pub settings: Settings<'a>,
    /// Makes fresh names of tasks.
    pub fresh: &'a (dyn Fn() -> [u8; 16] + Sync),
}

/// What all threads of a recovery share.
struct Shared<'a> {
    recovery: &'a PoolRecovery<'a>,
    rules: Rules,
    pool: Mutex<Arc<Pool>>,
    /// Agents that failed, by position, and until when they are left alone.
    suspects: Mutex<BTreeMap<usize, Duration>>,
    /// Bytes that every node got, by position: the least loaded gets the next shard.
    load: Mutex<BTreeMap<usize, u64>>,
    /// Bytes that all repairs have kept so far.
    kept: AtomicU64,
    /// One commit at a time: they lock all nodes.
    commit: Mutex<()>,
    /// Limit of each node now.
    rate: AtomicU64,
    /// What the busiest node carries of all that is sent, by the plans in use.
    concentration: Mutex<Option<f64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PoolRecovery<'_> {
    /// Repairs what is damaged, the most endangered first, and with `stay` goes on watching.
    ///
    /// # Errors
    /// No such strategy or node; the pool cannot be opened at all; the index. An object that
    /// cannot be repaired is told in the report, and the others are.
    pub fn run(&self) -> Result<PoolRecovered> {
        let start = self.network.now();
        let rules = Rules::new(&self.options.strategy, self.options.seed);
        let rules = rules.map_err(crate::error::planned)?;
        let pool = Arc::new((self.open)()?);
        for id in &self.options.to {
            if pool.config().position(id).is_none() {
                let what = format!("the pool has no node {id:?}");
                return Err(PoolError::Usage { what }.into());
            }
        }
        let shared = Shared {
            recovery: self,
            rules,
            pool: Mutex::new(pool),
            suspects: Mutex::default(),
            load: Mutex::default(),
            kept: AtomicU64::new(0),
            commit: Mutex::new(()),
            rate: AtomicU64::new(0),
            concentration: Mutex::default(),
        };
        let mut report = PoolRecovered::new(&self.options.strategy);
        let mut state = State {
            queue: RepairQueue::new(self.queue_rules()),
            tries: BTreeMap::new(),
            given_up: BTreeSet::new(),
            rotten: BTreeMap::new(),
            stuck: None,
        };
        while !self.control.stopped() {
            let (status, wants) = match self.survey(&shared, &mut state) {
                Ok(found) => found,
                Err(error) if self.options.stay => {
                    self.control.warn(&error.to_string());
                    self.pause(self.options.every);
                    continue;
                }
                Err(error) if state.patient(self.network.now(), self.options.patience) => {
                    self.control.warn(&error.to_string());
                    self.pause(BETWEEN);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Too few nodes answer just now, as when links were cut: a moment may change that.
            let away = status.nodes.iter().any(|node| !node.present);
            if status.unreadable == 0 || !away {
                state.stuck = None;
            } else if wants.is_empty() && state.patient(self.network.now(), self.options.patience) {
                self.pause(BETWEEN);
                continue;
            }
            report.surveyed(&status, &state.queue);
            if wants.is_empty() {
                // Nothing is lacking, or nothing can be done now; it looks which.
                if let Err(error) = shared.pool().settle(&status) {
                    self.control.warn(&error.to_string());
                }
                let Some(pause) = self.rest(&state, &status) else { break };
                self.pause(pause);
                continue;
            }
            self.control.begin(state.queue.bytes());
            self.work(&shared, wants, &mut state, &mut report)?;
        }
        report.stopped = self.control.stopped();
        report.seconds = self.network.now().saturating_sub(start).as_secs_f64();
        Ok(report)
    }

    fn queue_rules(&self) -> queue::Rules {
        queue::Rules {
            in_flight: BATCH,
            in_flight_bytes: u64::MAX,
            transient_wait_ms: self.options.wait_ms,
            first_backoff_ms: BACKOFF_MS.0,
            most_backoff_ms: BACKOFF_MS.1,
            ..queue::Rules::default()
        }
    }

    /// Who is there, what is damaged, and what of it is to be repaired now.
    fn survey(&self, shared: &Shared<'_>, state: &mut State) -> Result<(PoolStatus, Vec<Want>)> {
        let pool = Arc::new((self.open)()?);
        *locked(&shared.pool) = Arc::clone(&pool);
        let index = (self.index)(&pool)?;
        let now_ms = self.control.now_ms();
        let mut seen = RepairQueue::new(self.queue_rules());
        let status = pool.survey(&index, &mut seen, now_ms)?;
        state.queue.follow(&seen, now_ms);
        let mut parts: BTreeMap<Key, BTreeMap<u16, usize>> = BTreeMap::new();
        for &(key, index, node) in &status.unfinished {
            parts.entry(key).or_default().insert(index, node);
        }
        let mut wants = Vec::new();
        while let Some(damaged) = state.queue.next(now_ms) {
            let key = damaged.key;
            let listed = index.by_key(&key)?.filter(|_| !state.given_up.contains(&key));
            let Some(listed) = listed else {
                state.queue.withdraw(&key);
                continue;
            };
            let suspects = index.damage_of(&key)?;
            let parts = parts.remove(&key).unwrap_or_default();
            wants.push(Want { listed, damaged: Some(damaged), suspects, parts });
        }
        Ok((status, wants))
    }

    /// How long to wait for something to do; `None`: there will be nothing.
    fn rest(&self, state: &State, status: &PoolStatus) -> Option<Duration> {
        let now_ms = self.control.now_ms();
        let wakes = state.queue.wakes_at();
        // A survey that found more than it could remember is followed by another one.
        let more = status.endangered.values().sum::<u64>() > state.queue.len() as u64
            && state.given_up.is_empty();
        match (wakes, self.options.stay || more) {
            (None, false) => None,
            (None, true) => Some(self.options.every),
            (Some(at), _) => {
                let wait = Duration::from_millis(at.saturating_sub(now_ms) + 1);
                Some(wait.min(self.options.every))
            }
        }
    }

    fn pause(&self, time: Duration) {
        let until = self.network.now() + time;
        while !self.control.stopped() {
            let left = until.saturating_sub(self.network.now());
            if left.is_zero() {
                return;
            }
            self.network.sleep(LOOK.min(left));
        }
    }

    /// Plans a batch jointly and works it off.
    fn work(
        &self,
        shared: &Shared<'_>,
        wants: Vec<Want>,
        state: &mut State,
        report: &mut PoolRecovered,
    ) -> Result<()> {
        let pool = Arc::clone(&locked(&shared.pool));
        let began = self.network.now();
        let batch = Batch::new(wants, &shared.snapshot(&pool), &shared.rules)?;
        let took = self.network.now().saturating_sub(began);
        report.planned(&batch, took.as_secs_f64());
        *locked(&shared.concentration) = batch.concentration();
        shared.look_at_limits();
        match self.options.jobs.clamp(1, 64) {
            // One at a time needs no threads, and a simulation allows none.
            1 => {
                for at in 0..batch.jobs().len() {
                    if self.control.stopped() {
                        break;
                    }
                    let ended = shared.guarded_job(&batch, at);
                    self.hear(&batch, at, &ended, state, report);
                }
            }
            threads => {
                let threads = threads.min(batch.jobs().len());
                self.at_once(threads, &batch, shared, state, report);
            }
        }
        // What a stop left over waits for its turn again, as does what was found damaged since.
        for job in batch.jobs() {
            if let Some(damaged) = &job.want.damaged {
                state.queue.release(&damaged.key);
            }
        }
        self.note_damage(&pool, &batch, state)?;
        Ok(())
    }

    /// Works a batch off by several threads, and hears how their jobs end.
    fn at_once(
        &self,
        threads: usize,
        batch: &Batch,
        shared: &Shared<'_>,
        state: &mut State,
        report: &mut PoolRecovered,
    ) {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        let todo: Mutex<VecDeque<usize>> = Mutex::new((0..batch.jobs().len()).collect());
        let (tell, ends) = channel();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (tell, todo) = (tell.clone(), &todo);
                scope.spawn(move || {
                    loop {
                        let next = locked(todo).pop_front();
                        let Some(at) = next.filter(|_| !self.control.stopped()) else { break };
                        // The one who listens is this scope.
                        let _ = tell.send((at, shared.guarded_job(batch, at)));
                    }
                });
            }
            drop(tell);
            loop {
                match ends.recv_timeout(LOOK) {
                    Ok((at, ended)) => self.hear(batch, at, &ended, state, report),
                    Err(Timeout) => {}
                    Err(Disconnected) => break,
                }
                shared.look_at_limits();
            }
        });
    }

    /// Takes note of how a job ended.
    fn hear(
        &self,
        batch: &Batch,
        at: usize,
        ended: &Ended,
        state: &mut State,
        report: &mut PoolRecovered,
    ) {
        let want = &batch.jobs()[at].want;
        let Some(Damaged { key, .. }) = want.damaged else { return };
        let tries = state.tries.entry(key).or_default();
        match &ended.outcome {
            Outcome::Repaired | Outcome::Whole | Outcome::Gone => state.queue.done(&key),
            // Told to stop: nothing went wrong.
            Outcome::Failed(_) if self.control.stopped() => {}
            Outcome::Failed(error) => {
                *tries += 1;
                let name = &want.listed.name;
                self.control.warn(&format!("{name}: {error}"));
                if *tries >= self.options.tries && !self.options.stay {
                    state.given_up.insert(key);
                    state.queue.withdraw(&key);
                    report.gave_up(name, error);
                } else {
                    state.queue.failed(&key, self.control.now_ms());
                }
            }
        }
        if !ended.rotten.is_empty() {
            state.rotten.insert(key, ended.rotten.clone());
        }
        report.add(&want.listed.name, ended);
    }

    /// Damage that was known is mended now, and other damage may have been found.
    fn note_damage(&self, pool: &Pool, batch: &Batch, state: &mut State) -> Result<()> {
        let wants = batch.jobs().iter().map(|job| &job.want);
        let mended = wants.filter(|want| !want.suspects.is_empty()).filter_map(|want| {
            let key = want.damaged.as_ref()?.key;
            (!state.queue.holds(&key) && !state.given_up.contains(&key)).then(|| (key, Vec::new()))
        });
        let mut damage: Vec<(Key, Vec<u16>)> = mended.collect();
        damage.extend(std::mem::take(&mut state.rotten));
        if !damage.is_empty() {
            (self.index)(pool)?.set_damage(&damage)?;
        }
        Ok(())
    }
}

/// What a recovery remembers from batch to batch.
struct State {
    queue: RepairQueue,
    tries: BTreeMap<Key, u32>,
    given_up: BTreeSet<Key>,
    /// Shards that repairs found damaged; a new survey repairs them too.
    rotten: BTreeMap<Key, Vec<u16>>,
    /// Since when too few nodes can be reached.
    stuck: Option<Duration>,
}

impl State {
    /// Whether to go on trying although too few nodes can be reached.
    fn patient(&mut self, now: Duration, patience: Duration) -> bool {
        now < *self.stuck.get_or_insert(now) + patience
    }
}

impl Shared<'_> {
    /// The pool as planners see it: without agents that failed lately.
    fn snapshot<'p>(&self, pool: &'p Pool) -> Snapshot<'p> {
        let config = pool.config();
        let away: BTreeSet<&str> = pool.away().iter().map(|(node, _)| &node.id[..]).collect();
        let suspects = self.suspects();
        let usable = config.node.iter().enumerate().map(|(at, node)| {
            !away.contains(&node.id[..]) && Address::is_meant(&node.url) && !suspects.contains(&at)
        });
        let usable = usable.collect();
        let to = &self.recovery.options.to;
        let to = to.iter().filter_map(|id| config.position(id)).collect::<Vec<_>>();
        Snapshot { config, usable, to: (!to.is_empty()).then_some(to) }
    }

    /// Repairs the object of a job; a panic fails this job only.
    fn guarded_job(&self, batch: &Batch, at: usize) -> Ended {
        let run = std::panic::AssertUnwindSafe(|| self.job(batch, at));
        std::panic::catch_unwind(run).unwrap_or_else(|_| {
            Ended::failed(PoolError::Internal { what: "a panic".into() }.into())
        })
    }

    /// Brings the limit of each node up to date.
    fn look_at_limits(&self) {
        let concentration = *locked(&self.concentration);
        let rate = self.recovery.control.limits().of_node(concentration);
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn suspects(&self) -> BTreeSet<usize> {
        let mut suspects = locked(&self.suspects);
        suspects.retain(|_, until| *until > self.recovery.network.now());
        suspects.keys().copied().collect()
    }

    fn suspect(&self, node: usize, time: Duration) {
        locked(&self.suspects).insert(node, self.recovery.network.now() + time);
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&locked(&self.pool))
    }

    /// Looks again who is there.
    fn reopen(&self) -> Result<Arc<Pool>> {
        let pool = Arc::new((self.recovery.open)()?);
        *locked(&self.pool) = Arc::clone(&pool);
        Ok(pool)
    }
}
