//! A repair: what is read from whom, and the program that rebuilds the lost chunks from it.

use crate::{Dag, HelperReads, Program, Result};
use kiln_gf::TemporalHint;
use std::fmt;

/// Method by which lost chunks are rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RebuildMethod {
    /// With less than k chunks read.
    Repair,
    /// From k whole chunks, because the code or the pattern allows nothing cheaper.
    Decode,
}

impl RebuildMethod {
    /// `repair` or `decode`.
    pub fn name(&self) -> &'static str {
        match self {
            RebuildMethod::Repair => "repair",
            RebuildMethod::Decode => "decode",
        }
    }
}

impl fmt::Display for RebuildMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Plan to rebuild a set of lost chunks; made by [`crate::Codec::repair_plan`].
///
/// ```
/// use kiln_code::Codec;
/// let codec = Codec::new(&"clay:10+4".parse()?)?;
/// let available: Vec<usize> = (1..14).collect();
/// let plan = codec.repair_plan(&[0], &available)?;
/// assert_eq!(plan.strategy().name(), "repair");
/// assert_eq!(plan.helpers().len(), 13);
/// assert_eq!(plan.helpers()[0].runs, [0..64]); // a quarter of 256 sub-chunks, in one run
/// assert_eq!(plan.sub_chunks_read(), 13 * 64); // 3.25 chunks where Reed-Solomon reads 10
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug)]
pub struct RepairPlan {
    strategy: RebuildMethod,
    lost: Vec<usize>,
    helpers: Vec<HelperReads>,
    dag: Dag,
    program: Program,
}

impl RepairPlan {
    pub(crate) fn new(
        strategy: RebuildMethod,
        lost: Vec<usize>,
        dag: Dag,
        program: Program,
    ) -> RepairPlan {
        RepairPlan { strategy, lost, helpers: dag.reads(), dag, program }
    }

    /// Returns whether less than k chunks are read.
    pub fn strategy(&self) -> RebuildMethod {
        self.strategy
    }

    /// The chunks that are rebuilt, ascending.
    pub fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// Returns the reads, ascending by chunk.
    pub fn helpers(&self) -> &[HelperReads] {
        &self.helpers
    }

    /// Sub-chunks read from all helpers, a stripe.
    pub fn sub_chunks_read(&self) -> usize {
        self.helpers.iter().map(HelperReads::sub_chunks).sum()
    }

    /// Contiguous reads over all helpers, a stripe.
    pub fn runs(&self) -> usize {
        self.helpers.iter().map(|h| h.runs.len()).sum()
    }

    /// The linear DAG behind this plan.
    pub fn dag(&self) -> &Dag {
        &self.dag
    }

    /// The program that [`RepairPlan::run`] executes.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The sub-chunks that are made of a chunk: all of a lost one, or those of a part.
    pub fn made(&self, chunk: usize) -> usize {
        self.dag.outputs().iter().filter(|(at, _)| at.chunk as usize == chunk).count()
    }

    /// Rebuilds: `inputs[i]` holds the runs of `helpers()[i]` one after the other, `outputs[j]`
    /// becomes the chunk `lost()[j]`, or the part of it. All sub-chunks have one length.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; outputs are then untouched.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        self.program.run(inputs, outputs)
    }

    /// As [`RepairPlan::run`], by a caller who does not read the outputs next, or knows where the
    /// data lies.
    ///
    /// # Errors
    /// As [`RepairPlan::run`].
    pub fn run_on(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        hint: TemporalHint,
    ) -> Result<()> {
        self.program.run_on(inputs, outputs, hint)
    }
}
