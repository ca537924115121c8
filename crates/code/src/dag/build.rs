//! Building a DAG: symbols while a code thinks, then pruning and numbering.

use super::{At, Dag, Hint, StepRecord};
use crate::{CodeError, Result};
use kiln_gf::Matrix;
use rustc_hash::FxHashMap as HashMap;
use std::ops::Range;

/// A sub-chunk while a DAG is built: known to be all zeros (a virtual node), or a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    /// All zeros: not read, not computed.
    Zero,
    /// A vertex of the builder.
    Vertex(u32),
}

impl Symbol {
    /// The symbol so many after this one, of a row made together.
    pub(crate) fn after(self, count: usize) -> Symbol {
        match self {
            Symbol::Zero => Symbol::Zero,
            Symbol::Vertex(first) => Symbol::Vertex(first + count as u32),
        }
    }
}

/// A matrix known to a builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixId(u32);

/// The new symbols of one step, by row.
#[derive(Debug, Clone, Copy)]
pub struct StepOut {
    first: Symbol,
}

impl StepOut {
    /// The symbol of row `row`.
    pub fn symbol(&self, row: usize) -> Symbol {
        self.first.after(row)
    }
}

/// Names of a builder's vertices in the finished DAG; see [`DagBuilder::finish_named`].
#[derive(Debug, Clone)]
pub struct Names {
    /// By vertex of the builder; the largest number for those that were dropped.
    vertices: Vec<u32>,
}

impl Names {
    /// The vertex of the finished DAG; nothing for zeros and for what no output needs.
    pub fn vertex(&self, symbol: Symbol) -> Option<u32> {
        match symbol {
            Symbol::Zero => None,
            Symbol::Vertex(v) => self.vertices.get(v as usize).copied().filter(|&v| v != u32::MAX),
        }
    }
}

/// Kind of a vertex of the builder.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Input(At),
    Computed,
}

/// A step that stays after pruning.
struct Kept {
    matrix: u32,
    sources: Vec<u32>,
    /// The step's vertices in the builder, those not needed included.
    vertices: Range<usize>,
}

/// Collects vertices and steps; [`DagBuilder::finish`] drops what no output needs.
///
/// See [`Dag`] for an example.
#[derive(Debug, Default)]
pub struct DagBuilder {
    origins: Vec<Origin>,
    hints: Vec<Hint>,
    steps: Vec<StepRecord>,
    sources: Vec<u32>,
    matrices: Matrices,
    inputs: HashMap<At, u32>,
    outputs: Vec<(At, Symbol)>,
}

/// Interned matrices, so that equal ones are prepared once.
#[derive(Debug, Default)]
struct Matrices {
    list: Vec<Matrix>,
    index: HashMap<Matrix, u32>,
    /// Sub-matrices already cut: (matrix, kept rows, kept columns).
    cuts: HashMap<(u32, Vec<bool>, Vec<bool>), u32>,
}

impl Matrices {
    fn intern(&mut self, matrix: &Matrix) -> u32 {
        if let Some(&id) = self.index.get(matrix) {
            return id;
        }
        let id = self.list.len() as u32;
        self.list.push(matrix.clone());
        self.index.insert(matrix.clone(), id);
        id
    }

    fn cut(&mut self, id: u32, rows: &[bool], cols: &[bool]) -> u32 {
        if rows.iter().chain(cols).all(|&keep| keep) {
            return id;
        }
        let key = (id, rows.to_vec(), cols.to_vec());
        if let Some(&cut) = self.cuts.get(&key) {
            return cut;
        }
        let kept = |keep: &[bool]| -> Vec<usize> { (0..keep.len()).filter(|&i| keep[i]).collect() };
        let part = self.list[id as usize].select_rows(&kept(rows)).select_cols(&kept(cols));
        let cut = self.intern(&part);
        self.cuts.insert(key, cut);
        cut
    }
}

impl DagBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// The vertex of a sub-chunk that is read; the same vertex for the same place.
    pub fn input(&mut self, at: At, hint: Hint) -> Symbol {
        if let Some(&vertex) = self.inputs.get(&at) {
            return Symbol::Vertex(vertex);
        }
        let vertex = self.vertex(Origin::Input(at), hint);
        self.inputs.insert(at, vertex);
        Symbol::Vertex(vertex)
    }

    /// Makes a matrix known; equal matrices are one.
    pub fn matrix(&mut self, matrix: &Matrix) -> MatrixId {
        MatrixId(self.matrices.intern(matrix))
    }

    /// Adds vertices `matrix * sources`, one a row, with a hint each. Zero sources cost nothing;
    /// a plain copy makes no vertex.
    ///
    /// # Errors
    /// The matrix does not fit the sources or hints.
    pub fn step(
        &mut self,
        matrix: MatrixId,
        sources: &[Symbol],
        hints: &[Hint],
    ) -> Result<StepOut> {
        let known = self.matrices.list.get(matrix.0 as usize);
        let known = known.ok_or_else(|| CodeError::Internal("matrix of another builder".into()))?;
        if known.cols() != sources.len() || known.rows() != hints.len() || hints.is_empty() {
            return Err(CodeError::Internal(format!(
                "a step of {}x{} has {} sources and {} results",
                known.rows(),
                known.cols(),
                sources.len(),
                hints.len()
            )));
        }
        if let [only @ Symbol::Vertex(_)] = sources
            && known.is_identity()
        {
            return Ok(StepOut { first: *only });
        }
        let keep: Vec<bool> = sources.iter().map(|s| *s != Symbol::Zero).collect();
        if !keep.contains(&true) {
            return Ok(StepOut { first: Symbol::Zero });
        }
        let matrix = self.matrices.cut(matrix.0, &vec![true; hints.len()], &keep);
        let start = self.sources.len() as u32;
        self.sources.extend(sources.iter().filter_map(|s| match s {
            Symbol::Vertex(v) => Some(*v),
            Symbol::Zero => None,
        }));
        let first = self.origins.len() as u32;
        for &hint in hints {
            self.vertex(Origin::Computed, hint);
        }
        let sources = start..self.sources.len() as u32;
        self.steps.push(StepRecord { matrix, sources, first });
        Ok(StepOut { first: Symbol::Vertex(first) })
    }

    /// Says that `symbol` is wanted at `at`.
    pub fn output(&mut self, at: At, symbol: Symbol) {
        self.outputs.push((at, symbol));
    }

    fn vertex(&mut self, origin: Origin, hint: Hint) -> u32 {
        self.origins.push(origin);
        self.hints.push(hint);
        self.origins.len() as u32 - 1
    }

    /// Drops every vertex that no output needs, numbers the inputs in order and closes the graph.
    ///
    /// # Errors
    /// An output is zero by construction or given twice: no MDS code does that.
    pub fn finish(self) -> Result<Dag> {
        Ok(self.finish_named()?.0)
    }

    /// As [`DagBuilder::finish`], with what became of the builder's vertices, for those who hold
    /// more about a vertex than a hint.
    ///
    /// # Errors
    /// As [`DagBuilder::finish`].
    pub fn finish_named(mut self) -> Result<(Dag, Names), CodeError> {
        self.outputs.sort_by_key(|&(at, _)| at);
        if self.outputs.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(CodeError::Internal("an output is given twice".into()));
        }
        let mut needed = vec![false; self.origins.len()];
        for (at, symbol) in &self.outputs {
            match symbol {
                Symbol::Vertex(v) => needed[*v as usize] = true,
                Symbol::Zero => {
                    return Err(CodeError::Internal(format!("output {at:?} is always zero")));
                }
            }
        }
        let kept = self.prune(&mut needed);
        Ok(self.number(&needed, kept))
    }

    /// Walks the steps backwards; returns those that stay, cut to the rows and columns needed.
    fn prune(&mut self, needed: &mut [bool]) -> Vec<Kept> {
        let mut kept = Vec::new();
        for index in (0..self.steps.len()).rev() {
            let step = self.steps[index].clone();
            let rows = self.matrices.list[step.matrix as usize].rows();
            let first = step.first as usize;
            let keep_rows = needed[first..first + rows].to_vec();
            if !keep_rows.contains(&true) {
                continue;
            }
            let sources = &self.sources[step.sources.start as usize..step.sources.end as usize];
            let matrix = &self.matrices.list[step.matrix as usize];
            let live = |c: usize| (0..rows).any(|r| keep_rows[r] && matrix.at(r, c) != 0);
            let keep_cols: Vec<bool> = (0..sources.len()).map(live).collect();
            let used: Vec<u32> =
                (0..sources.len()).filter(|&c| keep_cols[c]).map(|c| sources[c]).collect();
            for &source in &used {
                needed[source as usize] = true;
            }
            let matrix = self.matrices.cut(step.matrix, &keep_rows, &keep_cols);
            kept.push(Kept { matrix, sources: used, vertices: first..first + rows });
        }
        kept.reverse();
        kept
    }

    fn number(self, needed: &[bool], kept: Vec<Kept>) -> (Dag, Names) {
        let mut inputs: Vec<(At, u32)> = Vec::new();
        for (vertex, origin) in self.origins.iter().enumerate() {
            if let (Origin::Input(at), true) = (origin, needed[vertex]) {
                inputs.push((*at, vertex as u32));
            }
        }
        inputs.sort();
        let mut names = vec![u32::MAX; self.origins.len()];
        let mut hints = Vec::new();
        for &(_, vertex) in &inputs {
            names[vertex as usize] = hints.len() as u32;
            hints.push(self.hints[vertex as usize]);
        }
        // Matrices that pruning made superfluous go, so that they are not prepared.
        let mut matrix_names: HashMap<u32, u32> = HashMap::default();
        let mut matrices = Vec::new();
        let (mut steps, mut sources) = (Vec::with_capacity(kept.len()), Vec::new());
        for step in kept {
            let first = hints.len() as u32;
            for vertex in step.vertices.filter(|&v| needed[v]) {
                names[vertex] = hints.len() as u32;
                hints.push(self.hints[vertex]);
            }
            let matrix = *matrix_names.entry(step.matrix).or_insert_with(|| {
                matrices.push(self.matrices.list[step.matrix as usize].clone());
                matrices.len() as u32 - 1
            });
            let start = sources.len() as u32;
            sources.extend(step.sources.iter().map(|&v| names[v as usize]));
            steps.push(StepRecord { matrix, sources: start..sources.len() as u32, first });
        }
        let named = |symbol: &Symbol| match symbol {
            Symbol::Vertex(v) => names[*v as usize],
            Symbol::Zero => u32::MAX,
        };
        let outputs = self.outputs.iter().map(|(at, symbol)| (*at, named(symbol))).collect();
        let inputs = inputs.into_iter().map(|(at, _)| at).collect();
        let dag = Dag { inputs, steps, sources, matrices, hints, outputs };
        (dag, Names { vertices: names })
    }
}
