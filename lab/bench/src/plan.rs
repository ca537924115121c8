//! `make bench-plan`: where repairs are computed (ParaRC, table 2 and figure 5, and beyond).
//!
//! Loads and traffic are counted from the plans, not measured; times of planning are measured. The
//! paper's heuristic runs beside ours, once for as long as ours took and once much longer. Then
//! whole machines are recovered, many stripes at once.
//!
//! What is finished is kept beside the report, so that a run that was interrupted goes on there.

mod brute;
mod codes;
mod recovery;
mod small;

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::Clock;
use crate::page;
use crate::parts::Parts;
use codes::Code;
use kiln_code::Codec;
use kiln_plan::{PlanError, Problem};
use recovery::Recovery;
use serde::Serialize;
use small::Small;
use std::path::Path;

/// The block of the paper, in MiB; all loads are in MiB of it.
const BLOCK_MIB: f64 = 256.0;

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Small codes, a moment of searching: for tests.
    pub tiny: bool,
    /// A few blocks of each code and a second of the paper's heuristic.
    pub quick: bool,
    /// Where the report goes.
    pub out: Option<&'a Path>,
}

/// All that a run found.
#[derive(Debug, Serialize)]
struct Report {
    /// Where it ran.
    machine: Machine,
    /// Whether only a few blocks were planned.
    quick: bool,
    /// Code by code.
    codes: Vec<Code>,
    /// All placements of small repairs.
    small: Vec<Small>,
    /// What each node does in one repair.
    traffic: Vec<small::Traffic>,
    /// Recoveries of whole machines.
    recoveries: Vec<Recovery>,
}

/// Plans everything, writes the report and prints the worst ratios as one line of JSON.
///
/// # Errors
/// A plan fails its proof, or the report cannot be written.
pub fn run(options: &Options<'_>) -> Result<(), BenchError> {
    let report = measure(options)?;
    if let Some(folder) = options.out {
        page::write(folder, "plan", &report)?;
        parts(options, &report.machine.commit).forget();
    }
    println!("{}", report.headline());
    Ok(())
}

fn parts(options: &Options<'_>, commit: &str) -> Parts {
    let kind = if options.quick { "quick" } else { "full" };
    Parts::new(options.out, "plan", &format!("{commit}-{kind}"))
}

fn failed(error: PlanError) -> BenchError {
    BenchError::Failed { engine: "kiln-plan".into(), reason: error.to_string() }
}

fn measure(options: &Options<'_>) -> Result<Report, BenchError> {
    let machine = Machine::look(None, Clock::Wall, false);
    let parts = parts(options, &machine.commit);
    let mut codes = Vec::new();
    for row in codes::rows(options) {
        codes.push(parts.take(row.code, || codes::code(row, options).map_err(failed))?);
    }
    let mut recoveries = Vec::new();
    for row in recovery::rows(options) {
        recoveries
            .push(parts.take(&row.name(), || recovery::recovery(row, options).map_err(failed))?);
    }
    let small = small::all().map_err(failed)?;
    let traffic = small::traffic().map_err(failed)?;
    Ok(Report { machine, quick: options.quick, codes, small, traffic, recoveries })
}

impl Report {
    /// Worst load, bandwidth and time of every code, and how far recoveries are above their bounds.
    fn headline(&self) -> String {
        let rows = self.codes.iter().map(|code| {
            let (load, bandwidth) =
                (code.range(|block| block.load_mib).1, code.range(|block| block.bandwidth_mib).1);
            let ms = code.range(|block| block.dag_ms + block.plan_ms).1;
            (code.code.clone(), serde_json::json!([load, bandwidth, ms]))
        });
        let recoveries = self.recoveries.iter().map(|found| {
            let name = format!("{} over {} to {}", found.code, found.survivors, found.to());
            (format!("{name}, {} stripes", found.stripes), serde_json::json!(found.above()))
        });
        serde_json::Value::Object(rows.chain(recoveries).collect()).to_string()
    }
}

/// The repair of one chunk, a node for each chunk.
fn problem(codec: &Codec, lost: usize) -> Result<Problem, PlanError> {
    let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
    Problem::on_own_nodes(codec.repair_dag(&[lost], &available)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_bench_runs() {
        let out = tempfile::tempdir().unwrap();
        let options = Options { tiny: true, quick: true, out: Some(out.path()) };
        let report = measure(&options).unwrap();
        let code = &report.codes[0];
        assert_eq!((&code.code[..], code.blocks.len()), ("clay:2+2", 3));
        assert_eq!(code.range(|block| block.load_mib), (256.0, 256.0));
        assert_eq!(code.range(|block| block.bandwidth_mib), (512.0, 512.0));
        assert!(code.blocks.iter().all(|block| block.bound_mib == Some(512.0)));
        assert_eq!(code.frontier, [(256.0, 512.0), (320.0, 448.0), (384.0, 384.0)]);
        let small = |at: usize| (report.small[at].code, report.small[at].lost);
        assert_eq!([small(0), small(1)], [("clay:2+2", 0), ("butterfly:4+2", 0)]);
        assert_eq!(report.small[0].frontier, [(4, 8), (5, 7), (6, 6)]);
        assert_eq!(report.small[1].frontier[0], (8, 27));
        let found = &report.recoveries[0];
        assert_eq!((&found.code[..], found.survivors, found.stripes), ("clay:2+2", 6, 30));
        assert_eq!(found.to(), "survivors");
        assert!(report.headline().contains("clay:2+2"));
        let within = |found: &Recovery| found.makespan_mib >= found.bound_mib - 1e-6;
        assert!(report.recoveries.iter().all(within));
        let pictures = page::drawn("plan", &report);
        for name in ["frontier-clay", "frontier-butterfly", "traffic", "recovery"] {
            assert!(pictures.contains(&format!("plan-{name}.svg\n")), "{pictures}");
        }
        // A second run takes what the first one has left.
        let again = measure(&options).unwrap();
        // Text keeps a number up to its last bit only.
        let (kept, first) = (&again.codes[0].blocks[0], &report.codes[0].blocks[0]);
        assert!((kept.plan_ms - first.plan_ms).abs() < 1e-9 * first.plan_ms);
    }
}
