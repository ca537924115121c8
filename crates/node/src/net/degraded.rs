//! The shell of a reader: lost chunks of a pool's objects, rebuilt by the agents that have the
//! others and streamed to a client.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use bytes::Bytes;
use kiln_plan::{Cluster, Effort, Parts, Plan, Problem, strategy};
use kiln_pool::{Degraded, Helpers, PoolConfig, Rebuilt};
use kiln_store::{Layout, MemoryBackend};

use super::recover::Post;
use super::{Address, Network};
use crate::carry::Carrier;
use crate::coordinator::Share;
use crate::proto::Priority;
use crate::proto::assignment::{Assignment, Geometry, PersistInfo, WINDOWS_MAX};
use crate::reader::{Do, Reader, helpers_pay};
use crate::task::usual_slice;
use crate::{NodeError, Result};

/// How long nothing may be heard; every question has its own time, this is for a bug only.
const UNHEARD: Duration = Duration::from_secs(60);
/// How long the end waits for agents to hear of it.
const FAREWELL: Duration = Duration::from_millis(500);
/// Windows under way at each agent.
const WINDOWS: u32 = 16;
/// Bytes of windows under way at the reader, about.
const AHEAD: u64 = 32 << 20;
/// Strategies that need no search, so that a reader need not wait for their plans.
const QUICK: (&str, [&str; 3]) = ("hub", ["pipeline", "ppr", "chain"]);
/// Windows of a read, unless it is so small that slices would be shorter than a disk's block.
const LEAST_WINDOWS: u64 = 8;
const LEAST_SLICE: u32 = 512;

/// Readers of a pool whose nodes are agents; for [`kiln_pool::Pool::read_with`].
///
/// ```
/// use kiln_node::net::{HelpingAgents, Network};
/// use kiln_pool::{Policy, PoolConfig};
/// let (network, config) =
///     (Network::new(None, 1)?, PoolConfig::new([1; 16], "demo", Policy::for_code("rs:2+1")?));
/// let agents = HelpingAgents::new(&network, &config, &|| [7; 16]).by("hub")?;
/// assert!(kiln_pool::Helpers::insists(&agents));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HelpingAgents<'a> {
    network: &'a Network,
    config: &'a PoolConfig,
    fresh: &'a dyn Fn() -> [u8; 16],
    strategy: Option<&'a str>,
}

impl std::fmt::Debug for HelpingAgents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelpingAgents").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

/// A plan that is ready to be carried out.
struct Ready {
    plan: Plan,
    parts: Parts,
    /// Whose number in the plan is its rank; the reader's is the next one.
    agents: Vec<Agent>,
}

/// An agent with shards of the object.
struct Agent {
    id: String,
    address: Address,
    shards: Vec<(usize, String)>,
}

impl<'a> HelpingAgents<'a> {
    /// The agents of a pool, asked where that makes a read shorter; `fresh` names tasks.
    #[must_use]
    pub fn new(
        network: &'a Network,
        config: &'a PoolConfig,
        fresh: &'a dyn Fn() -> [u8; 16],
    ) -> HelpingAgents<'a> {
        HelpingAgents { network, config, fresh, strategy: None }
    }

    /// The same, asked whatever it costs, by plans of one strategy.
    ///
    /// # Errors
    /// There is no such strategy.
    pub fn by(self, name: &'a str) -> Result<HelpingAgents<'a>> {
        strategy(name).map_err(crate::error::planned)?;
        Ok(HelpingAgents { strategy: Some(name), ..self })
    }

    /// Agents that have shards of the object.
    fn agents(&self, ask: &Degraded) -> Vec<Agent> {
        let mut agents: Vec<Agent> = Vec::new();
        for (index, id, file) in &ask.sources {
            let shard = (usize::from(*index), file.clone());
            if let Some(agent) = agents.iter_mut().find(|agent| agent.id == *id) {
                agent.shards.push(shard);
                continue;
            }
            let node = self.config.position(id).map(|at| &self.config.node[at]);
            let address = node.filter(|node| Address::is_meant(&node.url));
            if let Some(Ok(address)) = address.map(|node| node.url.parse()) {
                agents.push(Agent { id: id.clone(), address, shards: vec![shard] });
            }
        }
        agents
    }

    fn ready(&self, ask: &Degraded) -> Result<Ready, String> {
        if !ask.codec.sliceable() {
            return Err("a code with packets is not cut into windows".to_owned());
        }
        let agents = self.agents(ask);
        let plan = self.plan(ask, &agents).map_err(|error| error.to_string())?;
        let layout = ask.info.layout().map_err(|error| error.to_string())?;
        let each: u64 = ask.stripes.clone().map(|stripe| layout.sub_len(stripe) as u64).sum();
        let load = plan.costs().max_load() as u64 * each;
        if self.strategy.is_none() && !helpers_pay(ask.here, load) {
            return Err(too_little(ask, load));
        }
        let parts = plan.parts().map_err(|error| error.to_string())?;
        Ok(Ready { plan, parts, agents })
    }

    /// The plan by the strategy asked for, or the one with the least load of those that are found
    /// at once.
    fn plan(&self, ask: &Degraded, agents: &[Agent]) -> Result<Plan> {
        let refused = |error: kiln_plan::PlanError| crate::error::planned(error);
        let shards = |(rank, agent): (usize, &Agent)| {
            agent.shards.iter().map(|(chunk, _)| (*chunk, rank)).collect::<Vec<_>>()
        };
        let homes: Vec<(usize, usize)> = agents.iter().enumerate().flat_map(shards).collect();
        let available: Vec<usize> = homes.iter().map(|(chunk, _)| *chunk).collect();
        let lost: Vec<usize> = ask.wanted.iter().map(|(chunk, _)| *chunk).collect();
        let targets: Vec<(usize, usize)> = lost.iter().map(|&c| (c, agents.len())).collect();
        let dag = ask.codec.repair_dag(&lost, &available).map_err(|error| NodeError::Setup {
            what: "helpers".to_owned(),
            why: error.to_string(),
        });
        let cluster = Arc::new(Cluster::uniform(agents.len() + 1).map_err(refused)?);
        let problem = Problem::new(Arc::new(dag?.1), cluster, &homes, &targets).map_err(refused)?;
        let wanted = |at: kiln_code::dag::At| {
            let mut of_chunk = ask.wanted.iter().filter(|(chunk, _)| *chunk == at.chunk as usize);
            of_chunk.any(|(_, run)| run.contains(&at.position))
        };
        let problem = problem.of_range(wanted).map_err(refused)?;
        let mut effort = Effort::default();
        let plan = match self.strategy {
            Some(name) => strategy(name).and_then(|row| row.plan(&problem, &mut effort)),
            None => {
                let cost = |plan: &Plan| (plan.costs().max_load(), plan.costs().bandwidth());
                let mut least = strategy(QUICK.0).and_then(|row| row.plan(&problem, &mut effort));
                for name in QUICK.1 {
                    let other = strategy(name).and_then(|row| row.plan(&problem, &mut effort));
                    least = match (least, other) {
                        (Ok(least), Ok(other)) if cost(&least) <= cost(&other) => Ok(least),
                        (Err(_), Err(error)) => Err(error),
                        (Ok(plan), Err(_)) | (_, Ok(plan)) => Ok(plan),
                    };
                }
                least
            }
        };
        let plan = plan.map_err(refused)?;
        plan.check().map_err(refused)?;
        Ok(plan)
    }

    fn begun(&self, ask: &Degraded) -> Result<Stream, String> {
        let wanted: u64 = ask.wanted.iter().map(|(_, run)| run.len() as u64).sum();
        let layout = ask.info.layout().map_err(|error| error.to_string())?;
        let each: u64 = ask.stripes.clone().map(|stripe| layout.sub_len(stripe) as u64).sum();
        // The reader receives no less than it wants: most reads need no plan to know.
        if self.strategy.is_none() && !helpers_pay(ask.here, wanted * each) {
            return Err(too_little(ask, wanted * each));
        }
        let ready = self.ready(ask)?;
        Stream::begin(self.network, ask, &ready, layout, (self.fresh)())
            .map_err(|error| error.to_string())
    }
}

fn too_little(ask: &Degraded, load: u64) -> String {
    format!("helpers would not make it shorter: {load} bytes at one link, {} without", ask.here)
}

impl Helpers for HelpingAgents<'_> {
    fn begin(&self, ask: &Degraded) -> Result<Box<dyn Rebuilt + '_>, String> {
        Ok(Box::new(self.begun(ask)?))
    }

    fn insists(&self) -> bool {
        self.strategy.is_some()
    }
}

/// Bytes of every sub-chunk that travel together: as usual, but so few that there are some windows.
fn slice_of(ask: &Degraded, layout: &Layout) -> u32 {
    let usual = usual_slice(ask.codec.shape().alpha);
    let sub_len = layout.sub_len(ask.stripes.start).max(1) as u64;
    let stripes = ask.stripes.end - ask.stripes.start;
    let short = (sub_len * stripes / LEAST_WINDOWS).max(u64::from(LEAST_SLICE));
    usual.min(u32::try_from(short).unwrap_or(u32::MAX))
}

impl Ready {
    /// The share of a node, the reader's too.
    fn share(&self, ask: &Degraded, slice: u32, node: usize) -> Option<Assignment> {
        let bare = Assignment::of(&self.parts, node)?;
        let address = |node: usize| match self.agents.get(node) {
            Some(agent) => agent.address.to_string(),
            // The reader fetches what is for it.
            None => String::new(),
        };
        let shards = self.agents.get(node).map_or(&[][..], |agent| &agent.shards);
        Some(Assignment {
            first: ask.stripes.start,
            end: ask.stripes.end,
            slice,
            windows: WINDOWS,
            rate: 0,
            geometry: Geometry::of(&ask.info, ask.info.size.unwrap_or(0), &ask.digests),
            targets: Vec::new(),
            ..bare.connected(address, shards)
        })
    }
}

/// A read under way.
struct Stream {
    network: Network,
    post: Post,
    reader: Reader,
    carrier: Carrier,
    sink: Sink,
    start: Duration,
    heard: Duration,
    strategy: &'static str,
}

impl Stream {
    fn begin(
        network: &Network,
        ask: &Degraded,
        ready: &Ready,
        layout: Layout,
        task: [u8; 16],
    ) -> Result<Stream> {
        let slice = slice_of(ask, &layout);
        let me = ready.agents.len();
        let (mut shares, mut peers) = (Vec::new(), Vec::new());
        for (node, agent) in ready.agents.iter().enumerate() {
            let Some(assignment) = ready.share(ask, slice, node) else { continue };
            let assignment = assignment.encode().into();
            shares.push(Share { node, assignment, writes: false });
            peers.push(network.peer(&agent.address)?);
        }
        let mine = ready.share(ask, slice, me);
        let mine = mine.ok_or_else(|| NodeError::protocol("a plan without the reader"))?;
        let held: u64 = mine.pieces.iter().map(|piece| u64::from(piece.sub_chunks)).sum();
        let windows = AHEAD / (held * u64::from(slice)).max(1);
        let windows = windows.clamp(2, u64::from(WINDOWS_MAX)) as u32;
        let mine = Assignment { windows, ..mine };
        let carrier = Carrier::new(Arc::new(mine.clone()), Arc::new(MemoryBackend::new()))?;
        let sink = Sink::new(ask, layout, mine.clone());
        let reader = Reader::new(task, shares, mine)?;
        let (post, start) = (Post::new(peers, Priority::Client), network.now());
        let (network, strategy) = (network.clone(), ready.plan.strategy());
        let mut stream =
            Stream { network, post, reader, carrier, sink, start, heard: start, strategy };
        let todo = stream.reader.begin(Duration::ZERO);
        stream.act(todo)?;
        Ok(stream)
    }

    fn now(&self) -> Duration {
        self.network.now().saturating_sub(self.start)
    }

    fn act(&mut self, todo: Vec<Do>) -> Result<()> {
        let mut todo = VecDeque::from(todo);
        while let Some(next) = todo.pop_front() {
            match next {
                Do::Ask(order) => self.post.send([order]),
                Do::Compute { window, round, inputs } => {
                    let made = self.carrier.compute(window, round, &inputs)?;
                    todo.extend(self.reader.computed(self.now(), window, made));
                }
                Do::Keep { window, round, pieces } => {
                    let bytes = self.sink.keep(window, round, &pieces);
                    todo.extend(self.reader.kept(self.now(), window, bytes));
                }
            }
        }
        Ok(())
    }

    /// Waits for an answer and does what follows from it; `false` when none came in time.
    fn hear(&mut self, patience: Duration) -> Result<bool> {
        match self.network.receive(self.post.answers(), Some(patience)) {
            Ok((order, answer)) => {
                self.heard = self.network.now();
                let todo = self.reader.answered(self.now(), &order, answer);
                self.act(todo)?;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

impl Rebuilt for Stream {
    fn next(&mut self) -> Result<Vec<Vec<u8>>, String> {
        loop {
            if let Some(parts) = self.sink.next() {
                return Ok(parts);
            }
            if let Some(why) = self.reader.over() {
                return Err(format!("helpers gave up: {why}"));
            }
            if !self.hear(UNHEARD).map_err(|error| error.to_string())? {
                return Err("helpers gave up: nothing was heard of them".to_owned());
            }
        }
    }

    fn received(&self) -> u64 {
        self.reader.received()
    }

    fn strategy(&self) -> &str {
        self.strategy
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let todo = self.reader.end();
        if self.act(todo).is_err() {
            return;
        }
        // Agents keep a task for a minute that nobody ends, and only so many.
        let until = self.network.now() + FAREWELL;
        while !self.reader.is_clear() {
            let left = until.saturating_sub(self.network.now());
            if left.is_zero() || !self.hear(left).is_ok_and(|heard| heard) {
                break;
            }
        }
    }
}

/// What is rebuilt, stripe by stripe.
struct Sink {
    mine: Assignment,
    layout: Layout,
    wanted: Vec<(usize, Range<u32>)>,
    next: u64,
    stripes: BTreeMap<u64, Stripe>,
}

#[derive(Default)]
struct Stripe {
    parts: Vec<Vec<u8>>,
    have: usize,
}

impl Sink {
    fn new(ask: &Degraded, layout: Layout, mine: Assignment) -> Sink {
        let (wanted, next) = (ask.wanted.clone(), ask.stripes.start);
        Sink { mine, layout, wanted, next, stripes: BTreeMap::new() }
    }

    /// Puts pieces of a window where they belong; gives their bytes.
    fn keep(&mut self, window: u64, round: usize, pieces: &[Bytes]) -> u64 {
        let (stripe, slice) = self.mine.window(&self.layout, window);
        let Some(info) = self.mine.rounds.get(round) else { return 0 };
        let sub_len = self.layout.sub_len(stripe);
        let entry = self.stripes.entry(stripe).or_insert_with(|| {
            let part = |(_, run): &(usize, Range<u32>)| vec![0; run.len() * sub_len];
            Stripe { parts: self.wanted.iter().map(part).collect(), have: 0 }
        });
        let mut kept = 0;
        for (persist, bytes) in info.persists.iter().zip(pieces) {
            kept += bytes.len() as u64;
            entry.place(&self.wanted, persist, bytes, sub_len, &slice);
        }
        kept
    }

    /// The next stripe, when it is complete.
    fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        let complete = |stripe: &Stripe| stripe.have == stripe.parts.iter().map(Vec::len).sum();
        self.stripes.get(&self.next).filter(|stripe| complete(stripe))?;
        let stripe = self.stripes.remove(&self.next)?;
        self.next += 1;
        Some(stripe.parts)
    }
}

impl Stripe {
    fn place(
        &mut self,
        wanted: &[(usize, Range<u32>)],
        persist: &PersistInfo,
        bytes: &[u8],
        sub_len: usize,
        slice: &Range<usize>,
    ) {
        let of_chunk = |(chunk, _): &(usize, Range<u32>)| *chunk == persist.chunk as usize;
        let Some(rank) = wanted.iter().position(of_chunk) else { return };
        for (position, piece) in persist.positions.iter().zip(bytes.chunks(slice.len().max(1))) {
            if !wanted[rank].1.contains(position) {
                continue;
            }
            let at = (position - wanted[rank].1.start) as usize * sub_len + slice.start;
            self.parts[rank][at..at + piece.len()].copy_from_slice(piece);
            self.have += piece.len();
        }
    }
}
