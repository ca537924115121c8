//! Reflected Gray codes for any base (paper section III-E, "BRGC" for q = 2).
//!
//! Digit y counts up and down in turn. The slowest digit sweeps once, each faster one q times as
//! often; where a slower digit moves on, all faster ones stand still. So node (x, y) has a run a
//! sweep, less the sweeps that begin where the one before ended: those are the two ends of the
//! sweep in turn. Which digit is slow and which values are at the ends may be chosen: for nodes
//! that fail more often (see `weights.rs`), or that do not exist (see `fewest.rs`).

use super::{Layers, OrderKind};

pub(super) const KIND: OrderKind = OrderKind {
    name: "gray",
    syntax: "gray[:DIGIT[/FIRST-LAST].DIGIT...]",
    about: "reflected Gray code: the fewest runs over all nodes together, half of natural's for \
            q = 2; few for the first sections, many for the last. The digits may be named from \
            the slowest to the fastest, each with the ends of its sweep",
    is_gray: true,
    needs_text: false,
    canonical: |arguments| match arguments {
        "" => Ok(String::new()),
        _ => Ok(print(&parse(arguments)?)),
    },
    make: |layers, arguments| match arguments {
        "" => Ok(reflected(layers, &plain(layers))),
        _ => Ok(reflected(layers, &check(layers, parse(arguments)?)?)),
    },
};

/// Sweep of one digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sweep {
    pub digit: usize,
    /// The values at the ends of its sweeps, the first sweep's first one first; nothing for 0 and
    /// q - 1. The other values lie between in ascending order.
    pub ends: Option<(usize, usize)>,
}

impl Sweep {
    /// The values in the order of the first sweep.
    fn values(&self, q: usize) -> Vec<usize> {
        let (first, last) = self.ends.unwrap_or((0, q - 1));
        let mut values: Vec<usize> = (0..q).filter(|&x| x != first && x != last).collect();
        values.insert(0, first);
        if last != first {
            values.push(last);
        }
        values
    }

    /// Runs of value x when this digit sweeps `sweeps` times.
    pub(super) fn runs(&self, q: usize, sweeps: usize, x: usize) -> usize {
        let (first, last) = self.ends.unwrap_or((0, q - 1));
        match x {
            _ if q == 1 => 1,
            _ if x == last => sweeps - sweeps / 2,
            _ if x == first => sweeps - (sweeps - 1) / 2,
            _ => sweeps,
        }
    }
}

/// The first digit slowest, values ascending.
pub(super) fn plain(layers: &Layers) -> Vec<Sweep> {
    (0..layers.t()).map(|digit| Sweep { digit, ends: None }).collect()
}

/// The order in which the digits sweep so, the slowest first.
pub(super) fn reflected(layers: &Layers, sweeps: &[Sweep]) -> Vec<u32> {
    let q = layers.q();
    let values: Vec<Vec<usize>> = sweeps.iter().map(|sweep| sweep.values(q)).collect();
    let layer = |position: usize| {
        let level = |(level, sweep): (usize, &Sweep)| {
            // Digits of the position count levels, not sections; its weights are the same.
            let step = layers.digit(position, level);
            let done = position / layers.weight(level) / q;
            let step = if done.is_multiple_of(2) { step } else { q - 1 - step };
            values[level][step] * layers.weight(sweep.digit)
        };
        sweeps.iter().enumerate().map(level).sum::<usize>()
    };
    (0..layers.count()).map(|position| layer(position) as u32).collect()
}

/// `8.7.6/1-0`: from the slowest digit to the fastest.
pub(super) fn print(sweeps: &[Sweep]) -> String {
    let one = |sweep: &Sweep| match sweep.ends {
        None => sweep.digit.to_string(),
        Some((first, last)) => format!("{}/{first}-{last}", sweep.digit),
    };
    sweeps.iter().map(one).collect::<Vec<_>>().join(".")
}

fn parse(text: &str) -> Result<Vec<Sweep>, String> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<usize>().ok().filter(|_| digits);
        number.ok_or_else(|| format!("'{text}' is not a number; e.g. gray:2.0.1/0-3"))
    };
    let sweep = |word: &str| {
        let (digit, ends) = match word.split_once('/') {
            None => (word, None),
            Some((digit, ends)) => (digit, Some(ends)),
        };
        let ends = match ends {
            None => None,
            Some(ends) => {
                let (first, last) = ends.split_once('-').ok_or("the ends are FIRST-LAST")?;
                Some((number(first)?, number(last)?))
            }
        };
        Ok(Sweep { digit: number(digit)?, ends })
    };
    text.split('.').map(sweep).collect()
}

fn check(layers: &Layers, sweeps: Vec<Sweep>) -> Result<Vec<Sweep>, String> {
    let (q, t) = (layers.q(), layers.t());
    let mut digits: Vec<usize> = sweeps.iter().map(|sweep| sweep.digit).collect();
    digits.sort_unstable();
    if !digits.iter().copied().eq(0..t) {
        return Err(format!("it must name each of the digits 0 to {} once", t - 1));
    }
    let bad = |&(first, last): &(usize, usize)| first >= q || last >= q || (first == last && q > 1);
    if sweeps.iter().filter_map(|sweep| sweep.ends).any(|ends| bad(&ends)) {
        return Err(format!("the ends of a sweep are two values from 0 to {}", q - 1));
    }
    Ok(sweeps)
}
