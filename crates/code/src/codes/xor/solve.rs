//! From known to wanted sub-chunks by XOR, with few of them.
//!
//! First *peeling*: an equation with one unknown gives it. Where no equation has just one, the
//! known part of every equation left (its syndrome) is summed once, elimination over GF(2) says
//! which sums of syndromes give which unknown, and the cheapest such sum is the start of a chain of
//! further peeling. So decoders of array codes (zigzag from S on) come out as their sources have
//! them, and dense codes fall back to the inverse matrix.

use super::Equations;
use super::bits::{Combination, eliminate};
use crate::dag::{DagBuilder, Hint, Symbol};
use crate::{CodeError, Result};
use kiln_gf::Matrix;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Unknown that starts a chain where peeling ends. Neither is best for all codes and losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The one that is the shortest sum of syndromes.
    Shortest,
    /// One that many equations hold (the S of EVENODD) may be a longer sum: it opens all of them.
    Hub,
}

/// Adds the steps that give the variables `wanted` from `known`, using only the equations `used`.
/// Errors: the equations do not determine a wanted variable.
pub(super) fn solve(
    equations: &Equations,
    used: &[u32],
    known: &[u32],
    wanted: &[u32],
    start: Start,
    builder: &mut DagBuilder,
) -> Result<Vec<Symbol>> {
    let mut solver = Solver::new(equations, used, known, start, builder);
    solver.peel()?;
    if wanted.iter().any(|&v| solver.symbols[v as usize].is_none()) {
        solver.chain(wanted)?;
    }
    let symbol = |&v: &u32| solver.symbols[v as usize].ok_or_else(undetermined);
    wanted.iter().map(symbol).collect()
}

fn undetermined() -> CodeError {
    CodeError::Internal("the equations do not determine a lost sub-chunk".into())
}

struct Solver<'a> {
    equations: &'a Equations,
    lists: Vec<&'a [u32]>,
    places: Vec<Option<Hint>>,
    symbols: Vec<Option<Symbol>>,
    /// Occurrences of each unknown variable.
    users: Vec<Vec<u32>>,
    /// Unknown variables of each equation.
    open: Vec<usize>,
    start: Start,
    builder: &'a mut DagBuilder,
}

impl<'a> Solver<'a> {
    fn new(
        equations: &'a Equations,
        used: &[u32],
        known: &[u32],
        start: Start,
        builder: &'a mut DagBuilder,
    ) -> Solver<'a> {
        let mut symbols = vec![None; equations.variables()];
        for &v in known {
            symbols[v as usize] = Some(builder.input(equations.at(v), equations.hint(v)));
        }
        let lists: Vec<&[u32]> = used.iter().map(|&e| &equations.list[e as usize][..]).collect();
        let places = used.iter().map(|&e| equations.places[e as usize]).collect();
        let mut users = vec![Vec::new(); symbols.len()];
        let mut open = vec![0; lists.len()];
        for (e, list) in lists.iter().enumerate() {
            for &v in list.iter().filter(|&&v| symbols[v as usize].is_none()) {
                users[v as usize].push(e as u32);
                open[e] += 1;
            }
        }
        Solver { equations, lists, places, symbols, users, open, start, builder }
    }

    /// Takes equations with one unknown, short ones first, until there are none.
    fn peel(&mut self) -> Result<()> {
        let entry = |lists: &[&[u32]], e: usize| Reverse((lists[e].len(), e));
        let ready = (0..self.lists.len()).filter(|&e| self.open[e] == 1);
        let mut heap: BinaryHeap<_> = ready.map(|e| entry(&self.lists, e)).collect();
        while let Some(Reverse((_, e))) = heap.pop() {
            let Some(v) = self.only_unknown(e) else { continue };
            let terms: Vec<Symbol> = self.known_terms(e);
            let hint = self.places[e].unwrap_or_else(|| self.equations.hint(v));
            let symbol = xor(self.builder, &terms, hint)?;
            for e in self.set(v, symbol) {
                heap.push(entry(&self.lists, e));
            }
        }
        Ok(())
    }

    /// The unknown of an equation that has just one.
    fn only_unknown(&self, e: usize) -> Option<u32> {
        let unknown = |v: &&u32| self.symbols[**v as usize].is_none();
        (self.open[e] == 1).then(|| self.lists[e].iter().find(unknown).copied())?
    }

    fn known_terms(&self, e: usize) -> Vec<Symbol> {
        self.lists[e].iter().filter_map(|&v| self.symbols[v as usize]).collect()
    }

    /// Makes a variable known; returns the equations that have one unknown now.
    fn set(&mut self, v: u32, symbol: Symbol) -> Vec<usize> {
        self.symbols[v as usize] = Some(symbol);
        let users = std::mem::take(&mut self.users[v as usize]);
        let mut ready = Vec::new();
        for e in users.into_iter().map(|e| e as usize) {
            self.open[e] -= 1;
            if self.open[e] == 1 {
                ready.push(e);
            }
        }
        ready
    }

    fn xor(&mut self, terms: &[Symbol], stands_for: u32) -> Result<Symbol> {
        let hint = self.equations.hint(stands_for);
        xor(self.builder, terms, hint)
    }

    /// Elimination where peeling ends, and chains of peeling from what it gives.
    fn chain(&mut self, wanted: &[u32]) -> Result<()> {
        let rest: Vec<usize> = (0..self.lists.len()).filter(|&e| self.open[e] > 1).collect();
        let mut unknowns: Vec<u32> = rest.iter().flat_map(|&e| self.unknowns(e)).collect();
        unknowns.sort_unstable();
        unknowns.dedup();
        let index = |v: u32| unknowns.binary_search(&v).unwrap_or_default();
        let rows: Vec<Vec<usize>> =
            rest.iter().map(|&e| self.unknowns(e).into_iter().map(index).collect()).collect();
        let combinations = eliminate(&rows, unknowns.len());
        let mut syndromes = Vec::with_capacity(rest.len());
        for &e in &rest {
            let terms = self.known_terms(e);
            syndromes.push(self.xor(&terms, self.unknowns(e)[0])?);
        }
        let mut starts: Vec<usize> =
            (0..unknowns.len()).filter(|&u| combinations[u].is_some()).collect();
        let price = |u: usize| match self.start {
            Start::Shortest => weight(&combinations[u]),
            Start::Hub => 64 * weight(&combinations[u]) / self.users_of(unknowns[u]).max(1),
        };
        starts.sort_by_key(|&u| Reverse(price(u)));
        let mut left = wanted.iter().filter(|&&v| self.symbols[v as usize].is_none()).count();
        while left > 0 {
            let link = (0..rest.len())
                .filter_map(|row| {
                    let v = self.only_unknown(rest[row])?;
                    Some((rows[row].len(), row, v))
                })
                .min();
            let (v, terms) = match link {
                Some((cost, row, v)) if cost <= weight(&combinations[index(v)]) => {
                    let earlier = rows[row].iter().filter_map(|&u| self.symbol(unknowns[u]));
                    (v, earlier.chain([syndromes[row]]).collect::<Vec<_>>())
                }
                Some((_, _, v)) => (v, sum_of(&combinations[index(v)], &syndromes)),
                None => {
                    let start = loop {
                        let start = starts.pop().ok_or_else(undetermined)?;
                        if self.symbol(unknowns[start]).is_none() {
                            break start;
                        }
                    };
                    (unknowns[start], sum_of(&combinations[start], &syndromes))
                }
            };
            let symbol = self.xor(&terms, v)?;
            self.set(v, symbol);
            left -= usize::from(wanted.contains(&v));
        }
        Ok(())
    }

    fn symbol(&self, v: u32) -> Option<Symbol> {
        self.symbols[v as usize]
    }

    fn users_of(&self, v: u32) -> usize {
        self.users[v as usize].len()
    }

    fn unknowns(&self, e: usize) -> Vec<u32> {
        self.lists[e].iter().copied().filter(|&v| self.symbol(v).is_none()).collect()
    }
}

/// Terms of a sum of syndromes; more than anything where there is no such sum.
fn weight(combination: &Combination) -> usize {
    combination.as_ref().map_or(usize::MAX, Vec::len)
}

fn sum_of(combination: &Combination, syndromes: &[Symbol]) -> Vec<Symbol> {
    combination.iter().flatten().map(|&row| syndromes[row]).collect()
}

fn xor(builder: &mut DagBuilder, terms: &[Symbol], hint: Hint) -> Result<Symbol> {
    let terms: Vec<Symbol> = terms.iter().copied().filter(|t| *t != Symbol::Zero).collect();
    match terms[..] {
        [] => Ok(Symbol::Zero),
        [one] => Ok(one),
        _ => {
            let ones = builder.matrix(&Matrix::from_fn(1, terms.len(), |_, _| 1));
            Ok(builder.step(ones, &terms, &[hint])?.symbol(0))
        }
    }
}
