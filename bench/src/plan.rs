//! `make bench-plan`: where repairs are computed (ParaRC, table 2 and figure 5, and beyond).
//!
//! Loads and traffic are counted from the plans, not measured; times of planning are measured. The
//! paper's heuristic runs beside ours, once for as long as ours took and once much longer.

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::Clock;
use kiln_code::Codec;
use kiln_plan::{Bound, Dot, Effort, Plan, PlanError, Problem};
use kiln_plan::{frontier, frontier_picture, plan_picture, spectrum, strategy};
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The block of the paper, in MiB; all loads are in MiB of it.
const BLOCK_MIB: f64 = 256.0;

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// One small code, a moment of searching: for tests.
    pub tiny: bool,
    /// A few blocks of each code and a second of the paper's heuristic.
    pub quick: bool,
    /// Where the report goes.
    pub out: Option<&'a Path>,
}

/// A code of the table: which strategy plans it, and what the paper found, as (load, bandwidth).
struct Row {
    code: &'static str,
    strategy: &'static str,
    moves: u64,
    paper: Option<(f64, f64)>,
}

const fn row(
    code: &'static str,
    strategy: &'static str,
    moves: u64,
    paper: Option<(f64, f64)>,
) -> Row {
    Row { code, strategy, moves, paper }
}

/// Table 2 of the paper, and the codes beyond it.
const ROWS: &[Row] = &[
    row("clay:2+2", "hub", 300_000, Some((320.0, 448.0))),
    row("clay:4+2", "hub", 300_000, None),
    row("clay:6+3", "hub", 300_000, None),
    row("clay:8+4", "hub", 300_000, Some((264.0, 1224.0))),
    row("clay:10+4", "hub", 300_000, Some((271.0, 1609.0))),
    row("clay:12+4", "hub", 300_000, Some((281.0, 1774.0))),
    row("clay:10+2", "hub", 1_000_000, None),
    row("clay:12+2", "hub", 1_000_000, None),
    row("clay:16+2", "hub", 1_000_000, None),
    // The rule is there at once; searching longer has found nothing better.
    row("clay:17+3", "hub", 0, None),
    row("clay:20+4", "hub", 0, None),
    row("butterfly:4+2", "chain", 300_000, Some((256.0, 896.0))),
    row("butterfly:10+2", "chain", 300_000, Some((297.0, 2216.0))),
];

/// One lost block.
#[derive(Debug, Clone, Serialize)]
pub struct Block {
    /// Which.
    pub lost: usize,
    /// Maximum load.
    pub load_mib: f64,
    /// All traffic.
    pub bandwidth_mib: f64,
    /// The least traffic when no link carries more than a block.
    pub bound_mib: Option<f64>,
    /// Read from all disks.
    pub read_mib: f64,
    /// Emitting the DAG.
    pub dag_ms: f64,
    /// Placing it.
    pub plan_ms: f64,
}

/// A strategy's result on the first block.
#[derive(Debug, Clone, Serialize)]
pub struct Result {
    /// Which strategy, and how long it had.
    pub name: String,
    /// Maximum load.
    pub load_mib: f64,
    /// All traffic.
    pub bandwidth_mib: f64,
    /// How long it took.
    pub seconds: f64,
    /// What it said aloud.
    pub note: Option<String>,
}

/// All of one code.
#[derive(Debug, Serialize)]
pub struct Code {
    /// Its spec.
    pub code: String,
    /// Who planned it.
    pub strategy: String,
    /// The paper's heuristic in the paper, where it says.
    pub paper: Option<(f64, f64)>,
    /// Block by block.
    pub blocks: Vec<Block>,
    /// Other strategies on the first block.
    pub others: Vec<Result>,
    /// The frontier of the first block: (maximum load, bandwidth).
    pub frontier: Vec<(f64, f64)>,
}

/// All that a run found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Code by code.
    pub codes: Vec<Code>,
}

/// Plans everything, writes the report and prints the worst ratios as one line of JSON.
///
/// # Errors
/// A plan fails its proof, or the report cannot be written.
pub fn run(options: &Options<'_>) -> std::result::Result<(), BenchError> {
    let report = measure(options).map_err(failed)?;
    if let Some(folder) = options.out {
        report.write(folder)?;
        pictures(folder)?;
    }
    println!("{}", report.headline());
    Ok(())
}

fn failed(error: PlanError) -> BenchError {
    BenchError::Failed { engine: "kiln-plan".into(), reason: error.to_string() }
}

fn measure(options: &Options<'_>) -> std::result::Result<Report, PlanError> {
    let rows = if options.tiny { &ROWS[..1] } else { ROWS };
    let codes = rows.iter().map(|row| code(row, options)).collect::<std::result::Result<_, _>>()?;
    Ok(Report { machine: Machine::look(None, Clock::Wall, false), codes })
}

fn code(row: &Row, options: &Options<'_>) -> std::result::Result<Code, PlanError> {
    eprintln!("plan: {}", row.code);
    let codec = Codec::new(&row.code.parse()?)?;
    let shape = codec.shape();
    // Butterfly's short repairs are those of data chunks.
    let last = if row.strategy == "chain" { shape.k } else { shape.n() };
    let few = [0, last / 2, last - 1];
    let lost = (0..last).filter(|lost| !options.quick || few.contains(lost));
    let blocks: Vec<Block> =
        lost.map(|lost| block(&codec, row, lost)).collect::<std::result::Result<_, _>>()?;
    let problem = problem(&codec, 0)?;
    let ours = blocks.first().map_or(0.0, |block| (block.dag_ms + block.plan_ms) / 1e3);
    let long = match (options.tiny, options.quick) {
        (true, _) => 0.001,
        (_, true) => 1.0,
        _ => 20.0,
    };
    let mut others = Vec::new();
    for (name, limit) in [
        ("central", None),
        ("pipeline", None),
        ("pareto", Some(ours)),
        ("pareto", Some(f64::max(long, ours))),
        ("anneal", Some(f64::max(long / 2.0, ours))),
    ] {
        others.push(other(&problem, name, limit)?);
    }
    let unit = BLOCK_MIB / shape.alpha as f64;
    let mut points = Vec::new();
    if row.strategy == "hub" {
        for plan in frontier(&problem, &mut Effort::new(1).with_moves(row.moves))? {
            plan.check()?;
            let costs = plan.costs();
            points.push((costs.max_load() as f64 * unit, costs.bandwidth() as f64 * unit));
        }
    }
    let (code, strategy) = (codec.spec().to_string(), row.strategy.to_string());
    Ok(Code { code, strategy, paper: row.paper, blocks, others, frontier: points })
}

fn problem(codec: &Codec, lost: usize) -> std::result::Result<Problem, PlanError> {
    let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
    Problem::on_own_nodes(codec.repair_dag(&[lost], &available)?.1)
}

fn block(codec: &Codec, row: &Row, lost: usize) -> std::result::Result<Block, PlanError> {
    let start = Instant::now();
    let problem = problem(codec, lost)?;
    let dag_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let mut effort = Effort::new(1).with_moves(row.moves);
    let plan = strategy(row.strategy)?.plan(&problem, &mut effort)?;
    let plan_ms = start.elapsed().as_secs_f64() * 1e3;
    plan.check()?;
    let (costs, unit) = (plan.costs(), BLOCK_MIB / codec.shape().alpha as f64);
    let bound = Bound::of(&problem);
    Ok(Block {
        lost,
        load_mib: costs.max_load() as f64 * unit,
        bandwidth_mib: costs.bandwidth() as f64 * unit,
        bound_mib: bound.map(|bound| bound.bandwidth(bound.load()) * unit),
        read_mib: costs.read() as f64 * unit,
        dag_ms,
        plan_ms,
    })
}

fn other(
    problem: &Problem,
    name: &str,
    limit: Option<f64>,
) -> std::result::Result<Result, PlanError> {
    let start = Instant::now();
    let limit = limit.map(Duration::from_secs_f64);
    let mut effort = match limit {
        Some(limit) => {
            Effort::new(1).with_moves(u64::MAX >> 16).until(move || start.elapsed() > limit)
        }
        None => Effort::new(1),
    };
    let plan = if name == "anneal" {
        // Its cooling follows the number of moves, so it cannot be cut off by a clock alone.
        strategy(name)?.plan(problem, &mut effort.with_moves(2_000_000))?
    } else {
        strategy(name)?.plan(problem, &mut effort)?
    };
    let seconds = start.elapsed().as_secs_f64();
    plan.check()?;
    Ok(result(&plan, name, seconds))
}

fn result(plan: &Plan, name: &str, seconds: f64) -> Result {
    let costs = plan.costs();
    let unit = BLOCK_MIB / plan.problem().dag().outputs().len() as f64;
    Result {
        name: name.into(),
        load_mib: costs.max_load() as f64 * unit,
        bandwidth_mib: costs.bandwidth() as f64 * unit,
        seconds,
        note: plan.note().map(str::to_owned),
    }
}

/// Figure 5: all placements of the two small repairs, with what the strategies find; and the
/// traffic of the 10+4 repair.
fn pictures(folder: &Path) -> std::result::Result<(), BenchError> {
    for (spec, name, file) in [
        ("clay:2+2", "hub", "plan-frontier-clay"),
        ("butterfly:4+2", "chain", "plan-frontier-butterfly"),
    ] {
        let picture = small(spec, name).map_err(failed)?;
        put(folder, &format!("{file}.svg"), picture)?;
    }
    let traffic = || -> std::result::Result<String, PlanError> {
        let codec = Codec::new(&"clay:10+4".parse()?)?;
        let plan = strategy("hub")?.plan(&problem(&codec, 0)?, &mut Effort::default())?;
        Ok(plan_picture(&plan, 1 << 20))
    };
    put(folder, "plan-traffic.svg", traffic().map_err(failed)?)
}

fn small(spec: &str, name: &str) -> std::result::Result<String, PlanError> {
    let codec = Codec::new(&spec.parse()?)?;
    let (problem, shape) = (problem(&codec, 0)?, codec.shape());
    let unit = BLOCK_MIB / shape.alpha as f64;
    let all = spectrum(&problem, &mut Effort::default()).unwrap_or_default();
    let all: Vec<(f64, f64)> =
        all.into_iter().map(|(l, b)| (f64::from(l) * unit, f64::from(b) * unit)).collect();
    let k = shape.k as f64;
    let mut dots = vec![
        Dot { load: k * BLOCK_MIB, bandwidth: k * BLOCK_MIB, name: "RS central".into() },
        Dot { load: BLOCK_MIB, bandwidth: k * BLOCK_MIB, name: "RS pipeline".into() },
    ];
    for name in ["central", "brute", name] {
        let plan = strategy(name)?.plan(&problem, &mut Effort::default())?;
        plan.check()?;
        let found = result(&plan, name, 0.0);
        dots.push(Dot { load: found.load_mib, bandwidth: found.bandwidth_mib, name: found.name });
    }
    let title = format!("{spec}, block 0 of 256 MiB: all placements (grey), bound (red), in MiB");
    let bound = Bound::of(&problem).map(|bound| (bound, unit));
    Ok(frontier_picture(&title, &dots, &all, bound))
}

fn put(folder: &Path, name: &str, text: String) -> std::result::Result<(), BenchError> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| BenchError::Report { path, source })
}

impl Code {
    fn range(&self, pick: fn(&Block) -> f64) -> (f64, f64) {
        let values = || self.blocks.iter().map(pick);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    }

    /// How far the traffic of the worst block is above the bound.
    fn above(&self) -> Option<f64> {
        let above = |block: &Block| block.bound_mib.map(|bound| block.bandwidth_mib / bound - 1.0);
        self.blocks.iter().map(above).try_fold(0.0, |worst, next| Some(f64::max(worst, next?)))
    }
}

impl Report {
    fn headline(&self) -> String {
        let rows = self.codes.iter().map(|code| {
            let (load, bandwidth) =
                (code.range(|block| block.load_mib).1, code.range(|block| block.bandwidth_mib).1);
            let ms = code.range(|block| block.dag_ms + block.plan_ms).1;
            (code.code.clone(), serde_json::json!([load, bandwidth, ms]))
        });
        serde_json::Value::Object(rows.collect()).to_string()
    }

    fn write(&self, folder: &Path) -> std::result::Result<(), BenchError> {
        put(folder, "plan.json", serde_json::to_string_pretty(self).unwrap_or_default())?;
        put(folder, "plan.md", self.markdown())
    }

    /// The tables of the page.
    fn markdown(&self) -> String {
        let mut text = format!(
            "{}, {} cores, {}, {}, commit {}, load {}.\n\n",
            self.machine.cpu,
            self.machine.cores,
            self.machine.system,
            self.machine.compiler,
            self.machine.commit,
            self.machine.load
        );
        text += "| code | blocks | maximum load | bandwidth | bound at load 256 | above | \
                 DAG + plan, worst (ms) | paper |\n|---|---|---|---|---|---|---|---|\n";
        let span = |(low, high): (f64, f64)| match high - low < 0.05 {
            true => format!("{high:.1}"),
            false => format!("{low:.1}-{high:.1}"),
        };
        for code in &self.codes {
            // Writing to a string does not fail.
            let bound = code.blocks.first().and_then(|block| block.bound_mib);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
                code.code,
                code.blocks.len(),
                span(code.range(|block| block.load_mib)),
                span(code.range(|block| block.bandwidth_mib)),
                bound.map_or("-".into(), |bound| format!("{bound:.1}")),
                code.above().map_or("-".into(), |above| format!("{:.2}%", above * 100.0)),
                code.range(|block| block.dag_ms + block.plan_ms).1,
                code.paper.map_or("-".into(), |(load, all)| format!("({load}, {all})")),
            );
        }
        text += "\n| code, block 0 | central | pipeline | pareto, as long as ours | \
                 pareto, longer | anneal |\n|---|---|---|---|---|---|\n";
        for code in &self.codes {
            let _ = write!(text, "| {} |", code.code);
            for found in &code.others {
                let aside = if found.note.is_some() { ", fell back" } else { "" };
                let (load, all) = (found.load_mib, found.bandwidth_mib);
                let _ = write!(text, " ({load:.0}, {all:.0}) {:.3} s{aside} |", found.seconds);
            }
            text.push('\n');
        }
        text += "\nFrontiers (maximum load, bandwidth) of block 0:\n\n";
        for code in self.codes.iter().filter(|code| !code.frontier.is_empty()) {
            let points = code.frontier.iter().map(|(load, all)| format!("({load:.1}, {all:.1})"));
            let _ = writeln!(text, "- {}: {}", code.code, points.collect::<Vec<_>>().join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_bench_runs() {
        let report = measure(&Options { tiny: true, quick: true, out: None }).unwrap();
        let page = report.markdown();
        assert!(page.contains("| clay:2+2 | 3 | 256.0 | 512.0 | 512.0 | 0.00% |"), "{page}");
        assert!(page.contains("(256.0, 512.0), (320.0, 448.0), (384.0, 384.0)"), "{page}");
        assert!(report.headline().contains("clay:2+2"));
        assert!(small("clay:2+2", "hub").unwrap().ends_with("</svg>\n"));
    }
}
