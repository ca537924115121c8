//! `RepairPlan`: what to read to get lost chunks back, and the computation that does it.

use std::{collections::BTreeMap, sync::Arc};

use kiln_code::{CodeError, Results, TemporalHint};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};

use crate::buffers::{Bytes, Input, Work, fresh};
use crate::failure::Failure;

/// More chunks no code has: what is longer is not looked at.
pub const MOST_CHUNKS: usize = 1 << 16;

/// The reads of one helper: its chunk, and runs of sub-chunks as pairs of the first and how many.
#[pyclass(frozen, eq, hash, module = "kiln")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// The helper's chunk.
    #[pyo3(get)]
    pub chunk: usize,
    /// Its runs: the first sub-chunk, and how many, ascending.
    #[pyo3(get)]
    pub runs: Vec<(u32, u32)>,
}

#[pymethods]
impl Read {
    /// Sub-chunks in all runs together.
    #[getter]
    fn sub_chunks(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.1)).sum()
    }

    fn __repr__(&self) -> String {
        let runs: Vec<String> =
            self.runs.iter().map(|(at, len)| format!("({at}, {len})")).collect();
        format!("Read(chunk={}, runs=[{}])", self.chunk, runs.join(", "))
    }
}

/// A repair: which sub-chunks of which chunks it reads, and how these give the lost chunks. Made by
/// `Codec.repair_plan`, `Codec.decode_plan` and `Codec.encode_plan`; threads may share it.
#[pyclass(frozen, module = "kiln")]
pub struct RepairPlan {
    plan: Arc<kiln_code::RepairPlan>,
    alpha: usize,
}

/// Buffers that results go to, and the objects of Python that have them.
pub struct Outputs<'py> {
    pub objects: Vec<Bound<'py, PyAny>>,
    pub bytes: Vec<Bytes>,
}

impl<'py> Outputs<'py> {
    /// The buffers that were given, or new ones: `count` of `len` bytes.
    ///
    /// # Errors
    /// Another number or length, or one that cannot be written to; too little memory.
    pub fn new(
        py: Python<'py>,
        given: Option<&Bound<'py, PyAny>>,
        (count, len): (usize, usize),
    ) -> Result<Outputs<'py>, Failure> {
        let objects = match given {
            Some(given) => few(given, count, "out")?,
            None => (0..count).map(|_| fresh(py, len)).collect::<Result<_, _>>()?,
        };
        let mut bytes = Vec::with_capacity(count);
        for (index, object) in objects.iter().enumerate() {
            let what = format!("out[{index}]");
            let output = Bytes::to_write(object, &what)?;
            if output.len() != len {
                let got = output.len();
                return Err(Failure::usage(format!("{what}: expected {len} bytes, got {got}")));
            }
            bytes.push(output);
        }
        Ok(Outputs { objects, bytes })
    }
}

/// The items of an iterable that must have `count` of them.
///
/// # Errors
/// It has more or fewer.
pub fn few<'py>(
    given: &Bound<'py, PyAny>,
    count: usize,
    what: &str,
) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
    let mut items = Vec::with_capacity(count);
    for item in given.try_iter()? {
        if items.len() == count {
            return Err(Failure::usage(format!("{what}: expected {count} buffers, got more")));
        }
        items.push(item?);
    }
    match items.len() == count {
        true => Ok(items),
        false => {
            let got = items.len();
            Err(Failure::usage(format!("{what}: expected {count} buffers, got {got}")))
        }
    }
}

/// Chunks by their numbers.
///
/// # Errors
/// Keys that are no numbers of chunks, values that are no buffers.
pub fn by_chunk(given: &Bound<'_, PyMapping>) -> Result<BTreeMap<usize, Bytes>, Failure> {
    if given.len()? > MOST_CHUNKS {
        return Err(Failure::usage(format!("chunks: no code has more than {MOST_CHUNKS}")));
    }
    let mut chunks = BTreeMap::new();
    for item in given.items()?.iter() {
        let (chunk, bytes): (usize, Bound<'_, PyAny>) = item.extract()?;
        chunks.insert(chunk, Bytes::new(&bytes, &format!("chunk {chunk}"))?);
    }
    Ok(chunks)
}

impl RepairPlan {
    /// A plan of a code with `alpha` sub-chunks a chunk.
    pub fn new(plan: Arc<kiln_code::RepairPlan>, alpha: usize) -> RepairPlan {
        RepairPlan { plan, alpha }
    }

    /// Rebuilds what is lost, without the interpreter's lock.
    pub fn compute(&self, py: Python<'_>, inputs: &[Input], out: &[Bytes]) -> Result<(), Failure> {
        // SAFETY: callers promise not to touch the buffers of a call from other threads.
        let mut work = unsafe { Work::new(inputs, out) }?;
        let hint = TemporalHint::of(&work.inputs, &work.outputs, Results::Left);
        Ok(py.detach(|| self.plan.run_on(&work.inputs, &mut work.outputs, hint))?)
    }

    /// Rebuilds from whole chunks: what a helper reads in one run is read where it is, several runs
    /// are put together first.
    pub fn rebuild_whole<'py>(
        &self,
        py: Python<'py>,
        mut chunks: BTreeMap<usize, Bytes>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        let len = chunks.values().next().map_or(0, Bytes::len);
        if let Some((chunk, other)) = chunks.iter().find(|(_, bytes)| bytes.len() != len) {
            let got = other.len();
            return Err(Failure::usage(format!("chunk {chunk}: {got} bytes, others have {len}")));
        }
        let sub = self.sub_chunk(len)?;
        let mut inputs = Vec::with_capacity(self.plan.helpers().len());
        for helper in self.plan.helpers() {
            // Helpers were chosen among these chunks.
            let bytes = chunks.remove(&helper.chunk).ok_or_else(|| {
                CodeError::Internal(format!("helper {} was not given", helper.chunk))
            })?;
            inputs.push(match &helper.runs[..] {
                [run] => {
                    let part = run.start as usize * sub..run.end as usize * sub;
                    Input::View(bytes, part)
                }
                // SAFETY: callers promise not to write to the buffers of a call meanwhile.
                runs => Input::Gathered(py.detach(|| gather(unsafe { bytes.slice() }, runs, sub))),
            });
        }
        let out = Outputs::new(py, out, (self.plan.lost().len(), len))?;
        self.compute(py, &inputs, &out.bytes)?;
        Ok(out.objects)
    }

    /// Bytes of a sub-chunk of chunks of this length.
    fn sub_chunk(&self, chunk_len: usize) -> Result<usize, Failure> {
        if chunk_len == 0 || !chunk_len.is_multiple_of(self.alpha) {
            let alpha = self.alpha;
            return Err(Failure::usage(format!(
                "chunks of {chunk_len} bytes: their length must be a multiple of the code's \
                 {alpha} sub-chunks, and more than 0"
            )));
        }
        Ok(chunk_len / self.alpha)
    }

    /// Returns the reads of a chunk's helper.
    fn helper(&self, chunk: usize) -> Result<&kiln_code::HelperReads, Failure> {
        let mut helpers = self.plan.helpers().iter();
        helpers.find(|helper| helper.chunk == chunk).ok_or_else(|| {
            Failure::usage(format!("chunk {chunk} is no helper of this plan; see its reads"))
        })
    }
}

/// Runs of sub-chunks one after the other.
fn gather(chunk: &[u8], runs: &[std::ops::Range<u32>], sub: usize) -> Vec<u8> {
    let sub_chunks: usize = runs.iter().map(|run| run.len()).sum();
    let mut bytes = Vec::with_capacity(sub_chunks * sub);
    for run in runs {
        bytes.extend_from_slice(&chunk[run.start as usize * sub..run.end as usize * sub]);
    }
    bytes
}

#[pymethods]
impl RepairPlan {
    /// "repair" when less than k chunks are read, else "decode".
    #[getter]
    fn strategy(&self) -> &'static str {
        self.plan.strategy().name()
    }

    /// The chunks that are rebuilt, ascending.
    #[getter]
    fn lost(&self) -> Vec<usize> {
        self.plan.lost().to_vec()
    }

    /// The chunks that are read from, ascending.
    #[getter]
    fn helpers(&self) -> Vec<usize> {
        self.plan.helpers().iter().map(|helper| helper.chunk).collect()
    }

    /// Returns the reads: for each helper its chunk and its runs of sub-chunks.
    #[getter]
    fn reads(&self) -> Vec<Read> {
        let run = |run: &std::ops::Range<u32>| (run.start, run.end - run.start);
        let reads = |helper: &kiln_code::HelperReads| Read {
            chunk: helper.chunk,
            runs: helper.runs.iter().map(run).collect(),
        };
        self.plan.helpers().iter().map(reads).collect()
    }

    /// Sub-chunks of a chunk.
    #[getter]
    fn alpha(&self) -> usize {
        self.alpha
    }

    /// Sub-chunks read from all helpers, a stripe.
    #[getter]
    fn sub_chunks_read(&self) -> usize {
        self.plan.sub_chunks_read()
    }

    /// The same in chunks: what is read for one stripe, as a multiple of a chunk.
    #[getter]
    fn chunks_read(&self) -> f64 {
        self.plan.sub_chunks_read() as f64 / self.alpha as f64
    }

    /// Contiguous reads over all helpers, a stripe.
    #[getter]
    fn run_count(&self) -> usize {
        self.plan.runs()
    }

    /// Returns the reads of helper `chunk` as byte ranges (first, length) for chunks of
    /// `chunk_len` bytes.
    fn byte_runs(&self, chunk: usize, chunk_len: usize) -> Result<Vec<(usize, usize)>, Failure> {
        let (helper, sub) = (self.helper(chunk)?, self.sub_chunk(chunk_len)?);
        let bytes = |run: &std::ops::Range<u32>| (run.start as usize * sub, run.len() * sub);
        Ok(helper.runs.iter().map(bytes).collect())
    }

    /// Returns the data that helper `chunk` sends: the bytes of its runs, one after the other, out
    /// of its whole chunk. A copy.
    fn take<'py>(
        &self,
        py: Python<'py>,
        chunk: usize,
        whole: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let (helper, bytes) = (self.helper(chunk)?, Bytes::new(whole, "whole")?);
        let sub = self.sub_chunk(bytes.len())?;
        // SAFETY: the interpreter's lock is held, so that no thread of Python writes meanwhile.
        let taken = gather(unsafe { bytes.slice() }, &helper.runs, sub);
        Ok(PyBytes::new(py, &taken))
    }

    /// Rebuilds the lost chunks from what helpers sent: `inputs[i]` holds the runs of helper i one
    /// after the other. Returns the chunks `lost`, new or in the buffers `out`.
    #[pyo3(signature = (inputs, out=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        let helpers = self.plan.helpers();
        let given = few(inputs, helpers.len(), "inputs")?;
        let input = |(index, object)| Input::whole(object, &format!("inputs[{index}]"));
        let given: Vec<Input> = given.iter().enumerate().map(input).collect::<Result<_, _>>()?;
        let (first, reads) = match (given.first(), helpers.first()) {
            (Some(first), Some(helper)) => (first.len(), helper.sub_chunks().max(1)),
            _ => return Err(CodeError::Internal("a plan without helpers".into()).into()),
        };
        let sub = first / reads;
        for (input, helper) in given.iter().zip(helpers) {
            let (want, got) = (helper.sub_chunks() * sub, input.len());
            if want != got || got == 0 {
                return Err(Failure::usage(format!(
                    "helper {}: {got} bytes for {} sub-chunks, where the first has {first} for \
                     {reads}",
                    helper.chunk,
                    helper.sub_chunks()
                )));
            }
        }
        let out = Outputs::new(py, out, (self.plan.lost().len(), self.alpha * sub))?;
        self.compute(py, &given, &out.bytes)?;
        Ok(out.objects)
    }

    fn __repr__(&self) -> String {
        let (how, lost) = (self.plan.strategy(), self.plan.lost());
        format!("RepairPlan({how} of {lost:?}, reads {:.4} chunks)", self.chunks_read())
    }
}
