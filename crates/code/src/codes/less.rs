//! LESS codes (Cheng et al., FAST 2026): alpha sub-chunks a chunk, and a repair of one chunk that
//! reads few sub-chunks in few runs.
//!
//! The n chunks stand in alpha + 1 groups. *Extended sub-stripe* i < alpha has every sub-chunk of
//! group i, and sub-chunk i of every other chunk. Each is a codeword of a Reed-Solomon code with m
//! checks: row r sums the r-th powers of the sub-chunks' elements. Their sum is a sub-stripe of the
//! same kind, for the last group: there sub-chunk g of the chunks of group g, and all of the last
//! group's. So a lost chunk follows from the sub-stripe of its group, all of its alpha sub-chunks
//! at once.
//!
//! Any k chunks are enough for the elements in [`PROVED`]: tests try every pattern.

use super::{Choice, Code, CodeFamily, decode_from_any};
use crate::dag::{At, DagBuilder, Hint, Symbol};
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{CodeError, CodeSpec, Dag, RebuildMethod, Result, Shape};
use kiln_gf::{Matrix, field};
use std::collections::BTreeSet;

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "less",
    about: "LESS: the overhead of rs; rebuilding a chunk reads about k/2 for alpha = 4, in one run \
            a helper, where clay reads less in many",
    syntax: "less:k+m[,alpha=2..m], m from 2 to 4",
    example: "less:10+4",
    examples: &[
        "less:1+2", "less:4+2", "less:6+3,alpha=2", "less:6+3", "less:5+4,alpha=2",
        "less:6+4,alpha=3", "less:8+4",
    ],
    numbers: K_PLUS_M,
    profile: None,
    resolve,
    build: |spec| Ok(Box::new(Less::new(spec)?)),
};

/// Codes that are proved to be MDS: m, alpha, the largest k, and the element whose powers the
/// sub-chunks have.
const PROVED: [(usize, usize, usize, u8); 6] =
    [(2, 2, 32, 2), (3, 2, 32, 2), (3, 3, 32, 14), (4, 2, 19, 6), (4, 3, 13, 2), (4, 4, 12, 14)];

/// Returns the largest k and the element of the codes of m parity chunks and alpha sub-chunks.
fn proved(m: usize, alpha: usize) -> Option<(usize, u8)> {
    let row = PROVED.iter().find(|row| (row.0, row.1) == (m, alpha))?;
    Some((row.2, row.3))
}

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>> {
    let Words { k, m, .. } = *words;
    if !(2..=4).contains(&m) {
        let (m, reason) = (m.to_string(), "less has 2 to 4 parity chunks; for others take clay");
        return Err(words.bad("m", &m, reason.into()));
    }
    let alpha = words.take_number("alpha")?.unwrap_or(m);
    let largest = |alpha| proved(m, alpha).map(|(most, _)| most);
    if largest(alpha).is_none_or(|most| k > most) {
        let legal: Vec<String> = (2..=m)
            .filter_map(|alpha| Some(format!("{alpha} up to k = {}", largest(alpha)?)))
            .collect();
        let reason = format!("with m = {m} alpha is {}", legal.join(", "));
        return Err(words.bad("alpha", &alpha.to_string(), reason));
    }
    Ok(vec![Param::new("alpha", alpha.to_string(), &m.to_string())])
}

/// A LESS code as its checks. A symbol is a sub-chunk: `chunk * alpha + layer`.
struct Less {
    shape: Shape,
    /// The group of every chunk.
    groups: Vec<usize>,
    /// The checks, m rows a sub-stripe, that of the last group included; one column a symbol.
    checks: Matrix,
}

/// A way to rebuild: the sub-stripes that are solved, and the symbols of theirs that are not read.
#[derive(Debug)]
struct Solution {
    stripes: Vec<usize>,
    unknown: BTreeSet<usize>,
    /// Symbols that are read.
    read: BTreeSet<usize>,
}

impl Solution {
    /// The symbols that have to be read: each of the m checks of a sub-stripe spares one.
    fn reads(&self, m: usize) -> usize {
        self.read.len() + self.unknown.len() - self.stripes.len() * m
    }
}

impl Less {
    fn new(spec: &CodeSpec) -> Result<Less> {
        let alpha = spec.value("alpha").parse::<usize>();
        let alpha = alpha.map_err(|_| CodeError::Internal(format!("alpha of {spec}")))?;
        let shape = Shape { k: spec.k(), m: spec.m(), alpha };
        let element = proved(shape.m, alpha);
        let (_, element) = element.ok_or_else(|| CodeError::Internal(format!("{spec}")))?;
        Ok(Less::with_element(shape, element))
    }

    fn with_element(shape: Shape, element: u8) -> Less {
        let Shape { m, alpha, .. } = shape;
        let n = shape.n();
        // Consecutive chunks, groups as equal as can be, the larger ones first.
        let sizes: Vec<usize> =
            (0..=alpha).map(|g| n / (alpha + 1) + usize::from(g < n % (alpha + 1))).collect();
        let of_group = |g: usize| std::iter::repeat_n(g, sizes[g]);
        let groups: Vec<usize> = (0..=alpha).flat_map(of_group).collect();
        // Elements go to the first chunk of every group, then to the second of every group.
        let in_group =
            |chunk: usize| groups[..chunk].iter().filter(|&&g| g == groups[chunk]).count();
        let mut columns: Vec<usize> = (0..n).collect();
        columns.sort_by_key(|&chunk| in_group(chunk));
        let mut rank = vec![0; n];
        columns.iter().enumerate().for_each(|(index, &chunk)| rank[chunk] = index);
        let checks = Matrix::from_fn((alpha + 1) * m, n * alpha, |row, symbol| {
            let (stripe, power, chunk, layer) = (row / m, row % m, symbol / alpha, symbol % alpha);
            let last = stripe == alpha && layer == groups[chunk];
            match groups[chunk] == stripe || layer == stripe || last {
                true => field::pow(element, (rank[chunk] * alpha + layer) * power),
                false => 0,
            }
        });
        Less { shape, groups, checks }
    }

    /// The symbols of a sub-stripe, ascending.
    fn symbols(&self, stripe: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.checks.row(stripe * self.shape.m);
        row.iter().enumerate().filter(|&(_, &factor)| factor != 0).map(|(symbol, _)| symbol)
    }

    fn chunk_symbols(&self, chunk: usize) -> std::ops::Range<usize> {
        chunk * self.shape.alpha..(chunk + 1) * self.shape.alpha
    }

    /// The rows of sub-stripes.
    fn rows(&self, stripes: &[usize]) -> Vec<usize> {
        let m = self.shape.m;
        stripes.iter().flat_map(|&stripe| stripe * m..(stripe + 1) * m).collect()
    }

    /// Returns whether the checks of these rows determine the unknown symbols.
    fn determines(&self, rows: &[usize], unknown: &BTreeSet<usize>) -> bool {
        let unknown: Vec<usize> = unknown.iter().copied().collect();
        unknown.len() <= rows.len()
            && self.checks.select_rows(rows).select_cols(&unknown).rank() == unknown.len()
    }

    /// The fewest symbols from which `lost` follows: less than k chunks, or nothing.
    fn repair(&self, lost: &[usize], available: &[usize]) -> Option<Solution> {
        let Shape { k, alpha, .. } = self.shape;
        let subsets = (1_usize..1 << (alpha + 1)).map(|bits| {
            let stripes = (0..=alpha).filter(|stripe| bits >> stripe & 1 == 1);
            stripes.collect::<Vec<usize>>()
        });
        let solvable = subsets
            .filter(|stripes| stripes.len() < alpha)
            .filter_map(|stripes| self.solvable(stripes, lost, available));
        let cheapest = solvable.min_by_key(|solution| solution.reads(self.shape.m))?;
        (cheapest.reads(self.shape.m) < k * alpha).then(|| self.spare(cheapest, available))
    }

    /// Returns these sub-stripes with everything of theirs that is available, if `lost` follows.
    fn solvable(
        &self,
        stripes: Vec<usize>,
        lost: &[usize],
        available: &[usize],
    ) -> Option<Solution> {
        let here: BTreeSet<usize> = stripes.iter().flat_map(|&s| self.symbols(s)).collect();
        let contains = |&chunk: &usize| self.chunk_symbols(chunk).all(|s| here.contains(&s));
        let is_read = |symbol: &usize| available.contains(&(symbol / self.shape.alpha));
        let (read, unknown) = here.iter().copied().partition::<BTreeSet<usize>, _>(is_read);
        let solves = lost.iter().all(contains) && self.determines(&self.rows(&stripes), &unknown);
        solves.then_some(Solution { stripes, unknown, read })
    }

    /// Leaves as many symbols unread as there are checks: of whole chunks first, those that give
    /// the fewest, so that few are asked.
    fn spare(&self, mut solution: Solution, available: &[usize]) -> Solution {
        let rows = self.rows(&solution.stripes);
        let of_chunk = |&chunk: &usize| {
            let symbols = self.chunk_symbols(chunk).filter(|s| solution.read.contains(s));
            symbols.collect::<Vec<usize>>()
        };
        let mut candidates: Vec<Vec<usize>> = available.iter().rev().map(of_chunk).collect();
        candidates.sort_by_key(Vec::len);
        candidates.extend(solution.read.iter().rev().map(|&symbol| vec![symbol]));
        for more in candidates {
            let fresh = more.iter().any(|symbol| !solution.unknown.contains(symbol));
            let grown: BTreeSet<usize> = solution.unknown.iter().chain(&more).copied().collect();
            if fresh && self.determines(&rows, &grown) {
                solution.unknown = grown;
                more.iter().for_each(|symbol| _ = solution.read.remove(symbol));
            }
        }
        solution
    }

    /// All sub-stripes but the last, which follows from them, with k whole chunks known.
    fn whole(&self, helpers: &[usize]) -> Solution {
        let all = 0..self.shape.n() * self.shape.alpha;
        let (read, unknown) =
            all.partition::<BTreeSet<usize>, _>(|s| helpers.contains(&(s / self.shape.alpha)));
        Solution { stripes: (0..self.shape.alpha).collect(), unknown, read }
    }

    /// The matrix that gives `unknown` from `known` by as many checks.
    fn solve(&self, rows: &[usize], unknown: &[usize], known: &[usize]) -> Result<Matrix> {
        let checks = self.checks.select_rows(rows);
        Ok(checks.select_cols(unknown).invert()?.mul(&checks.select_cols(known))?)
    }

    /// The sub-stripe that gives all its unknown symbols from the fewest others, read or solved
    /// before: a decode may take that of the last group, too. (An encode of 10+4 in 304
    /// multiplications and not in 388, as it is where all sub-stripes are made of what is read.)
    fn next_stripe(&self, solution: &Solution) -> Option<(Vec<usize>, Vec<usize>, usize)> {
        let Shape { m, alpha, .. } = self.shape;
        let last = (solution.stripes.len() == alpha).then_some(alpha);
        let solvable = solution.stripes.iter().copied().chain(last).filter_map(|stripe| {
            let (unknown, known) =
                self.symbols(stripe).partition::<Vec<usize>, _>(|s| solution.unknown.contains(s));
            (1..=m).contains(&unknown.len()).then_some((unknown, known, stripe))
        });
        solvable.min_by_key(|(_, known, _)| known.len())
    }
}

impl Code for Less {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let decode = decode_from_any(self.shape, lost, available)?;
        Ok(match self.repair(lost, available) {
            Some(solution) => {
                let mut helpers: Vec<usize> =
                    solution.read.iter().map(|symbol| symbol / self.shape.alpha).collect();
                helpers.dedup();
                Choice::new(RebuildMethod::Repair, lost, helpers)
            }
            None => decode,
        })
    }

    /// Sub-stripes one after the other, as far as one alone can be solved; the others together.
    fn emit(&self, choice: &Choice) -> Result<Dag> {
        let Shape { m, alpha, .. } = self.shape;
        let mut solution = match choice.strategy {
            // Sub-chunks that helpers need not give are not read again.
            RebuildMethod::Repair => self
                .repair(&choice.lost, &choice.helpers)
                .ok_or_else(|| CodeError::Internal(format!("no repair of {:?}", choice.lost)))?,
            RebuildMethod::Decode => self.whole(&choice.helpers),
        };
        let everything: Vec<usize> = solution.unknown.iter().copied().collect();
        let place = |symbol: usize| At {
            chunk: (symbol / alpha) as u32,
            position: (symbol % alpha) as u32,
        };
        let hint = |symbol: usize| Hint {
            layer: (symbol % alpha) as u32,
            column: (symbol / alpha) as u32,
        };
        let mut builder = DagBuilder::new();
        let mut symbols: Vec<Symbol> = vec![Symbol::Zero; self.groups.len() * alpha];
        for &symbol in &solution.read {
            symbols[symbol] = builder.input(place(symbol), hint(symbol));
        }
        let lost: Vec<usize> =
            choice.lost.iter().flat_map(|&chunk| self.chunk_symbols(chunk)).collect();
        while lost.iter().any(|symbol| solution.unknown.contains(symbol)) {
            let (unknown, known, rows) = match self.next_stripe(&solution) {
                Some((unknown, known, stripe)) => {
                    let rows = (stripe * m..).take(unknown.len()).collect::<Vec<usize>>();
                    (unknown, known, rows)
                }
                None => {
                    let known = solution.read.iter().copied().collect();
                    (everything.clone(), known, self.rows(&solution.stripes))
                }
            };
            let matrix = builder.matrix(&self.solve(&rows, &unknown, &known)?);
            let sources: Vec<Symbol> = known.iter().map(|&symbol| symbols[symbol]).collect();
            let hints: Vec<Hint> = unknown.iter().map(|&symbol| hint(symbol)).collect();
            let out = builder.step(matrix, &sources, &hints)?;
            for (row, symbol) in unknown.into_iter().enumerate() {
                if solution.unknown.remove(&symbol) {
                    symbols[symbol] = out.symbol(row);
                }
            }
        }
        for symbol in lost {
            builder.output(place(symbol), symbols[symbol]);
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::codec;
    use crate::combinations::{combinations, others};

    /// Every code that a spec may ask for, every pattern of m lost chunks: the checks determine
    /// them.
    #[test]
    fn all_allowed_codes_are_mds() {
        let mut patterns = 0;
        for (m, alpha, largest, element) in PROVED {
            for k in 1..=largest {
                let less = Less::with_element(Shape { k, m, alpha }, element);
                let rows = less.rows(&(0..alpha).collect::<Vec<_>>());
                for lost in combinations(k + m, m) {
                    let unknown = lost.iter().flat_map(|&chunk| less.chunk_symbols(chunk));
                    assert!(less.determines(&rows, &unknown.collect()), "{k}+{m} {alpha} {lost:?}");
                    patterns += 1;
                }
            }
        }
        assert_eq!(patterns, 181_609);
    }

    /// The sub-stripe of the last group follows from the others, and every sub-stripe is a
    /// Reed-Solomon code: any m of its symbols follow from the rest, since their elements differ.
    #[test]
    fn sub_stripes_are_reed_solomon() {
        for (m, alpha, largest, element) in PROVED {
            let less = Less::with_element(Shape { k: largest, m, alpha }, element);
            let all: Vec<usize> = (0..=alpha).collect();
            assert_eq!(less.checks.select_rows(&less.rows(&all)).rank(), alpha * m);
            for stripe in all {
                let symbols: Vec<usize> = less.symbols(stripe).collect();
                let elements: BTreeSet<u8> =
                    symbols.iter().map(|&s| less.checks.at(stripe * m + 1, s)).collect();
                assert_eq!(elements.len(), symbols.len(), "m {m} alpha {alpha} stripe {stripe}");
            }
        }
    }

    /// One lost chunk costs the published share of a stripe.
    #[test]
    fn repairs_read_the_published_bytes() {
        for (spec, chunks, runs) in [
            ("less:10+4", 4.643, 13.0),
            ("less:10+4,alpha=3", 5.714, 12.0),
            ("less:10+4,alpha=2", 7.357, 11.0),
            ("less:8+4", 3.875, 11.0),
            ("less:12+4", 5.4375, 15.0),
            ("less:6+3", 3.556, 8.0),
            ("less:4+2", 3.0, 5.0),
        ] {
            let cost = codec(spec).average_cost(1, 0).unwrap();
            assert!((cost.mean_chunks - chunks).abs() < 5e-4, "{spec} {cost:?}");
            assert_eq!((cost.mean_runs, cost.repairable), (runs, cost.patterns), "{spec}");
        }
        let two = codec("less:10+4,alpha=2").average_cost(2, 0).unwrap();
        assert!(two.exhaustive && (two.mean_chunks - 9.25).abs() < 0.005, "{two:?}");
    }

    /// Every single loss of every allowed code: (|V| alpha + n - |V| - m) / alpha chunks for a
    /// group V, or k where that is no less.
    #[test]
    fn repairs_read_what_the_sub_stripe_has() {
        for (m, alpha, largest, element) in PROVED {
            for k in 1..=largest {
                let less = Less::with_element(Shape { k, m, alpha }, element);
                let n = k + m;
                for lost in 0..n {
                    let size = less.groups.iter().filter(|&&g| g == less.groups[lost]).count();
                    let wanted = (size * alpha + n - size - m).min(k * alpha);
                    let choice = less.choose(&[lost], &others(n, &[lost])).unwrap();
                    let read = less.emit(&choice).unwrap();
                    assert_eq!(read.inputs().len(), wanted, "{k}+{m} alpha {alpha} chunk {lost}");
                }
            }
        }
    }

    #[test]
    fn specs_say_what_is_legal() {
        let explicit = |spec: &str| spec.parse::<CodeSpec>().unwrap().explicit();
        assert_eq!(explicit("less:10+4"), "less:10+4,alpha=4");
        assert_eq!("less:6+3,alpha=3".parse::<CodeSpec>().unwrap().to_string(), "less:6+3");
        for (spec, legal) in [
            ("less:10+5", "less has 2 to 4 parity chunks; for others take clay"),
            ("less:10+4,alpha=5", "2 up to k = 19, 3 up to k = 13, 4 up to k = 12"),
            ("less:13+4", "alpha=4 is not possible: with m = 4 alpha is 2 up to k = 19"),
            ("less:10+3,alpha=4", "2 up to k = 32, 3 up to k = 32"),
            ("less:10+4,alpha=x", "not a whole number"),
        ] {
            let error = spec.parse::<CodeSpec>().unwrap_err().to_string();
            assert!(error.contains(legal), "{spec}: {error}");
        }
    }
}
