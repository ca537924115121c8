//! Detects a node that keeps all others waiting, and for how long.
//!
//! The nodes of a repair move together, so a slow one shows by what it does while all are slow: it
//! is the only one of those furthest behind that does not wait for pieces of others. That alone is
//! no fault, since one node is always the slowest; it is one when the repair also gets on at a
//! small part of the pace that it had, or not at all, and so do the repairs beside it: what is slow
//! while others are fast only waits for links that it shares with them.
//!
//! The pace is what the busiest node moves. Windows would not do: large ones take longer than an
//! interval, so that none is done in it although all links are full. Nor would the sum over all
//! nodes: of the last window there is in the end one link busy where there were many.

use std::time::Duration;

/// The repair is judged by intervals of this length; two bad ones are enough.
const STRETCH: Duration = Duration::from_secs(5);
/// Share of an interval (in percent) for which all others must have waited for the same node.
const BLAMED: u128 = 60;
/// The repair must be this many times slower than in its best interval. A plan without a helper may
/// move several times as much, so less would not be worth it.
const FACTOR: u64 = 8;

/// The progress of one node, as it last reported it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeProgress {
    /// Windows done.
    pub windows: u64,
    /// Bytes sent, received and kept.
    pub moved: u64,
    /// It waits for pieces of others.
    pub waits: bool,
    /// It has nothing left to do.
    pub done: bool,
}

#[derive(Debug, Default)]
pub(super) struct SlowNodes {
    /// When the present stretch began, what each node had moved then, and how far all repairs
    /// were.
    start: Option<(Duration, Vec<u64>, u64)>,
    /// When an agent last reported, and which node was in the way then.
    last: Option<(Duration, Option<usize>)>,
    /// Time in this stretch that others waited for a node, by rank.
    blamed: Vec<Duration>,
    /// Bytes of the busiest node in the best stretch, and of all repairs in theirs.
    best: (u64, u64),
    /// The node that was waited for in the last interval, if that was a bad one.
    suspect: Option<usize>,
}

impl SlowNodes {
    /// Takes note of how all are doing, and how far all repairs are that share these nodes; gives
    /// the rank of a node that is too slow.
    pub fn note(&mut self, now: Duration, nodes: &[NodeProgress], all: u64) -> Option<usize> {
        let behind = nodes.iter().filter(|node| !node.done).map(|node| node.windows).min()?;
        let moved = || nodes.iter().map(|node| node.moved).collect::<Vec<_>>();
        let (start, before, all_before) = self.start.get_or_insert_with(|| (now, moved(), all));
        self.blamed.resize(nodes.len(), Duration::ZERO);
        if let Some((at, Some(rank))) = self.last {
            self.blamed[rank] += now.saturating_sub(at);
        }
        let mut working = (0..nodes.len()).filter(|rank| {
            let node = &nodes[*rank];
            !node.done && !node.waits && node.windows == behind
        });
        let alone = working.next().filter(|_| working.next().is_none());
        self.last = Some((now, alone));
        let length = now.saturating_sub(*start);
        if length < STRETCH {
            return None;
        }
        let each = nodes.iter().zip(&*before).map(|(node, then)| node.moved.saturating_sub(*then));
        let (done, together) = (each.max().unwrap_or(0), all.saturating_sub(*all_before));
        let worst = (0..nodes.len()).max_by_key(|rank| self.blamed[*rank]);
        let worst =
            worst.filter(|r| self.blamed[*r].as_millis() * 100 >= length.as_millis() * BLAMED);
        let bad = |done: u64, best: u64| done.saturating_mul(FACTOR) < best.max(1);
        let bad = worst.filter(|_| bad(done, self.best.0) && bad(together, self.best.1));
        let found = bad.filter(|_| self.suspect == bad);
        self.suspect = bad;
        self.best = (self.best.0.max(done), self.best.1.max(together));
        self.start = Some((now, moved(), all));
        self.blamed.fill(Duration::ZERO);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node 0 sends, 1 sends, 2 receives; windows a second as told, the culprit always `who`.
    fn run(paces: &[u64], who: impl Fn(u64) -> Option<usize>) -> Option<(u64, usize)> {
        run_beside(paces, 0, who)
    }

    /// The same while other repairs do so much a second.
    fn run_beside(
        paces: &[u64],
        others: u64,
        who: impl Fn(u64) -> Option<usize>,
    ) -> Option<(u64, usize)> {
        let (mut slow, mut windows) = (SlowNodes::default(), 0);
        for (second, pace) in paces.iter().enumerate() {
            windows += pace;
            let second = second as u64;
            let culprit = who(second);
            let node = |rank: usize| NodeProgress {
                windows: windows + u64::from(culprit.is_some_and(|c| c != rank && rank < 2)),
                moved: 1000 * windows,
                waits: rank == 2,
                done: false,
            };
            let nodes = [node(0), node(1), node(2)];
            if let Some(rank) =
                slow.note(Duration::from_secs(second), &nodes, windows + others * second)
            {
                return Some((second, rank));
            }
        }
        None
    }

    #[test]
    fn a_helper_that_becomes_slow_is_named_within_half_a_minute() {
        let paces: Vec<u64> = (0..60).map(|second| if second < 20 { 10 } else { 1 }).collect();
        let (second, rank) = run(&paces, |_| Some(1)).unwrap();
        assert!(rank == 1 && (30..40).contains(&second), "{rank} at {second}");
        let (second, rank) = run(&[0; 60], |_| Some(0)).unwrap();
        assert!(rank == 0 && second <= 12, "{rank} at {second}");
    }

    #[test]
    fn who_is_only_the_slowest_stays() {
        assert_eq!(run(&[10; 60], |_| Some(1)), None);
        let slower: Vec<u64> = (0..60).map(|second| if second < 20 { 10 } else { 3 }).collect();
        assert_eq!(run(&slower, |_| Some(1)), None);
    }

    #[test]
    fn nobody_is_named_while_bytes_move_that_make_no_window_yet() {
        // A hub works alone for 20 seconds, and at the end of a large window sends alone.
        let (mut slow, mut moved) = (SlowNodes::default(), 0);
        for second in 0..40 {
            moved += 12_000_000;
            let others = moved.min(240_000_000);
            let node = |rank: usize| NodeProgress {
                windows: 0,
                moved: if rank == 0 { moved } else { others },
                waits: rank > 0,
                done: false,
            };
            let nodes: Vec<NodeProgress> = (0..14).map(node).collect();
            assert_eq!(slow.note(Duration::from_secs(second), &nodes, 0), None, "{second}");
        }
    }

    #[test]
    fn nobody_is_named_while_the_repairs_beside_get_on() {
        let paces: Vec<u64> = (0..60).map(|second| if second < 20 { 10 } else { 0 }).collect();
        assert!(run_beside(&paces, 0, |_| Some(1)).is_some());
        assert_eq!(run_beside(&paces, 10, |_| Some(1)), None);
    }

    #[test]
    fn nobody_is_named_when_all_are_slow() {
        let paces: Vec<u64> = (0..60).map(|second| if second < 20 { 10 } else { 0 }).collect();
        assert_eq!(run(&paces, |_| None), None);
        assert_eq!(run(&paces, |second| Some((second % 2) as usize)), None);
    }
}
