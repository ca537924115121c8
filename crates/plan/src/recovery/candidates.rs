//! Candidate plans: proved plans for every pattern of losses that occurs, by roles.
//!
//! A role is a chunk of the stripe: the node that stores it, or for a lost chunk the node that gets
//! it. A plan is made once on one node a role; a stripe puts its own nodes into the roles.

use super::{Destination, Emit, Layout, RecoveryOptions};
use crate::{
    Basis, Cluster, PlacementStrategy, Plan, PlanError, Problem, Result, SearchBudget, strategy,
};
use kiln_code::Shape;
use std::{collections::BTreeMap, sync::Arc};

/// The most patterns of losses; there are 1470 of up to four of 14 chunks.
const PATTERNS_MAX: usize = 20_000;
/// Other sets of helpers that are tried where not all chunks are read.
const HELPER_SETS: usize = 6;
/// Entries for a pattern of several losses: such stripes are few.
const ENTRIES_MAX: usize = 24;

/// A plan by roles with what each role sends and receives, in sub-chunks.
#[derive(Debug)]
pub(super) struct CandidatePlan {
    pub lost: Vec<usize>,
    pub plan: Plan,
    pub sent: Vec<u32>,
    pub received: Vec<u32>,
    /// Its strategy has variants.
    varied: bool,
}

impl CandidatePlan {
    fn load(&self) -> u32 {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(0)
    }

    fn traffic(&self) -> u32 {
        self.sent.iter().sum()
    }
}

/// The entries of all patterns, and what each pattern's chunks must send at least.
#[derive(Debug)]
pub(super) struct CandidatePlans {
    entries: Vec<CandidatePlan>,
    patterns: BTreeMap<Vec<usize>, Pattern>,
}

/// Properties of a pattern of losses.
#[derive(Debug)]
pub(super) struct Pattern {
    /// Its entries.
    pub range: std::ops::Range<u32>,
    /// Sub-chunks that each role must send, whatever the plan, when the optimum is read.
    pub must_send: Vec<u32>,
    /// All sub-chunks that must be sent.
    pub must_travel: u32,
    /// Sub-chunks that its targets must receive, all together.
    pub must_arrive: u32,
    /// True if it is a single loss that is rebuilt from fewer than k chunks, which codes that are
    /// MDS cannot do.
    pub local: bool,
}

impl CandidatePlans {
    pub(super) fn new(
        layout: &Layout,
        emit: Emit<'_>,
        destination: &Destination,
        options: &RecoveryOptions,
    ) -> Result<CandidatePlans> {
        let mut candidates = CandidatePlans { entries: Vec::new(), patterns: BTreeMap::new() };
        for stripe in layout.stripes() {
            let lost: Vec<usize> = stripe.lost().collect();
            if lost.is_empty() || candidates.patterns.contains_key(&lost) {
                continue;
            }
            let (got, limit) = (candidates.patterns.len() + 1, PATTERNS_MAX);
            if got > limit {
                return Err(PlanError::TooMany { what: "patterns of losses", got, limit });
            }
            let together = match destination {
                Destination::Spread => false,
                Destination::Nodes(nodes) => nodes.len() < lost.len(),
            };
            candidates.add(layout.shape(), lost, emit, together, options)?;
        }
        Ok(candidates)
    }

    pub(super) fn entry(&self, index: u32) -> &CandidatePlan {
        &self.entries[index as usize]
    }

    pub(super) fn pattern(&self, lost: &[usize]) -> Option<&Pattern> {
        self.patterns.get(lost)
    }

    /// Returns whether nothing shows that the code is not MDS.
    pub(super) fn may_be_mds(&self) -> bool {
        self.patterns.values().all(|pattern| !pattern.local)
    }

    fn add(
        &mut self,
        shape: Shape,
        lost: Vec<usize>,
        emit: Emit<'_>,
        together: bool,
        options: &RecoveryOptions,
    ) -> Result<()> {
        let first = self.entries.len();
        let rows = options.strategies.iter().map(|name| strategy(name));
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        if options.sweeps > 0 {
            let rank = |row: &&PlacementStrategy| match (row.basis, row.variants) {
                (Basis::OneNode, _) => 0,
                (_, Some(_)) => 1,
                _ => 2 + u8::from(row.searches),
            };
            rows.sort_by_key(rank);
        }
        let problems = problems(shape, &lost, emit, together)?;
        for (index, problem) in problems.iter().enumerate() {
            for row in &rows {
                // A search is worth while once a pattern, and only where what has variants (hubs)
                // leaves a node with more to carry than a new node gets anyhow.
                let least = (lost.len() * shape.alpha) as u32;
                let good = |entry: &CandidatePlan| entry.varied && entry.load() <= least;
                let entries = &self.entries[first..];
                let enough = index > 0 || lost.len() > 1 || entries.iter().any(good);
                // What is the only one there has to do.
                if row.searches && row.variants.is_none() && enough && !entries.is_empty() {
                    continue;
                }
                let mut budget = SearchBudget::new(options.seed).with_moves(options.moves);
                let mut plans = vec![row.plan(problem, &mut budget)?];
                if let Some(variants) = row.variants.filter(|_| index == 0) {
                    plans.extend(variants(problem, &mut budget)?);
                }
                for plan in plans {
                    if index == 0 {
                        plan.check()?;
                    }
                    self.take(&lost, plan, row.variants.is_some(), first);
                }
            }
            if self.entries.len() - first >= ENTRIES_MAX {
                break;
            }
        }
        let (must_send, must_travel) = needs(&problems, shape.n())?;
        // At one node, k chunks say everything: the copies of a replicated one come once.
        let distinct = if together { lost.len().min(shape.k) } else { lost.len() };
        let must_arrive = (distinct * shape.alpha) as u32;
        let range = first as u32..self.entries.len() as u32;
        let local = lost.len() == 1 && problems[0].dag().reads().len() < shape.k;
        let pattern = Pattern { range, must_send, must_travel, must_arrive, local };
        self.patterns.insert(lost, pattern);
        Ok(())
    }

    /// Adds a plan unless one of the same loads is there.
    fn take(&mut self, lost: &[usize], plan: Plan, varied: bool, first: usize) {
        let costs = plan.costs();
        let nodes = costs.nodes().iter();
        let (sent, received): (Vec<u32>, Vec<u32>) =
            nodes.map(|node| (node.sent as u32, node.received as u32)).unzip();
        let entry = CandidatePlan { lost: lost.to_vec(), plan, sent, received, varied };
        let same = |known: &CandidatePlan| {
            (&known.sent, &known.received) == (&entry.sent, &entry.received)
                || known.load() < entry.load() / 2 && known.traffic() < entry.traffic() / 2
        };
        if !self.entries[first..].iter().any(same) {
            self.entries.push(entry);
        }
    }
}

/// The repairs of a pattern by roles: with all chunks available, and with other helpers where the
/// code needs fewer. Their DAGs read the same amounts.
fn problems(shape: Shape, lost: &[usize], emit: Emit<'_>, together: bool) -> Result<Vec<Problem>> {
    let n = shape.n();
    let cluster = Arc::new(Cluster::uniform(n)?);
    let homes: Vec<(usize, usize)> = (0..n).map(|chunk| (chunk, chunk)).collect();
    let target = |chunk: usize| if together { lost[0] } else { chunk };
    let targets: Vec<(usize, usize)> = lost.iter().map(|&chunk| (chunk, target(chunk))).collect();
    let all: Vec<usize> = (0..n).filter(|chunk| !lost.contains(chunk)).collect();
    let problem = |available: &[usize]| {
        let dag = Arc::new(emit(lost, available)?);
        Problem::new(dag, cluster.clone(), &homes, &targets)
    };
    let mut problems = vec![problem(&all)?];
    let read = problems[0].dag().inputs().len();
    let helpers = problems[0].dag().reads().len();
    if helpers < all.len() {
        for turn in 1..=HELPER_SETS {
            // Every helper is left out about equally often.
            let shift = turn * all.len() / (HELPER_SETS + 1);
            let mut set: Vec<usize> = (0..helpers).map(|i| all[(i + shift) % all.len()]).collect();
            set.sort_unstable();
            // A set may be one from which this pattern reads more: then it is no choice.
            if let Ok(problem) = problem(&set)
                && problem.dag().inputs().len() <= read
            {
                problems.push(problem);
            }
        }
    }
    Ok(problems)
}

/// Returns what every role must send, and all together: the rank of what its sub-chunks contribute
/// to the lost ones. A role that only some helper sets use need not send anything.
fn needs(problems: &[Problem], n: usize) -> Result<(Vec<u32>, u32), PlanError> {
    let dag = problems[0].dag();
    let Some(ranks) = crate::lower_bounds::contributions(dag, n)? else {
        return Ok((vec![0; n], 0));
    };
    let travel = ranks.iter().sum();
    let always = |chunk: usize| {
        problems.iter().all(|p| p.dag().reads().iter().any(|reads| reads.chunk == chunk))
    };
    let spare = problems.len() > 1;
    let must = (0..n).map(|chunk| if spare && !always(chunk) { 0 } else { ranks[chunk] });
    Ok((must.collect(), travel))
}
