//! Lower bound of all recovery plans.
//!
//! Five reasons, each a time that the links need; the bound is the longest:
//!
//! 1. a helper sends at least the rank of its contribution to each repair that reads it;
//! 2. the senders together send at least all contributions;
//! 3. the receivers of all kinds together receive as much;
//! 4. the destinations receive what was lost;
//! 5. a destination that receives less than all contributions of a repair leaves helpers to add
//!    up, and then they send more: with r received by the target of an MDS code's single repair
//!    from d = n-1 helpers, all helpers send T >= w d(d-1)/(q(k-1)) - r(q-1)/(k-1). Summed over all
//!    repairs, with what the destinations can receive in the time for the sum of r. A code that
//!    repairs from fewer than k chunks is none of these, so the reason does not count there.

use super::{Layout, candidates::CandidatePlans};
use crate::Cluster;
use std::collections::BTreeSet;

/// The least makespan in sub-chunks over the mean link. Reasons 1 and 2 count plans that read what
/// the code's own repair reads.
pub(super) fn least(
    cluster: &Cluster,
    layout: &Layout,
    candidates: &CandidatePlans,
    receivers: &[u16],
    leaving: Option<u16>,
) -> f64 {
    if let Some(leaving) = leaving {
        return least_of_drain(cluster, layout, candidates, receivers, leaving);
    }
    let mean = super::mean_rate(cluster);
    let nodes = cluster.nodes();
    let (mut send, mut travel, mut arrive) = (vec![0.0; nodes.len()], 0.0, 0.0);
    let (mut line, mds) = (Line::default(), candidates.may_be_mds());
    let mut alive = vec![false; nodes.len()];
    for stripe in layout.stripes() {
        let lost: Vec<usize> = stripe.lost().collect();
        for &home in stripe.raw() {
            if let Some(alive) = alive.get_mut(usize::from(home)) {
                *alive = true;
            }
        }
        let Some(pattern) = candidates.pattern(&lost) else { continue };
        for (&home, &must) in stripe.raw().iter().zip(&pattern.must_send) {
            if let Some(send) = send.get_mut(usize::from(home)) {
                *send += f64::from(must);
            }
        }
        travel += f64::from(pattern.must_travel);
        arrive += f64::from(pattern.must_arrive);
        if mds {
            line.add(layout.shape(), lost.len());
        }
    }
    let rate = |node: usize, up: bool| match up {
        true => nodes[node].rate_up() / mean,
        false => nodes[node].rate_down() / mean,
    };
    let busiest = (0..nodes.len()).map(|j| send[j] / rate(j, true)).fold(0.0, f64::max);
    let destinations: f64 = receivers.iter().map(|&node| rate(usize::from(node), false)).sum();
    let helpers: f64 = (0..nodes.len()).filter(|&j| alive[j]).map(|j| rate(j, true)).sum();
    let into = |node: usize| alive[node] || receivers.contains(&(node as u16));
    let all_down: f64 = (0..nodes.len()).filter(|&j| into(j)).map(|j| rate(j, false)).sum();
    let arrive = arrive / destinations;
    let execution =
        [busiest, travel / helpers, travel / all_down, arrive, line.time(helpers, destinations)];
    execution.into_iter().filter(|time| time.is_finite()).fold(0.0, f64::max)
}

/// As [`least`], of a node that is emptied: what it sends itself need not be repaired. With c
/// chunks copied and s in all, in the time t:
///
/// - the node sends c, so c is at most what its link carries;
/// - the destinations receive s;
/// - the others send, and all receive, the contributions to s - c repairs, of which the cheapest
///   are counted;
/// - reason 5 for s - c repairs, with what destinations can receive beside the copies.
///
/// Each needs less time the larger c is, so c is what the link of the leaving node carries in t.
fn least_of_drain(
    cluster: &Cluster,
    layout: &Layout,
    candidates: &CandidatePlans,
    receivers: &[u16],
    leaving: u16,
) -> f64 {
    let mean = super::mean_rate(cluster);
    let up = |node: u16| cluster.nodes()[usize::from(node)].rate_up() / mean;
    let down = |node: u16| cluster.nodes()[usize::from(node)].rate_down() / mean;
    let (mut helpers, mut into) = (BTreeSet::new(), BTreeSet::new());
    into.extend(receivers.iter().copied());
    let (mut stripes, mut cheapest, mut line) = (0.0, f64::INFINITY, Line::default());
    let nodes = cluster.nodes().len();
    for stripe in layout.stripes() {
        let lost: Vec<usize> = stripe.lost().collect();
        let Some(pattern) = candidates.pattern(&lost) else { continue };
        let homes = stripe.raw().iter().copied().filter(|&home| usize::from(home) < nodes);
        helpers.extend(homes);
        if lost.len() > 1 {
            // These are rebuilt: without them there is less to do.
            continue;
        }
        stripes += 1.0;
        cheapest = cheapest.min(f64::from(pattern.must_travel));
        line.add(layout.shape(), lost.len());
    }
    if stripes == 0.0 {
        return 0.0;
    }
    into.extend(&helpers);
    let alpha = layout.shape().alpha as f64;
    // Chunks that the leaving node sends in a time of 1.
    let copies = up(leaving) / alpha;
    let sending: f64 = helpers.iter().map(|&node| up(node)).sum();
    let receiving: f64 = into.iter().map(|&node| down(node)).sum();
    let destinations: f64 = receivers.iter().map(|&node| down(node)).sum();
    // (s - c) * cheapest <= links * t, with the copies on the links into nodes, too.
    let sent = stripes * cheapest / (sending + copies * cheapest);
    let received = stripes * cheapest / (receiving + copies * (cheapest - alpha).max(0.0));
    let arrived = stripes * alpha / destinations;
    let (most, all) = (line.most / stripes, line.all / stripes);
    let added = match candidates.may_be_mds() && line.most > 0.0 {
        true => {
            // sending * t >= most * (s - c) - slope * (what destinations have room for), which is
            // min(all * (s - c), destinations * t - alpha * c)
            let full = line.slope * (destinations - alpha * copies);
            let some = stripes * most / (sending + copies * most + full);
            let left = most - line.slope * all;
            some.max(stripes * left / (sending + copies * left))
        }
        false => 0.0,
    };
    let reasons = [sent, received, arrived, added];
    reasons.into_iter().filter(|time| time.is_finite() && *time > 0.0).fold(0.0, f64::max)
}

/// Reason 5 summed over stripes: traffic >= `most` - `slope` * received, for received up to `all`.
#[derive(Debug, Default)]
struct Line {
    most: f64,
    slope: f64,
    all: f64,
}

impl Line {
    /// Adds a stripe; one that lost several chunks needs traffic of its own, which only helps.
    fn add(&mut self, shape: kiln_code::Shape, lost: usize) {
        if lost != 1 || shape.k < 2 || shape.m < 1 {
            return;
        }
        let (k, d, w) = (shape.k as f64, (shape.n() - 1) as f64, shape.alpha as f64);
        let q = d - k + 1.0;
        self.most += w * d * (d - 1.0) / (q * (k - 1.0));
        self.slope = (q - 1.0) / (k - 1.0);
        self.all += w * d / q;
    }

    /// The least t with helpers * t >= most - slope * min(all, destinations * t).
    fn time(&self, helpers: f64, destinations: f64) -> f64 {
        if self.most == 0.0 {
            return 0.0;
        }
        let t = self.most / (helpers + self.slope * destinations);
        match destinations * t <= self.all {
            true => t,
            false => (self.most - self.slope * self.all) / helpers,
        }
    }
}
