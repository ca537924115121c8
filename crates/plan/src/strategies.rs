//! The strategies: one file and one row of [`STRATEGIES`] each.

mod anneal;
mod best;
mod brute;
mod central;
mod chain;
mod hub;
mod pareto;
mod sums;

#[cfg(test)]
mod battery;

pub use brute::spectrum;
pub use hub::{alternatives, frontier};

use crate::{Costs, Effort, Plan, PlanError, Problem};

/// What a sub-chunk between failure domains counts, where one within counts 1.
const ACROSS: f64 = 3.0;

/// A way to place a DAG on nodes. It sees the DAG and hints of its vertices, never a code's name.
///
/// ```
/// let names: Vec<&str> = kiln_plan::STRATEGIES.iter().map(|strategy| strategy.name).collect();
/// assert!(names.contains(&"central"));
/// ```
#[derive(Debug)]
pub struct Strategy {
    /// What people call it.
    pub name: &'static str,
    /// What it is good for, in one sentence.
    pub about: &'static str,
    /// Whether more moves may give a better plan.
    pub searches: bool,
    /// Whether the costs of a plan keep what the strategy promises; the battery of tests asks.
    pub promise: fn(&Problem, &Costs) -> bool,
    pub(crate) place: fn(&Problem, &mut Effort<'_>) -> Result<Plan, PlanError>,
}

impl Strategy {
    /// Plans a repair. Where the strategy can do nothing for this DAG, the plan is the central one
    /// and [`Plan::note`] says so.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn plan(&self, problem: &Problem, effort: &mut Effort<'_>) -> Result<Plan, PlanError> {
        (self.place)(problem, effort)
    }
}

/// All strategies.
pub static STRATEGIES: &[Strategy] = &[
    best::STRATEGY,
    central::STRATEGY,
    sums::PIPELINE,
    sums::PPR,
    hub::STRATEGY,
    chain::STRATEGY,
    anneal::STRATEGY,
    pareto::STRATEGY,
    brute::STRATEGY,
];

/// The strategy of a name.
///
/// # Errors
/// There is none; the error lists those that there are.
pub fn strategy(name: &str) -> Result<&'static Strategy, PlanError> {
    STRATEGIES.iter().find(|strategy| strategy.name == name).ok_or_else(|| {
        let known: Vec<&str> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
        PlanError::UnknownStrategy { name: name.into(), known: known.join(", ") }
    })
}
