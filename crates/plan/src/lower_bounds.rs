//! Lower bounds for any repair: several lost chunks, fewer helpers, ranges of a chunk, unequal
//! links, new nodes that store something, domains.
//!
//! Let M be the matrix that the DAG computes from what it reads. What a set Q of helpers holds
//! enters the rebuilt sub-chunks through the columns of Q, so at least rank(M_Q) sub-chunks must
//! leave Q, to nodes outside of it. A single helper gives its least sending, the columns outside of
//! a new node its least receiving, the columns of a domain what must leave it.
//!
//! *Traffic.* Let r go from helpers to nodes that are no helpers (the new ones), x between helpers.
//! Sum the above over a family of sets Q: if every helper is in at most `a` of them and every
//! ordered pair of helpers is split (first in Q, second not) by at most `b`, then a r + b x is at
//! least the sum S of the ranks, hence T >= r + x >= r + (S - a r) / b. With all sets of q helpers
//! and the ranks of an MDS code this is [`crate::Bound`]. Where all sets are too many, rotations of
//! one set do nearly as well, if its differences are as even as can be found.
//!
//! *Time.* In t seconds helpers with links of U bytes a second together send at most U t, and new
//! nodes receive at most D t: the traffic bound at r = D t gives the least t.

use crate::{Cluster, Problem, Result};
use kiln_code::{Dag, Matrix};

/// The most entries of a matrix that is looked at.
const ENTRIES_MAX: usize = 1 << 22;
/// Work of the ranks of all sets of helpers, in multiplications; above, rotations of one set serve.
const WORK_ALL: usize = 1 << 27;
/// Work of the ranks of those.
const WORK_MAX: usize = 1 << 31;
/// Sets that are tried as the one to be rotated.
const BASES: usize = 500;

/// A line of the traffic bound: a r + b x >= sum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    sum: f64,
    a: f64,
    b: f64,
}

impl Line {
    /// The least r + x.
    fn traffic(&self, r: f64) -> f64 {
        r + ((self.sum - self.a * r) / self.b.max(1e-9)).max(0.0)
    }
}

/// Lower bounds on the costs of any plan of a problem. The unit is a sub-chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct LowerBounds {
    /// Least sent and received, by node of the cluster.
    sent: Vec<usize>,
    received: Vec<usize>,
    /// Sub-chunks that all new nodes together must receive from helpers.
    arrive: usize,
    targets: Vec<usize>,
    helpers: Vec<usize>,
    lines: Vec<Line>,
    across: usize,
}

impl LowerBounds {
    /// The limits of a problem; nothing where its matrix is too large to look at.
    pub fn of(problem: &Problem) -> Result<Option<LowerBounds>> {
        let dag = problem.dag();
        let Some(matrix) = matrix(dag)? else { return Ok(None) };
        let cut = Cut { problem, matrix };
        let nodes = problem.cluster().nodes().len();
        let mut targets: Vec<usize> = problem.targets().map(|(_, node)| node).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut helpers: Vec<usize> =
            dag.reads().iter().filter_map(|reads| problem.home(reads.chunk as u32)).collect();
        helpers.retain(|node| !targets.contains(node));
        helpers.sort_unstable();
        helpers.dedup();
        let (mut sent, mut received) = (vec![0; nodes], vec![0; nodes]);
        for (node, sent) in sent.iter_mut().enumerate() {
            *sent = cut.rank(|home| home == node, |target| target != node);
        }
        for &target in &targets {
            received[target] = cut.rank(|home| home != target, |node| node == target);
        }
        let arrive = cut.rank(|home| !targets.contains(&home), |_| true);
        let mut lines = vec![Line {
            sum: helpers.iter().map(|&node| sent[node]).sum::<usize>() as f64,
            a: 1.0,
            b: 1.0,
        }];
        lines.extend(cut.line(&helpers, arrive));
        let across = cut.across();
        Ok(Some(LowerBounds { sent, received, arrive, targets, helpers, lines, across }))
    }

    /// The least maximum load.
    pub fn max_load(&self) -> usize {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(0)
    }

    /// The least traffic of a plan in which no node receives more than `load`.
    pub fn bandwidth(&self, load: usize) -> usize {
        let least = |line: &Line| {
            // Falling or rising in r: the least is at an end.
            let most = (load * self.targets.len()).max(self.arrive) as f64;
            line.traffic(self.arrive as f64).min(line.traffic(most))
        };
        let all = self.lines.iter().map(least).fold(0.0, f64::max);
        (all - 1e-6).ceil().max(0.0) as usize
    }

    /// The least traffic between domains.
    pub fn across_domains(&self) -> usize {
        self.across
    }

    /// The least seconds for sub-chunks of `bytes` on the links of a cluster.
    pub fn seconds(&self, cluster: &Cluster, bytes: u64) -> f64 {
        let nodes = cluster.nodes();
        let own = |node: usize| {
            let up = self.sent[node] as f64 / nodes[node].rate_up();
            up.max(self.received[node] as f64 / nodes[node].rate_down())
        };
        let single = (0..nodes.len().min(self.sent.len())).map(own).fold(0.0, f64::max);
        let up: f64 = self.helpers.iter().map(|&node| nodes[node].rate_up()).sum();
        let down: f64 = self.targets.iter().map(|&node| nodes[node].rate_down()).sum();
        let together = |line: &Line| {
            // What a second carries at most, counted as the line counts it.
            let r = if line.a >= line.b { down.min(up) } else { 0.0 };
            line.sum / (line.a * r + line.b * (up - r)).max(1e-9)
        };
        self.lines.iter().map(together).fold(single, f64::max) * bytes as f64
    }
}

/// The matrix of a DAG, if it is not too large.
fn matrix(dag: &Dag) -> Result<Option<Matrix>> {
    match dag.inputs().len().saturating_mul(dag.outputs().len()) > ENTRIES_MAX {
        true => Ok(None),
        false => Ok(Some(dag.matrix()?)),
    }
}

struct Cut<'a> {
    problem: &'a Problem,
    matrix: Matrix,
}

impl Cut<'_> {
    /// The rank from inputs at some homes to outputs wanted at some targets.
    fn rank(&self, home: impl Fn(usize) -> bool, target: impl Fn(usize) -> bool) -> usize {
        let dag = self.problem.dag();
        let columns: Vec<usize> = (0..dag.inputs().len())
            .filter(|&c| self.problem.home(dag.inputs()[c].chunk).is_some_and(&home))
            .collect();
        let rows: Vec<usize> = (0..dag.outputs().len())
            .filter(|&r| self.problem.target(dag.outputs()[r].0.chunk).is_some_and(&target))
            .collect();
        match rows.is_empty() || columns.is_empty() {
            true => 0,
            false => self.matrix.select_rows(&rows).select_cols(&columns).rank(),
        }
    }

    /// The line of all sets of the fewest helpers that can hold as much as all of them.
    fn line(&self, helpers: &[usize], arrive: usize) -> Option<Line> {
        let d = helpers.len();
        let first = |u: usize| self.rank(|home| helpers[..u].contains(&home), |_| true);
        let u = (1..d).find(|&u| first(u) == arrive)?;
        let (rows, cols) = (self.matrix.rows(), (self.matrix.cols() * u / d).max(1));
        let work = rows * cols * rows.min(cols);
        let fits = |sets: usize, most| sets.checked_mul(work).is_some_and(|work| work <= most);
        let within = |set: &[usize]| {
            let inside = |home: usize| set.iter().any(|&i| helpers[i] == home);
            self.rank(inside, |_| true)
        };
        if let Some(sets) = binomial(d, u).filter(|&sets| fits(sets, WORK_ALL)) {
            let mut set: Vec<usize> = (0..u).collect();
            let mut sum = within(&set);
            for _ in 1..sets {
                next_set(&mut set, d);
                sum += within(&set);
            }
            let (a, b) = (binomial(d - 1, u - 1)?, binomial(d.checked_sub(2)?, u - 1)?);
            return Some(Line { sum: sum as f64, a: a as f64, b: b as f64 });
        }
        if !fits(d, WORK_MAX) {
            return None;
        }
        let (base, split) = even_set(d, u);
        let turned = |turn: usize| base.iter().map(|&i| (i + turn) % d).collect::<Vec<usize>>();
        let sum: usize = (0..d).map(|turn| within(&turned(turn))).sum();
        Some(Line { sum: sum as f64, a: u as f64, b: split as f64 })
    }

    /// Returns what must leave the domains, or enter them, whichever is more.
    fn across(&self) -> usize {
        let cluster = self.problem.cluster();
        let nodes = cluster.nodes().len();
        let firsts =
            (0..nodes).filter(|&node| (0..node).all(|other| !cluster.together(node, other)));
        let (mut out, mut into) = (0, 0);
        for domain in firsts {
            let inside = |node: usize| cluster.together(node, domain);
            out += self.rank(inside, |target| !inside(target));
            into += self.rank(|home| !inside(home), inside);
        }
        out.max(into)
    }
}

/// A set of `u` of `d` numbers in a circle, and how many of its rotations at most split a pair of
/// numbers (first in, second out): as few as some hundred random sets have.
fn even_set(d: usize, u: usize) -> (Vec<usize>, usize) {
    let mut seed = 1;
    let mut numbers: Vec<usize> = (0..d).collect();
    let mut best = ((0..u).collect(), u);
    for _ in 0..BASES {
        for i in 0..u {
            numbers.swap(i, i + kiln_code::seed::below(&mut seed, d - i));
        }
        let set = &numbers[..u];
        let kept = |by: usize| set.iter().filter(|&&i| set.contains(&((i + by) % d))).count();
        let split = (1..d).map(|by| u - kept(by)).max().unwrap_or(u);
        if split < best.1 {
            best = (set.to_vec(), split);
        }
    }
    best
}

fn binomial(n: usize, k: usize) -> Option<usize> {
    let mut product = 1_usize;
    for i in 0..k {
        product = product.checked_mul(n.checked_sub(i)?)? / (i + 1);
    }
    Some(product)
}

/// The next set of ascending numbers below `limit`.
fn next_set(set: &mut [usize], limit: usize) -> bool {
    let len = set.len();
    let Some(i) = (0..len).rev().find(|&i| set[i] + len - i < limit) else { return false };
    set[i] += 1;
    for j in i + 1..len {
        set[j] = set[j - 1] + 1;
    }
    true
}

/// By chunk, the rank of what its sub-chunks contribute to the outputs: so much must leave its
/// node, whatever the plan. Nothing where the DAG is too large to say.
pub(crate) fn contributions(dag: &Dag, chunks: usize) -> Result<Option<Vec<u32>>> {
    let Some(matrix) = matrix(dag)? else { return Ok(None) };
    let mut ranks = vec![0; chunks];
    for (chunk, rank) in ranks.iter_mut().enumerate() {
        let columns: Vec<usize> =
            (0..matrix.cols()).filter(|&c| dag.inputs()[c].chunk as usize == chunk).collect();
        if !columns.is_empty() {
            *rank = matrix.select_cols(&columns).rank() as u32;
        }
    }
    Ok(Some(ranks))
}

#[cfg(test)]
mod tests;
