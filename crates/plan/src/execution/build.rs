//! From a placed DAG to pieces and rounds.

use super::{Execution, NodeExecution, Persist, Piece, Round, Source};
use crate::{Plan, PlanError, Result, edges::Edges};
use kiln_code::dag::{At, DagBuilder, Hint, MatrixId, Step, Symbol};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One use of a vertex: where, and in which round or as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Use {
    node: usize,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Round(u32),
    /// As a sub-chunk of this rebuilt chunk.
    Persist(u32),
}

/// Properties that the sub-chunks of a piece share.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signature {
    home: usize,
    /// The chunk of what is read.
    chunk: Option<u32>,
    round: u32,
    uses: Vec<Use>,
}

/// A sub-chunk's place: piece and index.
type Place = Option<(u32, u32)>;

/// A piece while pieces are collected.
struct Group {
    signature: Signature,
    vertices: Vec<u32>,
}

/// The rounds of all nodes while they are filled, by node and number.
type Rounds = BTreeMap<(usize, u32), Round>;

pub(super) fn build(plan: &Plan) -> Result<Execution> {
    let rounds = rounds_of(plan);
    let (groups, places) = group(plan, &rounds);
    let mut work = Rounds::new();
    compute(plan, &rounds, &groups, &places, &mut work)?;
    for (piece, group) in groups.iter().enumerate() {
        arrange(piece as u32, group, plan, &mut work);
    }
    for ((node, _), round) in &mut work {
        order_sends(*node, &groups, &mut round.sends);
    }
    let pieces = groups.iter().map(|group| piece(group, plan)).collect();
    let mut execution: Vec<NodeExecution> = Vec::new();
    for ((node, _), round) in work {
        match execution.last_mut() {
            Some(node_execution) if node_execution.node == node => {
                node_execution.rounds.push(round)
            }
            _ => execution.push(NodeExecution { node, rounds: vec![round] }),
        }
    }
    Ok(Execution { pieces, execution })
}

/// The round in which every vertex can be computed: one more for every way over the network.
fn rounds_of(plan: &Plan) -> Vec<u32> {
    let edges = plan.edges();
    let mut rounds = vec![0; edges.vertices()];
    for vertex in edges.inputs..edges.vertices() {
        let node = plan.node(vertex);
        let after = |&s: &u32| rounds[s as usize] + u32::from(plan.node(s as usize) != node);
        rounds[vertex] = edges.sources(vertex).iter().map(after).max().unwrap_or(0);
    }
    rounds
}

/// Groups the sub-chunks that leave their round into pieces.
fn group(plan: &Plan, rounds: &[u32]) -> (Vec<Group>, Vec<Place>) {
    let edges = plan.edges();
    let outputs = outputs_by_vertex(plan);
    let mut known: HashMap<Signature, usize> = HashMap::new();
    let mut vertices: Vec<Vec<u32>> = Vec::new();
    let mut places = vec![None; edges.vertices()];
    for vertex in 0..edges.vertices() {
        let uses = uses(plan, edges, rounds, vertex, &outputs[vertex]);
        if uses.is_empty() {
            continue;
        }
        let chunk = plan.dag().inputs().get(vertex).map(|at| at.chunk);
        let signature = Signature { home: plan.node(vertex), chunk, round: rounds[vertex], uses };
        let next = vertices.len();
        let piece = *known.entry(signature).or_insert(next);
        if piece == next {
            vertices.push(Vec::new());
        }
        places[vertex] = Some((piece as u32, vertices[piece].len() as u32));
        vertices[piece].push(vertex as u32);
    }
    let mut ordered: Vec<(usize, Signature)> = known.into_iter().map(|(s, i)| (i, s)).collect();
    ordered.sort_by_key(|(index, _)| *index);
    let groups = ordered.into_iter().zip(vertices);
    let groups = groups.map(|((_, signature), vertices)| Group { signature, vertices }).collect();
    (groups, places)
}

fn outputs_by_vertex(plan: &Plan) -> Vec<Vec<At>> {
    let mut outputs: Vec<Vec<At>> = vec![Vec::new(); plan.edges().vertices()];
    for &(at, vertex) in plan.dag().outputs() {
        outputs[vertex as usize].push(at);
    }
    outputs
}

/// The uses of a vertex that need it in a buffer: not those in the round that computes it.
fn uses(plan: &Plan, edges: &Edges, rounds: &[u32], vertex: usize, ats: &[At]) -> Vec<Use> {
    let (home, born) = (plan.node(vertex), rounds[vertex]);
    let computed = vertex >= edges.inputs;
    let mut uses: Vec<Use> = Vec::new();
    for &user in edges.users(vertex) {
        let (node, round) = (plan.node(user as usize), rounds[user as usize]);
        if !(computed && node == home && round == born) {
            uses.push(Use { node, what: What::Round(round) });
        }
    }
    uses.sort_unstable();
    uses.dedup();
    // A vertex that is wanted at two places of one chunk is persisted twice.
    for at in ats {
        let target = plan.problem().target(at.chunk);
        uses.extend(target.map(|node| Use { node, what: What::Persist(at.chunk) }));
    }
    uses.sort_unstable();
    uses
}

/// The local DAGs.
fn compute(
    plan: &Plan,
    rounds: &[u32],
    groups: &[Group],
    places: &[Place],
    work: &mut Rounds,
) -> Result<()> {
    let mut locals: BTreeMap<(usize, u32), Local> = BTreeMap::new();
    for step in plan.dag().steps() {
        let mut shares: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
        for (row, vertex) in step.vertices().enumerate() {
            shares.entry((plan.node(vertex), rounds[vertex])).or_default().push(row);
        }
        for (key, rows) in shares {
            locals.entry(key).or_default().step(plan, &step, rows, places)?;
        }
    }
    for (piece, group) in groups.iter().enumerate() {
        let signature = &group.signature;
        if signature.chunk.is_some() {
            continue;
        }
        let local = locals.get_mut(&(signature.home, signature.round));
        let local = local.ok_or_else(|| PlanError::Internal("a piece of no round".into()))?;
        for (index, vertex) in group.vertices.iter().enumerate() {
            let at = At { chunk: piece as u32, position: index as u32 };
            local.builder.output(at, local.names[vertex]);
        }
    }
    for ((node, number), local) in locals {
        let dag = local.builder.finish()?;
        let round = round(work, node, number);
        round.inputs = dag.reads().iter().map(|reads| reads.chunk as u32).collect();
        round.outputs = dag.outputs().iter().map(|(at, _)| at.chunk).collect();
        round.outputs.dedup();
        round.dag = Some(dag);
    }
    Ok(())
}

/// The DAG of one round of one node while it is built.
#[derive(Default)]
struct Local {
    builder: DagBuilder,
    names: HashMap<u32, Symbol>,
    /// Rows of a matrix that were cut before.
    cuts: HashMap<(usize, Vec<usize>), MatrixId>,
}

impl Local {
    fn step(
        &mut self,
        plan: &Plan,
        step: &Step<'_>,
        rows: Vec<usize>,
        places: &[Place],
    ) -> Result<()> {
        let live = |c: usize| rows.iter().any(|&r| step.matrix.at(r, c) != 0);
        let mut sources = Vec::with_capacity(step.sources.len());
        for (column, &source) in step.sources.iter().enumerate() {
            sources.push(match live(column) {
                true => self.source(plan, source, places)?,
                false => Symbol::Zero,
            });
        }
        let hint = |&row: &usize| plan.dag().hint(step.first + row as u32).unwrap_or_default();
        let hints: Vec<Hint> = rows.iter().map(hint).collect();
        let builder = &mut self.builder;
        let matrix = *self
            .cuts
            .entry((step.matrix_index, rows.clone()))
            .or_insert_with(|| builder.matrix(&step.matrix.select_rows(&rows)));
        let out = builder.step(matrix, &sources, &hints)?;
        for (index, row) in rows.into_iter().enumerate() {
            self.names.insert(step.first + row as u32, out.symbol(index));
        }
        Ok(())
    }

    /// A vertex of this round, or a sub-chunk of a piece.
    fn source(&mut self, plan: &Plan, v: u32, places: &[Place]) -> Result<Symbol> {
        if let Some(&symbol) = self.names.get(&v) {
            return Ok(symbol);
        }
        let (piece, index) = places[v as usize]
            .ok_or_else(|| PlanError::Internal(format!("vertex {v} is in no piece")))?;
        let hint = plan.dag().hint(v).unwrap_or_default();
        let symbol = self.builder.input(At { chunk: piece, position: index }, hint);
        self.names.insert(v, symbol);
        Ok(symbol)
    }
}

fn round(work: &mut Rounds, node: usize, number: u32) -> &mut Round {
    work.entry((node, number)).or_insert_with(|| Round {
        round: number,
        reads: Vec::new(),
        receives: Vec::new(),
        dag: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
        sends: Vec::new(),
        persists: Vec::new(),
    })
}

/// Enters reading, sending, receiving and persisting of a piece.
fn arrange(piece: u32, group: &Group, plan: &Plan, work: &mut Rounds) {
    let Signature { home, chunk, round: born, uses } = &group.signature;
    let nodes: BTreeSet<usize> = uses.iter().map(|u| u.node).collect();
    for &node in &nodes {
        let rounds = uses.iter().filter(|u| u.node == node).filter_map(|u| match u.what {
            What::Round(round) => Some(round),
            What::Persist(_) => None,
        });
        let away = node != *home;
        let first = rounds.min().unwrap_or(born + u32::from(away));
        if away {
            round(work, *home, *born).sends.push((piece, node));
            round(work, node, first).receives.push(piece);
        }
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        for u in uses.iter().filter(|u| u.node == node) {
            let What::Persist(chunk) = u.what else { continue };
            let nth = taken.entry(chunk).or_default();
            let positions = positions(group, plan, chunk, *nth);
            *nth += 1;
            let persist = Persist { piece, chunk: chunk as usize, positions };
            round(work, node, first).persists.push(persist);
        }
    }
    if chunk.is_some() {
        let own = uses.iter().filter(|u| u.node == *home).filter_map(|u| match u.what {
            What::Round(round) => Some(round),
            What::Persist(_) => None,
        });
        let first = match nodes.iter().any(|node| node != home) {
            true => *born,
            false => own.min().unwrap_or(*born),
        };
        round(work, *home, first).reads.push(piece);
    }
}

/// Returns where a piece's sub-chunks belong in a rebuilt chunk: the `nth` place of each.
fn positions(group: &Group, plan: &Plan, chunk: u32, nth: usize) -> Vec<u32> {
    let mut found: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(at, vertex) in plan.dag().outputs().iter().filter(|(at, _)| at.chunk == chunk) {
        found.entry(vertex).or_default().push(at.position);
    }
    let place = |vertex: &u32| found.get(vertex).and_then(|list| list.get(nth)).copied();
    group.vertices.iter().filter_map(place).collect()
}

/// Sends first what is needed earlier; and each node starts with another receiver, so that they
/// do not all send to the same one first.
fn order_sends(node: usize, groups: &[Group], sends: &mut [(u32, usize)]) {
    let needed = |piece: u32, to: usize| {
        let uses = &groups[piece as usize].signature.uses;
        uses.iter().filter(|u| u.node == to).map(|u| u.what).min()
    };
    sends.sort_by_key(|&(piece, to)| (needed(piece, to), to < node, to, piece));
}

fn piece(group: &Group, plan: &Plan) -> Piece {
    let Signature { home, chunk, round, uses } = &group.signature;
    let source = match chunk {
        None => Source::Computed,
        Some(chunk) => {
            let mut runs: Vec<std::ops::Range<u32>> = Vec::new();
            for &vertex in &group.vertices {
                let position = plan.dag().inputs()[vertex as usize].position;
                match runs.last_mut() {
                    Some(run) if run.end == position => run.end += 1,
                    _ => runs.push(position..position + 1),
                }
            }
            Source::Disk { chunk: *chunk as usize, runs }
        }
    };
    let mut to: Vec<usize> = uses.iter().map(|u| u.node).filter(|node| node != home).collect();
    to.dedup();
    Piece { home: *home, round: *round, source, sub_chunks: group.vertices.len(), to }
}
