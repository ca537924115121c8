//! The DAG of a Clay decode or repair: Algorithm 1 of the paper (appendix A) for repair, the
//! layered decoding of section 3 for everything else; encode is the decode of all parities.
//!
//! Both go layer by layer in the order of the intersection score with all unknown nodes: first the
//! U of known nodes (pairwise reverse transform), then the U of the unknown ones (scalar MDS), at
//! last the wanted C (pairwise forward transform).

use super::{Clay, grid::Grid};
use crate::dag::{At, DagBuilder, Hint, MatrixId, Symbol};
use crate::{CodeError, Dag, RebuildMethod, Result, codes::Choice};
use kiln_gf::Matrix;
use rustc_hash::FxHashMap as HashMap;

/// Rows of the pair matrix: which of the four symbols of a pair.
const C0: usize = 0;
const U0: usize = 2;

/// Builds the DAG of a choice.
pub(super) fn emit(clay: &Clay, choice: &Choice) -> Result<Dag> {
    let mut emitter = Emitter::new(clay, choice);
    for z in emitter.layers() {
        emitter.solve_layer(z)?;
    }
    for &chunk in &choice.lost {
        for z in 0..clay.grid.alpha {
            let symbol = emitter.coupled(clay.grid.node_of(chunk), z)?;
            for bit in 0..clay.width {
                emitter.builder.output(at(clay, chunk, z, bit), symbol.after(bit));
            }
        }
    }
    emitter.builder.finish()
}

/// Returns where a layer lies in a chunk: the one place where the order decides what the code is.
fn at(clay: &Clay, chunk: usize, z: usize, bit: usize) -> At {
    let position = clay.order.positions()[z] * clay.width as u32 + bit as u32;
    At { chunk: chunk as u32, position }
}

struct Emitter<'a> {
    clay: &'a Clay,
    grid: &'a Grid,
    builder: DagBuilder,
    /// Nodes whose C is neither read nor zero.
    unknown: Vec<usize>,
    is_unknown: Vec<bool>,
    /// In a repair: the unknown nodes whose dots say which layers are read. Empty in a decode.
    erased: Vec<usize>,
    /// U by node and layer, once known: the first of a node's symbols there, which are made
    /// together.
    uncoupled: Vec<Option<Symbol>>,
    /// Outputs by node and layer, once known: pairs of lost nodes are solved together.
    solved: HashMap<(usize, usize), Symbol>,
    mds: HashMap<(Vec<usize>, Vec<usize>), MatrixId>,
    pairs: HashMap<([usize; 2], Vec<usize>), MatrixId>,
}

impl<'a> Emitter<'a> {
    fn new(clay: &'a Clay, choice: &Choice) -> Emitter<'a> {
        let grid = &clay.grid;
        let mut is_unknown: Vec<bool> = (0..grid.nodes())
            .map(|node| grid.chunk_of(node).is_some_and(|chunk| !choice.helpers.contains(&chunk)))
            .collect();
        is_unknown.resize(grid.nodes(), false);
        let unknown: Vec<usize> = (0..grid.nodes()).filter(|&node| is_unknown[node]).collect();
        let erased = match choice.strategy {
            RebuildMethod::Decode => Vec::new(),
            RebuildMethod::Repair => {
                let lost = |section| {
                    choice.lost.iter().any(|&c| grid.section_of(grid.node_of(c)) == section)
                };
                unknown.iter().copied().filter(|&v| lost(grid.section_of(v))).collect()
            }
        };
        Emitter {
            clay,
            grid,
            builder: DagBuilder::new(),
            unknown,
            is_unknown,
            erased,
            uncoupled: vec![None; grid.nodes() * grid.alpha],
            solved: HashMap::default(),
            mds: HashMap::default(),
            pairs: HashMap::default(),
        }
    }

    /// The layers that are read, by increasing intersection score with all unknown nodes. The order
    /// in which they lie plays no part here, so that DAGs of two orders differ in positions only.
    fn layers(&self) -> Vec<usize> {
        let all = 0..self.grid.alpha;
        let mut layers: Vec<usize> = match self.erased.is_empty() {
            true => all.collect(),
            false => all.filter(|&z| self.grid.score(&self.erased, z) > 0).collect(),
        };
        layers.sort_by_key(|&z| self.grid.score(&self.unknown, z));
        layers
    }

    /// Computes U of every node in layer z that can be known there.
    fn solve_layer(&mut self, z: usize) -> Result<()> {
        let wanted = self.unknown_in(z);
        let mut known: Vec<usize> =
            (0..self.grid.nodes()).filter(|node| !wanted.contains(node)).collect();
        self.drop_surplus(&mut known, z)?;
        let sources: Vec<Symbol> =
            known.iter().map(|&node| self.reverse(node, z)).collect::<Result<_, _>>()?;
        let key = (known, wanted);
        let matrix = match self.mds.get(&key) {
            Some(&matrix) => matrix,
            None => {
                // Data, virtual and parity nodes in grid order are the generator's rows.
                let rows = |nodes: &[usize]| self.clay.rows(nodes);
                let solve = self.clay.scalar.solve(&rows(&key.0), &rows(&key.1))?;
                let matrix = self.builder.matrix(&solve);
                self.mds.insert(key.clone(), matrix);
                matrix
            }
        };
        let made: Vec<(usize, usize)> = key.1.iter().map(|&node| (node, z)).collect();
        let out = self.step(matrix, &sources, &made)?;
        for (row, &node) in key.1.iter().enumerate() {
            self.uncoupled[node * self.grid.alpha + z] = Some(out.after(row * self.clay.width));
        }
        Ok(())
    }

    /// Adds a step that makes the symbols of vertices `(node, z)`; returns the first of them.
    fn step(
        &mut self,
        matrix: MatrixId,
        sources: &[Symbol],
        made: &[(usize, usize)],
    ) -> Result<Symbol> {
        let clay = self.clay;
        let symbols = |first: &Symbol| {
            let first = *first;
            (0..clay.width).map(move |bit| first.after(bit))
        };
        let sources: Vec<Symbol> = sources.iter().flat_map(symbols).collect();
        let hints = |&(node, z)| (0..clay.width).map(move |bit| hint(clay, node, z, bit));
        let hints: Vec<Hint> = made.iter().flat_map(hints).collect();
        Ok(self.builder.step(matrix, &sources, &hints)?.symbol(0))
    }

    /// Nodes whose U the scalar code must give in layer z. Where one erased node has its dot, the
    /// companions of its section lie in layers that are not read: the whole section is unknown.
    fn unknown_in(&self, z: usize) -> Vec<usize> {
        let mut unknown = self.unknown.clone();
        let mut dots = self.erased.iter().filter(|&&node| self.grid.is_dot(node, z));
        if let (Some(&dot), None) = (dots.next(), dots.next()) {
            let first = self.grid.section_of(dot) * self.grid.q;
            unknown.extend(first..first + self.grid.q);
            unknown.sort_unstable();
            unknown.dedup();
        }
        unknown
    }

    /// Keeps as many known nodes as the scalar code needs. Given up first are those whose C must
    /// be read anyway for their companion's sake (of a pair only the larger, so that the other one
    /// keeps both needed), so that reads stay whole runs.
    fn drop_surplus(&self, known: &mut Vec<usize>, z: usize) -> Result<()> {
        let needed = self.grid.k + self.grid.virtuals;
        let Some(mut surplus) = known.len().checked_sub(needed) else {
            let message = format!("layer {z}: {} of {needed} symbols known", known.len());
            return Err(CodeError::Internal(message));
        };
        let read_anyway = |node: usize| {
            let (other, _) = self.grid.companion(node, z);
            other < node && !self.is_unknown[other]
        };
        for wanted in [true, false] {
            for index in (0..known.len()).rev() {
                if surplus > 0 && read_anyway(known[index]) == wanted {
                    known.remove(index);
                    surplus -= 1;
                }
            }
        }
        Ok(())
    }

    /// C of a node that is read or zero.
    fn stored(&mut self, node: usize, z: usize) -> Symbol {
        let Some(chunk) = self.grid.chunk_of(node) else { return Symbol::Zero };
        let clay = self.clay;
        let mut input = |bit| self.builder.input(at(clay, chunk, z, bit), hint(clay, node, z, bit));
        let first = input(0);
        (1..clay.width).for_each(|bit| _ = input(bit));
        first
    }

    /// U of a known node: its C with the companion's C, or with the companion's U where that node
    /// is unknown (its layer has a lower score and is done).
    fn reverse(&mut self, node: usize, z: usize) -> Result<Symbol> {
        if self.grid.is_dot(node, z) {
            return Ok(self.stored(node, z));
        }
        let (other, layer) = self.grid.companion(node, z);
        let own = self.stored(node, z);
        let (mine, its) = members(node, other);
        if self.is_unknown[other] {
            let companion = self.uncoupled_at(other, layer)?;
            return self.pair([C0 + mine, U0 + its], U0 + mine, [own, companion], (node, z));
        }
        let companion = self.stored(other, layer);
        self.pair([C0 + mine, C0 + its], U0 + mine, [own, companion], (node, z))
    }

    /// C of a lost node in any layer, from what the layers gave.
    fn coupled(&mut self, node: usize, z: usize) -> Result<Symbol> {
        if self.grid.is_dot(node, z) {
            return self.uncoupled_at(node, z);
        }
        if let Some(&symbol) = self.solved.get(&(node, z)) {
            return Ok(symbol);
        }
        let (other, layer) = self.grid.companion(node, z);
        let (mine, its) = members(node, other);
        if self.is_unknown[other] {
            return self.both_coupled((node, z), (other, layer));
        }
        let stored = self.stored(other, layer);
        match self.uncoupled[node * self.grid.alpha + z] {
            Some(own) => self.pair([U0 + mine, C0 + its], C0 + mine, [own, stored], (node, z)),
            None => {
                let its_u = self.uncoupled_at(other, layer)?;
                self.pair([C0 + its, U0 + its], C0 + mine, [stored, its_u], (node, z))
            }
        }
    }

    /// C of both members of a pair from both U; the second is kept in case it is wanted too.
    fn both_coupled(
        &mut self,
        (node, z): (usize, usize),
        (other, layer): (usize, usize),
    ) -> Result<Symbol> {
        let (mine, its) = members(node, other);
        let sources = [self.uncoupled_at(node, z)?, self.uncoupled_at(other, layer)?];
        let matrix = self.pair_matrix([U0 + mine, U0 + its], vec![C0 + mine, C0 + its])?;
        let out = self.step(matrix, &sources, &[(node, z), (other, layer)])?;
        self.solved.insert((other, layer), out.after(self.clay.width));
        Ok(out)
    }

    fn uncoupled_at(&self, node: usize, z: usize) -> Result<Symbol> {
        self.uncoupled[node * self.grid.alpha + z].ok_or_else(|| {
            CodeError::Internal(format!("U of node {node} in layer {z} is used before it is known"))
        })
    }

    /// One symbol of a pair from two others.
    fn pair(
        &mut self,
        known: [usize; 2],
        wanted: usize,
        sources: [Symbol; 2],
        made: (usize, usize),
    ) -> Result<Symbol> {
        let matrix = self.pair_matrix(known, vec![wanted])?;
        self.step(matrix, &sources, &[made])
    }

    fn pair_matrix(&mut self, known: [usize; 2], wanted: Vec<usize>) -> Result<MatrixId> {
        let key = (known, wanted);
        if let Some(&matrix) = self.pairs.get(&key) {
            return Ok(matrix);
        }
        let rows = |members: &[usize]| self.clay.pair.select_rows(&self.clay.rows(members));
        let coupled: Matrix = rows(&known).invert()?;
        let solve = rows(&key.1).mul(&coupled)?;
        let matrix = self.builder.matrix(&solve);
        self.pairs.insert(key, matrix);
        Ok(matrix)
    }
}

fn hint(clay: &Clay, node: usize, z: usize, bit: usize) -> Hint {
    Hint { layer: (z * clay.width + bit) as u32, column: node as u32 }
}

/// Positions of two companions in the pair matrix: 0 is the one with the larger x.
fn members(node: usize, other: usize) -> (usize, usize) {
    if node > other { (0, 1) } else { (1, 0) }
}
