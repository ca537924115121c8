//! The common part of all XOR codes. A family gives its *equations*, sets of sub-chunks that XOR to
//! zero; encode, decode and cheap repair follow from them.
//!
//! Besides the sub-chunks of the n chunks an equation may name auxiliary values that no chunk
//! stores (the S of EVENODD): they are computed once and shared, which is what keeps the number of
//! XORs at the family's own.

mod bits;
mod params;
mod recover;
mod solve;

use super::{Choice, Code};
use crate::combinations::{combinations, others};
use crate::dag::{At, DagBuilder, Hint};
use crate::{CodeError, CodeSpec, Dag, Packets, RebuildMethod, Result, Shape};
use kiln_gf::Matrix;
pub(crate) use recover::Recovery;
use solve::Start;

pub(super) use params::{
    PRIME_MAX, is_prime, nearest, number, only_parities, packet, take_packet, take_prime,
};

/// The equations of a code over its variables: `chunk * alpha + position`, then the auxiliary.
#[derive(Debug, Clone)]
pub(super) struct Equations {
    shape: Shape,
    auxiliary: usize,
    list: Vec<Vec<u32>>,
    /// For each equation where its sum belongs, when that is not where its unknown does.
    places: Vec<Option<Hint>>,
}

impl Equations {
    pub(super) fn new(shape: Shape) -> Equations {
        Equations { shape, auxiliary: 0, list: Vec::new(), places: Vec::new() }
    }

    /// Equations of a bit matrix (Jerasure's layout): position l of parity r is the XOR of the
    /// positions `columns(r, j, l)` of every data chunk j.
    pub(super) fn of_blocks(
        shape: Shape,
        columns: impl Fn(usize, usize, usize) -> Vec<usize>,
    ) -> Equations {
        let mut equations = Equations::new(shape);
        for r in 0..shape.m {
            for l in 0..shape.alpha {
                let mut cells = vec![equations.cell(shape.k + r, l)];
                for j in 0..shape.k {
                    cells.extend(columns(r, j, l).into_iter().map(|c| equations.cell(j, c)));
                }
                equations.add(cells);
            }
        }
        equations
    }

    pub(super) fn cell(&self, chunk: usize, position: usize) -> u32 {
        (chunk * self.shape.alpha + position) as u32
    }

    /// A new value that equations may share and no chunk stores.
    pub(super) fn auxiliary(&mut self) -> u32 {
        self.auxiliary += 1;
        (self.cells() + self.auxiliary - 1) as u32
    }

    /// Says that these variables XOR to zero.
    pub(super) fn add(&mut self, cells: Vec<u32>) {
        self.list.push(cells);
        self.places.push(None);
    }

    /// As [`Equations::add`] for a link of a chain, whatever is computed from it belonging to
    /// `place`.
    pub(super) fn add_at(&mut self, cells: Vec<u32>, place: Hint) {
        self.list.push(cells);
        self.places.push(Some(place));
    }

    /// The bit matrix of [`Equations::of_blocks`]: a row for each sub-chunk of the parities.
    pub(super) fn parity_bits(&self) -> Matrix {
        let data = self.shape.k * self.shape.alpha;
        let mut bits = Matrix::zero(self.list.len(), data);
        for (row, cells) in self.list.iter().enumerate() {
            let columns = cells.iter().map(|&cell| cell as usize).filter(|&cell| cell < data);
            columns.for_each(|column| bits.set(row, column, 1));
        }
        bits
    }

    fn cells(&self) -> usize {
        self.shape.n() * self.shape.alpha
    }

    /// The equations that can help to get `wanted`: one with a variable that is neither known nor
    /// wanted, and that no other equation holds, tells of that variable only (a parity chunk of a
    /// Cauchy code that is not read).
    fn useful(&self, mut used: Vec<u32>, known: &[u32], wanted: &[u32]) -> Vec<u32> {
        let mut kept = vec![false; self.variables()];
        known.iter().chain(wanted).for_each(|&v| kept[v as usize] = true);
        loop {
            let mut holders = vec![0_u32; self.variables()];
            for &v in used.iter().flat_map(|&e| &self.list[e as usize]) {
                holders[v as usize] += 1;
            }
            let before = used.len();
            let alone = |&v: &u32| !kept[v as usize] && holders[v as usize] == 1;
            used.retain(|&e| !self.list[e as usize].iter().any(alone));
            if used.len() == before {
                return used;
            }
        }
    }

    fn variables(&self) -> usize {
        self.cells() + self.auxiliary
    }

    fn cells_of(&self, chunk: usize) -> std::ops::Range<u32> {
        self.cell(chunk, 0)..self.cell(chunk + 1, 0)
    }

    fn at(&self, cell: u32) -> At {
        let alpha = self.shape.alpha as u32;
        At { chunk: cell / alpha, position: cell % alpha }
    }

    /// Column n is the place of auxiliary values.
    fn hint(&self, variable: u32) -> Hint {
        match (variable as usize).checked_sub(self.cells()) {
            Some(index) => Hint { layer: index as u32, column: self.shape.n() as u32 },
            None => {
                let At { chunk, position } = self.at(variable);
                Hint { layer: position, column: chunk }
            }
        }
    }
}

/// A code made of equations.
#[derive(Debug)]
pub(super) struct XorCode {
    equations: Equations,
    packet: Option<usize>,
    half_reads: Option<HalfReads>,
}

/// A family's own rule for the reads that rebuild one chunk from all others.
pub(super) type HalfReads = fn(Shape, usize) -> Option<Vec<At>>;

impl XorCode {
    pub(super) fn new(equations: Equations, packet: Option<usize>) -> XorCode {
        XorCode { equations, packet, half_reads: None }
    }

    /// For families that know the optimal reads of a repair, so that nothing is searched.
    pub(super) fn with_half_reads(self, rule: HalfReads) -> XorCode {
        XorCode { half_reads: Some(rule), ..self }
    }

    /// For parameters whose source does not promise an MDS code: tries every loss of m chunks.
    /// Errors: some loss cannot be decoded; the error names it.
    pub(super) fn check_mds(self, spec: &CodeSpec, hint: &str) -> Result<XorCode> {
        let Shape { k, m, .. } = self.shape();
        for lost in combinations(k + m, m) {
            let choice = Choice::new(RebuildMethod::Decode, &lost, others(k + m, &lost));
            if self.emit(&choice).is_err() {
                let reason = format!("chunks {lost:?} together could not be rebuilt; {hint}");
                return Err(CodeError::Unsupported { spec: spec.to_string(), reason });
            }
        }
        Ok(self)
    }

    /// The cheapest recovery of one chunk: by the family's rule, or by search.
    fn recovery(&self, lost: usize, available: &[usize]) -> Option<Recovery> {
        let equations = &self.equations;
        let Some(rule) = self.half_reads else {
            return recover::cheapest(equations, lost, available);
        };
        let reads = rule(equations.shape, lost)?;
        let readable = |at: &At| available.contains(&(at.chunk as usize));
        reads.iter().all(readable).then(|| Recovery {
            equations: (0..equations.list.len() as u32).collect(),
            reads: reads
                .iter()
                .map(|at| equations.cell(at.chunk as usize, at.position as usize))
                .collect(),
        })
    }
}

impl Code for XorCode {
    fn shape(&self) -> Shape {
        self.equations.shape
    }

    fn packets(&self) -> Option<Packets> {
        self.packet.map(|bytes| Packets { count: self.equations.shape.alpha, bytes })
    }

    /// One lost chunk: mixed recovery where it reads less than k chunks. Blocks of packets are
    /// read whole: a sub-chunk is not one range of bytes there.
    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let decode = self.decode(lost, available)?;
        let ([chunk], None) = (lost, self.packet) else { return Ok(decode) };
        let Shape { k, alpha, .. } = self.shape();
        match self.recovery(*chunk, available) {
            Some(recovery) if recovery.reads.len() < k * alpha => {
                let mut helpers: Vec<usize> =
                    recovery.reads.iter().map(|&cell| cell as usize / alpha).collect();
                helpers.dedup();
                let repair = Choice::new(RebuildMethod::Repair, lost, helpers);
                Ok(Choice { recovery: Some(recovery), ..repair })
            }
            _ => Ok(decode),
        }
    }

    fn emit(&self, choice: &Choice) -> Result<Dag> {
        let equations = &self.equations;
        let cells = |chunks: &[usize]| -> Vec<u32> {
            chunks.iter().flat_map(|&chunk| equations.cells_of(chunk)).collect()
        };
        let wanted = cells(&choice.lost);
        let (used, known): (Vec<u32>, Vec<u32>) = match &choice.recovery {
            Some(recovery) => (recovery.equations.clone(), recovery.reads.clone()),
            None => ((0..equations.list.len() as u32).collect(), cells(&choice.helpers)),
        };
        let used = equations.useful(used, &known, &wanted);
        let solved = |start: Start| -> Result<Dag> {
            let mut builder = DagBuilder::new();
            let symbols = solve::solve(equations, &used, &known, &wanted, start, &mut builder)?;
            for (&cell, symbol) in wanted.iter().zip(symbols) {
                builder.output(equations.at(cell), symbol);
            }
            builder.finish()
        };
        let (one, other) = (solved(Start::Shortest)?, solved(Start::Hub)?);
        Ok(if other.work() < one.work() { other } else { one })
    }
}

#[cfg(test)]
mod tests;
