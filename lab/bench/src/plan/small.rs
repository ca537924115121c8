//! The paper's small points by brute force: every placement there is.

use super::codes::{Found, found};
use super::{BLOCK_MIB, brute, problem};
use kiln_code::Codec;
use kiln_plan::{Bound, PlanError, SearchBudget, strategy};
use serde::Serialize;

/// The frontier of all placements of a small repair.
#[derive(Debug, Serialize)]
pub(super) struct Small {
    pub code: &'static str,
    pub lost: usize,
    /// Pairs of maximum load and traffic in sub-chunks that no other pair beats.
    pub frontier: Vec<(u32, u32)>,
    /// Different pairs that placements have.
    pub pairs: usize,
    /// Sub-chunks of a block.
    pub alpha: usize,
    /// What the paper says, in the same unit.
    pub paper: &'static str,
    /// The best that kiln finds where partial sums may travel: load and traffic.
    pub best: (usize, usize),
    /// Every pair that placements have, in MiB of a block of 256 MiB.
    pub all: Vec<(f64, f64)>,
    /// Both ends of the line that no placement is below, in MiB.
    pub bound: Vec<(f64, f64)>,
    /// Reed-Solomon beside it, and what strategies find.
    pub found: Vec<Found>,
}

/// What a node does in the repair of one block of 256 MiB.
#[derive(Debug, Serialize)]
pub(super) struct Traffic {
    node: String,
    sent_mib: f64,
    received_mib: f64,
    read_mib: f64,
}

/// The repair of block 0 of Clay 10+4, as the hub rule places it.
pub(super) fn traffic() -> Result<Vec<Traffic>, PlanError> {
    let codec = Codec::new(&"clay:10+4".parse()?)?;
    let plan = strategy("hub")?.plan(&problem(&codec, 0)?, &mut SearchBudget::default())?;
    let mib = |count: usize| count as f64 * BLOCK_MIB / codec.shape().alpha as f64;
    let (nodes, costs) = (plan.problem().cluster().nodes(), plan.costs());
    let row = |(node, cost): (&kiln_plan::Node, &kiln_plan::NodeCost)| Traffic {
        node: node.name.clone(),
        sent_mib: mib(cost.sent),
        received_mib: mib(cost.received),
        read_mib: mib(cost.read),
    };
    Ok(nodes.iter().zip(costs.nodes()).map(row).collect())
}

/// Clay 2+2 as it is; Butterfly 4+2 with every sub-chunk straight from what is read, without
/// partial sums, as the paper has it.
pub(super) fn all() -> Result<Vec<Small>, PlanError> {
    let cases = [
        ("clay:2+2", "least load 4 with 8 (256, 512), as repair pipelining"),
        ("butterfly:4+2", "least load 8 with 27 (256, 864); its heuristic 28"),
    ];
    cases.into_iter().map(|(code, paper)| small(code, 0, paper)).collect()
}

fn small(code: &'static str, lost: usize, paper: &'static str) -> Result<Small, PlanError> {
    let codec = Codec::new(&code.parse()?)?;
    let problem = problem(&codec, lost)?;
    let all = brute::spectrum(&problem, &mut SearchBudget::default()).unwrap_or_default();
    let plan = strategy("best")?.plan(&problem, &mut SearchBudget::default())?;
    plan.check()?;
    let mut frontier: Vec<(u32, u32)> = Vec::new();
    for &(load, traffic) in &all {
        if frontier.last().is_none_or(|last| traffic < last.1) {
            frontier.push((load, traffic));
        }
    }
    let (best, pairs) = ((plan.costs().max_load(), plan.costs().bandwidth()), all.len());
    let shape = codec.shape();
    let unit = BLOCK_MIB / shape.alpha as f64;
    let bound = Bound::of(&problem).map(|bound| {
        let at = |received: f64| (received * unit, bound.bandwidth(received) * unit);
        vec![at(bound.load()), at(bound.central())]
    });
    let all = all.into_iter().map(|(l, b)| (f64::from(l) * unit, f64::from(b) * unit)).collect();
    let central = shape.k as f64 * BLOCK_MIB;
    let mut others: Vec<Found> = [("RS central", central), ("RS pipeline", BLOCK_MIB)]
        .map(|(name, load_mib)| Found {
            name: name.into(),
            load_mib,
            bandwidth_mib: central,
            seconds: 0.0,
            note: None,
        })
        .into();
    for name in ["central", "brute", "best"] {
        let mut budget = SearchBudget::default();
        let plan = match name {
            "brute" => brute::place(&problem, &mut budget)?,
            name => Some(strategy(name)?.plan(&problem, &mut budget)?),
        };
        let Some(plan) = plan else { continue };
        plan.check()?;
        others.push(found(&plan, name, 0.0));
    }
    let (alpha, bound) = (shape.alpha, bound.unwrap_or_default());
    Ok(Small { code, lost, frontier, pairs, alpha, paper, best, all, bound, found: others })
}
