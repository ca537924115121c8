//! The strategies: one file and one row of [`STRATEGIES`] each.

mod central;
mod anneal;
mod chain;
mod hub;
mod pareto;
mod partial_sums;
mod best;
mod brute;
mod vertices;

#[cfg(test)]
mod battery;

pub use brute::spectrum;
pub use hub::{alternatives, frontier};

use crate::{Costs, Plan, PlanError, Problem, SearchBudget};

/// What a sub-chunk between failure domains counts, where one within counts 1.
const ACROSS: f64 = 3.0;

/// A way to place a DAG on nodes. It sees the DAG and hints of its vertices, never a code's name.
///
/// ```
/// let names: Vec<&str> = kiln_plan::STRATEGIES.iter().map(|strategy| strategy.name).collect();
/// assert!(names.contains(&"central"));
/// ```
#[derive(Debug)]
pub struct PlacementStrategy {
    /// What people call it.
    pub name: &'static str,
    /// What it is good for, in one sentence.
    pub about: &'static str,
    /// Whether more moves may give a better plan.
    pub searches: bool,
    /// What its plans are made from.
    pub basis: Basis,
    /// Other plans by the same rule, equally good ones that load other nodes and points between
    /// the least load and the least traffic, for strategies that have some.
    pub variants: Option<Variants>,
    /// Whether the costs of a plan keep what the strategy promises; the battery of tests asks.
    pub promise: fn(&Problem, &Costs) -> bool,
    pub(crate) place: fn(&Problem, &mut SearchBudget<'_>) -> Result<Plan, PlanError>,
}

/// More plans for a problem.
pub type Variants = fn(&Problem, &mut SearchBudget<'_>) -> Result<Vec<Plan>, PlanError>;

/// What the plans of a strategy are made from.
///
/// ```
/// use kiln_plan::{Basis, strategy};
/// assert_eq!(strategy("central")?.basis, Basis::OneNode);
/// # Ok::<(), kiln_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// One node computes everything: what all others are compared with.
    OneNode,
    /// What the DAG is made of: sums, layers, columns.
    Structure,
    /// Single vertices, that are moved about.
    Vertices,
    /// All placements, tried one by one: for the smallest DAGs.
    Everything,
    /// The plans of other strategies.
    Others,
}

impl PlacementStrategy {
    /// Whether a recovery of many stripes has candidate plans of it: what only moves vertices
    /// about, with no structure to help, takes too long for that.
    ///
    /// ```
    /// let usual = kiln_plan::STRATEGIES.iter().filter(|row| row.suits_recovery());
    /// assert!(usual.clone().count() > 3 && usual.clone().all(|row| row.name != "brute"));
    /// ```
    #[must_use]
    pub fn suits_recovery(&self) -> bool {
        matches!(self.basis, Basis::OneNode | Basis::Structure)
    }

    /// Whether a reader that waits may ask it: it is quick, and spreads the load.
    ///
    /// ```
    /// assert!(kiln_plan::strategy("hub")?.suits_reads());
    /// # Ok::<(), kiln_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn suits_reads(&self) -> bool {
        self.basis == Basis::Structure
    }

    /// Plans a repair. Where the strategy can do nothing for this DAG, the plan is the central one
    /// and [`Plan::note`] says so.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn plan(
        &self,
        problem: &Problem,
        budget: &mut SearchBudget<'_>,
    ) -> Result<Plan, PlanError> {
        (self.place)(problem, budget)
    }
}

/// The strategy for whoever does not want to choose.
///
/// ```
/// assert!(kiln_plan::STRATEGIES.iter().any(|row| row.name == kiln_plan::UNDECIDED.name));
/// ```
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
    brute::STRATEGY,
];

/// The strategy of a name.
///
/// # Errors
/// There is none; the error lists those that there are.
pub fn strategy(name: &str) -> Result<&'static PlacementStrategy, PlanError> {
    STRATEGIES.iter().find(|strategy| strategy.name == name).ok_or_else(|| {
        let known: Vec<&str> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
        PlanError::UnknownStrategy { name: name.into(), known: known.join(", ") }
    })
}
