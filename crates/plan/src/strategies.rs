//! The strategies: one file and one row of [`STRATEGIES`] each.

mod central;
mod anneal;
mod chain;
mod hub;
mod pareto;
mod partial_sums;
mod best;
mod vertices;

#[cfg(test)]
mod battery;

pub use hub::{alternatives, frontier};
pub use partial_sums::flat;

use crate::{Costs, Plan, PlanError, Problem, Result, SearchBudget};

/// Weight of a sub-chunk between failure domains, where one within counts 1.
const ACROSS: f64 = 3.0;

/// A way to place a DAG on nodes. It sees the DAG and hints of its vertices, never a code's name.
#[derive(Debug)]
pub struct PlacementStrategy {
    /// Its name for people.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// True if more moves may give a better plan.
    pub searches: bool,
    /// Basis of its plans.
    pub basis: Basis,
    /// Other plans by the same rule, equally good ones that load other nodes and points between
    /// the least load and the least traffic, for strategies that have some.
    pub variants: Option<Variants>,
    /// True if the costs of a plan keep what the strategy promises; the battery of tests asks.
    pub promise: fn(&Problem, &Costs) -> bool,
    pub(crate) place: fn(&Problem, &mut SearchBudget<'_>) -> Result<Plan>,
}

/// More plans for a problem.
pub type Variants = fn(&Problem, &mut SearchBudget<'_>) -> Result<Vec<Plan>>;

/// Basis of the plans of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// One node computes everything: what all others are compared with.
    OneNode,
    /// The structure of the DAG: sums, layers, columns.
    Structure,
    /// Single vertices, that are moved about.
    Vertices,
    /// The plans of other strategies.
    Others,
}

impl PlacementStrategy {
    /// Returns whether a recovery of many stripes has candidate plans of it: what only moves
    /// vertices about, with no structure to help, takes too long for that.
    #[must_use]
    pub fn suits_recovery(&self) -> bool {
        matches!(self.basis, Basis::OneNode | Basis::Structure)
    }

    /// Returns whether a reader that waits may ask it: it is quick, and spreads the load.
    #[must_use]
    pub fn suits_reads(&self) -> bool {
        self.basis == Basis::Structure
    }

    /// Plans a repair. Where the strategy can do nothing for this DAG, the plan is the central one
    /// and [`Plan::note`] says so.
    pub fn plan(&self, problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
        (self.place)(problem, budget)
    }
}

/// The strategy for users who do not want to choose.
pub static UNDECIDED: &PlacementStrategy = &best::STRATEGY;

/// All strategies.
pub static STRATEGIES: &[PlacementStrategy] = &[
    best::STRATEGY,
    central::STRATEGY,
    partial_sums::PIPELINE,
    partial_sums::PPR,
    hub::STRATEGY,
    chain::STRATEGY,
    anneal::STRATEGY,
    vertices::STRATEGY,
    pareto::STRATEGY,
];

/// The strategy of a name.
pub fn strategy(name: &str) -> Result<&'static PlacementStrategy> {
    STRATEGIES.iter().find(|strategy| strategy.name == name).ok_or_else(|| {
        let known: Vec<&str> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
        PlanError::UnknownStrategy { name: name.into(), known: known.join(", ") }
    })
}
