//! Plans by what they cost where reads, and bytes that leave a zone, are paid for.
//!
//! A plan is priced as it is placed: a read is a contiguous run of a stripe at the node that has
//! it, a byte is paid by the zone of the node that sends it, once for each receiver outside. Who is
//! in no zone is in one of its own. What may be chosen is who helps, and which strategy places the
//! work; where rebuilt shards go is given.

use super::placed::{self, Wanted};
use kiln_plan::{Cluster, Node, NodeCost, Plan, PlanError, Result, SearchBudget};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// Prices at a node, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodePrice {
    /// Its zone; `None`: one of its own.
    pub zone: Option<usize>,
    /// For a read.
    pub read: f64,
    /// For a byte that it sends to another zone.
    pub byte: f64,
}

/// Prices at all nodes of a pool, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(BTreeMap<String, NodePrice>);

impl FromIterator<(String, NodePrice)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, NodePrice)>>(prices: I) -> Prices {
        Prices(prices.into_iter().collect())
    }
}

impl Prices {
    /// Returns the prices of these nodes, in order; unknown nodes cost nothing.
    pub fn of<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Vec<NodePrice> {
        let free = NodePrice { zone: None, read: 0.0, byte: 0.0 };
        ids.map(|id| self.0.get(id).copied().unwrap_or(free)).collect()
    }
}

/// Strategies that are tried by default: those that follow rules, so that each object's
/// plan is had at once. The first one's is what would have been without prices.
const RULES: [&str; 4] = ["hub", "central", "pipeline", "ppr"];

/// Choice of plans by price.
#[derive(Debug, Clone)]
pub struct ByPrice {
    /// Prices at each node, by rank.
    nodes: Vec<NodePrice>,
    /// Strategies whose plans may be chosen, and how long each may search.
    strategies: Vec<String>,
    moves: u64,
}

/// Price of the reads and transfers of a repair, as planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Price {
    /// By the plan that was chosen.
    pub planned: f64,
    /// By the one that would have been without prices.
    pub unweighed: f64,
}

/// Size of one object: every plan is carried out on all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub stripes: u64,
    /// Bytes of a sub-chunk, all stripes together.
    pub sub_bytes: u64,
}

impl ByPrice {
    /// Plans of this strategy, or of all that follow rules, on nodes by their rank.
    pub fn new(nodes: Vec<NodePrice>, strategy: Option<&str>) -> ByPrice {
        let (strategies, moves) = match strategy {
            Some(name) => (vec![name.to_owned()], SearchBudget::default().moves),
            None => (RULES.map(str::to_owned).to_vec(), 0),
        };
        ByPrice { nodes, strategies, moves }
    }

    /// The nodes as the planner sees them: what is paid for goes from one domain to another.
    fn cluster(&self) -> Result<Arc<Cluster>> {
        let node = |(rank, price): (usize, &NodePrice)| {
            let domain = match price.zone {
                Some(zone) => format!("zone {zone}"),
                None => format!("node {rank}"),
            };
            Node::new(format!("n{rank}")).in_domain(domain)
        };
        Cluster::new(self.nodes.iter().enumerate().map(node).collect()).map(Arc::new)
    }

    /// Returns the price of a plan on such nodes.
    fn price(&self, plan: &Plan, of: Extent) -> f64 {
        let node = |(cost, price): (&NodeCost, &NodePrice)| {
            let reads = cost.runs as f64 * of.stripes as f64 * price.read;
            reads + cost.across as f64 * of.sub_bytes as f64 * price.byte
        };
        plan.costs().nodes().iter().zip(&self.nodes).map(node).sum()
    }

    /// Returns sets of helpers: all, and all but the dearest ones, as long as a rebuild is possible
    /// and those that are left are not all as cheap. A chunk is as dear as all of it is, read and
    /// sent to the first target.
    fn helpers(&self, wanted: &Wanted<'_>, of: Extent) -> Vec<Vec<(usize, usize)>> {
        let alpha = wanted.codec.shape().alpha as f64;
        let to = wanted.targets.first().and_then(|(_, node)| self.nodes.get(*node)?.zone);
        let cost = |(_, node): &(usize, usize)| {
            let Some(price) = self.nodes.get(*node) else { return 0.0 };
            let stays = price.zone.is_some() && price.zone == to;
            let bytes = if stays { 0.0 } else { of.sub_bytes as f64 * alpha };
            of.stripes as f64 * price.read + bytes * price.byte
        };
        let mut homes = wanted.homes.clone();
        homes.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.cmp(b)));
        let lost: Vec<usize> = wanted.targets.iter().map(|(chunk, _)| *chunk).collect();
        let mut sets = vec![wanted.homes.clone()];
        let cheapest = homes.first().map_or(0.0, &cost);
        while homes.pop().is_some_and(|dearest| cost(&dearest) > cheapest) {
            let chunks: Vec<usize> = homes.iter().map(|(chunk, _)| *chunk).collect();
            // A code that is not MDS may need a dear one and not a cheap one; that is not tried.
            if wanted.codec.repair_dag(&lost, &chunks).is_err() {
                break;
            }
            sets.push(homes.clone());
        }
        sets
    }

    /// The cheapest plan, proved; of equally cheap ones the one that loads links least. The first
    /// strategy with all helpers is what it is compared with.
    /// Errors: too few chunks can be read; no strategy has a plan.
    pub(crate) fn cheapest(
        &self,
        wanted: &Wanted<'_>,
        seed: u64,
        of: Extent,
    ) -> Result<(Plan, Price), PlanError> {
        let cluster = self.cluster()?;
        let (mut best, mut unweighed): (Option<(Plan, f64)>, _) = (None, None);
        let mut failed = PlanError::Internal("no strategy to plan by".into());
        let load = |plan: &Plan| (plan.costs().max_load(), plan.costs().bandwidth());
        for homes in self.helpers(wanted, of) {
            let problem = wanted.problem_of(&homes, Arc::clone(&cluster))?;
            for name in &self.strategies {
                let budget = SearchBudget::new(seed).with_moves(self.moves);
                let plan = match placed::plan_within(&problem, name, budget) {
                    Ok(plan) => plan,
                    Err(error) => {
                        failed = error;
                        continue;
                    }
                };
                let price = self.price(&plan, of);
                unweighed.get_or_insert(price);
                let better = |(known, least): &(Plan, f64)| {
                    price.total_cmp(least).then_with(|| load(&plan).cmp(&load(known))).is_lt()
                };
                if best.as_ref().is_none_or(better) {
                    best = Some((plan, price));
                }
            }
        }
        let (plan, planned) = best.ok_or(failed)?;
        Ok((plan, Price { planned, unweighed: unweighed.unwrap_or(planned) }))
    }
}

impl Price {
    /// Of a part of what was priced.
    pub(crate) fn part(self, part: f64) -> Price {
        Price { planned: self.planned * part, unweighed: self.unweighed * part }
    }

    /// Adds the price of another repair.
    pub(crate) fn add(&mut self, other: Price) {
        self.planned += other.planned;
        self.unweighed += other.unweighed;
    }
}

#[cfg(test)]
mod tests;
