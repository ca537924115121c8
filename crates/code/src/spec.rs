//! A code spec once it is read: a family, its chunk numbers and its parameters.

use crate::{CodeError, Result};
use std::fmt;

/// One parameter of a code with the value in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Param {
    pub key: &'static str,
    pub value: String,
    /// True if the value is what one gets without naming the parameter.
    pub default: bool,
}

impl Param {
    pub(crate) fn new(key: &'static str, value: String, default: &str) -> Param {
        let default = value == default;
        Param { key, value, default }
    }
}

/// A code with all its parameters: parsed, complete and canonical.
///
/// ```
/// use kiln_code::CodeSpec;
/// let spec: CodeSpec = "clay:10+4,d=13".parse()?;
/// assert_eq!(spec.to_string(), "clay:10+4"); // d = 13 is the default
/// let profile: CodeSpec = "plugin=clay k=8 m=4 d=10 scalar_mds=isa".parse()?;
/// assert_eq!(profile.to_string(), "clay:8+4,d=10,mds=isa,coupling=ceph");
/// assert_eq!(profile.explicit(), "clay:8+4,d=10,mds=isa,coupling=ceph,order=natural");
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodeSpec {
    pub(crate) family: &'static str,
    /// The numbers after the family, as its grammar has them.
    pub(crate) numbers: Vec<usize>,
    pub(crate) k: usize,
    pub(crate) m: usize,
    pub(crate) params: Vec<Param>,
}

impl CodeSpec {
    /// The code family, e.g. `clay`.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// Data chunks.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Parity chunks.
    pub fn m(&self) -> usize {
        self.m
    }

    /// The spec with every parameter written out, so that it means the same even if a default
    /// changes one day. Shards carry this form.
    pub fn explicit(&self) -> String {
        self.write_out(|_| true)
    }

    /// The value of a parameter of this family.
    pub(crate) fn value(&self, key: &str) -> &str {
        self.params.iter().find(|p| p.key == key).map_or("", |p| &p.value)
    }

    fn write_out(&self, wanted: impl Fn(&Param) -> bool) -> String {
        let mut text = format!("{}:{}", self.family, joined(&self.numbers));
        for param in self.params.iter().filter(|p| wanted(p)) {
            text.push_str(&format!(",{}={}", param.key, param.value));
        }
        text
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write_out(|p| !p.default))
    }
}

/// Data and parity chunks, or what is wrong with the numbers of a spec.
type Counted = Result<(usize, usize), String>;

/// Meaning of the numbers after a family's name.
#[derive(Debug)]
pub(crate) struct ChunkNumbers {
    /// Counts the data and parity chunks that the numbers of a spec stand for.
    pub count: fn(&[usize]) -> Counted,
    /// The numbers of the family's code of k data and m parity chunks, or why it has none.
    pub of: fn(usize, usize) -> Result<Vec<usize>, String>,
}

/// Data and parity chunks: the grammar of most families.
pub(crate) const K_PLUS_M: ChunkNumbers = ChunkNumbers {
    count: |numbers| match *numbers {
        [k, m] => Ok((k, m)),
        _ => Err("the chunk numbers are k+m, e.g. 10+4".into()),
    },
    of: |k, m| Ok(vec![k, m]),
};

/// Chunk numbers as a spec has them.
pub(crate) fn joined(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}

/// The words of a spec before the family has looked at them.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    pub family: &'static str,
    /// The numbers after the family, as its grammar has them.
    pub numbers: &'a [usize],
    pub k: usize,
    pub m: usize,
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    /// Takes an option out, or gives nothing when the spec does not name it.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.options.iter().position(|(k, _)| *k == key)?;
        Some(self.options.remove(at).1)
    }

    /// Takes a whole number out.
    pub(crate) fn take_number(&mut self, key: &'static str) -> Result<Option<usize>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let bad = |_| self.bad(key, value, "not a whole number".into());
        value.parse().map(Some).map_err(bad)
    }

    pub(crate) fn bad(&self, key: &str, value: &str, reason: String) -> CodeError {
        let family = format!("{}:{}", self.family, joined(self.numbers));
        CodeError::BadValue { family, key: key.into(), value: value.into(), reason }
    }
}
