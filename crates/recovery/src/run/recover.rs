//! Carries out a placed repair: asks what earlier attempts left, hands out shares, and hears how
//! agents get on. What to do next is decided by [`Attempts`] and [`Coordinator`].

use std::{sync::mpsc::RecvTimeoutError, time::Duration};

use kiln_plan::Plan;

use super::request_queue::RequestQueue;
use crate::coordinator::{Coordinator, Outcome, Share};
use crate::{FinalFailure, Helper, PlacedRepair, Repaired, attempts::Attempts};
use kiln_net::proto::{Message, Priority};
use kiln_net::{NetError, Network, Result, agent::TaskId, task::TransferCounters};

/// Interval at which limits and requests to stop are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Orders are answered long before.
const UNHEARD: Duration = Duration::from_secs(300);

/// Observes a repair while it runs, and controls it.
pub trait RepairWatcher {
    /// Bytes of rebuilt chunks that are kept so far, and of how many.
    fn kept(&self, bytes: u64, total: u64);

    /// The plan is given up for another one.
    fn replanned(&self, why: &str);

    /// It goes by this plan from now on, of which a sub-chunk stands for so many bytes.
    fn planned(&self, _plan: &Plan, _sub_bytes: u64) {}

    /// Reports the counters of every agent for this plan, by rank.
    fn moved(&self, _nodes: &[(usize, TransferCounters)]) {}

    /// The limit of each node from now on, in bytes a second (0: none).
    fn rate(&self) -> Option<u64> {
        None
    }

    /// Bytes that all repairs over these agents have kept so far, this one included. A repair that
    /// waits while others make progress blames no node.
    fn beside(&self) -> u64 {
        0
    }

    /// Returns whether to stop; what is there already stays for the next attempt.
    fn stopped(&self) -> bool {
        false
    }
}

impl PlacedRepair<'_> {
    /// Does it; `task` names the first attempt. What is put in place has its recorded digest.
    /// Errors: no plan is left: too few chunks can be read, or an agent that gets a shard fails.
    pub fn run(
        &self,
        network: &Network,
        task: [u8; 16],
        watcher: &dyn RepairWatcher,
    ) -> Result<Repaired, Box<FinalFailure>> {
        let mut attempts = Attempts::new(self, task)?;
        let outcome = self.attempt(network, &mut attempts, watcher);
        outcome.map_err(|failure| attempts.end(*failure))
    }

    /// Attempts until one succeeds.
    fn attempt(
        &self,
        network: &Network,
        attempts: &mut Attempts<'_>,
        watcher: &dyn RepairWatcher,
    ) -> Result<Repaired, Box<FinalFailure>> {
        loop {
            let ready = attempts.plan()?;
            let attempt = attempts.begin(ready, self.resume(network)?);
            let (plan, sub_bytes) = attempts.plan_of(&attempt);
            watcher.planned(plan, sub_bytes);
            let handout = Handout {
                nodes: &self.nodes,
                task: attempt.task,
                shares: &attempt.shares,
                spared: &attempt.spared,
                rate: self.rate,
                kept: attempt.kept,
            };
            let outcome = handout.carry_out(network, watcher);
            match outcome.map_err(|error| FinalFailure::new(None, error))? {
                Outcome::Done(amounts) => return Ok(attempts.done(attempt, amounts)),
                Outcome::Failed(failure) => watcher.replanned(attempts.failed(failure)?),
            }
        }
    }

    /// Stripes that are in the part of each target. The tasks that wrote to them before have ended
    /// when this returns.
    fn resume(&self, network: &Network) -> Result<Vec<u64>, Box<FinalFailure>> {
        let stripes = self.targets.iter().map(|(chunk, node, part, _)| {
            let message = Message::Resume {
                part: part.clone(),
                chunk: *chunk as u32,
                geometry: Box::new(self.geometry.clone()),
            };
            let address = self.nodes[*node].address.parse();
            let stripes = address.and_then(|address| network.resume(&address, message));
            stripes.map_err(|error| FinalFailure::new(Some(*node), error))
        });
        stripes.collect()
    }
}

/// Shares of one plan, and the agents that carry them out.
pub(super) struct Handout<'a> {
    /// All nodes of the plan.
    pub nodes: &'a [Helper],
    pub task: TaskId,
    pub shares: &'a [Share],
    /// Nodes that another plan can leave out.
    pub spared: &'a [usize],
    /// Bytes a second for each node (0: no limit).
    pub rate: u64,
    /// Bytes of chunks that were there before, and of how many.
    pub kept: (u64, u64),
}

impl Handout<'_> {
    /// Hands the shares out, and waits until all of them are done or one has failed.
    pub fn carry_out(&self, network: &Network, watcher: &dyn RepairWatcher) -> Result<Outcome> {
        let shares = self.shares.to_vec();
        let peers =
            shares.iter().map(|share| network.peer(&self.nodes[share.node].address.parse()?));
        let requests = RequestQueue::new(peers.collect::<Result<_>>()?, Priority::Control);
        let spared = self.spared.iter().copied();
        let mut coordinator = Coordinator::new(self.task, shares).sparing(spared);
        let (start, mut rate) = (network.now(), self.rate);
        let mut heard = start;
        let mut stopping = false;
        requests.send(coordinator.begin(Duration::ZERO));
        loop {
            if let Some(outcome) = coordinator.outcome() {
                return Ok(outcome);
            }
            if watcher.stopped() && !stopping {
                stopping = true;
                requests.send(coordinator.cancel("it was told to stop"));
            }
            if let Some(wanted) = watcher.rate().filter(|wanted| *wanted != rate) {
                let orders = coordinator.throttle(wanted);
                if !orders.is_empty() {
                    rate = wanted;
                    requests.send(orders);
                }
            }
            coordinator.beside(network.now().saturating_sub(start), watcher.beside());
            match network.receive(requests.answers(), Some(LOOK)) {
                Ok((request, answer)) => {
                    heard = network.now();
                    let answer = answer.map(|frame| frame.message);
                    requests.send(coordinator.answered(
                        heard.saturating_sub(start),
                        &request,
                        answer,
                    ));
                }
                Err(RecvTimeoutError::Timeout) if network.now() < heard + UNHEARD => {}
                // Every order has its own time; this is for a bug only.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(NetError::protocol("an agent never answered a request"));
                }
            }
            let amounts = coordinator.amounts();
            let kept: u64 = amounts.iter().map(|amounts| amounts.written).sum();
            let ranks = self.shares.iter().map(|share| share.node);
            watcher.moved(&ranks.zip(amounts).collect::<Vec<_>>());
            watcher.kept(self.kept.0 + kept, self.kept.1);
        }
    }
}
