//! Rebuilding one chunk from the fewest sub-chunks: each lost sub-chunk by one of the equations
//! that hold it, chosen so that the reads overlap (for RDP: Xiang et al., SIGMETRICS 2010, half of
//! the rows by row parity and half by diagonals).

use super::Equations;
use crate::seed;

/// Choices up to this number are all tried; above it a seeded descent looks for a good one.
const EXHAUSTIVE_MAX: usize = 1 << 14;
/// Work of a descent, in words of bit sets looked at.
const DESCENT_WORDS: usize = 1 << 22;
/// Equations with more unknowns than this (Cauchy's) make no cheap recovery.
const UNKNOWNS_MAX: usize = 3;

/// The cost of choices that wait for each other.
const IMPOSSIBLE: (u32, u32) = (u32::MAX, u32::MAX);

/// Equations that rebuild a chunk, and the sub-chunks they read, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub equations: Vec<u32>,
    pub reads: Vec<u32>,
}

/// The recovery of one lost chunk that reads the fewest sub-chunks of `available`, if its
/// equations allow one. The same arguments give the same recovery.
pub(super) fn cheapest(
    equations: &Equations,
    lost: usize,
    available: &[usize],
) -> Option<Recovery> {
    let search = Search::new(equations, lost, available)?;
    let best = search.best()?;
    let reads = search.reads(&best)?;
    let word = |(at, &bits): (usize, &u64)| {
        (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| at as u32 * 64 + b)
    };
    Some(Recovery {
        equations: reads.1,
        reads: reads.0.iter().enumerate().flat_map(word).collect(),
    })
}

/// An equation that may give an unknown.
struct Candidate {
    equation: u32,
    /// The other unknowns that must be there first.
    first: Vec<usize>,
    reads: Vec<u64>,
}

struct Search {
    /// Lost sub-chunks; auxiliary values come after them.
    alpha: usize,
    words: usize,
    /// For every unknown the ways to get it.
    candidates: Vec<Vec<Candidate>>,
}

/// Chosen way of every unknown.
type Assignment = Vec<usize>;

impl Search {
    fn new(equations: &Equations, lost: usize, available: &[usize]) -> Option<Search> {
        let (shape, cells) = (equations.shape, equations.cells());
        let mut readable = vec![false; shape.n()];
        available.iter().for_each(|&chunk| readable[chunk] = true);
        let unknown = |v: u32| match (v as usize).checked_sub(cells) {
            Some(auxiliary) => Some(shape.alpha + auxiliary),
            None if v as usize / shape.alpha == lost => Some(v as usize % shape.alpha),
            None => None,
        };
        let words = cells.div_ceil(64);
        let mut candidates: Vec<Vec<Candidate>> = Vec::new();
        candidates.resize_with(shape.alpha + equations.auxiliary, Vec::new);
        for (e, list) in equations.list.iter().enumerate() {
            let unknowns: Vec<usize> = list.iter().filter_map(|&v| unknown(v)).collect();
            let mut known = list.iter().filter(|&&v| unknown(v).is_none());
            if unknowns.len() > UNKNOWNS_MAX
                || known.clone().any(|&v| !readable[v as usize / shape.alpha])
            {
                continue;
            }
            let mut reads = vec![0_u64; words];
            known.by_ref().for_each(|&v| reads[v as usize / 64] |= 1 << (v % 64));
            for &u in &unknowns {
                let first = unknowns.iter().copied().filter(|&other| other != u).collect();
                candidates[u].push(Candidate { equation: e as u32, first, reads: reads.clone() });
            }
        }
        let possible = candidates[..shape.alpha].iter().all(|candidates| !candidates.is_empty());
        possible.then_some(Search { alpha: shape.alpha, words, candidates })
    }

    /// Returns what an assignment reads and uses; nothing when its unknowns wait for each other.
    fn reads(&self, assignment: &Assignment) -> Option<(Vec<u64>, Vec<u32>)> {
        let mut walk = Walk {
            search: self,
            assignment,
            state: vec![State::New; self.candidates.len()],
            reads: vec![0; self.words],
            equations: Vec::new(),
        };
        (0..self.alpha).all(|u| walk.visit(u)).then_some((walk.reads, walk.equations))
    }

    /// Sub-chunks read, and runs of them: fewer runs are better where the bytes are the same.
    fn cost(&self, assignment: &Assignment) -> (u32, u32) {
        let Some((bits, _)) = self.reads(assignment) else { return IMPOSSIBLE };
        let (mut count, mut runs, mut before) = (0, 0, 0);
        for word in bits {
            count += word.count_ones();
            runs += (word & !(word << 1 | before)).count_ones();
            before = word >> 63;
        }
        (count, runs)
    }

    fn best(&self) -> Option<Assignment> {
        let choices = self.candidates.iter().try_fold(1_usize, |product, candidates| {
            product.checked_mul(candidates.len().max(1)).filter(|&p| p <= EXHAUSTIVE_MAX)
        });
        let best = match choices {
            Some(choices) => self.all(choices),
            None => self.descend(),
        };
        (self.cost(&best) < IMPOSSIBLE).then_some(best)
    }

    fn all(&self, choices: usize) -> Assignment {
        let nth = |mut number: usize| -> Assignment {
            let digit = |candidates: &Vec<Candidate>| {
                let (radix, digit) = (candidates.len().max(1), number % candidates.len().max(1));
                number /= radix;
                digit
            };
            self.candidates.iter().map(digit).collect()
        };
        let best = (0..choices).min_by_key(|&number| (self.cost(&nth(number)), number));
        nth(best.unwrap_or(0))
    }

    /// Descents from a start with half of the rows by row parity and half by diagonals, which for
    /// RDP is the optimum already, and then from random starts.
    fn descend(&self) -> Assignment {
        let mut budget = DESCENT_WORDS / (self.alpha * (self.words + 8)).max(1);
        let mut best: Assignment = vec![0; self.candidates.len()];
        let mut best_cost = self.cost(&best);
        // The first two ways are the families' rows and diagonals.
        let halves = |u: usize| usize::from(u >= self.alpha / 2 && self.candidates[u].len() > 1);
        let mut start: Assignment = (0..self.candidates.len()).map(halves).collect();
        let mut state = 1;
        while budget > 0 {
            let (end, cost) = self.improved(start, &mut state, &mut budget);
            if cost < best_cost {
                (best, best_cost) = (end, cost);
            }
            let random = |candidates: &Vec<Candidate>| {
                seed::next(&mut state) as usize % candidates.len().clamp(1, 2)
            };
            start = self.candidates.iter().map(random).collect();
        }
        best
    }

    /// Changes one way at a time while that makes nothing worse, until nothing gets better.
    fn improved(
        &self,
        mut now: Assignment,
        state: &mut u64,
        budget: &mut usize,
    ) -> (Assignment, (u32, u32)) {
        let mut cost = self.cost(&now);
        let mut quiet = 0;
        while quiet < self.candidates.len() && *budget > 0 {
            quiet += 1;
            let u = seed::next(state) as usize % self.candidates.len();
            for candidate in 0..self.candidates[u].len() {
                let old = std::mem::replace(&mut now[u], candidate);
                if candidate == old {
                    continue;
                }
                let changed = self.cost(&now);
                *budget = budget.saturating_sub(1);
                if changed < cost {
                    quiet = 0;
                }
                if changed <= cost {
                    cost = changed;
                } else {
                    now[u] = old;
                }
            }
        }
        (now, cost)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

struct Walk<'a> {
    search: &'a Search,
    assignment: &'a Assignment,
    state: Vec<State>,
    reads: Vec<u64>,
    equations: Vec<u32>,
}

impl Walk<'_> {
    /// Gets an unknown and what it needs; false when that is a circle.
    fn visit(&mut self, u: usize) -> bool {
        match self.state[u] {
            State::Done => return true,
            State::Open => return false,
            State::New => self.state[u] = State::Open,
        }
        let search = self.search;
        let Some(candidate) = search.candidates[u].get(self.assignment[u]) else { return false };
        if !candidate.first.iter().all(|&other| self.visit(other)) {
            return false;
        }
        self.reads.iter_mut().zip(&candidate.reads).for_each(|(all, new)| *all |= new);
        self.equations.push(candidate.equation);
        self.state[u] = State::Done;
        true
    }
}
