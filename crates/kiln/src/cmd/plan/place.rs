//! `kiln plan --strategy`: the repair placed on the nodes of a cluster.

mod cluster;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use kiln_code::Codec;
use kiln_plan::{Bound, Costs, Dot, Effort, Problem, Proof, Shelf, Strategy};
use kiln_plan::{frontier, frontier_picture, plan_picture, strategy};
use serde::Serialize;

use crate::exit::Failure;
use crate::lists;
use crate::print::{Stream, table, warning_line};
use crate::setup::Setup;
use crate::sizes;

pub use cluster::read;

/// The most plans that are kept in a file.
const PLANS_MAX: usize = 10_000;
/// The largest file of plans that is loaded.
const PLANS_BYTES_MAX: u64 = 1 << 30;

// What of `kiln plan` places a repair on nodes. No doc comment: clap would print it.
#[derive(Debug, Args)]
pub struct Placing {
    /// Place the repair of --lost on nodes: central, pipeline, ppr, hub, chain, anneal, pareto,
    /// brute
    #[arg(long, value_name = "NAME", requires = "lost", group = "on_machines")]
    strategy: Option<String>,

    /// The machines, as TOML [default: one equal node for each chunk]
    #[arg(long, value_name = "FILE", requires = "on_machines")]
    cluster: Option<PathBuf>,

    /// Also every trade of maximum load against traffic
    #[arg(long, requires = "strategy")]
    frontier: bool,

    /// How long a strategy may search
    #[arg(long, value_name = "N", default_value_t = 300_000, requires = "strategy")]
    moves: u64,

    /// A file of ready plans: looked up there first, kept there afterwards
    #[arg(long, value_name = "FILE", requires = "strategy")]
    plans: Option<PathBuf>,
}

/// What `--strategy` reports.
#[derive(Serialize)]
struct Report {
    code: String,
    order: String,
    strategy: &'static str,
    /// What the strategy says aloud, e.g. that it fell back to another one.
    note: Option<String>,
    lost: Vec<usize>,
    helpers: Vec<usize>,
    chunk: u64,
    sub_chunk: u64,
    alpha: usize,
    max_node_load: u64,
    bandwidth: u64,
    /// The least traffic of any plan whose new node receives what this one's does.
    bound_bandwidth: Option<u64>,
    across_domains: u64,
    bytes_read: u64,
    read_runs: usize,
    /// How long the busiest link carries its share of one stripe.
    link_seconds: f64,
    /// Making the DAG and the plan.
    plan_seconds: f64,
    /// Whether the plan was in the file of `--plans`.
    ready: bool,
    /// `exact`, or on how many random vectors the plan was found equal to the repair.
    proof: String,
    rounds: u32,
    nodes: Vec<NodeRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frontier: Vec<Point>,
}

/// What one node does.
#[derive(Serialize)]
struct NodeRow {
    node: usize,
    name: String,
    bytes_read: u64,
    read_runs: usize,
    sent: u64,
    received: u64,
    load: u64,
    /// Sub-chunks that it computes.
    computed: usize,
    /// Sub-chunks that it holds at once, at most.
    held: usize,
}

/// One trade of maximum load against traffic.
#[derive(Serialize)]
struct Point {
    max_node_load: u64,
    bandwidth: u64,
    bound_bandwidth: Option<u64>,
}

impl Placing {
    /// The file of machines.
    pub fn cluster(&self) -> Option<&Path> {
        self.cluster.as_deref()
    }

    /// Whether a placed plan was asked for.
    pub fn wanted(&self) -> bool {
        self.strategy.is_some()
    }

    /// Plans, reports and draws.
    pub fn run(
        &self,
        codec: &Codec,
        lost: &[usize],
        sub_chunk: u64,
        picture: Option<&Path>,
        setup: &Setup,
    ) -> Result<(), Failure> {
        let row = strategy(self.strategy.as_deref().unwrap_or_default())?;
        let machines = cluster::Machines::new(self.cluster.as_deref(), codec, lost)?;
        let mut shelf = self.shelf()?;
        let start = Instant::now();
        let available: Vec<usize> =
            (0..codec.shape().n()).filter(|index| !lost.contains(index)).collect();
        let (_, dag) = codec.repair_dag(lost, &available)?;
        let problem = machines.problem(dag)?;
        let mut effort = Effort::new(setup.seed).with_moves(self.moves);
        let plan = self.plan(row, &problem, &mut effort, &mut shelf)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut report = report(codec, &plan, sub_chunk, lost)?;
        report.plan_seconds = seconds;
        report.ready = shelf.as_ref().is_some_and(|shelf| shelf.hits() > 0);
        if self.frontier {
            report.frontier = points(&problem, &mut effort, sub_chunk)?;
        }
        if let Some(path) = picture {
            let svg = match self.frontier {
                true => draw(&report, &problem, sub_chunk),
                false => plan_picture(&plan, sub_chunk),
            };
            write(path, svg.as_bytes())?;
        }
        if let (Some(path), Some(shelf)) = (&self.plans, &shelf) {
            write(path, &shelf.to_bytes())?;
        }
        match setup.json {
            true => Stream::Stdout.json(&report),
            false => show(&report),
        }
    }

    fn plan(
        &self,
        row: &'static Strategy,
        problem: &Problem,
        effort: &mut Effort<'_>,
        shelf: &mut Option<Shelf>,
    ) -> Result<kiln_plan::Plan, Failure> {
        Ok(match shelf {
            Some(shelf) => shelf.plan(row, problem, effort)?,
            None => row.plan(problem, effort)?,
        })
    }

    /// The ready plans; a file that is not whole is said aloud and replaced, for it is a cache.
    fn shelf(&self) -> Result<Option<Shelf>, Failure> {
        let Some(path) = &self.plans else { return Ok(None) };
        let size = match std::fs::metadata(path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Some(Shelf::new(PLANS_MAX)));
            }
            Err(source) => return Err(io("open", path, source)),
        };
        let shelf = match size <= PLANS_BYTES_MAX {
            true => {
                let bytes = std::fs::read(path).map_err(|source| io("read", path, source))?;
                Shelf::from_bytes(&bytes, PLANS_MAX)
            }
            false => None,
        };
        // Something else than plans is not ours to overwrite.
        shelf.map(Some).ok_or_else(|| Failure::NotUsable {
            path: path.clone(),
            problem: "not a whole file of plans; remove it or name another".into(),
        })
    }
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Failure {
    Failure::Io { action, path: path.to_owned(), source }
}

/// Writes beside and renames, so that a crash leaves the old file or the new one.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, bytes).map_err(|source| io("write", &beside, source))?;
    std::fs::rename(&beside, path).map_err(|source| io("create", path, source))
}

/// The least traffic for what the new node receives under these costs.
fn least(problem: &Problem, costs: &Costs) -> Option<usize> {
    let bound = Bound::of(problem)?;
    let (_, target) = problem.targets().next()?;
    Some(bound.sub_chunks(costs.nodes()[target].received))
}

fn report(
    codec: &Codec,
    plan: &kiln_plan::Plan,
    sub_chunk: u64,
    lost: &[usize],
) -> Result<Report, Failure> {
    let (problem, costs) = (plan.problem(), plan.costs());
    let bytes = |count: usize| count as u64 * sub_chunk;
    let names = problem.cluster().nodes();
    let rows = costs.nodes().iter().enumerate();
    let busy = rows.filter(|(_, cost)| cost.load() + cost.read + cost.computed > 0);
    let nodes = busy.map(|(node, cost)| NodeRow {
        node,
        name: names[node].name.clone(),
        bytes_read: bytes(cost.read),
        read_runs: cost.runs,
        sent: bytes(cost.sent),
        received: bytes(cost.received),
        load: bytes(cost.load()),
        computed: cost.computed,
        held: cost.held,
    });
    let proof = match plan.check()? {
        Proof::Exact => "exact".to_owned(),
        Proof::Random { vectors } => format!("{vectors} random vectors"),
    };
    Ok(Report {
        code: codec.spec().to_string(),
        order: codec.order().to_owned(),
        strategy: plan.strategy(),
        note: plan.note().map(str::to_owned),
        lost: lost.to_vec(),
        helpers: plan.dag().reads().iter().map(|reads| reads.chunk).collect(),
        chunk: bytes(codec.shape().alpha),
        sub_chunk,
        alpha: codec.shape().alpha,
        max_node_load: bytes(costs.max_load()),
        bandwidth: bytes(costs.bandwidth()),
        bound_bandwidth: least(problem, &costs).map(bytes),
        across_domains: bytes(costs.across_domains()),
        bytes_read: bytes(costs.read()),
        read_runs: costs.runs(),
        link_seconds: costs.seconds(problem.cluster(), sub_chunk),
        plan_seconds: 0.0,
        ready: false,
        proof,
        rounds: plan.parts()?.rounds(),
        nodes: nodes.collect(),
        frontier: Vec::new(),
    })
}

fn points(
    problem: &Problem,
    effort: &mut Effort<'_>,
    sub_chunk: u64,
) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for plan in frontier(problem, effort)? {
        plan.check()?;
        let costs = plan.costs();
        points.push(Point {
            max_node_load: costs.max_load() as u64 * sub_chunk,
            bandwidth: costs.bandwidth() as u64 * sub_chunk,
            bound_bandwidth: least(problem, &costs).map(|least| least as u64 * sub_chunk),
        });
    }
    Ok(points)
}

fn draw(report: &Report, problem: &Problem, sub_chunk: u64) -> String {
    let unit = 1.0 / f64::from(1 << 20);
    let dot = |load: u64, bandwidth: u64, name: &str| Dot {
        load: load as f64 * unit,
        bandwidth: bandwidth as f64 * unit,
        name: name.to_owned(),
    };
    let mut dots: Vec<Dot> = vec![dot(report.max_node_load, report.bandwidth, report.strategy)];
    let ours = (report.max_node_load, report.bandwidth);
    let others = report.frontier.iter();
    for point in others.filter(|point| (point.max_node_load, point.bandwidth) != ours) {
        dots.push(dot(point.max_node_load, point.bandwidth, "frontier"));
    }
    let title = format!("{}, lost {}, in MiB", report.code, lists::show(&report.lost));
    let bound = Bound::of(problem).map(|bound| (bound, sub_chunk as f64 * unit));
    frontier_picture(&title, &dots, &[], bound)
}

fn show(report: &Report) -> Result<(), Failure> {
    if let Some(note) = &report.note {
        warning_line(note);
    }
    let mut text = format!(
        "{}, lost {}: {} in {:.1} ms, proved ({})\nmaximum load {}, bandwidth {}{}\n\
         reads {} in {} runs; the busiest link takes {:.3} s a stripe; {} rounds\n",
        report.code,
        lists::show(&report.lost),
        report.strategy,
        report.plan_seconds * 1e3,
        report.proof,
        sizes::show(report.max_node_load),
        sizes::show(report.bandwidth),
        report.bound_bandwidth.map_or(String::new(), |bound| {
            format!(" (no plan with this much received needs less than {})", sizes::show(bound))
        }),
        sizes::show(report.bytes_read),
        report.read_runs,
        report.link_seconds,
        report.rounds,
    );
    let rows: Vec<Vec<String>> = report
        .nodes
        .iter()
        .map(|node| {
            let mut row = vec![node.name.clone()];
            row.extend([node.bytes_read, node.sent, node.received, node.load].map(sizes::show));
            row.extend([node.read_runs, node.computed].map(|count| count.to_string()));
            row
        })
        .collect();
    let head = ["node", "read", "sent", "received", "load", "runs", "computed"];
    text += &table(&head, &rows);
    if !report.frontier.is_empty() {
        let rows: Vec<Vec<String>> = report
            .frontier
            .iter()
            .map(|point| {
                let bound = point.bound_bandwidth.map_or("-".into(), sizes::show);
                vec![sizes::show(point.max_node_load), sizes::show(point.bandwidth), bound]
            })
            .collect();
        text += "\n";
        text += &table(&["maximum load", "bandwidth", "bound"], &rows);
    }
    Stream::Stdout.text(&text)
}
