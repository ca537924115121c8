//! The joint choice: a candidate plan and target nodes for every stripe, so that the busiest link
//! has little to carry.
//!
//! Stripes are placed one after the other where the sum of squared loads grows least. Then they are
//! taken out and placed again, now by the sum of eighth powers, which is next to the maximum but
//! knows a way downhill.
//!
//! Before any balance comes safety: no node gets a chunk whose failure domain holds one of the same
//! stripe, as long as there is another; else the least crowded domains are taken.

use super::{Destination, Layout, RecoveryOptions, candidates::CandidatePlans};
use crate::{Cluster, PlanError, Result};
use kiln_code::seed::below;

/// Target nodes that are looked at for a lost chunk: those that have received least.
const CANDIDATES: usize = 8;
/// A makespan this close to the bound is good enough.
const CLOSE: f64 = 1.002;
/// Stands for an entry: the chunk is copied from the node that leaves.
pub(super) const COPY: u32 = u32::MAX - 1;

/// All choices, and the loads that they make, in sub-chunks.
pub(super) struct Placed {
    pub entries: Vec<u32>,
    pub starts: Vec<u32>,
    pub targets: Vec<u16>,
    pub sent: Vec<f64>,
    pub received: Vec<f64>,
}

pub(super) struct Balance<'a> {
    cluster: &'a Cluster,
    layout: &'a Layout,
    candidates: &'a CandidatePlans,
    /// Nodes that may get chunks.
    receivers: Vec<u16>,
    /// Time of a sub-chunk on each link, the mean link being 1.
    up: Vec<f64>,
    down: Vec<f64>,
    bound: f64,
    /// The node that has every chunk that is missing and gives it to who wants it, and the time
    /// that its link may take for that.
    leaving: Option<(u16, f64)>,
    placed: Placed,
}

/// A choice for one stripe.
#[derive(Debug, Clone)]
struct Choice {
    entry: u32,
    targets: Vec<u16>,
}

impl<'a> Balance<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        layout: &'a Layout,
        candidates: &'a CandidatePlans,
        destination: &Destination,
    ) -> Result<Balance<'a>> {
        let nodes = cluster.nodes().len();
        let receivers: Vec<u16> = match destination {
            Destination::Nodes(list) => {
                if let Some(&node) = list.iter().find(|&&node| node >= nodes) {
                    return Err(PlanError::BadNode { node, nodes, role: "a destination" });
                }
                let mut list: Vec<u16> = list.iter().map(|&node| node as u16).collect();
                list.sort_unstable();
                list.dedup();
                list
            }
            // Alive is who stores something.
            Destination::Spread => {
                let mut alive = vec![false; nodes];
                for &home in layout.stripes().flat_map(|stripe| stripe.raw()) {
                    if let Some(alive) = alive.get_mut(usize::from(home)) {
                        *alive = true;
                    }
                }
                (0..nodes as u16).filter(|&node| alive[usize::from(node)]).collect()
            }
        };
        let mean = super::mean_rate(cluster);
        let mut starts = Vec::with_capacity(layout.len());
        let mut total = 0;
        for stripe in layout.stripes() {
            starts.push(total);
            total += stripe.lost().count() as u32;
        }
        Ok(Balance {
            cluster,
            layout,
            candidates,
            receivers,
            up: cluster.nodes().iter().map(|node| mean / node.rate_up()).collect(),
            down: cluster.nodes().iter().map(|node| mean / node.rate_down()).collect(),
            bound: 1.0,
            leaving: None,
            placed: Placed {
                entries: vec![u32::MAX; layout.len()],
                starts,
                targets: vec![u16::MAX; total as usize],
                sent: vec![0.0; nodes],
                received: vec![0.0; nodes],
            },
        })
    }

    pub(super) fn receivers(&self) -> &[u16] {
        &self.receivers
    }

    /// Chunks may also be copied from this node, which has all that are missing, as long as its
    /// link takes at most so much time for that.
    pub(super) fn set_leaving(&mut self, leaving: Option<(u16, f64)>) {
        self.leaving = leaving;
    }

    pub(super) fn set_bound(&mut self, bound: f64) {
        self.bound = bound.max(1.0);
    }

    pub(super) fn finish(self) -> Placed {
        self.placed
    }

    /// Time of the busiest link, in sub-chunks over the mean link.
    pub(super) fn makespan(&self) -> f64 {
        let up = self.placed.sent.iter().zip(&self.up);
        let times = up.chain(self.placed.received.iter().zip(&self.down));
        times.map(|(count, time)| count * time).fold(0.0, f64::max)
    }

    /// Chooses for all `stripes`, on top of what is there.
    pub(super) fn place(
        &mut self,
        stripes: &[u32],
        options: &RecoveryOptions,
        seed: &mut u64,
    ) -> Result<()> {
        for &stripe in stripes {
            let choice = match options.sweeps {
                0 => self.alone(stripe, seed)?,
                _ => self.best(stripe, |load| load * load, seed)?,
            };
            self.set(stripe, choice);
        }
        let eighth = |load: f64| {
            let fourth = (load * load) * (load * load);
            fourth * fourth
        };
        let mut least = self.makespan();
        let mut idle = 0;
        for _ in 0..options.sweeps {
            if self.makespan() <= self.bound * CLOSE || idle > 1 {
                break;
            }
            for &stripe in stripes {
                self.clear(stripe);
                let choice = self.best(stripe, eighth, seed)?;
                self.set(stripe, choice);
            }
            idle = if self.makespan() < least * 0.999 { 0 } else { idle + 1 };
            least = least.min(self.makespan());
        }
        Ok(())
    }

    /// The first candidate plan and random targets.
    fn alone(&self, stripe: u32, seed: &mut u64) -> Result<Choice> {
        let entry = self.entries(stripe)?.start;
        let wanted = self.candidates.entry(entry).lost.len();
        let free = self.free(stripe);
        let first = self.only(stripe, &free)?;
        let targets = match free.len() < wanted {
            true => vec![first; wanted],
            false => {
                let start = below(seed, free.len());
                self.apart(&self.crowds(stripe), &free, start, wanted)
            }
        };
        Ok(Choice { entry, targets })
    }

    /// The domains of the chunks that a stripe has left, each as often as it has one.
    fn crowds(&self, stripe: u32) -> Vec<u32> {
        let homes = self.layout.stripe(stripe as usize).raw();
        homes.iter().filter_map(|&home| self.cluster.domain(usize::from(home))).collect()
    }

    /// `wanted` distinct nodes of a list for chunks of a stripe whose domains are `crowded`: each
    /// in a domain with as few other chunks of the stripe as there is, from `start` on.
    fn apart(&self, crowded: &[u32], list: &[u16], start: usize, wanted: usize) -> Vec<u16> {
        let mut crowded = crowded.to_vec();
        let mut targets: Vec<u16> = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            let turned = list[start..].iter().chain(&list[..start]);
            let free = turned.filter(|node| !targets.contains(node));
            let others = |node: u16| {
                let domain = self.cluster.domain(usize::from(node));
                crowded.iter().filter(|&&other| Some(other) == domain).count()
            };
            // The first of equals.
            let Some(&best) = free.min_by_key(|&&node| others(node)) else { break };
            crowded.extend(self.cluster.domain(usize::from(best)));
            targets.push(best);
        }
        targets
    }

    /// Keeps the nodes of a list in whose domains a stripe has fewest chunks.
    fn keep_apart(&self, crowded: &[u32], list: &mut Vec<u16>) {
        let others = |node: u16| {
            let domain = self.cluster.domain(usize::from(node));
            crowded.iter().filter(|&&other| Some(other) == domain).count()
        };
        let least = list.iter().map(|&node| others(node)).min().unwrap_or(0);
        list.retain(|&node| others(node) == least);
    }

    fn entries(&self, stripe: u32) -> Result<std::ops::Range<u32>> {
        let lost: Vec<usize> = self.layout.stripe(stripe as usize).lost().collect();
        let pattern = self.candidates.pattern(&lost);
        let pattern = pattern.ok_or_else(|| PlanError::Internal("a pattern is missing".into()))?;
        Ok(pattern.range.clone())
    }

    /// Nodes that may get a chunk of a stripe: they have none of it.
    fn free(&self, stripe: u32) -> Vec<u16> {
        let stripe = self.layout.stripe(stripe as usize);
        self.receivers.iter().copied().filter(|&node| !stripe.has(node)).collect()
    }

    /// The node for all lost chunks of a stripe where there are not enough for each its own: only
    /// a replacement machine that was asked for may have two.
    fn only(&self, stripe: u32, free: &[u16]) -> Result<u16> {
        free.first().copied().ok_or_else(|| PlanError::BadStripe {
            stripe: stripe as usize,
            reason: "every node that may get its chunk has one of its chunks already".into(),
        })
    }

    /// The choice that makes the potential grow least.
    fn best(&self, stripe: u32, potential: impl Fn(f64) -> f64, seed: &mut u64) -> Result<Choice> {
        let entries = self.entries(stripe)?;
        let wanted = self.candidates.entry(entries.start).lost.len();
        let mut free = self.free(stripe);
        let crowded = self.crowds(stripe);
        if wanted == 1 {
            self.keep_apart(&crowded, &mut free);
        }
        // Random among equals: a random start before a stable sort.
        let turn = if free.is_empty() { 0 } else { below(seed, free.len()) };
        free.rotate_left(turn);
        let waits = |node: &u16| {
            let node = usize::from(*node);
            self.placed.received[node] * self.down[node]
        };
        let keep = CANDIDATES.max(wanted);
        if wanted == 1 && free.len() > keep {
            free.select_nth_unstable_by(keep - 1, |a, b| waits(a).total_cmp(&waits(b)));
            free.truncate(keep);
        }
        free.sort_by(|a, b| waits(a).total_cmp(&waits(b)));
        let sets: Vec<Vec<u16>> = match wanted {
            1 => free.iter().map(|&node| vec![node]).collect(),
            _ if free.len() < wanted => vec![vec![self.only(stripe, &free)?; wanted]],
            _ => (0..free.len().min(keep))
                .map(|first| self.apart(&crowded, &free, first, wanted))
                .collect(),
        };
        self.only(stripe, &free)?;
        let mut best: Option<(f64, Choice)> = None;
        let all = self.layout.shape().alpha as f64;
        let copies = |&(node, most): &(u16, f64)| {
            let node = usize::from(node);
            wanted == 1 && (self.placed.sent[node] + all) * self.up[node] <= most
        };
        let copy = self.leaving.filter(copies).map(|_| COPY);
        for entry in entries.chain(copy) {
            for targets in &sets {
                let growth = self.growth(stripe, entry, targets, &potential);
                if best.as_ref().is_none_or(|(least, _)| growth < *least) {
                    best = Some((growth, Choice { entry, targets: targets.clone() }));
                }
            }
        }
        let missing = || PlanError::Internal("no candidate plans".into());
        best.map(|(_, choice)| choice).ok_or_else(missing)
    }

    fn growth(
        &self,
        stripe: u32,
        entry: u32,
        targets: &[u16],
        potential: &impl Fn(f64) -> f64,
    ) -> f64 {
        let (placed, scale) = (&self.placed, 1.0 / self.bound);
        let mut growth = 0.0;
        self.each_role(stripe, entry, targets, |node, sent, received| {
            let mut add = |load: f64, more: f64, time: f64| {
                let (before, after) = (load * time * scale, (load + more) * time * scale);
                growth += potential(after) - potential(before);
            };
            add(placed.sent[node], sent, self.up[node]);
            add(placed.received[node], received, self.down[node]);
        });
        growth
    }

    /// Node, sub-chunks sent, sub-chunks received of every role.
    fn each_role(
        &self,
        stripe: u32,
        entry: u32,
        targets: &[u16],
        mut visit: impl FnMut(usize, f64, f64),
    ) {
        if let (COPY, Some((leaving, _)), [target]) = (entry, self.leaving, targets) {
            let all = self.layout.shape().alpha as f64;
            visit(usize::from(leaving), all, 0.0);
            return visit(usize::from(*target), 0.0, all);
        }
        let entry = self.candidates.entry(entry);
        let homes = self.layout.stripe(stripe as usize).raw();
        let mut targets = targets.iter();
        for (role, &home) in homes.iter().enumerate() {
            let lost = entry.lost.binary_search(&role).is_ok();
            let node = if lost { targets.next().copied().unwrap_or(home) } else { home };
            let (sent, received) = (entry.sent[role], entry.received[role]);
            if sent > 0 || received > 0 {
                visit(usize::from(node), f64::from(sent), f64::from(received));
            }
        }
    }

    fn set(&mut self, stripe: u32, choice: Choice) {
        let start = self.placed.starts[stripe as usize] as usize;
        self.placed.targets[start..start + choice.targets.len()].copy_from_slice(&choice.targets);
        self.placed.entries[stripe as usize] = choice.entry;
        self.count(stripe, 1.0);
    }

    fn clear(&mut self, stripe: u32) {
        self.count(stripe, -1.0);
    }

    fn count(&mut self, stripe: u32, sign: f64) {
        let entry = self.placed.entries[stripe as usize];
        let start = self.placed.starts[stripe as usize] as usize;
        let lost = self.layout.stripe(stripe as usize).lost().count();
        let targets = self.placed.targets[start..start + lost].to_vec();
        let mut changes = Vec::with_capacity(self.layout.shape().n());
        self.each_role(stripe, entry, &targets, |node, sent, received| {
            changes.push((node, sign * sent, sign * received));
        });
        for (node, sent, received) in changes {
            self.placed.sent[node] += sent;
            self.placed.received[node] += received;
        }
    }
}
