//! The paper's generator of non-cyclic Gray codes (section IV-B, Fig. 8), made for any base.
//!
//! An order over L digits is put together from q orders over L - 1 digits, one for each value of
//! the top digit, each beginning with the layer (of L - 1 digits) that the one before ended with.
//! The paper writes the orders that begin in the upper half as complements; here they begin with
//! any layer that is asked for. The shortest orders are all there are: for q = 2 all Gray codes of
//! `BASE` digits (8 for two digits, 144 for three), for larger q all orders of the q values. Which
//! of them comes next, and which value of the top digit, is drawn from a seeded sequence, so that
//! the choice is large and what was chosen can be written into a shard.

use super::{Layers, OrderKind};
use crate::seed;

pub(super) const KIND: OrderKind = OrderKind {
    name: "recursive",
    syntax: "recursive[:SEED[:BASE[:LEAN]]]",
    about: "a Gray code drawn from the many that the paper's recursion gives: SEED (1) says which, \
            BASE (2) how many of the fastest digits it shuffles (2 or 3, if d-k+1 is 2), LEAN \
            (0 to 256) how much it favours the slower one of those",
    is_gray: true,
    needs_text: false,
    canonical: |arguments| Ok(parse(arguments)?.print()),
    make: |layers, arguments| Ok(parse(arguments)?.generate(layers)),
};

/// The possible choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    seed: u64,
    base: usize,
    /// In 256 draws of a shortest order, so many take the last of the list at once.
    lean: u64,
}

const DEFAULT: Choice = Choice { seed: 1, base: 2, lean: 0 };

fn parse(text: &str) -> Result<Choice, String> {
    let mut choice = DEFAULT;
    if text.is_empty() {
        return Ok(choice);
    }
    let number = |word: &str, low: u64, high: u64| {
        let number = word.parse::<u64>().ok().filter(|_| !word.starts_with('+'));
        let fits = number.filter(|number| (low..=high).contains(number));
        fits.ok_or_else(|| format!("'{word}' is not a number from {low} to {high}"))
    };
    let words: Vec<&str> = text.split(':').collect();
    match words[..] {
        [seed] => choice.seed = number(seed, 0, u64::MAX)?,
        [seed, base] => {
            choice = Choice {
                seed: number(seed, 0, u64::MAX)?,
                base: number(base, 2, 3)? as usize,
                ..choice
            };
        }
        [seed, base, lean] => {
            choice = Choice {
                seed: number(seed, 0, u64::MAX)?,
                base: number(base, 2, 3)? as usize,
                lean: number(lean, 0, 256)?,
            };
        }
        _ => return Err("it takes SEED:BASE:LEAN".into()),
    }
    Ok(choice)
}

impl Choice {
    fn print(&self) -> String {
        let Choice { seed, base, lean } = *self;
        match (*self == DEFAULT, base == DEFAULT.base, lean == DEFAULT.lean) {
            (true, _, _) => String::new(),
            (_, true, true) => seed.to_string(),
            (_, _, true) => format!("{seed}:{base}"),
            _ => format!("{seed}:{base}:{lean}"),
        }
    }

    fn generate(&self, layers: &Layers) -> Vec<u32> {
        let q = layers.q();
        if q == 1 {
            return vec![0];
        }
        let base = if q == 2 { self.base.min(layers.t()) } else { 1 };
        let paths = if q == 2 { cube_paths(base) } else { Vec::new() };
        let mut generator = Generator { q, base, paths, lean: self.lean, state: self.seed };
        let mut list = Vec::with_capacity(layers.count());
        generator.append(layers.t(), 0, 0, &mut list);
        list
    }
}

struct Generator {
    q: usize,
    base: usize,
    /// For q = 2: all Gray codes of `base` digits that begin with 0; others by exclusive or.
    paths: Vec<Vec<u32>>,
    lean: u64,
    state: u64,
}

impl Generator {
    /// Appends an order of the lowest `digits` digits that begins with `start`, plus `above`;
    /// returns its last layer without what is above.
    fn append(&mut self, digits: usize, start: u32, above: u32, list: &mut Vec<u32>) -> u32 {
        if digits == self.base && self.q == 2 {
            let path = &self.paths[draw(&mut self.state, self.lean, self.paths.len())];
            list.extend(path.iter().map(|layer| above + (layer ^ start)));
            return path.last().map_or(start, |last| last ^ start);
        }
        let weight = (self.q as u32).pow(digits as u32 - 1);
        let mut values: Vec<u32> = (0..self.q as u32).filter(|v| *v != start / weight).collect();
        values.insert(0, start / weight);
        for at in 1..values.len() {
            let other = at + (seed::next(&mut self.state) % (values.len() - at) as u64) as usize;
            values.swap(at, other);
        }
        let mut rest = start % weight;
        for &value in &values {
            match digits {
                1 => list.push(above + value),
                _ => rest = self.append(digits - 1, rest, above + value * weight, list),
            }
        }
        values.last().map_or(start, |value| value * weight + rest)
    }
}

/// One of `count`: with a chance of `lean` in 256 the last, else any.
fn draw(state: &mut u64, lean: u64, count: usize) -> usize {
    if lean > 0 && seed::next(state) % 256 < lean {
        return count - 1;
    }
    (seed::next(state) % count as u64) as usize
}

/// All Gray codes of `digits` binary digits that begin with 0, in lexicographic order.
pub(super) fn cube_paths(digits: usize) -> Vec<Vec<u32>> {
    fn extend(digits: usize, path: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if path.len() == 1 << digits {
            all.push(path.clone());
            return;
        }
        let here = path.last().copied().unwrap_or(0);
        let mut next: Vec<u32> = (0..digits).map(|digit| here ^ 1 << digit).collect();
        next.sort_unstable();
        for layer in next {
            if !path.contains(&layer) {
                path.push(layer);
                extend(digits, path, all);
                path.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(digits, &mut vec![0], &mut all);
    all
}
