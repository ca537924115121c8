//! Makes a Gray code more even by small changes that leave it a Gray code.
//!
//! Node (x, y) has alpha/q layers; every step of the order that changes another digit while digit y
//! is x saves it a run. So moving steps from one digit to another moves runs from node to node:
//!
//! - *Squares.* Two steps that change digit y from u to w, one where digit y' is v and one where it
//!   is v', all else equal: turning round what lies between puts two steps of digit y' in their
//!   place. Nodes (u, y) and (w, y) have a run less, (v, y') and (v', y') one more.
//! - *Ends.* The order's last layer is a neighbour of some layer in the middle: turning round what
//!   follows that one moves a run from one node to another. The same at the front.
//!
//! Changes are taken while they lower the sum of squares of the runs of stored nodes. Then the
//! order is shaken, from a seeded sequence that never changes, and made even again; the better one
//! stays.

use super::{Layers, Order};
use crate::seed;

/// Rounds of squares and ends, at most: a bound that is never reached in practice.
const ROUNDS_MAX: usize = 40;
/// Work spent on shaking, in layers looked at, and the turns of one shake.
const SHAKE_WORK: usize = 1 << 16;
const SHAKE_TURNS: usize = 4;
const SHAKE_SEED: u64 = 1;

/// The same order, more even.
pub(super) fn smooth(layers: &Layers, order: Order) -> Vec<u32> {
    if layers.t() < 2 || layers.q() < 2 {
        return order.layers().to_vec();
    }
    let runs = order.runs_by_node(layers);
    let runs = runs.iter().flatten().map(|&runs| runs as i64).collect();
    let is_stored = |node| layers.chunk_of(node % layers.q(), node / layers.q()).is_some();
    let stored = (0..layers.q() * layers.t()).map(|node| i64::from(is_stored(node))).collect();
    let (at, list) = (order.positions().to_vec(), order.layers().to_vec());
    let mut best = Smoother { layers, list, at, runs, stored };
    best.settle();
    let mut state = SHAKE_SEED;
    for _ in 0..SHAKE_WORK / layers.count() {
        if best.spread() <= 1 {
            break;
        }
        let mut other = best.clone();
        other.shake(&mut state);
        other.settle();
        if other.squared() <= best.squared() {
            best = other;
        }
    }
    best.list
}

#[derive(Clone)]
struct Smoother<'a> {
    layers: &'a Layers,
    list: Vec<u32>,
    at: Vec<u32>,
    /// By node y * q + x.
    runs: Vec<i64>,
    /// 1 for nodes that count, 0 for virtual ones.
    stored: Vec<i64>,
}

impl Smoother<'_> {
    /// Takes changes until none lowers the sum of squares.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let squares = self.squares();
            let ends = self.ends();
            if !squares && !ends {
                break;
            }
        }
    }

    /// A few changes of the last layer, whatever they cost, to leave a local optimum.
    fn shake(&mut self, state: &mut u64) {
        let (q, t, end) = (self.layers.q(), self.layers.t(), self.list.len() - 1);
        for _ in 0..SHAKE_TURNS {
            let draw = (seed::next(state) % ((q - 1) * t) as u64) as usize;
            let (y, step) = (draw / (q - 1), 1 + draw % (q - 1));
            let last = self.list[end] as usize;
            let inner = self.with(last, y, (self.layers.digit(last, y) + step) % q);
            let position = self.at[inner] as usize;
            if position + 1 == end {
                continue;
            }
            let old = self.digit_between(inner, self.list[position + 1] as usize);
            if old != y {
                self.take(&[self.node(inner, old)], &[self.node(inner, y)]);
            }
            self.turn(position + 1, end);
        }
    }

    fn spread(&self) -> i64 {
        let runs = self.runs.iter().zip(&self.stored).filter(|(_, stored)| **stored == 1);
        let (low, high) =
            runs.fold((i64::MAX, 0), |(low, high), (&runs, _)| (low.min(runs), high.max(runs)));
        high - low
    }

    fn squared(&self) -> i64 {
        self.runs.iter().zip(&self.stored).map(|(&runs, &stored)| stored * runs * runs).sum()
    }

    fn node(&self, layer: usize, y: usize) -> usize {
        y * self.layers.q() + self.layers.digit(layer, y)
    }

    /// Returns what the sum of squares changes by when these nodes lose and gain a run. Nodes are
    /// distinct.
    fn gain(&self, lose: &[usize], win: &[usize]) -> i64 {
        let less: i64 = lose.iter().map(|&n| self.stored[n] * (1 - 2 * self.runs[n])).sum();
        let more: i64 = win.iter().map(|&n| self.stored[n] * (1 + 2 * self.runs[n])).sum();
        less + more
    }

    fn take(&mut self, lose: &[usize], win: &[usize]) {
        lose.iter().for_each(|&node| self.runs[node] -= 1);
        win.iter().for_each(|&node| self.runs[node] += 1);
    }

    /// Turns round the layers of positions `from` to `to`.
    fn turn(&mut self, from: usize, to: usize) {
        self.list[from..=to].reverse();
        for position in from..=to {
            self.at[self.list[position] as usize] = position as u32;
        }
    }

    /// The digit that two neighbours differ in.
    fn digit_between(&self, a: usize, b: usize) -> usize {
        let differs = |&y: &usize| self.layers.digit(a, y) != self.layers.digit(b, y);
        (0..self.layers.t()).find(differs).unwrap_or(0)
    }

    /// A layer with another value of a digit.
    fn with(&self, layer: usize, y: usize, value: usize) -> usize {
        let weight = self.layers.weight(y);
        layer - self.layers.digit(layer, y) * weight + value * weight
    }

    fn squares(&mut self) -> bool {
        let mut changed = false;
        for position in 0..self.list.len() - 1 {
            // Taken again as long as this step can be replaced.
            while let Some((y, other, value)) = self.best_square(position) {
                let (a, b) = (self.list[position] as usize, self.list[position + 1] as usize);
                let lose = [self.node(a, y), self.node(b, y)];
                let c = self.with(a, other, value);
                let win = [self.node(a, other), self.node(c, other)];
                let far = self.at[c] as usize;
                self.take(&lose, &win);
                self.turn(position.min(far) + 1, position.max(far));
                changed = true;
            }
        }
        changed
    }

    /// The square that lowers the sum of squares most: digit of the step, other digit, its value.
    fn best_square(&self, position: usize) -> Option<(usize, usize, usize)> {
        let (a, b) = (self.list[position] as usize, self.list[position + 1] as usize);
        let y = self.digit_between(a, b);
        let lose = [self.node(a, y), self.node(b, y)];
        let mut best = (0, None);
        for other in (0..self.layers.t()).filter(|&other| other != y) {
            for value in (0..self.layers.q()).filter(|&x| x != self.layers.digit(a, other)) {
                let (c, d) = (self.with(a, other, value), self.with(b, other, value));
                let win = [self.node(a, other), self.node(c, other)];
                let gain = self.gain(&lose, &win);
                if gain < best.0 && self.at[c] + 1 == self.at[d] {
                    best = (gain, Some((y, other, value)));
                }
            }
        }
        best.1
    }

    fn ends(&mut self) -> bool {
        let mut changed = false;
        let last = self.list.len() - 1;
        loop {
            if let Some(position) = self.best_end(last) {
                self.turn(position + 1, last);
            } else if let Some(position) = self.best_end(0) {
                self.turn(0, position - 1);
            } else {
                return changed;
            }
            changed = true;
        }
    }

    /// Returns where to turn round so that the layer at the end (position 0 or the last) moves
    /// inwards; counts the change as taken.
    fn best_end(&mut self, end: usize) -> Option<usize> {
        let layer = self.list[end] as usize;
        let mut best = (0, None);
        for y in 0..self.layers.t() {
            for value in (0..self.layers.q()).filter(|&x| x != self.layers.digit(layer, y)) {
                let inner = self.with(layer, y, value);
                let position = self.at[inner] as usize;
                let next = if end == 0 { position - 1 } else { position + 1 };
                if next == end {
                    continue;
                }
                let old = self.digit_between(inner, self.list[next] as usize);
                if old == y {
                    continue;
                }
                let (lose, win) = ([self.node(inner, old)], [self.node(inner, y)]);
                let gain = self.gain(&lose, &win);
                if gain < best.0 {
                    best = (gain, Some((position, lose, win)));
                }
            }
        }
        let (position, lose, win) = best.1?;
        self.take(&lose, &win);
        Some(position)
    }
}
