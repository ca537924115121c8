//! Preparation of a degraded read: the homes of shards, whether helpers pay, a plan, and
//! the share of everybody.

use kiln_plan::Plan;
use kiln_pool::Degraded;
use kiln_store::Layout;

use super::helpers_pay;
use crate::placed::{self, Shares, Wanted, refused};
use crate::{RecoveryError, coordinator::Share};
use kiln_net::NetError;
use kiln_net::proto::assignment::{Assignment, Geometry, WINDOWS_MAX};
use kiln_net::task::{as_many, default_slice};

/// Windows under way at each agent.
const WINDOWS: u32 = 16;
/// Bytes of windows under way at the reader, about.
const AHEAD: u64 = 32 << 20;

/// An agent with shards of the object.
#[derive(Debug)]
struct Agent {
    id: String,
    address: String,
    shards: Vec<(usize, String)>,
}

/// A read that can begin.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub strategy: &'static str,
    pub layout: Layout,
    /// Shares of agents, and their addresses.
    pub shares: Vec<Share>,
    pub addresses: Vec<String>,
    /// The reader's own.
    pub mine: Assignment,
}

/// Prepares a read by the plan of one strategy, whatever it costs, or else by one that is found at
/// once and makes the read shorter. `address` gives the address of a node that is an agent.
/// Errors: it cannot be done, or is not worth it; in words.
pub(crate) fn prepare(
    ask: &Degraded,
    strategy: Option<&str>,
    address: impl Fn(&str) -> Option<String>,
) -> Result<Prepared, String> {
    let failed = |error: &dyn std::fmt::Display| refused("a read", error).to_string();
    let layout = ask.info.layout().map_err(|error| error.to_string())?;
    let each: u64 = ask.stripes.clone().map(|stripe| layout.sub_len(stripe) as u64).sum();
    let wanted: u64 = ask.wanted.iter().map(|(_, run)| run.len() as u64).sum();
    let pays = |load: u64| match strategy.is_some() || helpers_pay(ask.here, load) {
        true => Ok(()),
        false => Err(format!(
            "helpers would not save time: {load} bytes on the busiest link, {} when decoding here",
            ask.here
        )),
    };
    // The reader receives no less than it wants: most reads need no plan to know.
    pays(wanted * each)?;
    if !ask.codec.sliceable() {
        return Err("a code with packets is not cut into windows".to_owned());
    }
    let agents = agents(ask, address);
    let plan = plan(ask, &agents, strategy).map_err(|error| failed(&error))?;
    pays(plan.costs().max_load() as u64 * each)?;
    let (shares, mine) = shares(ask, &plan, &agents, &layout).map_err(|error| failed(&error))?;
    let addresses = shares.iter().map(|share| agents[share.node].address.clone()).collect();
    Ok(Prepared { strategy: plan.strategy(), layout, shares, addresses, mine })
}

/// Agents that have shards of the object.
fn agents(ask: &Degraded, address: impl Fn(&str) -> Option<String>) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for (index, id, file) in &ask.sources {
        let shard = (usize::from(*index), file.clone());
        if let Some(agent) = agents.iter_mut().find(|agent| agent.id == *id) {
            agent.shards.push(shard);
        } else if let Some(address) = address(id) {
            agents.push(Agent { id: id.clone(), address, shards: vec![shard] });
        }
    }
    agents
}

/// The number of an agent in the plan is its rank; the reader's is the next one.
fn plan(
    ask: &Degraded,
    agents: &[Agent],
    strategy: Option<&str>,
) -> Result<Plan, kiln_plan::PlanError> {
    let homes = agents
        .iter()
        .enumerate()
        .flat_map(|(rank, agent)| agent.shards.iter().map(move |(chunk, _)| (*chunk, rank)));
    let wanted = Wanted {
        codec: &ask.codec,
        nodes: agents.len() + 1,
        homes: homes.collect(),
        targets: ask.wanted.iter().map(|(chunk, _)| (*chunk, agents.len())).collect(),
        runs: Some(&ask.wanted),
    };
    let problem = wanted.problem()?;
    match strategy {
        Some(name) => placed::plan(&problem, name, 1),
        None => placed::plan_at_once(&problem),
    }
}

/// The shares of the agents, and the reader's.
fn shares(
    ask: &Degraded,
    plan: &Plan,
    agents: &[Agent],
    layout: &Layout,
) -> Result<(Vec<Share>, Assignment), RecoveryError> {
    let parts = plan.execution()?;
    let alpha = ask.codec.shape().alpha;
    let each: u64 = ask.stripes.clone().map(|stripe| layout.sub_len(stripe) as u64).sum();
    let slice = default_slice(alpha, each);
    let shares = Shares {
        parts: &parts,
        stripes: ask.stripes.clone(),
        slice,
        windows: as_many(WINDOWS, alpha, slice),
        rate: 0,
        geometry: Geometry::of(&ask.info, ask.info.size.unwrap_or(0), &ask.digests),
        // The reader has no address: it fetches what is for it.
        address: &|node| agents.get(node).map_or(String::new(), |agent| agent.address.clone()),
    };
    let mine = shares.of(agents.len(), &[], Vec::new());
    let mine = mine.ok_or_else(|| NetError::protocol("a plan without the reader"))?;
    let held: u64 = mine.pieces.iter().map(|piece| u64::from(piece.sub_chunks)).sum();
    let windows = AHEAD / (held * u64::from(slice)).max(1);
    let windows = windows.clamp(2, u64::from(WINDOWS_MAX)) as u32;
    let share = |(node, agent): (usize, &Agent)| {
        let assignment = shares.of(node, &agent.shards, Vec::new())?;
        Some(Share { node, assignment: assignment.encode().into(), writes: false })
    };
    let others = agents.iter().enumerate().filter_map(share).collect();
    Ok((others, Assignment { windows, ..mine }))
}
