//! The paper's small points by brute force: every placement there is.

use super::problem;
use kiln_code::Codec;
use kiln_plan::{Effort, PlanError, spectrum, strategy};
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
    let all = spectrum(&problem, &mut Effort::default()).unwrap_or_default();
    let plan = strategy("best")?.plan(&problem, &mut Effort::default())?;
    plan.check()?;
    let mut frontier: Vec<(u32, u32)> = Vec::new();
    for &(load, traffic) in &all {
        if frontier.last().is_none_or(|last| traffic < last.1) {
            frontier.push((load, traffic));
        }
    }
    let (best, pairs) = ((plan.costs().max_load(), plan.costs().bandwidth()), all.len());
    Ok(Small { code, lost, frontier, pairs, alpha: codec.shape().alpha, paper, best })
}
