//! Next steps in the recovery of a pool: a survey, a joint plan, repairs at once, rest, the end.
//!
//! Nothing is remembered between runs: a new survey finds what is still damaged, and what a repair
//! had begun to write is gone on with where it lies.

use std::collections::{BTreeMap, BTreeSet};
use std::{ops::Range, sync::Arc, time::Duration};

use kiln_plan::SearchBudget;
use kiln_pool::repair::queue::{self, Damaged, RepairQueue};
use kiln_pool::{Key, PoolStatus, ScrubReport, layout::INLINE, repair::together};

use super::batch::{self, Batch, DamagedObject, PlannedRepair};
use super::report::{Outcome, RepairOutcome};
use super::scrub::{ScrubPosition, ScrubSchedule};
use super::state::{
    Phase, Rate, RecoveryState, RunningRepair, ScrubState, ShownPlan, Wait, WaitReason,
};
use super::{Now, PoolRecovered, Prices, RateLimits, suspects::Suspects};
use kiln_net::task::TransferCounters;

/// Objects that are planned together at most.
const BATCH: usize = 4096;
/// Wait after the first failure of an object, and the longest.
const BACKOFF_MS: (u64, u64) = (1_000, 60_000);
/// Between two surveys while too few nodes can be reached.
const BETWEEN: Duration = Duration::from_secs(2);

/// A repair that a command asked for: computed in this process, without waits, each object once.
/// Members stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnDemand {
    /// Rebuild the shards of unavailable nodes on other nodes.
    pub away: bool,
    /// Write nothing, report the repairs that would be made.
    pub dry_run: bool,
}

/// Options of a recovery.
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
    /// Time that a node is unavailable before its shards are rebuilt elsewhere, in ms.
    pub wait_ms: u64,
    /// Go on looking after the pool when all is repaired.
    pub stay: bool,
    /// Interval of surveys while there is nothing to repair.
    pub every: Duration,
    /// Tries of an object's repair; with `stay` without limit.
    pub tries: u32,
    /// Time limit of retries while too few nodes can be reached for anything to be done.
    pub patience: Duration,
    /// With `stay`: how far apart rounds begin that read all that is stored; `None`: there are
    /// none.
    pub scrub_every: Option<Duration>,
    /// Prices of reads and bytes at the pool's nodes: each object is then repaired by the cheapest
    /// plan, where agents can; joint plans say only where rebuilt shards go.
    pub prices: Option<Prices>,
    /// Seed of all choices.
    pub seed: u64,
    /// Moves of each search for a plan, at most.
    pub moves: u64,
    /// Repair once, here, and end.
    pub on_demand: Option<OnDemand>,
}

impl Default for RecoverOptions {
    fn default() -> RecoverOptions {
        RecoverOptions {
            strategy: batch::JOINT.to_owned(),
            to: Vec::new(),
            jobs: 4,
            slice: None,
            windows: 16,
            wait_ms: 10 * 60_000,
            stay: false,
            every: Duration::from_secs(30),
            tries: 6,
            patience: Duration::from_secs(60),
            scrub_every: None,
            prices: None,
            seed: 1,
            moves: SearchBudget::MOVES,
            on_demand: None,
        }
    }
}

impl RecoverOptions {
    /// Options of a repair on demand.
    pub fn on_demand(on_demand: OnDemand) -> RecoverOptions {
        RecoverOptions {
            jobs: 1,
            wait_ms: 0,
            tries: 1,
            patience: Duration::ZERO,
            on_demand: Some(on_demand),
            ..RecoverOptions::default()
        }
    }

    /// Repairs at once, within bounds.
    pub(crate) fn at_once(&self) -> usize {
        self.jobs.clamp(1, 64)
    }
}

/// The next step.
#[derive(Debug)]
pub(crate) enum Next {
    /// Look who is there and what is damaged; then [`Scheduler::surveyed`] or
    /// [`Scheduler::survey_failed`].
    Survey,
    /// Plan these repairs jointly, then [`Scheduler::begin`], and do what [`Scheduler::take`] says.
    Plan(Vec<DamagedObject>),
    /// Nothing can be repaired now: the pool takes note of what the survey saw, and then
    /// [`Scheduler::idle`] says what is next.
    Settle,
    /// Read what is stored, from behind this object on; then [`Scheduler::scrubbed`] or
    /// [`Scheduler::scrub_failed`], and a survey.
    Scrub(Option<String>),
    /// Nothing for so long; then a survey.
    Rest(Duration),
    /// It is over.
    End,
}

/// See the module. Several repairs may be under way: the thread that carries one out asks for it by
/// [`Scheduler::take`] and tells its end by [`Scheduler::ended`].
#[derive(Debug)]
pub(crate) struct Scheduler {
    options: RecoverOptions,
    queue: RepairQueue,
    /// Objects that the last survey has taken from the queue.
    due: Vec<Key>,
    failures: BTreeMap<Key, u32>,
    given_up: BTreeSet<Key>,
    /// Shards that repairs found damaged; a new survey repairs them too.
    corrupt: BTreeMap<Key, Vec<u16>>,
    /// Nodes that should be there and are not, by id, since when.
    absent: BTreeMap<String, Duration>,
    /// Since when too few nodes can be reached.
    stuck: Option<Duration>,
    /// The last survey found more than the queue could hold.
    more: bool,
    batch: Arc<Batch>,
    /// Jobs of the batch that were begun.
    begun: usize,
    /// Share of the busiest node in all that is sent, by the batch's plans.
    concentration: Option<f64>,
    suspects: Suspects,
    /// Bytes that every node got, by position: the least loaded gets the next shard.
    load: BTreeMap<usize, u64>,
    /// Bytes that all repairs have kept so far.
    kept: u64,
    report: PoolRecovered,
    scrub: Option<ScrubSchedule>,
    told: Told,
}

/// State that is only reported.
#[derive(Debug, Default)]
struct Told {
    phase: Phase,
    surveyed_ms: Option<u64>,
    survey_error: Option<String>,
    survey: Option<Arc<PoolStatus>>,
    /// By job of the batch.
    running: BTreeMap<usize, RunningRepair>,
    plan: Option<Arc<ShownPlan>>,
    /// Bytes to rebuild when the batch began, and bytes kept until then.
    planned_bytes: u64,
    kept_before: u64,
    rate: Rate,
    /// When the next survey is, while there is nothing else.
    rests_until_ms: u64,
}

impl Scheduler {
    pub fn new(options: RecoverOptions) -> Scheduler {
        let dry_run = options.on_demand.is_some_and(|one| one.dry_run);
        let report = PoolRecovered { dry_run, ..PoolRecovered::new(&options.strategy) };
        Scheduler {
            queue: RepairQueue::new(Scheduler::rules(&options)),
            options,
            due: Vec::new(),
            failures: BTreeMap::new(),
            given_up: BTreeSet::new(),
            corrupt: BTreeMap::new(),
            absent: BTreeMap::new(),
            stuck: None,
            more: false,
            batch: Arc::default(),
            begun: 0,
            concentration: None,
            suspects: Suspects::default(),
            load: BTreeMap::new(),
            kept: 0,
            report,
            scrub: None,
            told: Told::default(),
        }
    }

    /// The same with scrubs on a schedule, if the options ask for them; they go on at `position`.
    pub fn scrubbing(mut self, position: ScrubPosition) -> Scheduler {
        let every = self.options.scrub_every.filter(|_| self.options.stay);
        self.scrub = every.map(|every| ScrubSchedule::new(every, position));
        self
    }

    /// Limits and waits of the queue, for the one of a survey too.
    pub fn rules(options: &RecoverOptions) -> queue::Rules {
        queue::Rules {
            transient_wait_ms: options.wait_ms,
            first_backoff_ms: BACKOFF_MS.0,
            most_backoff_ms: BACKOFF_MS.1,
            ..queue::Rules::default()
        }
    }

    /// These nodes take part and are unavailable. Gives what people should know of it.
    pub fn missing(&mut self, now: Now, ids: Vec<String>) -> Option<String> {
        self.absent.retain(|id, _| ids.contains(id));
        let new: Vec<&str> =
            ids.iter().filter(|id| !self.absent.contains_key(*id)).map(|id| &id[..]).collect();
        let said = (!new.is_empty()).then(|| {
            let lasts = match self.options.wait_ms.div_ceil(1000) {
                0 => String::new(),
                seconds => format!("if that lasts {seconds} s, "),
            };
            format!("unavailable: {}; {lasts}the pool does without", new.join(", "))
        });
        for id in &ids {
            self.absent.entry(id.clone()).or_insert(now.elapsed);
        }
        self.report.missing = ids;
        said
    }

    /// Returns whether a node has been unavailable for so long that the pool does without it.
    pub fn gave_up_node(&self, now: Now, id: &str) -> bool {
        self.absent.get(id).is_some_and(|since| self.given_up_at(*since) <= now.elapsed)
    }

    fn given_up_at(&self, since: Duration) -> Duration {
        since.saturating_add(Duration::from_millis(self.options.wait_ms))
    }

    /// Returns the objects to repair now, of those that a survey has seen.
    pub fn due(&mut self, now: Now, seen: &RepairQueue) -> Vec<Damaged> {
        if self.told.survey.is_none() || self.more {
            self.report.damaged += seen.len() as u64;
        }
        self.queue.follow(seen, now.ms);
        let most = if self.options.on_demand.is_some() { usize::MAX } else { BATCH };
        let mut due = Vec::new();
        while due.len() < most
            && let Some(damaged) = self.queue.next(now.ms)
        {
            if self.given_up.contains(&damaged.key) {
                self.queue.withdraw(&damaged.key);
            } else {
                self.due.push(damaged.key);
                due.push(damaged);
            }
        }
        due
    }

    /// An object that was due is not there any more.
    pub fn gone(&mut self, key: &Key) {
        self.queue.withdraw(key);
    }

    /// A survey has ended; these repairs are wanted.
    pub fn surveyed(&mut self, now: Now, status: &PoolStatus, wants: Vec<DamagedObject>) -> Next {
        self.due.clear();
        self.told.survey = Some(Arc::new(status.clone()));
        (self.told.surveyed_ms, self.told.survey_error) = (Some(now.ms), None);
        // Too few nodes answer just now, as when links were cut: a moment may change that.
        let unavailable = status.nodes.iter().any(|node| !node.present);
        if (status.unreadable == 0 && !status.incomplete) || !unavailable {
            self.stuck = None;
        } else if wants.is_empty() && self.is_patient(now) {
            return Next::Rest(BETWEEN);
        }
        let queue = Some(&self.queue).filter(|_| self.options.on_demand.is_none());
        self.report.surveyed(status, queue);
        // Some wait for their nodes alone: nothing is to be rebuilt.
        let lacking = status.endangered.values().sum::<u64>().saturating_sub(status.waiting);
        self.more = lacking > self.queue.len() as u64;
        match wants.is_empty() {
            true if self.report.dry_run => Next::End,
            true => Next::Settle,
            false => Next::Plan(wants),
        }
    }

    /// The step after a batch. A repair on demand looks again where it could not remember all
    /// damage, and where the map is to be settled.
    pub fn worked(&self, settled: bool) -> Next {
        let ends = self.options.on_demand.is_some() && settled && !self.more;
        if ends || self.report.dry_run { Next::End } else { Next::Survey }
    }

    /// All manifests are in place from an epoch on.
    pub fn settled(&mut self, epoch: Option<u64>) {
        self.report.settled = epoch.or(self.report.settled);
    }

    /// A survey has failed for this reason; `None`: it is time to give up.
    pub fn survey_failed(&mut self, now: Now, why: &str) -> Option<Next> {
        self.told.survey_error = Some(why.to_owned());
        for key in self.due.drain(..) {
            self.queue.release(&key);
        }
        if self.options.stay {
            return Some(Next::Rest(self.options.every));
        }
        self.is_patient(now).then_some(Next::Rest(BETWEEN))
    }

    /// Returns whether to go on trying although too few nodes can be reached.
    fn is_patient(&mut self, now: Now) -> bool {
        now.elapsed < *self.stuck.get_or_insert(now.elapsed) + self.options.patience
    }

    /// Returns the time until there is something to do, or that there will be nothing.
    pub fn idle(&self, now: Now) -> Next {
        if self.options.on_demand.is_some() {
            return Next::End;
        }
        // A survey that found more than it could remember is followed by another one.
        let more = self.more && self.given_up.is_empty();
        let due = self.queue.wakes_at();
        let due = due.map(|at| Duration::from_millis(at.saturating_sub(now.ms) + 1));
        let given_up = self.absent.values().map(|since| self.given_up_at(*since));
        let given_up = given_up.filter(|at| *at > now.elapsed).min().map(|at| at - now.elapsed);
        // While a node is away all that it has would be found to be damaged.
        let scrub = self.scrub.as_ref().filter(|_| self.absent.is_empty());
        let scrub = scrub.map(|scrub| (scrub.wait(now), scrub.position()));
        if let Some((Duration::ZERO, position)) = scrub {
            return Next::Scrub(position.after.clone());
        }
        let first = due.into_iter().chain(given_up).chain(scrub.map(|(wait, _)| wait)).min();
        match (first, self.options.stay || more) {
            (None, false) => Next::End,
            (None, true) => Next::Rest(self.options.every),
            (Some(wait), _) => Next::Rest(wait.min(self.options.every)),
        }
    }

    /// A part of a scrub begins.
    pub fn begin_scrub(&mut self, now: Now) {
        self.told.phase = Phase::Scrubbing;
        if let Some(scrub) = &mut self.scrub {
            scrub.begin(now);
        }
    }

    /// A part of a scrub was done, up to the object `after` or to the end. Gives the position, to
    /// be kept.
    pub fn scrubbed(
        &mut self,
        now: Now,
        part: &ScrubReport,
        after: Option<String>,
    ) -> Option<ScrubPosition> {
        let scrub = self.scrub.as_mut()?;
        scrub.done(now, part, after);
        Some(scrub.position().clone())
    }

    /// A part of a scrub could not be done: it is tried again later.
    pub fn scrub_failed(&mut self, now: Now) {
        let wait = self.options.every;
        self.scrub.iter_mut().for_each(|scrub| scrub.failed(now, wait));
    }

    /// Bytes that are to be rebuilt.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// A batch is planned, which took so many seconds.
    pub fn begin(&mut self, now: Now, batch: Arc<Batch>, seconds: f64) {
        (self.told.planned_bytes, self.told.kept_before) = (self.bytes(), self.done_bytes());
        self.told.rate.restart(now.elapsed, self.done_bytes());
        self.report.planned(&batch, seconds);
        self.concentration = batch.concentration();
        (self.batch, self.begun) = (batch, 0);
    }

    /// The next job of the batch; the most endangered object is the first.
    pub fn take(&mut self) -> Option<usize> {
        let at = self.begun;
        self.begun += usize::from(at < self.batch.repairs().len());
        if let Some(job) = self.batch.repairs().get(at)
            && let Some(damaged) = &job.want.damaged
        {
            let listed = &job.want.listed;
            let repair = RunningRepair::of(listed, &damaged.lost, damaged.margin, damaged.bytes);
            self.told.running.insert(at, repair);
        }
        (self.begun > at).then_some(at)
    }

    /// The next jobs of the batch that this process carries out together; none: all were begun. The
    /// first of them stands for all where running repairs are listed.
    pub fn take_together(&mut self) -> Range<usize> {
        let Some(first) = self.take() else { return 0..0 };
        let batch = Arc::clone(&self.batch);
        let here = self.options.on_demand.is_some();
        // Objects that lie in manifests are no work for agents.
        let bytes_of = |job: &PlannedRepair| match here || job.want.listed.code == INLINE {
            true => job.want.listed.size,
            false => u64::MAX,
        };
        let jobs = together(&batch.repairs()[first..], bytes_of).next();
        self.begun = first + jobs.map_or(1, <[PlannedRepair]>::len);
        first..self.begun
    }

    /// A job has ended (`stopped`: all were told to stop). Gives what people should know.
    pub fn ended(
        &mut self,
        now: Now,
        at: usize,
        ended: &RepairOutcome,
        stopped: bool,
    ) -> Option<String> {
        self.told.running.remove(&at);
        let batch = Arc::clone(&self.batch);
        let want = &batch.repairs()[at].want;
        let key = want.damaged.as_ref()?.key;
        let name = &want.listed.name;
        let mut warning = None;
        if self.options.on_demand.is_some() {
            self.given_up.insert(key);
        }
        match &ended.outcome {
            Outcome::Repaired | Outcome::Whole | Outcome::Gone => self.queue.done(&key),
            // Told to stop: nothing went wrong.
            Outcome::Failed(_) if stopped => {}
            Outcome::Failed(error) => {
                warning = Some(match self.options.on_demand {
                    Some(_) => error.to_string(),
                    None => format!("{name}: {error}"),
                });
                let failures = self.failures.entry(key).or_default();
                *failures += 1;
                if *failures >= self.options.tries && !self.options.stay {
                    self.given_up.insert(key);
                    self.queue.withdraw(&key);
                    self.report.gave_up(name, error);
                } else {
                    self.queue.failed(&key, now.ms);
                }
            }
        }
        if let Some(damaged) = &ended.damaged {
            // If nothing was put in place, all that was known is damaged still.
            let still = matches!((&ended.outcome, &ended.here), (Outcome::Failed(_), None));
            let known = want.suspects.iter().filter(|one| still && !damaged.contains(one));
            self.corrupt.insert(key, damaged.iter().chain(known).copied().collect());
        }
        self.report.add(name, ended);
        warning
    }

    /// The batch is over. Gives the damage of objects as it is known now: none where it is healed,
    /// and what repairs have found.
    pub fn finish(&mut self) -> Vec<(Key, Vec<u16>)> {
        let batch = std::mem::take(&mut self.batch);
        let mut damage = Vec::new();
        for job in batch.repairs() {
            let Some(Damaged { key, .. }) = &job.want.damaged else { continue };
            // What a stop left over waits for its turn again, as does what was found damaged since.
            self.queue.release(key);
            let known = !job.want.suspects.is_empty();
            if known && !self.queue.holds(key) && !self.given_up.contains(key) {
                damage.push((*key, Vec::new()));
            }
        }
        damage.extend(std::mem::take(&mut self.corrupt));
        damage
    }

    /// An agent failed.
    pub fn suspect(&mut self, now: Now, node: usize, storage: bool) {
        self.suspects.add(now.elapsed, node, storage);
    }

    /// Agents that are left alone now, by position.
    pub fn suspects(&mut self, now: Now) -> BTreeSet<usize> {
        self.suspects.at(now.elapsed)
    }

    /// A node gets so many bytes.
    pub fn add_load(&mut self, node: usize, bytes: u64) {
        *self.load.entry(node).or_default() += bytes;
    }

    /// Bytes that every node got.
    pub fn load(&self) -> &BTreeMap<usize, u64> {
        &self.load
    }

    /// The repair of a job has kept so many more bytes.
    pub fn keep(&mut self, now: Now, at: usize, bytes: u64) {
        self.kept += bytes;
        if let Some(repair) = self.told.running.get_mut(&at) {
            repair.kept_bytes += bytes;
        }
        self.told.rate.note(now.elapsed, self.done_bytes());
    }

    /// Notes the bytes that agents moved so far for a job, by position; `id` names them.
    pub fn moved(
        &mut self,
        at: usize,
        nodes: &[(usize, TransferCounters)],
        id: &dyn Fn(usize) -> String,
    ) {
        if let Some(repair) = self.told.running.get_mut(&at) {
            repair.moved(nodes, id);
        }
    }

    /// The repair of a job goes by this plan.
    pub fn planned(&mut self, at: usize, plan: ShownPlan) {
        if let Some(repair) = self.told.running.get_mut(&at) {
            repair.strategy = Some(plan.plan.strategy());
        }
        self.told.plan = Some(Arc::new(plan));
    }

    /// Bytes that all repairs have kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// The limit of each node, by what the busiest one carries in the plans in use.
    pub fn rate(&self, limits: RateLimits) -> u64 {
        limits.of_node(self.concentration)
    }

    /// Returns the totals.
    pub fn report(self) -> PoolRecovered {
        self.report
    }

    /// This is done from now on; `rest`: for so long.
    pub fn enter(&mut self, now: Now, phase: Phase, rest: Option<Duration>) {
        let rest = rest.map_or(0, |rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        (self.told.phase, self.told.rests_until_ms) = (phase, now.ms.saturating_add(rest));
    }

    /// Bytes rebuilt, here too.
    fn done_bytes(&self) -> u64 {
        self.kept + self.report.central_written
    }

    /// Returns the waits, those that end first before the others. Nodes that may come back are
    /// listed while other things are done, too.
    pub fn waits(&self, now: Now) -> Vec<Wait> {
        let ms = |at: Duration| {
            let left = at.saturating_sub(now.elapsed).as_millis();
            now.ms.saturating_add(u64::try_from(left).unwrap_or(u64::MAX))
        };
        let wait = |reason, until_ms| Wait { reason, node: None, until_ms };
        let nodes = self.absent.iter().map(|(id, since)| Wait {
            node: Some(id.clone()),
            ..wait(WaitReason::Node, ms(self.given_up_at(*since)))
        });
        let mut waits: Vec<Wait> = nodes.filter(|wait| wait.until_ms > now.ms).collect();
        if let Some(since) = self.stuck.filter(|_| !self.options.stay) {
            waits.push(wait(WaitReason::Reach, ms(since + self.options.patience)));
        }
        if self.told.phase == Phase::Waiting {
            let retry = self.queue.wakes_at().filter(|at| *at > now.ms);
            // A node that may come back is what its shards wait for.
            let nodes: Vec<u64> = waits.iter().map(|wait| wait.until_ms).collect();
            let own = retry.filter(|at| !nodes.iter().any(|until| at.abs_diff(*until) < 5_000));
            waits.extend(own.map(|at| wait(WaitReason::Retry, at)));
            waits.push(wait(WaitReason::Look, self.told.rests_until_ms));
        }
        if let Some(scrub) = &self.scrub {
            let due = scrub.due_ms(now);
            waits.extend((due > now.ms).then(|| wait(WaitReason::Scrub, due)));
        }
        waits.sort_by(|a, b| (a.until_ms, a.reason, &a.node).cmp(&(b.until_ms, b.reason, &b.node)));
        waits
    }

    /// Returns the present step, with all that was seen and moved.
    pub fn state(&self, now: Now) -> RecoveryState {
        let (told, report, done) = (&self.told, &self.report, self.done_bytes());
        let repairing = told.phase == Phase::Repairing;
        let kept_bytes = done.saturating_sub(told.kept_before).min(told.planned_bytes);
        let rate_bytes = if repairing { told.rate.rate(now.elapsed, done) } else { 0 };
        let left = told.planned_bytes - kept_bytes;
        let mut traffic = report.nodes.clone();
        for (id, load) in told.running.values().flat_map(|repair| &repair.nodes) {
            traffic.entry(id.clone()).or_default().add(load);
        }
        let mut running: Vec<RunningRepair> = told.running.values().cloned().collect();
        running.sort_by_key(|repair| repair.margin);
        RecoveryState {
            phase: told.phase,
            now_ms: now.ms,
            waits: self.waits(now),
            surveyed_ms: told.surveyed_ms,
            survey_error: told.survey_error.clone(),
            survey: told.survey.clone(),
            running,
            planned_bytes: if repairing { told.planned_bytes } else { 0 },
            kept_bytes: if repairing { kept_bytes } else { 0 },
            rate_bytes,
            seconds_left: (rate_bytes > 0).then(|| left.div_ceil(rate_bytes.max(1))),
            repaired: report.repaired,
            central: report.central,
            failed: report.failed_count,
            replanned: report.replanned_count,
            rebuilt_bytes: done,
            traffic,
            scrub: self.scrub.as_ref().map(|scrub| ScrubState {
                position: scrub.position().clone(),
                due_ms: scrub.due_ms(now),
                every_ms: scrub.every_ms(),
            }),
            plan: told.plan.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
