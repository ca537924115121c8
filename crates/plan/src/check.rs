//! The proof that a placed plan is the repair: its execution is carried out on symbols.
//!
//! Every node starts with its disk, works through its rounds, and may use only what it has by
//! then. What arrives at the targets is compared with what the problem's DAG computes: on all unit
//! vectors where that is quick, which proves equality, else on random vectors over the field. A
//! wrong sub-chunk agrees on one random vector with probability 1/256, on all with 256^-64.

use crate::{Execution, NodeExecution, Plan, PlanError, Result, Round, Source};
use kiln_code::{Dag, dag::At, field};
use std::collections::{BTreeMap, HashMap};

/// Way in which a plan was proved equal to its repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// On all unit vectors: the matrices are equal.
    Exact,
    /// On random vectors over GF(2^8).
    Random {
        /// Number of vectors.
        vectors: usize,
    },
}

/// Values of a sub-chunk in that many independent experiments.
const LANES: usize = 64;
type Lanes = [u8; LANES];

/// Multiplications of lanes up to which a proof is exact: some 20 ms.
const EXACT_WORK: usize = 1 << 19;

/// Summand of doubling where it overflows: the polynomial without its highest term.
const POLYNOMIAL: u8 = field::POLYNOMIAL as u8;

/// Seed of the random vectors. A plan is not an adversary, so any will do.
const SEED: u64 = 0x6b69_6c6e;

impl Plan {
    /// Proves that the nodes, executing [`Plan::execution`], deliver exactly what the problem's DAG
    /// computes, each to its node, and that a node uses nothing but what it stores or has received.
    /// Errors: what is wrong: such a plan must not run.
    pub fn check(&self) -> Result<Proof> {
        check(self, &self.execution()?)
    }
}

fn check(plan: &Plan, execution: &Execution) -> Result<Proof> {
    let (repair, placed) = (plan.problem().dag(), plan.dag());
    let inputs = repair.inputs();
    if let Some(&at) = placed.inputs().iter().find(|at| inputs.binary_search(at).is_err()) {
        return Err(PlanError::Reads { at });
    }
    let work = |dag: &Dag| -> usize {
        dag.steps().map(|step| step.matrix.rows() * step.matrix.cols()).sum()
    };
    let passes = inputs.len().div_ceil(LANES);
    let exact = (work(repair) + work(placed)).saturating_mul(passes) <= EXACT_WORK;
    if !exact {
        let mut state = SEED;
        let values: Vec<Lanes> = inputs.iter().map(|_| random(&mut state)).collect();
        compare(plan, execution, &values)?;
        return Ok(Proof::Random { vectors: LANES });
    }
    for pass in 0..passes {
        let mut values = vec![[0; LANES]; inputs.len()];
        for (lane, value) in values.iter_mut().skip(pass * LANES).take(LANES).enumerate() {
            value[lane] = 1;
        }
        compare(plan, execution, &values)?;
    }
    Ok(Proof::Exact)
}

/// Compares plan and repair on one set of values of the repair's inputs.
fn compare(plan: &Plan, execution: &Execution, values: &[Lanes]) -> Result<()> {
    let repair = plan.problem().dag();
    let disk: HashMap<At, Lanes> = repair.inputs().iter().copied().zip(values.to_vec()).collect();
    let mut run = Run {
        plan,
        execution,
        disk,
        has: HashMap::new(),
        sent: HashMap::new(),
        got: BTreeMap::new(),
    };
    let mut rounds: Vec<(u32, &NodeExecution, &Round)> = Vec::new();
    for node_execution in execution.execution() {
        rounds
            .extend(node_execution.rounds.iter().map(|round| (round.round, node_execution, round)));
    }
    rounds.sort_by_key(|(number, node_execution, _)| (*number, node_execution.node));
    for (_, node_execution, round) in rounds {
        run.round(node_execution.node, round)?;
    }
    let wanted = eval(repair, values);
    for (&(at, _), value) in repair.outputs().iter().zip(wanted) {
        match run.got.get(&at).map(Vec::as_slice) {
            Some([got]) if *got == value => {}
            Some([_]) => return Err(PlanError::Wrong { at }),
            other => return Err(PlanError::Delivery { at, times: other.map_or(0, <[_]>::len) }),
        }
    }
    match run.got.len() == repair.outputs().len() {
        true => Ok(()),
        false => Err(PlanError::Internal("something is persisted that is not wanted".into())),
    }
}

/// The state of the cluster during the execution.
struct Run<'a> {
    plan: &'a Plan,
    execution: &'a Execution,
    disk: HashMap<At, Lanes>,
    /// Values that each node has, by node and piece.
    has: HashMap<(usize, u32), Vec<Lanes>>,
    /// In which round a piece was sent to a node.
    sent: HashMap<(usize, u32), u32>,
    got: BTreeMap<At, Vec<Lanes>>,
}

impl Run<'_> {
    fn round(&mut self, node: usize, round: &Round) -> Result<()> {
        for &piece in &round.reads {
            let values = self.read(node, piece)?;
            self.has.insert((node, piece), values);
        }
        for &piece in &round.receives {
            let missing = PlanError::Missing { node, piece, round: round.round };
            let at = self.sent.get(&(node, piece)).filter(|&&at| at < round.round);
            at.ok_or(missing.clone())?;
            let home = self.execution.pieces().get(piece as usize).map(|piece| piece.home);
            let values = home.and_then(|home| self.has.get(&(home, piece)));
            let values = values.ok_or(missing)?.clone();
            self.has.insert((node, piece), values);
        }
        if let Some(dag) = &round.dag {
            self.compute(node, round, dag)?;
        }
        for &(piece, to) in &round.sends {
            self.held(node, piece, round.round)?;
            self.sent.insert((to, piece), round.round);
        }
        for persist in &round.persists {
            let values = self.held(node, persist.piece, round.round)?.clone();
            let chunk = persist.chunk as u32;
            if self.plan.problem().target(chunk) != Some(node)
                || values.len() != persist.positions.len()
            {
                return Err(PlanError::Internal("a piece is persisted at the wrong node".into()));
            }
            for (&position, value) in persist.positions.iter().zip(values) {
                self.got.entry(At { chunk, position }).or_default().push(value);
            }
        }
        Ok(())
    }

    /// Returns what a node reads from its own disk.
    fn read(&self, node: usize, piece: u32) -> Result<Vec<Lanes>> {
        let wrong = || PlanError::Internal(format!("node {node} cannot read piece {piece}"));
        let piece = self.execution.pieces().get(piece as usize).ok_or_else(wrong)?;
        let Source::Disk { chunk, runs } = &piece.source else { return Err(wrong()) };
        let chunk = *chunk as u32;
        if self.plan.problem().home(chunk) != Some(node) {
            return Err(wrong());
        }
        let positions = runs.iter().cloned().flatten();
        let value = |position| self.disk.get(&At { chunk, position }).copied().ok_or_else(wrong);
        positions.map(value).collect()
    }

    fn held(&self, node: usize, piece: u32, round: u32) -> Result<&Vec<Lanes>> {
        self.has.get(&(node, piece)).ok_or(PlanError::Missing { node, piece, round })
    }

    fn compute(&mut self, node: usize, round: &Round, dag: &Dag) -> Result<()> {
        let mut inputs = Vec::with_capacity(dag.inputs().len());
        for &piece in &round.inputs {
            inputs.extend_from_slice(self.held(node, piece, round.round)?);
        }
        // The executor takes a piece as one buffer: the DAG must read all of it, in order.
        let mut ats = Vec::with_capacity(inputs.len());
        for &piece in &round.inputs {
            let length = self.held(node, piece, round.round)?.len() as u32;
            ats.extend((0..length).map(|position| At { chunk: piece, position }));
        }
        if ats != dag.inputs() {
            return Err(PlanError::Internal(format!("node {node} reads a part of a piece")));
        }
        for (&(at, _), value) in dag.outputs().iter().zip(eval(dag, &inputs)) {
            self.has.entry((node, at.chunk)).or_default().push(value);
        }
        Ok(())
    }
}

/// Returns what a DAG computes, in all experiments at once.
fn eval(dag: &Dag, inputs: &[Lanes]) -> Vec<Lanes> {
    let mut values = inputs.to_vec();
    values.reserve(dag.vertices().saturating_sub(values.len()));
    for step in dag.steps() {
        for row in 0..step.matrix.rows() {
            // What each bit of the coefficients takes, put together by doubling: far fewer
            // operations than a look into a table for every byte.
            let (mut bits, mut all) = ([[0; LANES]; 8], 0);
            for (&c, &source) in step.matrix.row(row).iter().zip(step.sources) {
                all |= c;
                let mine = bits.iter_mut().enumerate().filter(|(bit, _)| c >> bit & 1 == 1);
                mine.for_each(|(_, sum)| add(sum, &values[source as usize]));
            }
            let mut sum = [0; LANES];
            for bits in bits[..8 - all.leading_zeros() as usize].iter().rev() {
                sum = sum.map(|value: u8| (value << 1) ^ ((value >> 7) * POLYNOMIAL));
                add(&mut sum, bits);
            }
            values.push(sum);
        }
    }
    dag.outputs().iter().map(|&(_, vertex)| values[vertex as usize]).collect()
}

fn add(sum: &mut Lanes, value: &Lanes) {
    sum.iter_mut().zip(value).for_each(|(sum, value)| *sum ^= value);
}

fn random(state: &mut u64) -> Lanes {
    let mut lanes = [0; LANES];
    for bytes in lanes.chunks_exact_mut(8) {
        bytes.copy_from_slice(&kiln_code::seed::next(state).to_le_bytes());
    }
    lanes
}
