//! Placement of repairs: linear DAGs placed on the nodes of a cluster.
//!
//! A [`Problem`] is a DAG, a [`Cluster`] snapshot, and who stores what. A strategy of
//! [`STRATEGIES`] turns it into a [`Plan`]: a node for every computed vertex. [`Plan::check`]
//! proves that the placed plan computes what the DAG computes, [`Plan::costs`] says what every node
//! reads, sends, receives and computes, and [`Plan::execution`] is what the nodes execute.
//!
//! Nothing here knows which code a DAG came from; hints of its vertices are all that is used.
//!
//! ```
//! use kiln_code::Codec;
//! use kiln_plan::{SearchBudget, Problem, strategy};
//!
//! let codec = Codec::new(&"rs:4+2".parse()?)?;
//! let (_, dag) = codec.repair_dag(&[0], &[1, 2, 3, 4, 5])?;
//! let problem = Problem::on_own_nodes(dag)?;
//! let plan = strategy("central")?.plan(&problem, &mut SearchBudget::default())?;
//! plan.check()?;
//! let costs = plan.costs();
//! assert_eq!(costs.nodes()[0].received, 4); // node 0 is new and gets four chunks
//! assert_eq!((costs.max_load(), costs.bandwidth()), (4, 4));
//! # Ok::<(), kiln_plan::PlanError>(())
//! ```
#![forbid(unsafe_code)]

mod edges;
mod error;
mod cluster;
mod problem;
mod bound;
mod plan;
mod cost;
mod execution;
mod search_budget;
mod blocks;
mod check;
mod lower_bounds;
mod traffic_table;
mod strategies;
mod plan_cache;
mod recovery;

pub use bound::Bound;
pub use check::Proof;
pub use cluster::{Cluster, Node};
pub use cost::{Costs, NodeCost};
pub use edges::Edges;
pub use error::{PlanError, Result};
pub use execution::{Execution, NodeExecution, Persist, Piece, Round, Source};
pub use lower_bounds::LowerBounds;
pub use plan::Plan;
pub use plan_cache::PlanCache;
pub use problem::Problem;
pub use recovery::{
    COPIED, Destination, Emit, Job, Layout, RecoveryOptions, RecoveryPlan, RiskClass, Stripe,
    Tolerates,
};
pub use search_budget::SearchBudget;
pub use strategies::{
    Basis, PlacementStrategy, STRATEGIES, UNDECIDED, Variants, alternatives, flat, frontier,
    strategy,
};
pub use traffic_table::TrafficTable;
