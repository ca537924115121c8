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
//! `layout=ceph` is Ceph's plugin lrc in its simple form (k, m, l): there the m = g global parities
//! are spread over the groups, and a group's parity sums those too. What it decodes is what its
//! matrix says. Chunks are numbered here as everywhere in kiln, data first, then the groups'
//! parities, then the global ones; [`Code::mapping`] says which shard each is in Ceph.

use super::scalar::ScalarCode;
use super::{Choice, Code, CodeFamily, xor};
use crate::profile::Profile;
use crate::spec::{ChunkNumbers, Param, Words};
use crate::{CodeError, CodeSpec, Dag, RebuildMethod, Shape};
use kiln_gf::{Matrix, field, generator};

pub(super) const FAMILY: CodeFamily =
    CodeFamily {
        name: "lrc",
        about: "Locally repairable: l groups of data with a parity each and g parities over all; \
            rebuilding a chunk of a group reads k/l, any g+1 may be lost and many more patterns",
        syntax: "lrc:k+l+g[,layout=kiln|ceph]",
        example: "lrc:12+2+2",
        examples: &[
            "lrc:1+1+1",
            "lrc:2+2+1",
            "lrc:4+1+1",
            "lrc:3+3+2",
            "lrc:4+2+2",
            "lrc:6+2+2",
            "lrc:4+2+2,layout=ceph",
            "lrc:6+2+2,layout=ceph",
            "lrc:6+3+3,layout=ceph",
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

const LAYOUTS: [&str; 2] = ["kiln", "ceph"];

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>, CodeError> {
    let layout = words.take("layout").unwrap_or(LAYOUTS[0]);
    if !LAYOUTS.contains(&layout) {
        return Err(words.bad("layout", layout, format!("known: {}", LAYOUTS.join(", "))));
    }
    let &[k, l, g] = words.numbers else {
        return Err(CodeError::Internal("an lrc of other than three numbers".into()));
    };
    let divides = |&l: &usize| k.is_multiple_of(l) && (layout == "kiln" || g.is_multiple_of(l));
    if !divides(&l) {
        let nearest = xor::nearest((1..=k).filter(divides), l);
        let what = match layout {
            "kiln" => format!("groups divide k = {k}"),
            _ => format!("groups divide k = {k} and g = {g}"),
        };
        return Err(words.bad("l", &l.to_string(), format!("{what}; {nearest}")));
    }
    if layout == "kiln" && coefficients(k / l, l, g).is_none() {
        let reason = "coefficients of one byte are known for g = 1; for g = 2 with groups of at \
                      most 15 data chunks in up to 17 groups, 3 in up to 85, or one group";
        let (key, value) = if g > 2 { ("g", g) } else { ("l", l) };
        return Err(words.bad(key, &value.to_string(), reason.into()));
    }
    Ok(vec![Param::new("layout", layout.into(), LAYOUTS[0])])
}

/// Ceph's plugin lrc in its simple form: (k + m) / l groups of l chunks and a parity.
fn profile(profile: &mut Profile<'_>) -> Result<String, CodeError> {
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

#[derive(Debug)]
struct Lrc {
    code: ScalarCode,
    /// The chunks of every group, its parity included, ascending.
    groups: Vec<Vec<usize>>,
    globals: usize,
    ceph: bool,
}

impl Lrc {
    fn new(spec: &CodeSpec) -> Result<Lrc, CodeError> {
        let unsupported = |reason: String| {
            let spec = spec.to_string();
            CodeError::Unsupported { spec, reason }
        };
        let &[k, l, g] = &spec.numbers[..] else {
            return Err(CodeError::Internal(format!("{spec} has not three numbers")));
        };
        let ceph = spec.value("layout") == "ceph";
        let global = match ceph {
            true => generator("jerasure")?.parity(k, g).map_err(|e| unsupported(e.to_string()))?,
            false => {
                let factors = coefficients(k / l, l, g).filter(|factors| check(factors, g));
                let factors = factors.ok_or_else(|| unsupported("no coefficients".into()))?;
                Matrix::from_fn(g, k, |row, j| field::pow(factors[j * l / k][j % (k / l)], 1 + row))
            }
        };
        // A group's data, in Ceph also its share of the global parities.
        let group = |i: usize| {
            let data = i * k / l..(i + 1) * k / l;
            let shared = if ceph { i * g / l..(i + 1) * g / l } else { 0..0 };
            data.chain([k + i]).chain(shared.map(move |r| k + l + r)).collect::<Vec<usize>>()
        };
        let groups: Vec<Vec<usize>> = (0..l).map(group).collect();
        let local = Matrix::from_fn(l, k, |i, j| {
            let members = groups[i].iter();
            members.fold(0, |sum, &chunk| match chunk {
                chunk if chunk < k => sum ^ u8::from(chunk == j),
                chunk if chunk < k + l => sum,
                chunk => sum ^ global.at(chunk - k - l, j),
            })
        });
        let code = ScalarCode::of_parity(&local.stack(&global)?)?;
        Ok(Lrc { code, groups, globals: g, ceph })
    }

    /// The chunks of the groups that alone give all of `lost`, if they do.
    fn helpers_of_groups(&self, lost: &[usize], available: &[usize]) -> Option<Vec<usize>> {
        let mut helpers = Vec::new();
        for chunk in lost {
            let group = self.groups.iter().find(|group| group.contains(chunk))?;
            let others = group.iter().filter(|member| *member != chunk);
            helpers.extend(others);
        }
        helpers.sort_unstable();
        helpers.dedup();
        helpers.iter().all(|helper| available.binary_search(helper).is_ok()).then_some(helpers)
    }
}

impl Code for Lrc {
    fn shape(&self) -> Shape {
        self.code.shape()
    }

    fn is_mds(&self) -> bool {
        self.groups.len() == 1 && !self.ceph
    }

    fn mapping(&self) -> Vec<usize> {
        let Shape { k, .. } = self.shape();
        let mut mapping: Vec<usize> = (0..self.shape().n()).collect();
        let groups = self.groups.iter().enumerate().filter(|_| self.ceph);
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
        if self.ceph {
            let left = (0..self.shape().n()).filter(|chunk| !lost.contains(chunk));
            return self.code.independent(&left.collect::<Vec<_>>()).len() == self.shape().k;
        }
        // What is lost is an unknown for the global parities, but for one chunk a group.
        let hit = |group: &&Vec<usize>| group.iter().any(|chunk| lost.contains(chunk));
        lost.len() - self.groups.iter().filter(hit).count() <= self.globals
    }

    /// The first chunks that determine all, or at least what is lost.
    fn decode(&self, lost: &[usize], available: &[usize]) -> Result<Choice, CodeError> {
        let (helpers, needed) = (self.code.independent(available), self.shape().k);
        if helpers.len() < needed && self.code.solve(&helpers, lost).is_err() {
            let (lost, available) = (lost.to_vec(), available.len());
            let independent = helpers.len();
            return Err(CodeError::NotRecoverable { lost, available, independent, needed });
        }
        Ok(Choice::new(RebuildMethod::Decode, lost, helpers))
    }

    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice, CodeError> {
        let Shape { k, .. } = self.shape();
        match self.helpers_of_groups(lost, available) {
            Some(helpers) if helpers.len() < k => {
                Ok(Choice::new(RebuildMethod::Repair, lost, helpers))
            }
            _ => self.decode(lost, available),
        }
    }

    fn emit(&self, choice: &Choice) -> Result<Dag, CodeError> {
        self.code.emit(choice)
    }
}

#[cfg(test)]
mod tests;
