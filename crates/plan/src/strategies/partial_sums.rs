//! Sums computed on the way: where a step is a plain sum, every node adds its terms to what it got.

use super::{Basis, PlacementStrategy, central, central::alone};
use crate::{Plan, Problem, Result};
use kiln_code::dag::{At, DagBuilder, Hint, Step, Symbol};
use kiln_code::{Dag, Matrix, field};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(super) const PIPELINE: PlacementStrategy = PlacementStrategy {
    name: "pipeline",
    about: "each lost sub-chunk is summed along a path of all helpers: no link carries more than \
            what is lost, if a repair needs whole chunks anyway (repair pipelining)",
    searches: false,
    basis: Basis::Structure,
    variants: None,
    promise: |problem, costs| {
        // Along a path a node receives and sends one sum for each sub-chunk that is lost.
        let lost = problem.dag().outputs().len();
        costs.max_load() <= lost.max(central_load(problem))
    },
    place: |problem, _| sums(problem, Shape::Path),
};

pub(super) const PPR: PlacementStrategy = PlacementStrategy {
    name: "ppr",
    about: "each lost sub-chunk is summed along a tree of helpers: few hops, the new node gets a \
            sum a level (partial parallel repair)",
    searches: false,
    basis: Basis::Structure,
    variants: None,
    promise: |problem, costs| {
        let lost = problem.dag().outputs().len();
        let levels = problem.workers().len().next_power_of_two().ilog2() as usize;
        costs.max_load() <= (lost * levels.max(1)).max(central_load(problem))
    },
    place: |problem, _| sums(problem, Shape::Tree),
};

/// Way in which partial sums meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Path,
    Tree,
}

impl Shape {
    fn strategy(self) -> &'static PlacementStrategy {
        match self {
            Shape::Path => &PIPELINE,
            Shape::Tree => &PPR,
        }
    }
}

/// The largest number of terms of all sums together: more would be slower to run than to send.
const TERMS_MAX: usize = 1 << 21;

/// A sum: coefficients of what is read.
type Terms = Vec<(u32, u8)>;

fn sums(problem: &Problem, shape: Shape) -> Result<Plan> {
    let name = shape.strategy().name;
    let Some(rows) = rows(problem.dag()) else {
        let why = "its sums over what is read are too long: everything at the new node";
        return Ok(alone(problem, name)?.with_note(format!("central instead of {name}: {why}")));
    };
    let plan = chained(problem, &rows, shape)?;
    let central = alone(problem, name)?;
    let load = |plan: &Plan| (plan.costs().max_load(), plan.costs().bandwidth());
    match load(&plan) < load(&central) {
        true => Ok(plan),
        false => {
            let why = "sums on the way would load no link less: everything at the new node";
            Ok(central.with_note(format!("central instead of {name}: {why}")))
        }
    }
}

fn central_load(problem: &Problem) -> usize {
    alone(problem, central::STRATEGY.name).map_or(usize::MAX, |plan| plan.costs().max_load())
}

/// Every output as a sum of what is read; nothing when that would be too much.
fn rows(dag: &Dag) -> Option<Vec<(At, Terms)>> {
    let mut sums: Vec<Terms> = (0..dag.inputs().len() as u32).map(|v| vec![(v, 1)]).collect();
    let mut total = 0;
    for step in dag.steps() {
        for row in 0..step.matrix.rows() {
            let sum = compose(&step, row, &sums);
            total += sum.len();
            if total > TERMS_MAX {
                return None;
            }
            sums.push(sum);
        }
    }
    Some(dag.outputs().iter().map(|&(at, v)| (at, sums[v as usize].clone())).collect())
}

/// The same function with every output straight from what is read; nothing when that is too long.
pub fn flat(dag: &Dag) -> Option<Dag> {
    let rows = rows(dag)?;
    let mut builder = DagBuilder::new();
    let hint = |v: u32| dag.hint(v).unwrap_or_default();
    for (at, terms) in rows {
        let coefficients = terms.iter().map(|&(_, c)| c).collect();
        let matrix = Matrix::new(1, terms.len(), coefficients).ok()?;
        let id = builder.matrix(&matrix);
        let input = |&(v, _): &(u32, u8)| builder.input(dag.inputs()[v as usize], hint(v));
        let sources: Vec<Symbol> = terms.iter().map(input).collect();
        let out = builder.step(id, &sources, &[Hint::default()]).ok()?;
        builder.output(at, out.symbol(0));
    }
    builder.finish().ok()
}

fn compose(step: &Step<'_>, row: usize, sums: &[Terms]) -> Terms {
    let mut sum: BTreeMap<u32, u8> = BTreeMap::new();
    for (&c, &source) in step.matrix.row(row).iter().zip(step.sources).filter(|&(&c, _)| c != 0) {
        for &(v, factor) in &sums[source as usize] {
            *sum.entry(v).or_default() ^= field::mul(c, factor);
        }
    }
    sum.into_iter().filter(|&(_, c)| c != 0).collect()
}

/// A DAG of partial sums with its places, while it is built.
struct Sums {
    builder: DagBuilder,
    inputs: Vec<Symbol>,
    places: HashMap<u32, usize>,
}

impl Sums {
    /// A vertex at `node`: terms that are read, plus sums that came from elsewhere.
    fn add(&mut self, node: usize, terms: &[(u32, u8)], more: &[Symbol]) -> Result<Symbol> {
        let ones = more.iter().map(|_| 1);
        let row: Vec<u8> = terms.iter().map(|&(_, c)| c).chain(ones).collect();
        let own = terms.iter().map(|&(v, _)| self.inputs[v as usize]);
        let sources: Vec<Symbol> = own.chain(more.iter().copied()).collect();
        let matrix = Matrix::new(1, row.len(), row).map_err(kiln_code::CodeError::from)?;
        let id = self.builder.matrix(&matrix);
        let symbol = self.builder.step(id, &sources, &[Hint::default()])?.symbol(0);
        if let Symbol::Vertex(vertex) = symbol {
            self.places.entry(vertex).or_insert(node);
        }
        Ok(symbol)
    }
}

/// Every output as a path or tree of partial sums over the nodes that read its terms.
fn chained(problem: &Problem, rows: &[(At, Terms)], shape: Shape) -> Result<Plan> {
    let dag = problem.dag();
    let mut builder = DagBuilder::new();
    let hint = |v: usize| dag.hint(v as u32).unwrap_or_default();
    let inputs: Vec<Symbol> =
        dag.inputs().iter().enumerate().map(|(v, &at)| builder.input(at, hint(v))).collect();
    let mut sums = Sums { builder, inputs: inputs.clone(), places: HashMap::new() };
    for (at, terms) in rows {
        let target = problem.target(at.chunk).unwrap_or(0);
        let mut by_node: BTreeMap<usize, Terms> = BTreeMap::new();
        for &(v, c) in terms {
            let home = problem.home(dag.inputs()[v as usize].chunk).unwrap_or(0);
            by_node.entry(home).or_default().push((v, c));
        }
        // The target adds its own terms last.
        let own = by_node.remove(&target).unwrap_or_default();
        let mut nodes: Vec<(usize, Terms)> = by_node.into_iter().collect();
        // Domain by domain, the target's last, so that a sum crosses between domains rarely.
        let cluster = problem.cluster();
        nodes
            .sort_by_key(|&(node, _)| (cluster.together(node, target), cluster.domain(node), node));
        let sum = match shape {
            Shape::Path => path(&mut sums, nodes, target, own)?,
            Shape::Tree => tree(&mut sums, nodes, target, own)?,
        };
        sums.builder.output(*at, sum);
    }
    let Sums { builder, places, .. } = sums;
    let count = places.keys().max().map_or(0, |&last| last + 1);
    let (dag, names) = builder.finish_named()?;
    let mut place = vec![0; dag.vertices() - dag.inputs().len()];
    for vertex in 0..count {
        let name = names.vertex(Symbol::Vertex(vertex)).map(|name| name as usize);
        if let (Some(&node), Some(name)) = (places.get(&vertex), name)
            && name >= dag.inputs().len()
        {
            place[name - dag.inputs().len()] = node;
        }
    }
    Plan::new(problem, Arc::new(dag), place, shape.strategy().name)
}

fn path(sums: &mut Sums, nodes: Vec<(usize, Terms)>, target: usize, own: Terms) -> Result<Symbol> {
    let mut sum: Vec<Symbol> = Vec::new();
    // With nothing to add to, the target may as well apply the factors itself.
    let alone = nodes.len() == 1 && own.is_empty();
    for (node, terms) in nodes {
        sum = vec![sums.add(if alone { target } else { node }, &terms, &sum)?];
    }
    match (own.is_empty(), sum.first()) {
        (true, Some(&sum)) => Ok(sum),
        _ => sums.add(target, &own, &sum),
    }
}

/// Neighbours pair up, level by level; the target takes part, as the last of all.
fn tree(sums: &mut Sums, nodes: Vec<(usize, Terms)>, target: usize, own: Terms) -> Result<Symbol> {
    let mut level: Vec<(usize, Symbol)> = Vec::new();
    for (node, terms) in nodes {
        level.push((node, sums.add(node, &terms, &[])?));
    }
    // A place for the target's own terms: an empty sum until something joins it.
    let mut at_target: Vec<Symbol> = Vec::new();
    if !own.is_empty() || level.is_empty() {
        at_target.push(sums.add(target, &own, &[])?);
    }
    while !level.is_empty() {
        let mut next = Vec::new();
        let odd = level.len() % 2 == 1;
        let joins = if odd { level.len() - 1 } else { level.len() };
        for pair in level[..joins].chunks(2) {
            next.push((pair[1].0, sums.add(pair[1].0, &[], &[pair[0].1, pair[1].1])?));
        }
        if odd && let Some(&(_, symbol)) = level.last() {
            at_target.push(symbol);
            at_target = vec![sums.add(target, &[], &at_target)?];
        }
        level = next;
    }
    sums.add(target, &[], &at_target)
}
