//! `kiln plan --strategy`: the repair placed on the nodes of a cluster.

mod cluster;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use kiln_code::Codec;
use kiln_plan::{Problem, SearchBudget, UNDECIDED, strategy};
use minijinja::context;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PlanFile, Setup, write_file};
use crate::{plan_picture::of_plan, print::warning_line, sizes};

pub use cluster::read;

// What of `kiln plan` places a repair on nodes. No doc comment: clap would print it.
#[derive(Debug, Args)]
pub struct Placing {
    /// Place the repair of --lost on nodes: best, central, pipeline, ppr, hub, chain, anneal,
    /// vertices, pareto [without a name, and with the flags below: best]
    #[arg(long, value_name = "NAME", requires = "lost", group = "on_machines",
          num_args = 0..=1, default_missing_value = UNDECIDED.name)]
    strategy: Option<String>,
    /// The machines, as TOML: [[node]] with id, domain, up, down, load, chunks, rebuilds
    /// [default: one equal node for each chunk]
    #[allow(rustdoc::broken_intra_doc_links)] // TOML's brackets, in what --help prints
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Only these bytes of every lost chunk, e.g. 0..64KiB: a degraded read
    #[arg(long, value_name = "FROM..TO", requires = "lost", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Also every trade of maximum load against traffic
    #[arg(long, requires = "lost")]
    frontier: bool,
    /// Steps that a strategy may search
    #[arg(long, value_name = "N", default_value_t = SearchBudget::MOVES, requires = "lost")]
    moves: u64,
    /// Stop searching after this time, with the best plan so far
    #[arg(long, value_name = "S", requires = "lost", value_parser = seconds)]
    seconds: Option<f64>,
    /// A file of ready plans: looked up there first, kept there afterwards. kiln coordinator
    /// --plans repairs by them
    #[arg(long, value_name = "FILE", requires = "lost")]
    plans: Option<PathBuf>,
}

/// `64KiB..128KiB`.
fn range(text: &str) -> Result<(u64, u64), String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err("two sizes are wanted, e.g. 0..64KiB".into());
    };
    let (from, to) = (sizes::parse(from)?, sizes::parse(to)?);
    match from < to {
        true => Ok((from, to)),
        false => Err("the range is empty".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let known = text.parse().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    known.ok_or_else(|| "a number of seconds is wanted, e.g. 20".into())
}

impl Placing {
    /// The file of machines.
    pub fn cluster(&self) -> Option<&Path> {
        self.cluster.as_deref()
    }

    /// Returns whether a placed plan was asked for.
    pub fn wanted(&self) -> bool {
        self.strategy.is_some()
            || self.cluster.is_some()
            || self.range.is_some()
            || self.frontier
            || self.seconds.is_some()
            || self.plans.is_some()
    }

    /// Plans, reports and draws.
    pub fn run(
        &self,
        codec: &Codec,
        lost: &[usize],
        sub_chunk: u64,
        picture: Option<&Path>,
        setup: &Setup,
    ) -> Result<Exit> {
        let row = self.strategy.as_deref().map_or(Ok(UNDECIDED), strategy)?;
        let machines = cluster::Machines::new(self.cluster.as_deref(), codec, lost)?;
        let mut plans = self.plans.as_deref().map(PlanFile::open).transpose()?;
        let start = Instant::now();
        let available: Vec<usize> =
            (0..codec.shape().n()).filter(|index| !lost.contains(index)).collect();
        let (_, dag) = codec.repair_dag(lost, &available)?;
        let problem = self.part(machines.problem(dag)?, codec, sub_chunk)?;
        let mut budget = SearchBudget::new(setup.seed).with_moves(self.moves);
        if let Some(limit) = self.seconds.map(Duration::from_secs_f64) {
            budget = budget.until(move || start.elapsed() > limit);
        }
        let (plan, ready) = match &mut plans {
            Some(plans) => plans.plan(row, &problem, &mut budget)?,
            None => (row.plan(&problem, &mut budget)?, false),
        };
        let seconds = start.elapsed().as_secs_f64();
        let frontier = self.frontier.then(|| report::trades(&plan, sub_chunk, &mut budget));
        let (what, how) = ((lost, self.range), (seconds, ready));
        let report = report::report(codec, &plan, what, sub_chunk, how, frontier.transpose()?)?;
        if let Some(path) = picture {
            write_file(path, of_plan(&plan, sub_chunk, None).as_bytes())?;
        }
        if let Some(plans) = &plans {
            plans.write()?;
        }
        plan.note().iter().filter(|_| !setup.json).for_each(|note| warning_line(note));
        setup.show("placed plan", &report, context! {})
    }

    /// The problem for the bytes that are wanted.
    fn part(&self, problem: Problem, codec: &Codec, sub_chunk: u64) -> Result<Problem> {
        let Some((from, to)) = self.range else { return Ok(problem) };
        let chunk = sub_chunk * codec.shape().alpha as u64;
        let wrong = |problem: String| Failure::Flag { flag: "--range", problem };
        if to > chunk {
            let chunk = sizes::show(chunk);
            return Err(wrong(format!("range exceeds the chunk of {chunk}; see --chunk")));
        }
        if !codec.sliceable() {
            return Err(wrong("with packet= a sub-chunk is not one range of a chunk".into()));
        }
        let wanted = from / sub_chunk..to.div_ceil(sub_chunk);
        Ok(problem.of_range(|at| wanted.contains(&u64::from(at.position)))?)
    }
}
