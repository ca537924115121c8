//! The rules, one by one, and all of them against a slow and simple queue.

use super::*;
use proptest::prelude::*;

const RULES: Rules =
    Rules { capacity: 8, transient_wait_ms: 50, first_backoff_ms: 10, most_backoff_ms: 35 };

fn damaged(number: u8, margin: i32, bytes: u64, transient: bool) -> Damaged {
    Damaged { key: Key([number; 16]), lost: vec![0], margin, bytes, transient }
}

fn number(damaged: Option<Damaged>) -> Option<u8> {
    damaged.map(|damaged| damaged.key.0[0])
}

#[test]
fn the_most_endangered_comes_first_then_the_oldest() {
    let mut queue = RepairQueue::new(RULES);
    for (at, margin) in [(1, 2), (2, 0), (3, 1), (4, 0), (5, -1)] {
        queue.report(damaged(at, margin, 1, false), 0);
    }
    let order: Vec<u8> = std::iter::from_fn(|| number(queue.next(0))).collect();
    assert_eq!(order, [2, 4, 3, 1], "what cannot be repaired is not tried");
    assert_eq!(
        queue.by_margin().into_iter().collect::<Vec<_>>(),
        [(-1, 1), (0, 2), (1, 1), (2, 1)]
    );
}

#[test]
fn what_a_survey_saw_first_stays_first() {
    let (mut queue, mut seen) = (RepairQueue::new(RULES), RepairQueue::new(RULES));
    [3, 1, 2].iter().for_each(|at| seen.report(damaged(*at, 0, 1, false), 0));
    queue.follow(&seen, 0);
    let order: Vec<u8> = std::iter::from_fn(|| number(queue.next(0))).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[test]
fn news_change_the_rank() {
    let mut queue = RepairQueue::new(RULES);
    queue.report(damaged(1, 1, 1, false), 0);
    queue.report(damaged(2, 2, 1, false), 0);
    queue.report(damaged(2, 0, 1, false), 0);
    assert_eq!(number(queue.next(0)), Some(2));
}

#[test]
fn a_loss_that_may_pass_waits_and_certain_news_end_the_wait() {
    let mut queue = RepairQueue::new(RULES);
    queue.report(damaged(1, 0, 1, true), 100);
    queue.report(damaged(2, 0, 1, true), 100);
    assert_eq!(number(queue.next(149)), None);
    assert_eq!(queue.wakes_at(), Some(150));
    queue.report(damaged(2, 0, 1, false), 149);
    assert_eq!(number(queue.next(149)), Some(2));
    queue.withdraw(&Key([1; 16]));
    assert_eq!(number(queue.next(1000)), None, "its node came back");
}

#[test]
fn failures_wait_twice_as_long_each_time() {
    let mut queue = RepairQueue::new(RULES);
    queue.report(damaged(1, 0, 1, false), 0);
    let mut now = 0;
    for wait in [10, 20, 35, 35] {
        assert_eq!(number(queue.next(now)), Some(1));
        queue.failed(&Key([1; 16]), now);
        assert_eq!(number(queue.next(now + wait - 1)), None);
        now += wait;
    }
    for _ in 0..100 {
        assert_eq!(number(queue.next(now)), Some(1));
        queue.failed(&Key([1; 16]), now);
        now += 35;
    }
}

#[test]
fn a_full_queue_leaves_out_the_least_endangered_and_says_so() {
    let mut queue = RepairQueue::new(RULES);
    for at in 0..20 {
        queue.report(damaged(at, i32::from(20 - at), 1, false), 0);
    }
    assert_eq!(queue.len(), RULES.capacity);
    assert!(queue.overflowed());
    assert_eq!(number(queue.next(0)), Some(19));
}

#[derive(Clone, Debug)]
enum Step {
    Report(u8, i32, u64, bool),
    Next,
    Done(u8),
    Failed(u8),
    Withdraw(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..6, -1i32..4, 1u64..80, any::<bool>())
            .prop_map(|(a, b, c, d)| Step::Report(a, b, c, d)),
        Just(Step::Next),
        (0u8..6).prop_map(Step::Done),
        (0u8..6).prop_map(Step::Failed),
        (0u8..6).prop_map(Step::Withdraw),
        (0u64..60).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn nothing_runs_twice_and_nothing_is_lost(
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut queue = RepairQueue::new(RULES);
        let mut known = BTreeMap::new();
        let mut running: BTreeSet<u8> = BTreeSet::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Report(at, margin, bytes, transient) => {
                    known.insert(at, (margin, bytes));
                    queue.report(damaged(at, margin, bytes, transient), now);
                }
                Step::Next => if let Some(next) = queue.next(now) {
                    prop_assert!(running.insert(next.key.0[0]), "runs already");
                    prop_assert!(next.margin >= 0);
                },
                Step::Done(at) | Step::Withdraw(at) => {
                    queue.done(&Key([at; 16]));
                    known.remove(&at);
                    running.remove(&at);
                }
                Step::Failed(at) => {
                    queue.failed(&Key([at; 16]), now);
                    running.remove(&at);
                }
                Step::Wait(ms) => now += ms,
            }
            prop_assert_eq!(queue.running(), running.len());
            prop_assert_eq!(queue.len(), known.len());
            prop_assert_eq!(queue.bytes(), known.values().map(|(_, bytes)| bytes).sum::<u64>());
        }
        // After a long time all that can be repaired comes, one after the other.
        running.iter().for_each(|at| queue.failed(&Key([*at; 16]), now));
        let mut left: BTreeSet<u8> =
            known.iter().filter(|(_, (margin, _))| *margin >= 0).map(|(at, _)| *at).collect();
        while let Some(next) = queue.next(now + 1000) {
            prop_assert!(left.remove(&next.key.0[0]));
            queue.done(&next.key);
        }
        prop_assert!(left.is_empty());
    }
}
