//! Cost of carrying out an assignment: computed from its numbers before anything is allocated,
//! so that a few bytes from the wire cannot ask for more memory than a node gives.

use super::{Assignment, DagInfo, bad};
use crate::Result;
use kiln_store::Layout;

/// Bytes of memory that the least windows of an assignment may take, at most.
pub(crate) const FLOOR_MAX: u64 = 2 << 30;
/// Vertices of the DAGs of all rounds together, at most.
const VERTICES_MAX: u64 = 1 << 22;
/// Coefficients of their steps, at most.
const TERMS_MAX: u64 = 1 << 24;
/// Bytes that a compiled vertex and a coefficient take, about; and those of the slice of a vertex
/// that a program computes at once, where it has many.
const VERTEX: u64 = 64;
const TERM: u64 = 16;
const SLICE: u64 = 512;
/// Programs of so few vertices may compute whole windows of them at once.
const FEW: u64 = 8192;

/// Bytes of memory by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// All pieces of one window.
    window: u64,
    /// Bytes read and written of one stripe, which are kept until its last window is done.
    stripe: u64,
    /// Windows of a stripe.
    slices: u64,
    /// The programs of all rounds, and what they compute with.
    programs: u64,
}

impl Cost {
    /// The cost of an assignment whose single numbers are within their limits.
    /// Errors: it takes more than any node gives, or its matrices are none.
    pub fn of(assignment: &Assignment, layout: &Layout) -> Result<Cost> {
        let geometry = &assignment.geometry;
        let slice = u64::from(assignment.slice.min(geometry.sub_chunk));
        let sub_chunk = u64::from(geometry.sub_chunk);
        let alpha = u64::from(geometry.alpha);
        let pieces = &assignment.pieces;
        let sub_chunks: u64 = pieces.iter().map(|piece| u64::from(piece.sub_chunks)).sum();
        let read = assignment.sources.iter().map(|source| {
            let mine = pieces.iter().filter(|piece| piece.chunk == source.chunk);
            let runs = mine.flat_map(|piece| &piece.runs);
            runs.map(|run| u64::from(run.end.saturating_sub(run.start))).sum::<u64>().min(alpha)
        });
        let kept = read.sum::<u64>().saturating_add(assignment.targets.len() as u64 * alpha);
        let (mut vertices, mut terms) = (0u64, 0u64);
        for round in &assignment.rounds {
            let (more_vertices, more_terms) = round.dag.size()?;
            vertices = vertices.saturating_add(more_vertices);
            terms = terms.saturating_add(more_terms);
        }
        if vertices > VERTICES_MAX || terms > TERMS_MAX {
            return Err(bad(format!(
                "DAGs of {vertices} vertices and {terms} coefficients, at most {VERTICES_MAX} \
                 and {TERMS_MAX} are taken"
            )));
        }
        let compiled = vertices * (VERTEX + SLICE) + terms * TERM;
        let cost = Cost {
            window: sub_chunks.saturating_mul(slice),
            stripe: kept.saturating_mul(sub_chunk),
            slices: (layout.sub_len(assignment.first) as u64).div_ceil(slice.max(1)).max(1),
            programs: compiled.saturating_add(vertices.min(FEW).saturating_mul(slice)),
        };
        match cost.memory(1) {
            floor if floor <= FLOOR_MAX => Ok(cost),
            floor => Err(bad(format!(
                "an assignment that takes {floor} bytes of memory at least, at most {FLOOR_MAX} \
                 are given; smaller windows or sub-chunks take less"
            ))),
        }
    }

    /// Bytes with so many windows under way.
    pub fn memory(&self, windows: u64) -> u64 {
        // A window more may have begun another stripe, and one less not have ended its own.
        let stripes = windows.div_ceil(self.slices).saturating_add(1);
        let pieces = windows.saturating_mul(self.window);
        let stripes = stripes.saturating_mul(self.stripe);
        pieces.saturating_add(stripes).saturating_add(self.programs)
    }

    /// Bytes of the programs alone.
    pub fn programs(&self) -> u64 {
        self.programs
    }

    /// As many windows as these bytes suffice for beside the programs: 1 to `most`.
    pub fn windows_within(&self, bytes: u64, most: u64) -> u64 {
        let fits = |windows: &u64| self.memory(*windows).saturating_sub(self.programs) <= bytes;
        (1..=most).rev().find(fits).unwrap_or(1)
    }
}

impl DagInfo {
    /// Its vertices and the coefficients of its steps, before it is built.
    fn size(&self) -> Result<(u64, u64)> {
        for matrix in &self.matrices {
            let (rows, entries) = (u64::from(matrix.rows), matrix.entries.len() as u64);
            if rows == 0 || entries == 0 || !entries.is_multiple_of(rows) {
                return Err(bad(format!("{entries} entries are no matrix of {rows} rows")));
            }
        }
        let (mut vertices, mut terms) = (self.inputs.len() as u64, 0u64);
        for step in &self.steps {
            let Some(matrix) = self.matrices.get(step.matrix as usize) else {
                return Err(bad("a step of no matrix"));
            };
            vertices = vertices.saturating_add(matrix.rows.into());
            terms = terms.saturating_add(matrix.entries.len() as u64);
        }
        Ok((vertices, terms))
    }
}
