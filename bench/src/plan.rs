//! `make bench-plan`: where repairs are computed (ParaRC, table 2 and figure 5, and beyond).
//!
//! Loads and traffic are counted from the plans, not measured; times of planning are measured. The
//! paper's heuristic runs beside ours, once for as long as ours took and once much longer. Then
//! whole machines are recovered, many stripes at once.
//!
//! What is finished is kept beside the report, so that a run that was interrupted goes on there.

mod codes;
mod page;
mod picture;
mod recovery;
mod small;

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::Clock;
use codes::Code;
use kiln_code::Codec;
use kiln_plan::{PlanError, Problem};
use recovery::Recovery;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use small::Small;
use std::fs;
use std::path::{Path, PathBuf};

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
        put(folder, "plan.json", &serde_json::to_string_pretty(&report).unwrap_or_default())?;
        put(folder, "plan.md", &report.markdown())?;
        for (name, svg) in picture::all(&report).map_err(failed)? {
            put(folder, name, &svg)?;
        }
        // The parts are in the report now; that they cannot be removed harms nobody.
        let _ = fs::remove_dir_all(folder.join(PARTS));
    }
    println!("{}", report.headline());
    Ok(())
}

fn failed(error: PlanError) -> BenchError {
    BenchError::Failed { engine: "kiln-plan".into(), reason: error.to_string() }
}

fn measure(options: &Options<'_>) -> Result<Report, BenchError> {
    let machine = Machine::look(None, Clock::Wall, false);
    let parts = Parts::new(options, &machine.commit);
    let mut codes = Vec::new();
    for row in codes::rows(options) {
        codes.push(parts.take(row.code, || codes::code(row, options))?);
    }
    let mut recoveries = Vec::new();
    for row in recovery::rows(options) {
        recoveries.push(parts.take(&row.name(), || recovery::recovery(row, options))?);
    }
    let small = small::all().map_err(failed)?;
    Ok(Report { machine, quick: options.quick, codes, small, recoveries })
}

/// The folder of finished parts.
const PARTS: &str = "plan-parts";

/// Finished parts of a report, by commit, so that a run can go on.
struct Parts {
    folder: Option<PathBuf>,
}

/// A part in its file: what was measured with which commit.
#[derive(Serialize, Deserialize)]
struct Part<T> {
    key: String,
    found: T,
}

impl Parts {
    fn new(options: &Options<'_>, commit: &str) -> Parts {
        let kind = if options.quick { "quick" } else { "full" };
        let folder = options.out.map(|out| out.join(PARTS).join(format!("{commit}-{kind}")));
        Parts { folder }
    }

    /// A part that is there already, or else is made and kept.
    fn take<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, PlanError>,
    ) -> Result<T, BenchError> {
        let name = format!("{}.json", key.replace([':', '/', ' ', '+', '='], "-"));
        let known = self.folder.as_ref().and_then(|folder| {
            let text = fs::read_to_string(folder.join(&name)).ok()?;
            let part: Part<T> = serde_json::from_str(&text).ok()?;
            (part.key == key).then_some(part.found)
        });
        if let Some(found) = known {
            eprintln!("plan: {key}: kept from the run before");
            return Ok(found);
        }
        eprintln!("plan: {key}");
        let part = Part { key: key.to_owned(), found: make().map_err(failed)? };
        if let Some(folder) = &self.folder {
            put(folder, &name, &serde_json::to_string(&part).unwrap_or_default())?;
        }
        Ok(part.found)
    }
}

/// The repair of one chunk, a node for each chunk.
fn problem(codec: &Codec, lost: usize) -> Result<Problem, PlanError> {
    let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
    Problem::on_own_nodes(codec.repair_dag(&[lost], &available)?.1)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), BenchError> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| BenchError::Report { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_bench_runs() {
        let out = tempfile::tempdir().unwrap();
        let options = Options { tiny: true, quick: true, out: Some(out.path()) };
        let report = measure(&options).unwrap();
        let page = report.markdown();
        assert!(page.contains("| clay:2+2 | 3 | 256.0 | 512.0 | 512.0 | 0.00% |"), "{page}");
        assert!(page.contains("(256.0, 512.0), (320.0, 448.0), (384.0, 384.0)"), "{page}");
        assert!(page.contains("| clay:2+2 | 0 | (4, 8), (5, 7), (6, 6) |"), "{page}");
        assert!(page.contains("| butterfly:4+2 | 0 | (8, 27)"), "{page}");
        assert!(page.contains("| clay:2+2 | 6 | 30 | survivors |"), "{page}");
        assert!(report.headline().contains("clay:2+2"));
        let within = |found: &Recovery| found.makespan_mib >= found.bound_mib - 1e-6;
        assert!(report.recoveries.iter().all(within));
        for (name, svg) in picture::all(&report).unwrap() {
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{name}");
        }
        // A second run takes what the first one has left.
        let again = measure(&options).unwrap();
        // Text keeps a number up to its last bit only.
        let (kept, first) = (&again.codes[0].blocks[0], &report.codes[0].blocks[0]);
        assert!((kept.plan_ms - first.plan_ms).abs() < 1e-9 * first.plan_ms);
    }
}
