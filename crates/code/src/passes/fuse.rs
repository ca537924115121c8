//! Fusing a step into the only step that uses it: its values are never stored.
//!
//! A pair's uncoupled symbol that only one layer needs becomes two columns of that layer's matrix:
//! one load and a few multiplications more there, a store, a load and a dispatch less elsewhere.

use crate::dag::{DagBuilder, Hint, Step, Symbol};
use crate::{Dag, Result};
use kiln_gf::Matrix;
use rustc_hash::FxHashMap as HashMap;

/// Cost of a step for one vector of bytes, in half cycles of a core that loads and multiplies two
/// vectors a cycle and stores one; the constant is the share of the call.
fn cost(rows: usize, cols: usize) -> usize {
    const LOAD: usize = 1;
    const MULTIPLY: usize = 1;
    const STORE: usize = 2;
    const CALL: usize = 4;
    cols * LOAD + rows * cols * MULTIPLY + rows * STORE + CALL
}

/// A linear combination of symbols.
type Sum = Vec<(Symbol, u8)>;

/// Composes every step that has one user into that user, where that is cheaper.
pub fn fuse(dag: &Dag) -> Result<Dag> {
    let steps: Vec<Step<'_>> = dag.steps().collect();
    let users = only_users(dag, &steps);
    let mut builder = DagBuilder::new();
    let mut sums: Vec<Sum> = Vec::with_capacity(dag.vertices());
    for (vertex, &at) in dag.inputs().iter().enumerate() {
        let hint = dag.hint(vertex as u32).unwrap_or_default();
        sums.push(vec![(builder.input(at, hint), 1)]);
    }
    for (index, step) in steps.iter().enumerate() {
        let (columns, matrix) = compose(step, &sums);
        let pays = users[index].is_some_and(|user: usize| {
            let (rows, cols) = (steps[user].matrix.rows(), steps[user].matrix.cols());
            let grown = cols + columns.len() - step.matrix.rows();
            cost(rows, grown) <= cost(rows, cols) + cost(matrix.rows(), columns.len())
        });
        if pays {
            for r in 0..matrix.rows() {
                let terms = columns.iter().copied().zip(matrix.row(r).iter().copied());
                sums.push(terms.filter(|&(_, c)| c != 0).collect());
            }
            continue;
        }
        let hint = |v: u32| dag.hint(v).unwrap_or_default();
        let hints: Vec<Hint> = (0..matrix.rows() as u32).map(|r| hint(step.first + r)).collect();
        let id = builder.matrix(&matrix);
        let out = builder.step(id, &columns, &hints)?;
        sums.extend((0..matrix.rows()).map(|r| vec![(out.symbol(r), 1)]));
    }
    for &(at, vertex) in dag.outputs() {
        builder.output(at, sums[vertex as usize][0].0);
    }
    builder.finish()
}

/// The step that uses all vertices of a step, where there is just one and no output among them.
fn only_users(dag: &Dag, steps: &[Step<'_>]) -> Vec<Option<usize>> {
    let mut owner = vec![usize::MAX; dag.vertices()];
    for (index, step) in steps.iter().enumerate() {
        owner[step.vertices()].fill(index);
    }
    let mut users: Vec<Option<usize>> = vec![None; steps.len()];
    let mut shared = vec![false; steps.len()];
    for (index, step) in steps.iter().enumerate() {
        for &source in step.sources {
            let from = owner[source as usize];
            if from == usize::MAX {
                continue;
            }
            match users[from] {
                Some(user) if user != index => shared[from] = true,
                _ => users[from] = Some(index),
            }
        }
    }
    for &(_, vertex) in dag.outputs() {
        if let Some(shared) = shared.get_mut(owner[vertex as usize]) {
            *shared = true;
        }
    }
    users.iter().zip(shared).map(|(&user, shared)| user.filter(|_| !shared)).collect()
}

/// The step over what its sources stand for: distinct symbols, and the matrix over them.
fn compose(step: &Step<'_>, sums: &[Sum]) -> (Vec<Symbol>, Matrix) {
    let mut columns: Vec<Symbol> = Vec::new();
    let mut place: HashMap<u32, usize> = HashMap::default();
    for (symbol, _) in step.sources.iter().flat_map(|&source| &sums[source as usize]) {
        if let Symbol::Vertex(vertex) = symbol {
            place.entry(*vertex).or_insert_with(|| {
                columns.push(*symbol);
                columns.len() - 1
            });
        }
    }
    let mut matrix = Matrix::zero(step.matrix.rows(), columns.len());
    for (c, &source) in step.sources.iter().enumerate() {
        for (symbol, factor) in &sums[source as usize] {
            let Symbol::Vertex(vertex) = symbol else { continue };
            let column = place[vertex];
            for r in 0..matrix.rows() {
                let term = kiln_gf::field::mul(step.matrix.at(r, c), *factor);
                matrix.set(r, column, matrix.at(r, column) ^ term);
            }
        }
    }
    (columns, matrix)
}
