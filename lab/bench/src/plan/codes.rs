//! Single repairs: every block of every code, by kiln and by the paper's heuristic.

use super::{BLOCK_MIB, Options, problem};
use kiln_code::Codec;
use kiln_plan::{Bound, Plan, PlanError, Problem, SearchBudget, frontier, strategy};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Who plans: the best that kiln has.
const OURS: &str = "best";
/// Plans that take less are timed several times.
const SHORT: Duration = Duration::from_millis(100);

/// A code of the table: how long it is searched, and what the paper found, as (load, bandwidth).
pub(super) struct Row {
    pub code: &'static str,
    moves: u64,
    paper: Option<(f64, f64)>,
}

const fn row(code: &'static str, moves: u64, paper: Option<(f64, f64)>) -> Row {
    Row { code, moves, paper }
}

/// Table 2 of the paper, and the codes beyond it.
const ROWS: &[Row] = &[
    row("clay:2+2", 300_000, Some((320.0, 448.0))),
    row("clay:4+2", 300_000, None),
    row("clay:6+3", 300_000, None),
    row("clay:8+4", 300_000, Some((264.0, 1224.0))),
    row("clay:10+4", 300_000, Some((271.0, 1609.0))),
    row("clay:12+4", 300_000, Some((281.0, 1774.0))),
    row("clay:10+2", 1_000_000, None),
    row("clay:12+2", 1_000_000, None),
    row("clay:16+2", 1_000_000, None),
    row("clay:17+3", 300_000, None),
    row("clay:20+4", 300_000, None),
    row("butterfly:4+2", 4_000_000, Some((256.0, 896.0))),
    row("butterfly:10+2", 600_000, Some((297.0, 2216.0))),
];

/// What is planned in a run.
pub(super) fn rows(options: &Options<'_>) -> &'static [Row] {
    if options.tiny { &ROWS[..1] } else { ROWS }
}

/// One lost block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Block {
    /// Which.
    pub lost: usize,
    /// The strategy that found the best plan.
    pub strategy: String,
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
    /// Placing it; short times are the best of three.
    pub plan_ms: f64,
    /// The paper's heuristic in the same time: maximum load and traffic.
    pub pareto: (f64, f64),
}

/// A strategy's result on the first block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Found {
    /// Which strategy.
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
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Code {
    /// Its spec.
    pub code: String,
    /// The paper's heuristic in the paper, where it says.
    pub paper: Option<(f64, f64)>,
    /// Block by block.
    pub blocks: Vec<Block>,
    /// Other strategies on the first block.
    pub others: Vec<Found>,
    /// The frontier of the first block: (maximum load, bandwidth).
    pub frontier: Vec<(f64, f64)>,
}

pub(super) fn code(row: &Row, options: &Options<'_>) -> Result<Code, PlanError> {
    let codec = Codec::new(&row.code.parse()?)?;
    let shape = codec.shape();
    let few = [0, shape.n() / 2, shape.n() - 1];
    let lost = (0..shape.n()).filter(|lost| !options.quick || few.contains(lost));
    let blocks: Vec<Block> = lost.map(|lost| block(&codec, row, lost)).collect::<Result<_, _>>()?;
    let problem = problem(&codec, 0)?;
    let long = match (options.tiny, options.quick) {
        (true, _) => 0.001,
        (_, true) => 1.0,
        _ => 6.0,
    };
    let mut others = Vec::new();
    for (name, limit) in [
        ("central", None),
        ("pipeline", None),
        ("pareto", Some(long)),
        ("anneal", Some(long)),
        ("vertices", Some(long)),
    ] {
        others.push(other(&problem, name, limit)?);
    }
    let unit = BLOCK_MIB / shape.alpha as f64;
    let mut points = Vec::new();
    if row.code.starts_with("clay") {
        for plan in frontier(&problem, &mut SearchBudget::new(1).with_moves(row.moves))? {
            plan.check()?;
            let costs = plan.costs();
            points.push((costs.max_load() as f64 * unit, costs.bandwidth() as f64 * unit));
        }
    }
    let code = codec.spec().to_string();
    Ok(Code { code, paper: row.paper, blocks, others, frontier: points })
}

fn block(codec: &Codec, row: &Row, lost: usize) -> Result<Block, PlanError> {
    let (mut dag_ms, mut plan_ms) = (f64::INFINITY, f64::INFINITY);
    let begin = Instant::now();
    let mut runs = 0;
    let plan = loop {
        let start = Instant::now();
        let problem = problem(codec, lost)?;
        dag_ms = f64::min(dag_ms, start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let mut budget = SearchBudget::new(1).with_moves(row.moves);
        let plan = strategy(OURS)?.plan(&problem, &mut budget)?;
        plan_ms = f64::min(plan_ms, start.elapsed().as_secs_f64() * 1e3);
        runs += 1;
        if runs == 3 || begin.elapsed() > SHORT {
            break plan;
        }
    };
    plan.check()?;
    let problem = plan.problem();
    let theirs = other(problem, "pareto", Some((dag_ms + plan_ms) / 1e3))?;
    let (costs, unit) = (plan.costs(), BLOCK_MIB / codec.shape().alpha as f64);
    let bound = Bound::of(problem);
    Ok(Block {
        lost,
        strategy: plan.strategy().into(),
        load_mib: costs.max_load() as f64 * unit,
        bandwidth_mib: costs.bandwidth() as f64 * unit,
        bound_mib: bound.map(|bound| bound.bandwidth(bound.load()) * unit),
        read_mib: costs.read() as f64 * unit,
        dag_ms,
        plan_ms,
        pareto: (theirs.load_mib, theirs.bandwidth_mib),
    })
}

fn other(problem: &Problem, name: &str, limit: Option<f64>) -> Result<Found, PlanError> {
    let start = Instant::now();
    let limit = limit.map(Duration::from_secs_f64);
    let mut budget = match limit {
        Some(limit) => {
            SearchBudget::new(1).with_moves(u64::MAX >> 16).until(move || start.elapsed() > limit)
        }
        None => SearchBudget::new(1),
    };
    let plan = if ["anneal", "vertices"].contains(&name) {
        // Their cooling follows the number of moves, so it cannot be cut off by a clock alone.
        strategy(name)?.plan(problem, &mut budget.with_moves(2_000_000))?
    } else {
        strategy(name)?.plan(problem, &mut budget)?
    };
    let seconds = start.elapsed().as_secs_f64();
    plan.check()?;
    Ok(found(&plan, name, seconds))
}

pub(super) fn found(plan: &Plan, name: &str, seconds: f64) -> Found {
    let costs = plan.costs();
    let unit = BLOCK_MIB / plan.problem().dag().outputs().len() as f64;
    Found {
        name: name.into(),
        load_mib: costs.max_load() as f64 * unit,
        bandwidth_mib: costs.bandwidth() as f64 * unit,
        seconds,
        note: plan.note().map(str::to_owned),
    }
}

impl Code {
    /// The least and the most of something over all blocks.
    pub(super) fn range(&self, pick: impl Fn(&Block) -> f64) -> (f64, f64) {
        let values = || self.blocks.iter().map(&pick);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    }
}
