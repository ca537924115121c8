//! Locally repairable codes: k data chunks in l groups, each with a parity of its own (their XOR),
//! and g parities over everything. One lost chunk of a group is the XOR of the others.
//!
//! *Which losses are decodable.* A group's parity makes up for one loss in the group; what is lost
//! beyond that, and lost global parities, are unknowns for the g global equations. So more than g
//! of these can be decoded by no code of this form, and a code that decodes every pattern of up to
//! g is *maximally recoverable* (Gopalan, Huang, Jenkins and Yekhanin, "Explicit Maximally
//! Recoverable Codes With Locality", 2014; Huang et al., "Erasure Coding in Windows Azure Storage",
//! USENIX ATC 2012). `layout=kiln` is one: [`coefficients`] has the construction and
//! [`check`] tries what it rests on.
//!
//! *Which reads are cheapest.* In such a code any set of chunks tells of no chunk outside of it,
//! but by its groups' parities, until it tells of everything. So what does not come from the
//! groups alone takes k chunks.
//!
//! *Wide codes.* Three more layouts have any number of global parities, groups that differ by one
//! chunk, and the rows of a Cauchy matrix (every square part of which is invertible), columns
//! scaled so that groups are sums without factors ([`wide`] has proofs of how much they tolerate):
//!
//! - `azure`: groups of data, as above, without maximal recoverability beyond any g + 1 losses;
//! - `uniform`: groups of data and global parities, so that all chunks are rebuilt from few
//!   (uniform Cauchy LRC; Kadekodi et al., "Practical Design Considerations for Wide Locally
//!   Recoverable Codes", FAST 2023). With l = z and k = g (z - 1) it has the groups of UniLRC
//!   (arXiv 2505.06819), each for a domain of its own, and like that any g + 1 losses;
//! - `cascaded`: groups of data, whose parities sum to the last global parity (CP-Azure, arXiv
//!   2512.10425): these l + 1 chunks are rebuilt from one another.
//!
//! `layout=ceph` is Ceph's plugin lrc in its simple form (k, m, l): there the m = g global parities
//! are spread over the groups, and a group's parity sums those too. What it decodes is what its
//! matrix says. Chunks are numbered here as everywhere in kiln, data first, then the groups'
//! parities, then the global ones; [`Code::mapping`] says which shard each is in Ceph.

use super::{Choice, Code, CodeFamily, scalar::ScalarCode, xor};
use crate::spec::{ChunkNumbers, Param, Words};
use crate::{CodeError, CodeSpec, Dag, RebuildMethod, Result, Shape, profile::Profile};
use kiln_gf::{Matrix, field, generator};
use std::collections::BTreeSet;

pub(super) const FAMILY: CodeFamily =
    CodeFamily {
        name: "lrc",
        about: "Locally repairable: l groups of data with a parity each and g parities over all; \
            rebuilding a chunk of a group reads k/l, any g+1 may be lost and many more patterns",
        syntax: "lrc:k+l+g[,layout=kiln|azure|uniform|cascaded|ceph]",
        example: "lrc:12+2+2",
        examples: &[
            "lrc:1+1+1", "lrc:2+2+1", "lrc:4+1+1", "lrc:3+3+2", "lrc:4+2+2", "lrc:6+2+2",
            "lrc:5+2+3", "lrc:4+2+2,layout=azure", "lrc:4+2+2,layout=uniform",
            "lrc:6+3+2,layout=uniform", "lrc:4+2+2,layout=cascaded", "lrc:7+3+3,layout=cascaded",
            "lrc:4+2+2,layout=ceph", "lrc:6+2+2,layout=ceph", "lrc:6+3+3,layout=ceph",
        ],
        numbers: ChunkNumbers {
            count: |numbers| match *numbers {
                [k, l, g] => Ok((k, l + g)),
                _ => Err("the chunk numbers are k+l+g: data, groups, global parities; e.g. 12+2+2"
                    .into()),
            },
            of: |k, m| match m {
                0 | 1 => Err("a locally repairable code has two parities at least".into()),
                m => Ok(vec![k, m.div_ceil(2), m / 2]),
            },
        },
        profile: Some(profile),
        resolve,
        build: |spec| Ok(Box::new(Lrc::new(spec)?)),
    };

const LAYOUTS: [&str; 5] = ["kiln", "azure", "uniform", "cascaded", "ceph"];

/// The layout of a spec that names none: the maximally recoverable one has g = 2 at most.
fn default_layout(globals: usize) -> &'static str {
    LAYOUTS[usize::from(globals > 2)]
}

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>> {
    let named = words.take("layout");
    let layout = named.unwrap_or(default_layout(words.numbers.last().copied().unwrap_or(0)));
    if !LAYOUTS.contains(&layout) {
        return Err(words.bad("layout", layout, format!("known: {}", LAYOUTS.join(", "))));
    }
    let &[k, l, g] = words.numbers else {
        return Err(CodeError::Internal("an lrc of other than three numbers".into()));
    };
    let fits = |&l: &usize| match layout {
        "kiln" => k.is_multiple_of(l),
        "ceph" => k.is_multiple_of(l) && g.is_multiple_of(l),
        _ => l <= k,
    };
    if !fits(&l) {
        let nearest = xor::nearest((1..=k).filter(fits), l);
        let what = match layout {
            "kiln" => format!("groups divide k = {k}"),
            "ceph" => format!("groups divide k = {k} and g = {g}"),
            _ => format!("there are at most k = {k} groups"),
        };
        return Err(words.bad("l", &l.to_string(), format!("{what}; {nearest}")));
    }
    if layout == "kiln" && coefficients(k / l, l, g).is_none() {
        let reason = "coefficients of one byte are known for g = 1; for g = 2 with groups of at \
                      most 15 data chunks in up to 17 groups, 3 in up to 85, or one group; \
                      layout=azure has others";
        let (key, value) = if g > 2 { ("g", g) } else { ("l", l) };
        return Err(words.bad(key, &value.to_string(), reason.into()));
    }
    Ok(vec![Param::new("layout", layout.into(), default_layout(g))])
}

/// Ceph's plugin lrc in its simple form: (k + m) / l groups of l chunks and a parity.
fn profile(profile: &mut Profile<'_>) -> Result<String> {
    for key in ["crush-locality", "crush-steps"] {
        profile.words.remove(key);
    }
    if let Some(key) = ["mapping", "layers"].into_iter().find(|key| profile.words.contains_key(key))
    {
        let reason = format!("plugin lrc is read in its simple form (k, m, l), without '{key}'");
        return Err(profile.bad(reason));
    }
    let (k, m) = profile.numbers()?;
    let l = profile.number("l")?;
    let number = |text: &str| text.parse::<usize>().unwrap_or(0);
    let chunks = number(k) + number(m);
    match chunks.checked_div(number(l)) {
        Some(groups) if groups * number(l) == chunks => {
            Ok(format!("lrc:{k}+{groups}+{m},layout=ceph"))
        }
        _ => Err(profile.bad(format!("k + m = {chunks} is no multiple of l={l}"))),
    }
}

/// The factors of the data chunks of every group in the first global parity; in the second they
/// are squared. Nothing where no such set is known.
///
/// Two unknowns a and b of one group come as a + b from its parity, so the global equations see
/// differences of factors. With the factor zero for the group's parity itself, a pattern of two
/// unknowns beyond the groups' parities is decodable if
/// - factors of a group differ (three lost in one group: a Vandermonde determinant; two and a
///   global parity: either row alone, as squaring is one-to-one), and
/// - no difference of one group is a difference of another (two lost in two groups each: from
///   differences x and y the determinant is x y (x + y)).
///
/// Multiples of a subfield, c F, are closed under differences, and two of them share only zero
/// unless they are equal. So every group takes its factors from its own multiple of the smallest
/// subfield that is large enough: GF(2), GF(4), GF(16) or GF(256), of which there are 255, 85, 17
/// and 1. With one global parity differing factors suffice.
fn coefficients(size: usize, groups: usize, globals: usize) -> Option<Vec<Vec<u8>>> {
    let (step, multiples) = match globals {
        1 if size <= field::ORDER => (1, 1),
        2 => [(255, 1), (85, 3), (17, 15), (1, 255)]
            .into_iter()
            .find(|&(multiples, elements)| size <= elements && groups <= multiples)
            .map(|(multiples, _)| (multiples, multiples))?,
        _ => return None,
    };
    let group = |i: usize| (0..size).map(|j| field::exp(i % multiples + step * j)).collect();
    Some((0..groups).map(group).collect())
}

/// Checks what [`coefficients`] promises of several groups; a factor that is there twice shows as a
/// difference of zero.
fn check(factors: &[Vec<u8>], globals: usize) -> bool {
    let mut owner = [None; 256];
    factors.iter().enumerate().all(|(group, factors)| {
        let all: Vec<u8> = factors.iter().copied().chain([0]).collect();
        let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.map(|(i, j)| all[i] ^ all[j]).all(|difference| {
            let known = owner[difference as usize].replace(group);
            difference != 0 && (globals == 1 || known.is_none_or(|known| known == group))
        })
    })
}

/// Rows of the global parities of a wide layout, and whether the last is the sum of all groups'.
///
/// The rows are those of a Cauchy matrix, so that every square part of them is invertible, as
/// scaling of rows and columns leaves it. Columns are scaled so that one row is all ones, and
/// groups are plain sums. *Losses that are decoded*: e data chunks, a parities of groups, b global
/// ones.
///
/// - `azure` (g + 1 rows, the first is what the groups sum to), any g + 1 losses: without a loss
///   among the parities of groups, their sum is that row, so g + 1 - b rows give e = g + 1 - b
///   unknowns; with one, the g - b global rows give e <= g - b.
/// - `cascaded` (g rows, the last of all ones), any g losses: the g - b rows give e <= g - b.
/// - `uniform` (g + 1 rows, of which all columns sum to one), any g + 1 losses: the parities of the
///   groups sum to all data and all global parities, which is the first row alone, as the other
///   ones come twice; the rest is as for `azure`.
fn wide(layout: &str, k: usize, g: usize) -> Result<Matrix> {
    let cauchy = |rows: usize| generator("cauchy")?.parity(k, rows);
    let (rows, sums): (Matrix, Vec<u8>) = match layout {
        "uniform" => {
            let rows = cauchy(g + 1)?;
            let sum = |factor: u8, j: usize| {
                (1..=g).fold(field::mul(factor, rows.at(0, j)), |sum, r| sum ^ rows.at(r, j))
            };
            // A column that sums to zero cannot be scaled; another factor of a row changes that.
            let factor = (1..=255).find(|&factor| (0..k).all(|j| sum(factor, j) != 0));
            let factor = factor.ok_or_else(|| CodeError::Internal("columns of zero".into()))?;
            let sums = (0..k).map(|j| sum(factor, j)).collect();
            (rows, sums)
        }
        "azure" => cauchy(g + 1).map(|rows| (rows.clone(), rows.row(0).to_vec()))?,
        _ => {
            let rows = cauchy(g)?;
            let first = rows.row(0).to_vec();
            // The row of ones comes last.
            let order: Vec<usize> = (0..=g).map(|row| row % g).collect();
            (rows.select_rows(&order), first)
        }
    };
    Ok(Matrix::from_fn(g, k, |r, j| field::div(rows.at(r + 1, j), sums[j])))
}

/// The chunks of every group, its parity included, ascending; data first, then global parities.
fn groups(layout: &str, k: usize, l: usize, g: usize) -> Vec<Vec<usize>> {
    let data = |i: usize| (i * k / l..(i + 1) * k / l).chain([k + i]);
    let mut groups: Vec<Vec<usize>> = (0..l).map(|i| data(i).collect()).collect();
    match layout {
        "ceph" => (0..g).for_each(|r| groups[r * l / g].push(k + l + r)),
        // Each to the smallest group.
        "uniform" => (0..g).for_each(|r| {
            let smallest = groups.iter_mut().min_by_key(|group| group.len());
            smallest.into_iter().for_each(|group| group.push(k + l + r));
        }),
        "cascaded" => groups.push((k..k + l).chain([k + l + g - 1]).collect()),
        _ => {}
    }
    groups
}

#[derive(Debug)]
struct Lrc {
    code: ScalarCode,
    /// Chunks that sum to zero: every group with its parity, ascending.
    groups: Vec<Vec<usize>>,
    globals: usize,
    layout: &'static str,
}

impl Lrc {
    fn new(spec: &CodeSpec) -> Result<Lrc> {
        let unsupported = |reason: String| {
            let spec = spec.to_string();
            CodeError::Unsupported { spec, reason }
        };
        let &[k, l, g] = &spec.numbers[..] else {
            return Err(CodeError::Internal(format!("{spec} has not three numbers")));
        };
        let layout = LAYOUTS.into_iter().find(|layout| *layout == spec.value("layout"));
        let layout = layout.ok_or_else(|| CodeError::Internal(format!("layout of {spec}")))?;
        let global = match layout {
            "ceph" => {
                generator("jerasure")?.parity(k, g).map_err(|e| unsupported(e.to_string()))?
            }
            "kiln" => {
                let factors = coefficients(k / l, l, g).filter(|factors| check(factors, g));
                let factors = factors.ok_or_else(|| unsupported("no coefficients".into()))?;
                Matrix::from_fn(g, k, |row, j| field::pow(factors[j * l / k][j % (k / l)], 1 + row))
            }
            _ => wide(layout, k, g).map_err(|e| unsupported(e.to_string()))?,
        };
        let groups = groups(layout, k, l, g);
        let local = Matrix::from_fn(l, k, |i, j| {
            let members = groups[i].iter();
            members.fold(0, |sum, &chunk| match chunk {
                chunk if chunk < k => sum ^ u8::from(chunk == j),
                chunk if chunk < k + l => sum,
                chunk => sum ^ global.at(chunk - k - l, j),
            })
        });
        let code = ScalarCode::of_parity(&local.stack(&global)?)?;
        Ok(Lrc { code, groups, globals: g, layout })
    }

    /// Sums of groups that give chunks of `wanted` one after the other, each from what is known by
    /// then; the cheapest first. Each is a chunk and the others of its group.
    fn sums(&self, wanted: &[usize], known: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let mut known: BTreeSet<usize> = known.iter().copied().collect();
        let mut missing: BTreeSet<usize> = wanted.iter().copied().collect();
        missing.retain(|chunk| !known.contains(chunk));
        let mut sums = Vec::new();
        loop {
            let others = |chunk: usize, group: &Vec<usize>| {
                let others = group.iter().copied().filter(|&other| other != chunk);
                others.collect::<Vec<usize>>()
            };
            let sum = missing
                .iter()
                .flat_map(|&chunk| self.groups.iter().map(move |group| (chunk, group)))
                .filter(|(chunk, group)| group.contains(chunk))
                .map(|(chunk, group)| (chunk, others(chunk, group)))
                .filter(|(_, others)| others.iter().all(|other| known.contains(other)))
                .min_by_key(|(_, others)| others.len());
            let Some((chunk, others)) = sum else { return sums };
            missing.remove(&chunk);
            known.insert(chunk);
            sums.push((chunk, others));
        }
    }

    /// The chunks of the groups that alone give all of `lost`, if they do.
    fn helpers_of_groups(&self, lost: &[usize], available: &[usize]) -> Option<Vec<usize>> {
        let sums = self.sums(lost, available);
        let used: BTreeSet<usize> = sums.iter().flat_map(|(_, others)| others).copied().collect();
        let read = used.into_iter().filter(|chunk| lost.binary_search(chunk).is_err());
        (sums.len() == lost.len()).then(|| read.collect())
    }

    /// The lost chunks that no sums of groups give until they are known: parities of groups only
    /// where nothing else does.
    fn not_summed(&self, lost: &[usize], helpers: &[usize]) -> Vec<usize> {
        let Shape { k, .. } = self.shape();
        let locals = k..self.shape().n() - self.globals;
        let (last, first): (Vec<usize>, Vec<usize>) =
            lost.iter().partition(|chunk| locals.contains(chunk));
        let mut solved = Vec::new();
        for chunk in first.into_iter().chain(last) {
            let known: Vec<usize> = helpers.iter().chain(&solved).copied().collect();
            if self.sums(lost, &known).iter().all(|&(summed, _)| summed != chunk) {
                solved.push(chunk);
            }
        }
        solved.sort_unstable();
        solved
    }
}

impl Code for Lrc {
    fn shape(&self) -> Shape {
        self.code.shape()
    }

    fn is_mds(&self) -> bool {
        self.tolerates_any() == self.shape().m
    }

    fn tolerates_any(&self) -> usize {
        match self.layout {
            "ceph" | "cascaded" => self.globals,
            _ => self.globals + 1,
        }
    }

    fn mapping(&self) -> Vec<usize> {
        let Shape { k, .. } = self.shape();
        let mut mapping: Vec<usize> = (0..self.shape().n()).collect();
        let groups = self.groups.iter().enumerate().filter(|_| self.layout == "ceph");
        // A group's data come first, then its global parities, then its own.
        let shards = groups.flat_map(|(index, group)| {
            let others = group.iter().copied().filter(move |&chunk| chunk != k + index);
            others.chain([k + index])
        });
        for (shard, chunk) in shards.enumerate() {
            mapping[chunk] = shard;
        }
        mapping
    }

    fn tolerates(&self, lost: &[usize]) -> bool {
        if self.layout != "kiln" {
            return self.code.tolerates(lost);
        }
        // What is lost is an unknown for the global parities, but for one chunk a group.
        let hit = |group: &&Vec<usize>| group.iter().any(|chunk| lost.contains(chunk));
        lost.len() - self.groups.iter().filter(hit).count() <= self.globals
    }

    /// The first chunks that determine all, or at least what is lost.
    fn decode(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let (helpers, needed) = (self.code.independent(available), self.shape().k);
        if helpers.len() < needed && self.code.solve(&helpers, lost).is_err() {
            let (lost, available) = (lost.to_vec(), available.len());
            let independent = helpers.len();
            return Err(CodeError::NotRecoverable { lost, available, independent, needed });
        }
        Ok(Choice::new(RebuildMethod::Decode, lost, helpers))
    }

    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let Shape { k, .. } = self.shape();
        match self.helpers_of_groups(lost, available) {
            Some(helpers) if helpers.len() < k => {
                Ok(Choice::new(RebuildMethod::Repair, lost, helpers))
            }
            _ => self.decode(lost, available),
        }
    }

    fn emit(&self, choice: &Choice) -> Result<Dag> {
        let rest = self.not_summed(&choice.lost, &choice.helpers);
        let known: Vec<usize> = choice.helpers.iter().chain(&rest).copied().collect();
        self.code.emit_with_sums(choice, &rest, &self.sums(&choice.lost, &known))
    }
}

#[cfg(test)]
mod tests;
