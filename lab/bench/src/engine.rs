//! What is measured: a job, and engines that do it over prepared buffers.

use crate::BenchError;
use crate::measure::Seconds;
use serde::{Serialize, Serializer};
use std::fmt;

/// A family of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Reed-Solomon.
    Rs,
    /// Clay with d = n - 1.
    Clay,
}

impl Family {
    /// As in a spec: `rs` or `clay`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Rs => "rs",
            Family::Clay => "clay",
        }
    }
}

/// What is done to a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// m parity chunks from k data chunks.
    Encode,
    /// That many lost data chunks from k whole chunks.
    Decode(usize),
    /// That many lost data chunks from as little as the code allows.
    Repair(usize),
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Encode => f.write_str("encode"),
            Operation::Decode(lost) => write!(f, "decode {lost}"),
            Operation::Repair(lost) => write!(f, "repair {lost}"),
        }
    }
}

/// One thing to do with one code and one length of chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Family of the code.
    pub family: Family,
    /// Data chunks.
    pub k: usize,
    /// Parity chunks.
    pub m: usize,
    /// What is done.
    pub operation: Operation,
    /// Bytes of a chunk.
    pub chunk: usize,
}

impl Job {
    /// Chunks of a stripe.
    pub fn n(&self) -> usize {
        self.k + self.m
    }

    /// Helpers of a repair: all others for Clay.
    pub fn helpers(&self) -> usize {
        match self.family {
            Family::Rs => self.k,
            Family::Clay => self.n() - 1,
        }
    }

    /// Sub-chunks a chunk: of Clay m^t, where t sections of m nodes hold all chunks.
    pub fn alpha(&self) -> usize {
        match self.family {
            Family::Rs => 1,
            Family::Clay => self.m.pow(self.n().div_ceil(self.m) as u32),
        }
    }

    /// The data chunks that are lost: the first ones, or one from the middle.
    pub fn lost(&self) -> Vec<usize> {
        match self.operation {
            Operation::Encode => Vec::new(),
            Operation::Decode(1) | Operation::Repair(1) => vec![self.k / 2],
            Operation::Decode(count) | Operation::Repair(count) => (0..count).collect(),
        }
    }

    /// The chunks that are not lost.
    pub fn survivors(&self) -> Vec<usize> {
        let lost = self.lost();
        (0..self.n()).filter(|chunk| !lost.contains(chunk)).collect()
    }

    /// The bytes a rate counts, a stripe: data that is encoded, or chunks that are rebuilt.
    pub fn bytes(&self) -> usize {
        match self.operation {
            Operation::Encode => self.k * self.chunk,
            Operation::Decode(count) | Operation::Repair(count) => count * self.chunk,
        }
    }

    /// The same code, length and buffers with another operation.
    pub fn with(&self, operation: Operation) -> Job {
        Job { operation, ..*self }
    }

    /// `rs 10+4`, for people.
    pub fn code(&self) -> String {
        format!("{} {}+{}", self.family.name(), self.k, self.m)
    }
}

/// What an engine reads of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads {
    /// Index of the chunk.
    pub chunk: usize,
    /// Sub-chunks, concatenated in this order; the whole chunk if `None`.
    pub sub_chunks: Option<Vec<u32>>,
}

impl Reads {
    /// All of a chunk.
    pub fn whole(chunk: usize) -> Reads {
        Reads { chunk, sub_chunks: None }
    }
}

/// The buffers of one stripe, as one engine wants them for one job.
#[derive(Debug)]
pub struct Stripe<'a> {
    /// What [`Task::reads`] names, in that order.
    pub inputs: Vec<&'a [u8]>,
    /// Parity chunks of an encode, otherwise the lost chunks.
    pub outputs: Vec<&'a mut [u8]>,
}

/// A job made ready by an engine: tables and plans exist, only the work is left.
pub trait Task {
    /// What is read of every stripe.
    fn reads(&self) -> &[Reads];

    /// Does every stripe, `repeats` times; returns how long the engine worked.
    ///
    /// # Errors
    /// The engine says no, or fails.
    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError>;
}

/// A library that codes.
pub trait Engine {
    /// Short name, as in reports.
    fn name(&self) -> &str;

    /// Library and version.
    fn version(&self) -> &str;

    /// Makes ready what does not depend on the bytes.
    ///
    /// # Errors
    /// [`BenchError::Unsupported`] if the engine has no such code, operation or length.
    fn prepare(&self, job: &Job) -> Result<Box<dyn Task + '_>, BenchError>;

    /// The spec of kiln's code that makes the same bytes, if there is one.
    fn same_bytes_as(&self, job: &Job) -> Option<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_know_their_numbers() {
        let (family, operation) = (Family::Clay, Operation::Decode(3));
        let job = Job { family, k: 6, m: 3, operation, chunk: 27 * 64 };
        assert_eq!((job.alpha(), job.helpers(), job.bytes()), (27, 8, 3 * 27 * 64));
        assert_eq!(job.lost(), [0, 1, 2]);
        assert_eq!(job.survivors(), [3, 4, 5, 6, 7, 8]);
        assert_eq!(job.with(Operation::Repair(1)).lost(), [3]);
        assert_eq!(job.code(), "clay 6+3");
    }
}
