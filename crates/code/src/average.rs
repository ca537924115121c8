//! The average repair cost over all patterns of F lost chunks (Clay paper, section 6.1, Fig. 17).

use crate::combinations::{combinations, others, sample};
use crate::{CodeError, Codec, RebuildMethod, Result};

/// More patterns than this are sampled, not enumerated.
const PATTERNS_MAX: u64 = 5_000;
/// Sampled patterns.
const SAMPLES: u64 = 500;

/// Average cost of repairs when all patterns of F lost chunks are equally likely. Costs are
/// per stripe; a chunk is alpha sub-chunks.
#[derive(Debug, Clone, PartialEq)]
pub struct AverageCost {
    /// Lost chunks of every pattern.
    pub failures: usize,
    /// Patterns looked at.
    pub patterns: u64,
    /// True if these are all patterns; else they are a seeded sample.
    pub exhaustive: bool,
    /// Patterns rebuilt with less than k chunks read.
    pub repairable: u64,
    /// Patterns that cannot be rebuilt at all: none of a code that is MDS.
    pub undecodable: u64,
    /// Chunks read, on average over the patterns that can be rebuilt; so are the others below.
    pub mean_chunks: f64,
    /// Contiguous runs read, on average.
    pub mean_runs: f64,
    /// Chunks read in the cheapest pattern.
    pub min_chunks: f64,
    /// Chunks read in the dearest pattern.
    pub max_chunks: f64,
}

impl Codec {
    /// Averages the repair cost over patterns of `failures` lost chunks, all other chunks
    /// available. Above 5,000 patterns a sample of 500 is drawn with `seed`.
    ///
    /// # Errors
    /// `failures` is 0 or more than m.
    pub fn average_cost(&self, failures: usize, seed: u64) -> Result<AverageCost> {
        let shape = self.shape();
        if failures == 0 || failures > shape.m {
            let (what, expected) = ("lost chunks (from 1 to m)", shape.m);
            return Err(CodeError::Shape { what, expected, got: failures });
        }
        let mut statistics = Statistics { min: f64::INFINITY, ..Statistics::default() };
        let exhaustive = self.each_pattern(failures, seed, |lost| statistics.add(self, lost))?;
        let count = (statistics.patterns - statistics.undecodable).max(1) as f64;
        Ok(AverageCost {
            failures,
            patterns: statistics.patterns,
            exhaustive,
            repairable: statistics.repairable,
            undecodable: statistics.undecodable,
            mean_chunks: statistics.chunks / count,
            mean_runs: statistics.runs / count,
            min_chunks: statistics.min,
            max_chunks: statistics.max,
        })
    }

    /// The share of the patterns of `failures` lost chunks that can be rebuilt, without a plan for
    /// each: of all of them or a sample, as in [`Codec::average_cost`].
    pub fn survived(&self, failures: usize, seed: u64) -> Result<f64> {
        let (mut patterns, mut survived) = (0_u64, 0_u64);
        self.each_pattern(failures, seed, |lost| {
            patterns += 1;
            survived += u64::from(self.tolerates(lost));
            Ok(())
        })?;
        Ok(survived as f64 / patterns.max(1) as f64)
    }

    /// Calls for every pattern of `failures` lost chunks, or for a sample; returns whether for all.
    fn each_pattern(
        &self,
        failures: usize,
        seed: u64,
        mut with: impl FnMut(&[usize]) -> Result<()>,
    ) -> Result<bool> {
        let n = self.shape().n();
        let all = binomial(n as u64, failures as u64);
        let exhaustive = all.is_some_and(|count| count <= PATTERNS_MAX);
        if exhaustive {
            for lost in combinations(n, failures) {
                with(&lost)?;
            }
        } else {
            let mut state = seed;
            for _ in 0..SAMPLES {
                with(&sample(n, failures, &mut state))?;
            }
        }
        Ok(exhaustive)
    }
}

#[derive(Default)]
struct Statistics {
    patterns: u64,
    repairable: u64,
    undecodable: u64,
    chunks: f64,
    runs: f64,
    min: f64,
    max: f64,
}

impl Statistics {
    fn add(&mut self, codec: &Codec, lost: &[usize]) -> Result<()> {
        let shape = codec.shape();
        self.patterns += 1;
        if !codec.tolerates(lost) {
            self.undecodable += 1;
            return Ok(());
        }
        let (choice, dag) = codec.dag_of(lost, &others(shape.n(), lost))?;
        let chunks = dag.inputs().len() as f64 / shape.alpha as f64;
        self.repairable += u64::from(choice.strategy == RebuildMethod::Repair);
        self.chunks += chunks;
        self.runs += dag.reads().iter().map(|reads| reads.runs.len()).sum::<usize>() as f64;
        self.min = self.min.min(chunks);
        self.max = self.max.max(chunks);
        Ok(())
    }
}

/// n over f, or nothing when it does not fit.
pub(crate) fn binomial(n: u64, f: u64) -> Option<u64> {
    (0..f).try_fold(1_u64, |count, i| Some(count.checked_mul(n - i)? / (i + 1)))
}
