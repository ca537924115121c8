//! The hub rule: every layer is solved at one node, the *hub*, that stores most of what it needs.
//!
//! For a code of coupled layers (Clay, d = n-1, chunk (x0, y0) lost): take a column y1 other than
//! y0 without virtual nodes; the hub of layer z is node (z_y1, y1). It stores q of the sub-chunks
//! that the layer needs, and all that layers of other hubs share with it stays with it, so nothing
//! is sent twice. A solved sub-chunk goes to the new node, or to the mate that couples it with what
//! it stores. That meets the bound of [`crate::Bound`] with maximum load w as long as
//! k - 1 <= q^2. For larger k the layers are shared among the hubs of two columns and more.
//!
//! None of this asks for a code: layers come from hints, everything else from the DAG.

mod shape;
mod groups;
mod layers;
mod search;

use super::{Basis, PlacementStrategy, central};
use crate::{Bound, Plan, Problem, Result, SearchBudget, edges::Edges};
use groups::AggregatorGroup;
use layers::Layers;
use shape::Shape;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "hub",
    about: "each layer of a coupled code is solved where most of it is stored: the least traffic \
            at the least maximum load, by a rule",
    searches: true,
    basis: Basis::Structure,
    variants: Some(variants),
    promise: central::no_busier,
    place,
};

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
    let Some(hubs) = Hubs::new(problem) else {
        let why = "its DAG has no layers that could be solved apart: everything at the new node";
        return fall_back(problem, why);
    };
    let plan = hubs.plan(hubs.best(budget))?;
    let (ours, alone) = (plan.costs(), central_plan(problem)?);
    let theirs = alone.costs();
    match (ours.max_load(), ours.bandwidth()) < (theirs.max_load(), theirs.bandwidth()) {
        true => Ok(plan),
        false => fall_back(problem, "hubs would load no link less: everything at the new node"),
    }
}

/// Other aggregator groups of hubs, and points between the hub plan and the central one.
fn variants(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Vec<Plan>> {
    let mut plans = alternatives(problem)?;
    plans.extend(frontier(problem, budget)?);
    Ok(plans)
}

fn central_plan(problem: &Problem) -> Result<Plan> {
    central::alone(problem, STRATEGY.name)
}

fn fall_back(problem: &Problem, why: &str) -> Result<Plan> {
    Ok(central_plan(problem)?.with_note(format!("central instead of hub: {why}")))
}

/// The plans between the least maximum load and the least traffic: first that of the strategy
/// `hub`, then, with the layers of one hub after the other solved at the new node, up to the
/// central plan. For d = n-1 all lie on the bound, but for the first one where k - 1 > q^2.
pub fn frontier(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Vec<Plan>> {
    let mut plans = vec![place(problem, budget)?];
    if let Some(hubs) = Hubs::new(problem)
        && let Some(group) = hubs.best_group()
        && let Some((_, target)) = problem.targets().next()
    {
        for moved in 1..=group.members.len() {
            let hub = |layer| match group.of_layer[layer] {
                Some(member) if (member as usize) >= moved => group.members[member as usize],
                _ => target as u16,
            };
            plans.push(hubs.plan((0..hubs.shape.layers).map(hub).collect())?);
        }
    } else {
        plans.push(central_plan(problem)?);
    }
    Ok(plans)
}

/// A plan for every aggregator group of hubs, least load first: equally good plans that load
/// different nodes, for planning many repairs at once. Without a search. Empty where the DAG has no
/// layers.
pub fn alternatives(problem: &Problem) -> Result<Vec<Plan>> {
    let Some(hubs) = Hubs::new(problem) else { return Ok(Vec::new()) };
    let plans: Result<Vec<Plan>> =
        hubs.groups.iter().map(|group| hubs.plan(hubs.of_group(group))).collect();
    let mut plans = plans?;
    plans.sort_by_cached_key(|plan| (plan.costs().max_load(), plan.costs().bandwidth()));
    Ok(plans)
}

/// A problem with its layers and aggregator groups.
struct Hubs<'a> {
    problem: &'a Problem,
    edges: Edges,
    shape: Shape,
    groups: Vec<AggregatorGroup>,
    nodes: usize,
}

impl<'a> Hubs<'a> {
    fn new(problem: &'a Problem) -> Option<Hubs<'a>> {
        let edges = Edges::new(problem.dag());
        let shape = Shape::new(problem, &edges)?;
        let nodes = problem.cluster().nodes().len();
        let groups = groups::groups(&shape, nodes);
        (!groups.is_empty()).then_some(Hubs { problem, edges, shape, groups, nodes })
    }

    fn plan(&self, hubs: Vec<u16>) -> Result<Plan> {
        let places = self.layers(hubs).places(&self.edges);
        Plan::new(self.problem, self.problem.dag().clone(), places, STRATEGY.name)
    }

    /// The least load that is possible at all: what is wanted by the node that wants most.
    fn limit(&self) -> i64 {
        let mut wanted = vec![0; self.nodes];
        for (at, _) in self.problem.dag().outputs() {
            wanted[self.problem.target(at.chunk).unwrap_or(0)] += 1;
        }
        wanted.into_iter().max().unwrap_or(0)
    }

    fn layers(&self, hubs: Vec<u16>) -> Layers<'_> {
        Layers::new(&self.shape, hubs, self.nodes, self.limit())
    }

    /// One aggregator group's hubs; layers without a member go to the member with the fewest so
    /// far.
    fn of_group(&self, group: &AggregatorGroup) -> Vec<u16> {
        let mut count = vec![0_usize; self.nodes];
        let known: Vec<Option<u16>> = (0..self.shape.layers).map(|l| group.hub(l)).collect();
        known.iter().flatten().for_each(|&hub| count[hub as usize] += 1);
        let fill = |hub: Option<u16>| {
            hub.unwrap_or_else(|| {
                let others = self
                    .problem
                    .workers()
                    .iter()
                    .filter(|&&node| self.problem.targets().all(|(_, target)| target != node));
                let least = others.copied().min_by_key(|&node| count[node]).unwrap_or(0);
                count[least] += 1;
                least as u16
            })
        };
        known.into_iter().map(fill).collect()
    }

    fn best_group(&self) -> Option<&AggregatorGroup> {
        let score = |group: &&AggregatorGroup| {
            let layers = self.layers(self.of_group(group));
            (layers.max_load(), layers.total)
        };
        self.groups.iter().min_by_key(score)
    }

    /// The best hubs: by the rule where it meets the limit, else by search.
    fn best(&self, budget: &mut SearchBudget<'_>) -> Vec<u16> {
        let limit = self.limit();
        let bound = Bound::of(self.problem);
        let floor = bound.map_or(0, |bound| bound.sub_chunks(limit as usize) as i64);
        let mut starts: Vec<Vec<u16>> =
            self.groups.iter().map(|group| self.of_group(group)).collect();
        starts.extend(self.shared());
        let score = |hubs: &Vec<u16>| {
            let layers = self.layers(hubs.clone());
            (layers.overload, layers.total)
        };
        let Some(start) = starts.into_iter().min_by_key(score) else { return Vec::new() };
        if score(&start) <= (0, floor) || !self.shape.exact {
            return start;
        }
        let others: Vec<u16> = self.problem.workers().iter().map(|&node| node as u16).collect();
        let choices = search::choices(&self.groups, self.shape.layers, &others);
        let state = self.layers(start);
        search::search(state, &choices, floor, budget)
    }

    /// Layers shared between two full aggregator groups, so that no hub of either has more than its
    /// half: cell (a, b) of their members belongs to the first aggregator group for half of the
    /// differences b - a. An odd number of members leaves one difference over, which a third
    /// aggregator group's members decide.
    fn shared(&self) -> Vec<Vec<u16>> {
        let full: Vec<&AggregatorGroup> =
            self.groups.iter().filter(|group| group.is_full()).collect();
        let mut list = Vec::new();
        for (i, first) in full.iter().enumerate() {
            let Some(second) = full.get(i + 1) else { break };
            let third = full.get(if i + 2 < full.len() { i + 2 } else { 0 });
            let q = first.members.len();
            if second.members.len() != q {
                continue;
            }
            let hub = |layer: usize| {
                let digit = |group: &AggregatorGroup| group.of_layer[layer].map_or(0, usize::from);
                let difference = (digit(second) + q - digit(first)) % q;
                let ours = match difference.cmp(&(q / 2)) {
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Equal if q % 2 == 1 => {
                        third.is_some_and(|third| digit(third) < q / 2)
                    }
                    _ => false,
                };
                (if ours { first } else { second }).hub(layer).unwrap_or(0)
            };
            list.push((0..self.shape.layers).map(hub).collect());
        }
        list
    }
}
