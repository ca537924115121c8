//! `Codec`: a code ready for work, and what codes cost.

use std::collections::BTreeMap;

use kiln_code::{AverageCost, CODES, CodeSpec, Results, TemporalHint};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use serde::Serialize;

use crate::buffers::{Bytes, Input, Work};
use crate::plan::{Outputs, RepairPlan, by_chunk, few};
use crate::{failure::Failure, report::dictionary};

/// Patterns of losses are drawn with it where there are too many: costs are the same in every run.
const SEED: u64 = 0;

/// A code with everything it needs: encodes stripes, plans and computes repairs. Threads may share
/// it. `spec` is a code (`clay:10+4,d=13`) or a profile of Ceph (`plugin=isa k=8 m=4`).
#[pyclass(frozen, module = "kiln")]
pub struct Codec {
    codec: kiln_code::Codec,
}

/// Costs as `kiln codes SPEC --json` has them, and those of coding.
#[derive(Serialize)]
struct Costs {
    storage_overhead: f64,
    margin: i32,
    survived: f64,
    repair_chunks_mean: f64,
    repair_chunks_min: f64,
    repair_chunks_max: f64,
    repair_runs_mean: f64,
    repair_helpers: usize,
    multiplications: f64,
    xors: f64,
    updates: f64,
}

/// Costs of several losses.
#[derive(Serialize)]
struct Average {
    failures: usize,
    patterns: u64,
    exhaustive: bool,
    repairable: u64,
    undecodable: u64,
    mean_chunks: f64,
    mean_runs: f64,
    min_chunks: f64,
    max_chunks: f64,
}

impl From<AverageCost> for Average {
    fn from(cost: AverageCost) -> Average {
        Average {
            failures: cost.failures,
            patterns: cost.patterns,
            exhaustive: cost.exhaustive,
            repairable: cost.repairable,
            undecodable: cost.undecodable,
            mean_chunks: cost.mean_chunks,
            mean_runs: cost.mean_runs,
            min_chunks: cost.min_chunks,
            max_chunks: cost.max_chunks,
        }
    }
}

/// All families of codes: name, about, syntax and an example of each.
#[pyfunction]
pub fn codes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row = |row: &kiln_code::CodeFamily| {
        let family = PyDict::new(py);
        family.set_item("family", row.name)?;
        family.set_item("about", row.about)?;
        family.set_item("syntax", row.syntax)?;
        family.set_item("example", row.example)?;
        Ok(family)
    };
    CODES.iter().map(row).collect()
}

impl Codec {
    fn n(&self) -> usize {
        self.codec.shape().n()
    }

    fn plan_of(&self, plan: std::sync::Arc<kiln_code::RepairPlan>) -> RepairPlan {
        RepairPlan::new(plan, self.codec.shape().alpha)
    }

    /// The chunks that may be read: those given, or all that are not lost.
    fn available(&self, lost: &[usize], given: Option<Vec<usize>>) -> Vec<usize> {
        given.unwrap_or_else(|| (0..self.n()).filter(|chunk| !lost.contains(chunk)).collect())
    }

    fn costs_of(&self) -> Result<Costs, Failure> {
        let (codec, shape) = (&self.codec, self.codec.shape());
        let one = codec.average_cost(1, SEED)?;
        let others: Vec<usize> = (1..shape.n()).collect();
        let coding = codec.coding_cost()?;
        Ok(Costs {
            storage_overhead: shape.n() as f64 / shape.k as f64,
            margin: codec.margin(&[]),
            survived: match codec.is_mds() {
                true => 1.0,
                false => codec.survived(shape.m, SEED)?,
            },
            repair_chunks_mean: one.mean_chunks,
            repair_chunks_min: one.min_chunks,
            repair_chunks_max: one.max_chunks,
            repair_runs_mean: one.mean_runs,
            repair_helpers: codec.choose(&[0], &others)?.helpers.len(),
            multiplications: coding.multiplications,
            xors: coding.xors,
            updates: coding.updates,
        })
    }

    /// Rebuilds from whole chunks; the chunks and their numbers.
    fn rebuild<'py>(
        &self,
        py: Python<'py>,
        plan: &RepairPlan,
        lost: &[usize],
        chunks: BTreeMap<usize, Bytes>,
        out: Option<&Bound<'py, PyMapping>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let out = match out {
            None => None,
            Some(out) => {
                if out.len()? != lost.len() {
                    let what = format!("out: it must have the chunks {lost:?}, and no others");
                    return Err(Failure::usage(what));
                }
                let found: Vec<_> =
                    lost.iter().map(|&chunk| out.get_item(chunk)).collect::<Result<_, _>>()?;
                Some(pyo3::types::PyList::new(py, found)?.into_any())
            }
        };
        let rebuilt = PyDict::new(py);
        for (&chunk, object) in lost.iter().zip(plan.rebuild_whole(py, chunks, out.as_ref())?) {
            rebuilt.set_item(chunk, object)?;
        }
        Ok(rebuilt)
    }
}

#[pymethods]
impl Codec {
    #[new]
    fn new(py: Python<'_>, spec: &str) -> Result<Codec, Failure> {
        let spec: CodeSpec = spec.parse()?;
        Ok(Codec { codec: py.detach(|| kiln_code::Codec::new(&spec))? })
    }

    /// The code with all parameters: two codes of one such text make the same bytes.
    #[getter]
    fn spec(&self) -> String {
        self.codec.spec().explicit()
    }

    /// The family: `rs`, `clay`, ...
    #[getter]
    fn family(&self) -> String {
        self.codec.spec().family().to_owned()
    }

    /// Data chunks of a stripe.
    #[getter]
    fn k(&self) -> usize {
        self.codec.shape().k
    }

    /// Parity chunks of a stripe.
    #[getter]
    fn m(&self) -> usize {
        self.codec.shape().m
    }

    /// Chunks of a stripe, k + m: data chunks first.
    #[getter(n)]
    fn chunk_count(&self) -> usize {
        self.n()
    }

    /// Sub-chunks of a chunk: a chunk's length is a multiple of it.
    #[getter]
    fn alpha(&self) -> usize {
        self.codec.shape().alpha
    }

    /// The order of sub-chunks along a chunk.
    #[getter]
    fn order(&self) -> String {
        self.codec.order().to_owned()
    }

    /// Returns whether any k chunks give all others.
    #[getter]
    fn is_mds(&self) -> bool {
        self.codec.is_mds()
    }

    /// The shard that each chunk is in Ceph.
    #[getter]
    fn mapping(&self) -> Vec<usize> {
        self.codec.mapping()
    }

    /// The shortest chunks of which a stripe holds `size` bytes of data.
    fn chunk_len(&self, size: usize) -> usize {
        self.codec.shape().chunk_for(size)
    }

    /// Returns whether the chunks `lost` can be computed from all others.
    fn tolerates(&self, lost: Vec<usize>) -> bool {
        self.codec.tolerates(&lost)
    }

    /// Returns how many more chunks, any of them, may be lost when `lost` are; -1: `lost` is too
    /// much already.
    #[pyo3(signature = (lost=Vec::new()))]
    fn margin(&self, lost: Vec<usize>) -> i32 {
        self.codec.margin(&lost)
    }

    /// Encodes a stripe: m parity chunks from k data chunks of one length. Returns the parity
    /// chunks, new or in the buffers `out`.
    #[pyo3(signature = (data, out=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        let shape = self.codec.shape();
        let data = few(data, shape.k, "data")?;
        let input = |(index, object)| Input::whole(object, &format!("data[{index}]"));
        let data: Vec<Input> = data.iter().enumerate().map(input).collect::<Result<_, _>>()?;
        let len = data.first().map_or(0, Input::len);
        if let Some((index, other)) = data.iter().enumerate().find(|(_, data)| data.len() != len) {
            let got = other.len();
            return Err(Failure::usage(format!("data[{index}]: {got} bytes, the first has {len}")));
        }
        let out = Outputs::new(py, out, (shape.m, len))?;
        // SAFETY: callers promise not to touch the buffers of a call from other threads.
        let mut work = unsafe { Work::new(&data, &out.bytes) }?;
        let hint = TemporalHint::of(&work.inputs, &work.outputs, Results::Left);
        py.detach(|| self.codec.encode_on(&work.inputs, &mut work.outputs, hint))?;
        Ok(out.objects)
    }

    /// Encoding as a plan: all parity is lost, the data chunks are the helpers.
    fn encode_plan(&self, py: Python<'_>) -> Result<RepairPlan, Failure> {
        Ok(self.plan_of(py.detach(|| self.codec.encode_plan())?))
    }

    /// The cheapest way, in bytes read, to rebuild `lost` from some of `available` (all others by
    /// default).
    #[pyo3(signature = (lost, available=None))]
    fn repair_plan(
        &self,
        py: Python<'_>,
        lost: Vec<usize>,
        available: Option<Vec<usize>>,
    ) -> Result<RepairPlan, Failure> {
        let available = self.available(&lost, available);
        Ok(self.plan_of(py.detach(|| self.codec.repair_plan(&lost, &available))?))
    }

    /// As `repair_plan`, but whole chunks are read, data chunks first: for reads that want the
    /// whole object anyway.
    #[pyo3(signature = (lost, available=None))]
    fn decode_plan(
        &self,
        py: Python<'_>,
        lost: Vec<usize>,
        available: Option<Vec<usize>>,
    ) -> Result<RepairPlan, Failure> {
        let available = self.available(&lost, available);
        Ok(self.plan_of(py.detach(|| self.codec.decode_plan(&lost, &available))?))
    }

    /// The data chunks that `chunks` (whole chunks by their numbers) lacks, or the chunks `want`;
    /// new, or in the buffers `out` (by number, too).
    #[pyo3(signature = (chunks, want=None, out=None))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        chunks: &Bound<'py, PyMapping>,
        want: Option<Vec<usize>>,
        out: Option<&Bound<'py, PyMapping>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let chunks = by_chunk(chunks)?;
        let missing = || (0..self.codec.shape().k).filter(|chunk| !chunks.contains_key(chunk));
        let mut want = want.unwrap_or_else(|| missing().collect());
        if want.is_empty() {
            return Ok(PyDict::new(py));
        }
        want.sort_unstable();
        let available: Vec<usize> = chunks.keys().copied().collect();
        let plan = self.plan_of(py.detach(|| self.codec.decode_plan(&want, &available))?);
        self.rebuild(py, &plan, &want, chunks, out)
    }

    /// Rebuilds the chunks `lost` from `chunks` (whole chunks by their numbers) with the least that
    /// can be read of them; new, or in the buffers `out` (by number, too).
    #[pyo3(signature = (chunks, lost, out=None))]
    fn repair<'py>(
        &self,
        py: Python<'py>,
        chunks: &Bound<'py, PyMapping>,
        mut lost: Vec<usize>,
        out: Option<&Bound<'py, PyMapping>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let chunks = by_chunk(chunks)?;
        lost.sort_unstable();
        let available: Vec<usize> = chunks.keys().copied().collect();
        let plan = self.plan_of(py.detach(|| self.codec.repair_plan(&lost, &available))?);
        self.rebuild(py, &plan, &lost, chunks, out)
    }

    /// Returns the costs of the code: storage, repairs of one chunk, operations. Its fields are
    /// those of `kiln codes SPEC --json`.
    fn costs<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        dictionary(py, &py.detach(|| self.costs_of())?)
    }

    /// Returns the reads of repairs of `failures` lost chunks, on average over the patterns of
    /// losses (over a sample drawn with `seed` if there are more than 5,000).
    #[pyo3(signature = (failures=1, seed=0))]
    fn average_cost<'py>(
        &self,
        py: Python<'py>,
        failures: usize,
        seed: u64,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let cost = py.detach(|| self.codec.average_cost(failures, seed))?;
        dictionary(py, &Average::from(cost))
    }

    fn __repr__(&self) -> String {
        format!("Codec({:?})", self.codec.spec().to_string())
    }
}
