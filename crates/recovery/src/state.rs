//! State of a recovery at a moment, for people and for other programs: what it has seen, what it
//! repairs and how fast, what it waits for. Told by [`super::schedule::Scheduler`], which asks no
//! node for it.

use std::collections::{BTreeMap, VecDeque};
use std::{sync::Arc, time::Duration};

use kiln_plan::Plan;
use kiln_pool::{Listed, PoolStatus};
use serde::Serialize;

use super::{report::NodeLoad, scrub::ScrubPosition};
use kiln_net::task::TransferCounters;

/// The present step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It looks who is there and what is damaged.
    #[default]
    Surveying,
    /// Repairs are planned, and run.
    Repairing,
    /// It reads what is stored, to find what went bad.
    Scrubbing,
    /// Nothing can be done now; see [`RecoveryState::waits`].
    Waiting,
}

/// Something that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// For what.
    #[serde(rename = "for")]
    pub reason: WaitReason,
    /// The node that may come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it is over at the latest, in ms since 1970.
    pub until_ms: u64,
}

/// Reasons to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitReason {
    /// A node may come back before its shards are rebuilt elsewhere.
    Node,
    /// Too few nodes can be reached to do anything; then it is given up.
    Reach,
    /// A repair that failed, or whose shards may come back, is tried later.
    Retry,
    /// The next scrub.
    Scrub,
    /// The next look at the pool.
    Look,
}

impl Wait {
    /// Seconds that are left of it, rounded up.
    pub fn seconds_left(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms).div_ceil(1000)
    }
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.node.as_deref().unwrap_or("?");
        match self.reason {
            WaitReason::Node => {
                write!(f, "node {node} to come back; then its shards are rebuilt elsewhere")
            }
            WaitReason::Reach => f.write_str("nodes that cannot be reached; then it gives up"),
            WaitReason::Retry => f.write_str("the next try of a repair"),
            WaitReason::Scrub => f.write_str("the next scrub"),
            WaitReason::Look => f.write_str("the next look at the pool"),
        }
    }
}

/// A repair that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunningRepair {
    /// The object.
    pub object: String,
    /// Its code.
    pub code: String,
    /// Indices of shards to rebuild.
    pub lost: Vec<u16>,
    /// Further losses that the object tolerates meanwhile.
    pub margin: i32,
    /// Bytes to rebuild.
    pub bytes: u64,
    /// Bytes of them that are kept.
    pub kept_bytes: u64,
    /// The strategy of its plan; `None`: it is computed here, or not planned yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<&'static str>,
    /// Bytes that its agents moved so far, by id of the node.
    #[serde(skip)]
    pub nodes: BTreeMap<String, NodeLoad>,
}

impl RunningRepair {
    pub(super) fn of(listed: &Listed, lost: &[u16], margin: i32, bytes: u64) -> RunningRepair {
        let (object, code) = (listed.name.clone(), listed.code.clone());
        RunningRepair { object, code, lost: lost.to_vec(), margin, bytes, ..Self::default() }
    }

    /// Notes the counters of its agents, by position in the pool; `id` names them.
    pub(super) fn moved(
        &mut self,
        nodes: &[(usize, TransferCounters)],
        id: &dyn Fn(usize) -> String,
    ) {
        for (at, amounts) in nodes {
            let load = self.nodes.entry(id(*at)).or_default();
            (load.read, load.sent) = (amounts.read, amounts.sent);
            (load.received, load.written) = (amounts.received, amounts.written);
        }
    }
}

/// The plan of a repair, to be drawn.
#[derive(Debug, Clone)]
pub struct ShownPlan {
    /// The object that it repairs.
    pub object: String,
    /// The plan, on the pool's nodes by position.
    pub plan: Plan,
    /// Their ids.
    pub nodes: Vec<String>,
    /// Bytes that one sub-chunk of the plan stands for.
    pub sub_bytes: u64,
}

/// A scrub on a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScrubState {
    /// Its position.
    #[serde(flatten)]
    pub position: ScrubPosition,
    /// When the next round is due, in ms since 1970; the past while one is under way.
    pub due_ms: u64,
    /// Ms between the beginnings of two rounds.
    pub every_ms: u64,
}

/// All of it. Times are in ms since 1970, by the clock of the coordinator.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecoveryState {
    /// The present step.
    pub phase: Phase,
    /// When this was told.
    pub now_ms: u64,
    /// Waits, those that end first before the others.
    pub waits: Vec<Wait>,
    /// When the pool was last surveyed with success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surveyed_ms: Option<u64>,
    /// Why the last survey failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survey_error: Option<String>,
    /// Its result.
    #[serde(skip)]
    pub survey: Option<Arc<PoolStatus>>,
    /// Repairs that run, the most endangered object first.
    pub running: Vec<RunningRepair>,
    /// Bytes that are to be rebuilt by what is planned now, those that are kept included.
    pub planned_bytes: u64,
    /// Of these, bytes that are kept.
    pub kept_bytes: u64,
    /// Bytes rebuilt a second, lately.
    pub rate_bytes: u64,
    /// Seconds until what is planned now is rebuilt, at that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Objects repaired since it began.
    pub repaired: u64,
    /// Of these, computed at the coordinator's machine.
    pub central: u64,
    /// Objects that could not be repaired.
    pub failed: u64,
    /// Plans given up for others.
    pub replanned: u64,
    /// Bytes of shards rebuilt since it began.
    pub rebuilt_bytes: u64,
    /// Traffic of each node's link and disk since it began, by id.
    pub traffic: BTreeMap<String, NodeLoad>,
    /// The scrub on a schedule, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubState>,
    /// The plan that was last begun.
    #[serde(skip)]
    pub plan: Option<Arc<ShownPlan>>,
}

/// Bytes kept, over the last half minute, for a rate that follows what happens.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: VecDeque<(Duration, u64)>,
}

/// The span that a rate is of, and between two samples at least.
const SPAN: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_millis(500);

impl Rate {
    /// So many bytes are kept in all.
    pub fn note(&mut self, now: Duration, bytes: u64) {
        let newest = self.samples.back();
        if newest.is_some_and(|(at, _)| now < *at + BETWEEN) {
            return;
        }
        self.samples.push_back((now, bytes));
        // The oldest is the last one before the span, so that a whole span is measured.
        while self.samples.get(1).is_some_and(|(at, _)| *at + SPAN <= now) {
            self.samples.pop_front();
        }
    }

    /// Bytes a second, when so many are kept now.
    pub fn rate(&self, now: Duration, bytes: u64) -> u64 {
        let Some((then, before)) = self.samples.front() else { return 0 };
        let seconds = now.saturating_sub(*then).as_secs_f64();
        match seconds > 0.0 {
            true => (bytes.saturating_sub(*before) as f64 / seconds) as u64,
            false => 0,
        }
    }

    /// A new batch: what was before is no measure of it.
    pub fn restart(&mut self, now: Duration, bytes: u64) {
        self.samples.clear();
        self.samples.push_back((now, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_is_of_the_last_half_minute() {
        let mut rate = Rate::default();
        assert_eq!(rate.rate(at(5), 7), 0);
        rate.restart(at(1_000), 100);
        assert_eq!(rate.rate(at(1_000), 100), 0);
        (1..=10).for_each(|s| rate.note(at(1_000 + s * 1_000), 100 + s * 50));
        assert_eq!(rate.rate(at(11_000), 600), 50);
        // Ten times faster for a minute: the slow beginning is forgotten.
        (1..=600).for_each(|tenth| rate.note(at(11_000 + tenth * 100), 600 + tenth * 50));
        assert_eq!(rate.rate(at(71_000), 30_600), 500);
        assert!(rate.samples.len() <= 61, "{}", rate.samples.len());
        // And nothing more.
        rate.note(at(200_000), 30_600);
        rate.note(at(260_000), 30_600);
        assert_eq!(rate.rate(at(260_000), 30_600), 0);
    }
}
