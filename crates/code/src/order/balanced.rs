//! Gray codes whose runs are spread evenly over the nodes (paper section III-E, "BalanceGC").
//!
//! Built digit by digit, after Bhat and Savage (Balanced Gray Codes, 1996, who follow Robinson and
//! Cohn) for q = 2, and in the same spirit for larger q. Let P be a path over some digits. Cut it
//! into *blocks*; a new digit is swept within each block while the path is passed to and fro, and
//! stands still where the path steps from block to block. So a step of P inside a block is passed q
//! times, one between blocks once (odd q) or twice (even q), and every block adds steps of the new
//! digit. Any steps of P may be the ones between blocks: each choice takes runs from two nodes of
//! an old digit and gives some to the new one. Greedily taking the pair that has most, until the
//! new digit has as many, makes runs even.
//!
//! - *Odd q:* a block is passed q times, so that it ends where the next one begins.
//! - *Even q:* there and back: of every block some values of odd number on the way there, the
//!   others on the way back. Which value goes alone changes, so that no node is favoured.
//! - *q = 2:* two digits at once, 00 on the way there, 01-11-10 on the way back.

use super::{Layers, Order, OrderKind, no_arguments, smooth::smooth};
use std::collections::BTreeMap;

pub(super) const KIND: OrderKind = OrderKind {
    name: "balanced",
    syntax: "balanced",
    about: "a Gray code whose runs are spread evenly over the nodes, so that every repair takes \
            about as long: as few runs in all as 'gray' where d-k+1 divides k+m",
    is_gray: true,
    needs_text: false,
    canonical: no_arguments,
    make: |layers, _| Ok(smooth(layers, unnamed(layers, balanced(layers))?)),
};

fn unnamed(layers: &Layers, list: Vec<u32>) -> Result<Order, String> {
    Order::named(layers, KIND.name.into(), list).map_err(|error| error.to_string())
}

fn balanced(layers: &Layers) -> Vec<u32> {
    let t = layers.t();
    let is_short = |&y: &usize| (0..layers.q()).any(|x| layers.chunk_of(x, y).is_none());
    let mut sections: Vec<usize> = (0..t).rev().collect();
    let Some(short) = sections.iter().copied().find(is_short) else {
        return build(layers, &sections);
    };
    // A section with virtual nodes has fewer runs to care for: see where it fits best.
    let mut best: Option<([usize; 2], Vec<u32>)> = None;
    sections.retain(|&y| y != short);
    for at in 0..t {
        sections.insert(at, short);
        let list = build(layers, &sections);
        sections.remove(at);
        let Ok(order) = unnamed(layers, list) else { continue };
        let runs = order.runs(layers);
        let cost = [runs.iter().copied().max().unwrap_or(0), runs.iter().sum()];
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, order.layers().to_vec()));
        }
    }
    best.map_or_else(Vec::new, |(_, list)| list)
}

/// Adds the digits of `sections`, in this order.
fn build(layers: &Layers, sections: &[usize]) -> Vec<u32> {
    let q = layers.q();
    if q == 1 {
        return vec![0];
    }
    let weight = |y: usize| layers.weight(y) as u32;
    let (first, rest) = sections.split_at(if q == 2 { 2 - sections.len() % 2 } else { 1 });
    let mut path: Vec<u32> = match *first {
        [y] => (0..q as u32).map(|x| x * weight(y)).collect(),
        [slow, fast] => vec![0, weight(fast), weight(fast) + weight(slow), weight(slow)],
        _ => Vec::new(),
    };
    for new in rest.chunks(if q == 2 { 2 } else { 1 }) {
        let blocks = blocks(layers, &path, new);
        path = match *new {
            [y, other] => there_and_back_in_pairs(&path, &blocks, [weight(y), weight(other)]),
            [y] if q % 2 == 1 => to_and_fro(&path, &blocks, q, weight(y)),
            [y] => there_and_back(&path, &blocks, q, weight(y)),
            _ => path,
        };
    }
    path
}

/// A step of a path: which digit changes, from what to what.
type Step = (usize, usize, usize);

fn step(layers: &Layers, from: u32, to: u32) -> Step {
    let digits = |y: usize| (layers.digit(from as usize, y), layers.digit(to as usize, y));
    let y = (0..layers.t()).find(|&y| digits(y).0 != digits(y).1).unwrap_or(0);
    (y, digits(y).0, digits(y).1)
}

/// Cuts the path into blocks so that runs become as even as possible; the last cell of each block.
fn blocks(layers: &Layers, path: &[u32], new: &[usize]) -> Vec<usize> {
    let (q, t) = (layers.q(), layers.t());
    let is_stored = |x: usize, y: usize| layers.chunk_of(x, y).is_some();
    let mut left: BTreeMap<Step, usize> = BTreeMap::new();
    // Passes of a step that is inside a block: half there, half back, the odd one there.
    let there_and_back = q * new.len();
    let (there, back) = (there_and_back.div_ceil(2), there_and_back / 2);
    let mut runs = vec![vec![0_usize; q]; t];
    for pair in path.windows(2) {
        let (y, from, to) = step(layers, pair[0], pair[1]);
        *left.entry((y, from, to)).or_default() += 1;
        runs[y][to] += there;
        runs[y][from] += back;
    }
    // Between blocks it is passed once (odd q) or twice.
    let saved = if q % 2 == 1 { (q - 1) / 2 } else { there_and_back / 2 - 1 };
    let mut cuts: BTreeMap<Step, usize> = BTreeMap::new();
    let mut best = (usize::MAX, cuts.clone());
    for count in 1..path.len() {
        let of_new = match (q, new.len()) {
            (_, 2) => count.div_ceil(2) + 1,
            (q, _) if q % 2 == 1 => (count * (q - 1) + 1).div_ceil(q),
            (q, _) => (count * (q - 2) + 2).div_ceil(q),
        };
        let old = runs.iter().enumerate().filter(|(y, _)| left.keys().any(|step| step.0 == *y));
        let stored = old.flat_map(|(y, section)| {
            let stored = section.iter().enumerate().filter(move |(x, _)| is_stored(*x, y));
            stored.map(|(_, &count)| count)
        });
        let (low, high) =
            stored.fold((of_new, of_new), |(low, high), count| (low.min(count), high.max(count)));
        if high - low < best.0 {
            best = (high - low, cuts.clone());
        }
        let gain = |(y, from, to): Step| {
            let of = |x: usize| if is_stored(x, y) { runs[y][x] } else { 0 };
            of(from) + of(to)
        };
        let spare =
            |&(step, &count): &(&Step, &usize)| cuts.get(step).is_none_or(|&cut| cut < count);
        let Some((&(y, from, to), _)) = left.iter().filter(spare).max_by_key(|(s, _)| gain(**s))
        else {
            break;
        };
        *cuts.entry((y, from, to)).or_default() += 1;
        runs[y][from] -= saved;
        runs[y][to] -= saved;
    }
    let mut cuts = best.1;
    let mut ends = Vec::new();
    for (at, pair) in path.windows(2).enumerate() {
        match cuts.get_mut(&step(layers, pair[0], pair[1])) {
            Some(count) if *count > 0 => {
                *count -= 1;
                ends.push(at);
            }
            _ => {}
        }
    }
    ends.push(path.len() - 1);
    ends
}

/// The cells of each block, as ranges.
fn ranges(ends: &[usize]) -> Vec<std::ops::Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    starts.zip(ends).map(|(start, &end)| start..end + 1).collect()
}

/// Passes a block once for every value, there and back in turn.
fn pass(out: &mut Vec<u32>, cells: &[u32], values: &[usize], weight: u32) {
    let mut cells = cells.to_vec();
    for &value in values {
        out.extend(cells.iter().map(|cell| cell + value as u32 * weight));
        cells.reverse();
    }
}

/// Value that a block hands on to the next, so that it has one run less: each in turn.
struct Carries(Vec<usize>);

impl Carries {
    fn next(&mut self, not: &[usize]) -> usize {
        let free = (0..self.0.len()).filter(|value| !not.contains(value));
        let value = free.min_by_key(|&value| (self.0[value], value)).unwrap_or(0);
        self.0[value] += 1;
        value
    }
}

/// All values but those of `not`, `first` first and `last` last.
fn between(q: usize, first: usize, last: usize, not: Option<usize>) -> Vec<usize> {
    let inner = (0..q).filter(|&value| value != first && value != last && Some(value) != not);
    std::iter::once(first).chain(inner).chain((last != first).then_some(last)).collect()
}

/// Odd q: every block with all values before the next.
fn to_and_fro(path: &[u32], ends: &[usize], q: usize, weight: u32) -> Vec<u32> {
    let (mut out, mut carries) = (Vec::with_capacity(path.len() * q), Carries(vec![0; q]));
    let mut first = 0;
    for cells in ranges(ends) {
        let last = carries.next(&[first]);
        pass(&mut out, &path[cells], &between(q, first, last, None), weight);
        first = last;
    }
    out
}

/// Even q from 4 on: in every other block one value goes there and q - 1 come back, in those
/// between q - 1 go there and one comes back.
fn there_and_back(path: &[u32], ends: &[usize], q: usize, weight: u32) -> Vec<u32> {
    let blocks = ranges(ends);
    let mut carries = Carries(vec![0; q]);
    let (mut there, mut back) = (carries.next(&[]), carries.next(&[0]));
    let mut plans = Vec::new();
    for index in 0..blocks.len() {
        if index % 2 == 0 {
            let next = carries.next(&[there, back]);
            // Coming from the right with `next`, this block hands `back` to the left.
            plans.push((vec![there], between(q, next, back, Some(there))));
            back = next;
        } else {
            let next = carries.next(&[there, back]);
            plans.push((between(q, there, next, Some(back)), vec![back]));
            there = next;
        }
    }
    let mut out = Vec::with_capacity(path.len() * q);
    for (cells, plan) in blocks.iter().zip(&plans) {
        pass(&mut out, &path[cells.clone()], &plan.0, weight);
    }
    for (cells, plan) in blocks.iter().zip(&plans).rev() {
        let backwards: Vec<u32> = path[cells.clone()].iter().rev().copied().collect();
        pass(&mut out, &backwards, &plan.1, weight);
    }
    out
}

/// q = 2, two digits: 00 there, 01-11-10 and 10-11-01 in turn on the way back.
fn there_and_back_in_pairs(path: &[u32], ends: &[usize], weights: [u32; 2]) -> Vec<u32> {
    let mut out = path.to_vec();
    let mut pairs = [weights[1], weights[0] + weights[1], weights[0]];
    for cells in ranges(ends).into_iter().rev() {
        let mut cells: Vec<u32> = path[cells].iter().rev().copied().collect();
        for pair in pairs {
            out.extend(cells.iter().map(|cell| cell + pair));
            cells.reverse();
        }
        pairs.reverse();
    }
    out
}
