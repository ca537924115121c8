//! `make bench-pool`: what operations on a pool cost as the pool grows, and what small files do.
//!
//! What the simulator and the sweep of faults found is taken from their logs: this bench prints the
//! figures beside its own, so that one line says how far pools can be trusted.

mod count;
mod operations;
mod proof;
mod small;

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::Clock;
use crate::page;
use serde::Serialize;
use std::path::{Path, PathBuf};

pub const NAME: &str = "pool";
pub const ABOUT: &str =
    "pools: file operations by number of nodes, small files; with logs of proofs";

/// Of the report.
const REPORT: &str = "pool-cost";

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Fewer rounds.
    pub quick: bool,
    /// A few files once: for tests.
    pub tiny: bool,
    /// The program.
    pub kiln: &'a Path,
    /// Logs of the simulator and of sweeps.
    pub logs: &'a [PathBuf],
    /// Where the report goes. Pools and copies are made there meanwhile: it should be on the disk
    /// that is meant.
    pub out: Option<&'a Path>,
}

/// All that a run found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Operations of one object, by size of the pool.
    pub pools: Vec<operations::Cost>,
    /// Small files; `None` where there is no program.
    pub small: Option<small::Small>,
    /// What others found.
    pub proof: proof::Proof,
}

/// Counts and measures, writes the report and prints what matters as one line of JSON.
///
/// # Errors
/// kiln fails, or the report cannot be written.
pub fn run(options: &Options<'_>) -> Result<(), BenchError> {
    let report = measure(options)?;
    if let Some(folder) = options.out {
        page::write(folder, REPORT, &report)?;
    }
    println!("{}", report.headline());
    Ok(())
}

fn measure(options: &Options<'_>) -> Result<Report, BenchError> {
    Ok(Report {
        machine: Machine::look(None, Clock::Wall, false),
        pools: operations::count(options)?,
        small: small::measure(options)?,
        proof: proof::read(options.logs)?,
    })
}

/// What kiln itself could not do.
fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed { engine: "kiln".into(), reason: error.to_string() }
}

impl Report {
    fn headline(&self) -> String {
        let cost = |nodes: usize, pick: fn(&operations::Cost) -> f64| {
            self.pools.iter().find(|cost| cost.nodes == nodes).map(pick)
        };
        let small = |pick: fn(&small::Small) -> f64| self.small.as_ref().map(pick);
        serde_json::json!({
            "ops_put_14": cost(14, |cost| cost.put),
            "ops_put_100": cost(100, |cost| cost.put),
            "ops_get_14": cost(14, |cost| cost.get),
            "ops_get_100": cost(100, |cost| cost.get),
            "small_disk_over_size": small(|small| small.disk_over_size),
            "small_put_seconds": small(|small| small.put.median),
            "small_put_over_cp": small(|small| small.put_over_cp.median),
            "small_put_over_cp_quarters": self.small.as_ref().map(|small| {
                [small.put_over_cp.p25, small.put_over_cp.p75]
            }),
            "small_get_seconds": small(|small| small.get.median),
            "seeds": self.proof.seeds,
            "faults_tried": self.proof.faults_tried,
            "faults_wrong": self.proof.faults_wrong,
            "sometimes_missed": self.proof.sometimes_missed,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything once, tiny: an operation costs the same in a large pool, small files take little.
    #[test]
    fn the_whole_bench_runs() -> Result<(), BenchError> {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("simulate.log");
        let text = "300 seeds: {}\ntest result: ok. 2 passed\n{\"faults_tried\":40,\
                    \"faults_wrong\":0}\n{\"faults_tried\":2,\"faults_wrong\":0}\n";
        std::fs::write(&log, text).unwrap();
        let kiln = std::env::current_exe().unwrap().with_file_name("../kiln");
        let (logs, out) = ([log], Some(folder.path()));
        let options = Options { quick: true, tiny: true, kiln: &kiln, logs: &logs, out };
        let report = measure(&options)?;
        let [few, many] = &report.pools[..] else { panic!("{report:?}") };
        assert_eq!((few.nodes, many.nodes), (14, 100));
        assert_eq!((few.put, few.get), (many.put, many.get));
        assert_eq!((few.put_most, few.get_most), (many.put_most, many.get_most));
        assert!(few.put > few.get && few.get > 0.0);
        if let Some(small) = &report.small {
            assert!(small.disk_over_size <= 8.0, "{small:?}");
            assert!(small.put.median > 0.0 && small.get.median > 0.0);
        }
        let proof = &report.proof;
        assert_eq!(
            (proof.seeds, proof.faults_tried, proof.faults_wrong),
            (Some(300), Some(42), Some(0))
        );
        assert!(report.headline().contains("\"seeds\":300"));
        run(&options)?;
        assert!(folder.path().join("pool-cost.json").exists());
        assert_eq!(page::drawn(REPORT, &report), "pool-cost.svg\n");
        Ok(())
    }
}
