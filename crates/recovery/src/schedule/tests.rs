use super::*;
use crate::batch::{Rules, Snapshot};
use kiln_net::NetError;
use kiln_pool::{Listed, NodeConfig, Policy, PoolConfig};

fn at(seconds: u64) -> Now {
    Now { elapsed: Duration::from_secs(seconds), ms: seconds * 1000 }
}

fn scheduler(change: impl FnOnce(&mut RecoverOptions)) -> Scheduler {
    let mut options = RecoverOptions { wait_ms: 0, tries: 2, ..RecoverOptions::default() };
    change(&mut options);
    Scheduler::new(options)
}

/// Returns a survey of these objects, each with the number of further losses that it tolerates.
fn seen(scheduler: &Scheduler, objects: &[(&str, i32)]) -> (RepairQueue, PoolStatus) {
    let mut queue = RepairQueue::new(Scheduler::rules(&scheduler.options));
    let mut status = PoolStatus::default();
    for &(name, margin) in objects {
        let key = Key::of(name).unwrap();
        queue.report(Damaged { key, lost: vec![0], margin, bytes: 10, transient: false }, 0);
        *status.endangered.entry(margin).or_default() += 1;
        status.unreadable += u64::from(margin < 0);
    }
    (queue, status)
}

/// Surveys, and begins a batch when there is something to do. Names in capitals are of objects that
/// were known to be damaged.
fn survey(scheduler: &mut Scheduler, now: Now, objects: &[(&str, i32)]) -> Option<Next> {
    let (queue, status) = seen(scheduler, objects);
    let name = |key: &Key| objects.iter().find(|(name, _)| Key::of(name).unwrap() == *key);
    let want = |damaged: Damaged| {
        let name = name(&damaged.key).unwrap().0.to_owned();
        let listed = Listed { name, ..Listed::default() };
        let suspects = if listed.name.to_lowercase() == listed.name { vec![] } else { vec![4] };
        DamagedObject { listed, damaged: Some(damaged), suspects, ..DamagedObject::default() }
    };
    let wants = scheduler.due(now, &queue).into_iter().map(want).collect();
    let wants = match scheduler.surveyed(now, &status, wants) {
        Next::Plan(wants) => wants,
        other => return Some(other),
    };
    let mut config = PoolConfig::new([1; 16], "test", Policy::for_code("rs:2+1").unwrap());
    config.node.push(NodeConfig::new("n0", "kiln://h0:1"));
    let pool = Snapshot { config: &config, usable: vec![true], to: None };
    let batch = Batch::new(wants, &pool, &Rules::new("central", 1).unwrap()).unwrap();
    scheduler.begin(now, Arc::new(batch), 0.0);
    None
}

fn failed() -> RepairOutcome {
    RepairOutcome::failed(NetError::protocol("told to"))
}

fn name(scheduler: &Scheduler, at: usize) -> String {
    scheduler.batch.repairs()[at].want.listed.name.clone()
}

#[test]
fn jobs_at_once_each_end_once_and_the_most_endangered_begin_first() {
    let mut scheduler = scheduler(|_| ());
    assert!(survey(&mut scheduler, at(0), &[("calm", 3), ("urgent", 0), ("other", 1)]).is_none());
    assert_eq!(scheduler.bytes(), 30);
    let taken = [scheduler.take(), scheduler.take(), scheduler.take(), scheduler.take()];
    assert_eq!(taken, [Some(0), Some(1), Some(2), None]);
    let names: Vec<String> = (0..3).map(|job| name(&scheduler, job)).collect();
    assert_eq!(names, ["urgent", "other", "calm"]);
    // They end in any order, some well.
    assert!(scheduler.ended(at(1), 2, &Outcome::Repaired.into(), false).is_none());
    assert!(scheduler.ended(at(1), 0, &failed(), false).unwrap().contains("urgent: "));
    assert!(scheduler.ended(at(2), 1, &Outcome::Gone.into(), false).is_none());
    assert!(scheduler.finish().is_empty());
    // What failed waits for a second.
    assert!(matches!(survey(&mut scheduler, at(1), &[("urgent", 0)]), Some(Next::Settle)));
    assert!(matches!(scheduler.idle(at(1)), Next::Rest(time) if time.as_millis() == 1001));
    assert!(survey(&mut scheduler, at(3), &[("urgent", 0)]).is_none());
    assert_eq!((scheduler.take(), scheduler.take()), (Some(0), None));
    scheduler.ended(at(3), 0, &failed(), false);
    scheduler.finish();
    // Two failures are enough; then there is nothing left to do.
    assert!(matches!(survey(&mut scheduler, at(90), &[("urgent", 0)]), Some(Next::Settle)));
    assert!(matches!(scheduler.idle(at(90)), Next::End));
    let report = scheduler.report();
    assert_eq!((report.repaired, report.failed_count, report.waiting), (1, 1, 0));
}

#[test]
fn a_repair_on_demand_tries_each_object_once_and_looks_again_only_to_settle() {
    let mut scheduler = Scheduler::new(RecoverOptions::on_demand(OnDemand::default()));
    assert!(survey(&mut scheduler, at(0), &[("a", 0), ("b", 1), ("lost", -1)]).is_none());
    let (a, b) = (scheduler.take().unwrap(), scheduler.take().unwrap());
    let warning = scheduler.ended(at(0), a, &failed(), false).unwrap();
    assert!(!warning.starts_with("a: "), "the error names the object: {warning}");
    let waits = RepairOutcome { waits: true, ..RepairOutcome::default() };
    scheduler.ended(at(0), b, &waits, false);
    scheduler.finish();
    assert!(matches!(scheduler.worked(true), Next::End));
    assert!(matches!(scheduler.worked(false), Next::Survey));
    assert!(matches!(survey(&mut scheduler, at(1), &[("a", 0), ("b", 1)]), Some(Next::Settle)));
    assert!(matches!(scheduler.idle(at(1)), Next::End));
    let done = scheduler.report();
    assert_eq!((done.damaged, done.failed_count, done.waiting, done.repaired), (3, 1, 1, 0));
}

#[test]
fn who_stays_never_gives_up_and_waits_longer_each_time() {
    let mut scheduler = scheduler(|options| options.stay = true);
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..9 {
        assert!(survey(&mut scheduler, at(now), &[("x", 0)]).is_none());
        let job = scheduler.take().unwrap();
        scheduler.ended(at(now), job, &failed(), false);
        scheduler.finish();
        waits.push(scheduler.queue.wakes_at().unwrap() / 1000 - now);
        now += waits.last().unwrap();
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert!(matches!(scheduler.survey_failed(at(now), "away"), Some(Next::Rest(_))));
    survey(&mut scheduler, at(now), &[]);
    assert!(matches!(scheduler.idle(at(now)), Next::Rest(time) if time.as_secs() == 30));
}

#[test]
fn what_a_stop_left_over_is_due_again_and_is_no_failure() {
    let mut scheduler = scheduler(|options| options.tries = 1);
    assert!(survey(&mut scheduler, at(0), &[("a", 0), ("b", 0), ("c", 0)]).is_none());
    let (first, second) = (scheduler.take().unwrap(), scheduler.take().unwrap());
    assert!(scheduler.ended(at(1), first, &failed(), true).is_none());
    scheduler.ended(at(1), second, &Outcome::Repaired.into(), true);
    let left = [first, 2].map(|job| name(&scheduler, job));
    scheduler.finish();
    assert!(survey(&mut scheduler, at(1), &[(&left[0], 0), (&left[1], 0)]).is_none());
    assert_eq!(scheduler.batch.repairs().len(), 2);
}

#[test]
fn too_few_nodes_are_waited_for_but_not_for_ever() {
    let mut scheduler = scheduler(|options| options.patience = Duration::from_secs(10));
    assert!(
        matches!(scheduler.survey_failed(at(0), "away"), Some(Next::Rest(time)) if time == BETWEEN)
    );
    let (queue, mut status) = seen(&scheduler, &[("gone", -1)]);
    status.nodes.push(kiln_pool::NodeStatus::default());
    assert!(scheduler.due(at(5), &queue).is_empty());
    assert!(matches!(scheduler.surveyed(at(5), &status, Vec::new()), Next::Rest(_)));
    assert!(matches!(scheduler.surveyed(at(10), &status, Vec::new()), Next::Settle));
    assert!(matches!(scheduler.idle(at(10)), Next::End));
    assert!(scheduler.survey_failed(at(10), "away").is_none());
    // Once enough of them are there, patience begins anew.
    status.unreadable = 0;
    assert!(matches!(scheduler.surveyed(at(11), &status, Vec::new()), Next::Settle));
    assert!(scheduler.survey_failed(at(12), "away").is_some());
}

#[test]
fn a_pool_of_which_too_little_is_seen_is_not_called_whole() {
    let mut scheduler = scheduler(|options| options.patience = Duration::from_secs(10));
    // Nothing is known to be damaged, as nothing is known at all.
    let mut status = PoolStatus { incomplete: true, ..PoolStatus::default() };
    status.nodes.push(kiln_pool::NodeStatus::default());
    assert!(matches!(scheduler.surveyed(at(0), &status, Vec::new()), Next::Rest(_)));
    assert!(matches!(scheduler.surveyed(at(9), &status, Vec::new()), Next::Rest(_)));
    assert!(matches!(scheduler.surveyed(at(10), &status, Vec::new()), Next::Settle));
    assert!(scheduler.report().incomplete);
}

#[test]
fn a_node_that_stays_away_is_waited_for_and_then_given_up() {
    let mut scheduler = scheduler(|options| options.wait_ms = 10_000);
    let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(scheduler.missing(at(0), ids(&["a"])).unwrap().contains("a; if that lasts 10 s"));
    assert!(scheduler.missing(at(4), ids(&["a", "b"])).unwrap().contains(" b;"));
    let away =
        |scheduler: &Scheduler, now| ["a", "b"].map(|id| scheduler.gave_up_node(at(now), id));
    assert_eq!(away(&scheduler, 9), [false, false]);
    assert!(matches!(scheduler.idle(at(9)), Next::Rest(time) if time.as_secs() == 1));
    assert_eq!(away(&scheduler, 10), [true, false]);
    // The pool does without the first one; the second one is back for a moment.
    assert!(scheduler.missing(at(10), ids(&["b"])).is_none());
    scheduler.missing(at(11), ids(&[]));
    scheduler.missing(at(12), ids(&["b"]));
    assert_eq!(away(&scheduler, 21), [false, false]);
    assert_eq!(away(&scheduler, 22), [false, true]);
    // No quorum can be found: that is said, and not waited for.
    assert!(matches!(scheduler.idle(at(22)), Next::End));
    assert_eq!(scheduler.report().missing, ["b"]);
}

#[test]
fn a_survey_that_failed_half_way_loses_nothing() {
    let mut scheduler = scheduler(|_| ());
    let (queue, _) = seen(&scheduler, &[("a", 0)]);
    assert_eq!(scheduler.due(at(0), &queue).len(), 1);
    assert!(scheduler.due(at(0), &queue).is_empty());
    assert!(scheduler.survey_failed(at(0), "away").is_some());
    assert_eq!(scheduler.due(at(0), &queue).len(), 1);
}

#[test]
fn damage_that_was_known_is_healed_or_is_known_still() {
    let mut scheduler = scheduler(|_| ());
    assert!(survey(&mut scheduler, at(0), &[("A", 0), ("B", 1), ("c", 2)]).is_none());
    let (a, b) = (scheduler.take().unwrap(), scheduler.take().unwrap());
    scheduler.ended(at(0), a, &Outcome::Repaired.into(), false);
    scheduler.ended(at(0), b, &RepairOutcome { damaged: Some(vec![2]), ..failed() }, false);
    let key = |name: &str| Key::of(name).unwrap();
    let c = scheduler.take().unwrap();
    scheduler.ended(at(0), c, &Outcome::Whole.into(), false);
    assert_eq!(scheduler.finish(), [(key("A"), Vec::new()), (key("B"), vec![2, 4])]);
    assert!(scheduler.finish().is_empty());
}

#[test]
fn what_is_waited_for_is_told_with_its_end_and_what_ends_first_before_the_rest() {
    let mut scheduler = scheduler(|options| {
        (options.wait_ms, options.stay) = (600_000, true);
        options.scrub_every = Some(Duration::from_secs(86_400));
    });
    let done = ScrubPosition { began_ms: 1, ended_ms: 2, rounds: 1, ..ScrubPosition::default() };
    scheduler = scheduler.scrubbing(done);
    let told = |scheduler: &Scheduler, now| {
        let waits = scheduler.state(at(now)).waits.into_iter();
        waits.map(|wait| (wait.reason, wait.until_ms)).collect::<Vec<_>>()
    };
    scheduler.missing(at(100), vec!["a".to_owned()]);
    scheduler.missing(at(130), vec!["a".to_owned(), "b".to_owned()]);
    let nodes = [(WaitReason::Node, 700_000), (WaitReason::Node, 730_000)];
    let scrub = (WaitReason::Scrub, 86_400_001);
    assert_eq!(told(&scheduler, 130), [nodes[0], nodes[1], scrub]);
    // Nothing can be done: then the next survey is shown too.
    let Next::Rest(rest) = scheduler.idle(at(140)) else { panic!("it stays") };
    scheduler.enter(at(140), Phase::Waiting, Some(rest));
    assert_eq!(told(&scheduler, 140), [(WaitReason::Look, 170_000), nodes[0], nodes[1], scrub]);
    assert_eq!(scheduler.state(at(140)).phase, Phase::Waiting);
    // The first one is given up, and not waited for any more.
    scheduler.enter(at(710), Phase::Surveying, None);
    assert_eq!(told(&scheduler, 710), [nodes[1], scrub]);
}

#[test]
fn patience_with_nodes_that_cannot_be_reached_is_counted_down() {
    let mut scheduler = scheduler(|options| options.patience = Duration::from_secs(60));
    assert!(scheduler.survey_failed(at(5), "a link is cut").is_some());
    let state = scheduler.state(at(20));
    assert_eq!(state.survey_error.as_deref(), Some("a link is cut"));
    assert_eq!(state.waits[0].reason, WaitReason::Reach);
    assert_eq!(state.waits[0].seconds_left(20_000), 45);
    scheduler.surveyed(at(30), &PoolStatus::default(), Vec::new());
    let state = scheduler.state(at(30));
    assert!(state.survey_error.is_none() && state.waits.is_empty(), "{state:?}");
}

#[test]
fn scrubs_come_when_nothing_is_to_be_repaired_and_only_to_those_who_stay() {
    let every = Some(Duration::from_secs(100));
    let mut leaving = scheduler(|options| options.scrub_every = every);
    leaving = leaving.scrubbing(ScrubPosition::default());
    assert!(matches!(leaving.idle(at(0)), Next::End) && leaving.state(at(0)).scrub.is_none());
    let mut scheduler = scheduler(|options| (options.stay, options.scrub_every) = (true, every));
    scheduler = scheduler.scrubbing(ScrubPosition::default());
    assert!(survey(&mut scheduler, at(0), &[("a", 0)]).is_none(), "a repair comes first");
    let job = scheduler.take().unwrap();
    scheduler.ended(at(1), job, &Outcome::Repaired.into(), false);
    scheduler.finish();
    assert!(matches!(survey(&mut scheduler, at(1), &[]), Some(Next::Settle)));
    scheduler.missing(at(1), vec!["n1".to_owned()]);
    assert!(!matches!(scheduler.idle(at(1)), Next::Scrub(_)), "what a node has looks damaged");
    scheduler.missing(at(1), Vec::new());
    assert!(matches!(scheduler.idle(at(1)), Next::Scrub(None)));
    scheduler.begin_scrub(at(1));
    let part = ScrubReport { objects: 2, damaged: 1, ..ScrubReport::default() };
    let position = scheduler.scrubbed(at(2), &part, Some("m".into())).unwrap();
    assert_eq!((position.objects, position.findings), (2, 1));
    // It goes on behind that object; where nothing can be read, after a while.
    assert!(matches!(scheduler.idle(at(2)), Next::Scrub(Some(after)) if after == "m"));
    scheduler.scrub_failed(at(3));
    assert!(matches!(scheduler.idle(at(3)), Next::Rest(time) if time.as_secs() == 30));
    assert!(matches!(scheduler.idle(at(33)), Next::Scrub(Some(_))));
    scheduler.scrubbed(at(34), &part, None).unwrap();
    assert!(matches!(scheduler.idle(at(34)), Next::Rest(time) if time.as_secs() == 30));
    assert!(matches!(scheduler.idle(at(101)), Next::Scrub(None)));
}

#[test]
fn progress_is_that_of_the_batch_with_a_rate_and_an_end() {
    let mut scheduler = scheduler(|_| ());
    assert!(survey(&mut scheduler, at(0), &[("a", 0), ("b", 1)]).is_none());
    scheduler.enter(at(0), Phase::Repairing, None);
    let (a, b) = (scheduler.take().unwrap(), scheduler.take().unwrap());
    let load = TransferCounters { sent: 7, read: 9, ..TransferCounters::default() };
    scheduler.moved(b, &[(0, load)], &|node| format!("n{node}"));
    scheduler.keep(at(2), a, 4);
    scheduler.keep(at(4), b, 4);
    let state = scheduler.state(at(4));
    assert_eq!((state.planned_bytes, state.kept_bytes), (20, 8));
    assert_eq!((state.rate_bytes, state.seconds_left), (2, Some(6)));
    let running: Vec<_> = state.running.iter().map(|r| (&r.object[..], r.kept_bytes)).collect();
    assert_eq!(running, [("a", 4), ("b", 4)]);
    assert_eq!((state.traffic["n0"].sent, state.traffic["n0"].read), (7, 9));
    // What has ended does not run; its traffic comes with its end.
    scheduler.ended(at(5), b, &Outcome::Whole.into(), false);
    let state = scheduler.state(at(5));
    assert!(state.running.len() == 1 && state.traffic.is_empty());
}

#[test]
fn small_objects_are_taken_together_and_large_ones_alone() {
    let small = |at: usize, code: &str, size: u64| DamagedObject {
        listed: Listed { name: format!("o{at}"), code: code.into(), size, ..Listed::default() },
        ..DamagedObject::default()
    };
    let kinds = [("inline", 900), ("inline", 800), ("rs:4+2", 90_000), ("inline", 700)];
    let wants = |from: usize| {
        let large = [("rs:4+2", 9 << 20)].into_iter().chain(kinds);
        let wants = large.enumerate().map(|(at, (code, size))| small(at, code, size));
        wants.skip(from).collect::<Vec<_>>()
    };
    let taken = |on_demand: bool, wants| {
        let one = on_demand.then(OnDemand::default);
        let mut scheduler = scheduler(|options| options.on_demand = one);
        scheduler.begin(at(0), Arc::new(Batch::unplanned(wants)), 0.0);
        let mut take = || Some(scheduler.take_together()).filter(|jobs| !jobs.is_empty());
        std::iter::from_fn(&mut take).collect::<Vec<_>>()
    };
    assert_eq!(taken(true, wants(0)), [0..1, 1..5]);
    // Agents have what is in shards.
    assert_eq!(taken(false, wants(0)), [0..1, 1..3, 3..4, 4..5]);
    assert_eq!(taken(true, (0..2_000).map(|at| small(at, "inline", 9)).collect()).len(), 2);
}
