//! kiln as an engine: through [`Codec`], as every other user of the library.

use crate::BenchError;
use crate::engine::{Engine, Job, Operation, Reads, Stripe, Task};
use crate::measure::{Seconds, Stopwatch};
use kiln_code::{Caches, CodeError, CodeSpec, Codec, RepairPlan, TemporalHint, working_set};
use std::sync::Arc;

/// kiln with the kernel it chose for this machine.
#[derive(Debug, Default)]
pub struct Kiln;

impl Kiln {
    /// The spec that is measured for a job: the family with its defaults.
    pub fn spec(job: &Job) -> String {
        format!("{}:{}+{}", job.family.name(), job.k, job.m)
    }

    /// A codec for a spec.
    ///
    /// # Errors
    /// The spec is no code.
    pub fn codec(spec: &str) -> Result<Codec, BenchError> {
        let spec: CodeSpec = spec.parse()?;
        Ok(Codec::new(&spec)?)
    }
}

impl Engine for Kiln {
    fn name(&self) -> &str {
        "kiln"
    }

    fn version(&self) -> &str {
        concat!("kiln ", env!("CARGO_PKG_VERSION"))
    }

    fn prepare(&self, job: &Job) -> Result<Box<dyn Task + '_>, BenchError> {
        let codec = Kiln::codec(&Kiln::spec(job))?;
        Ok(match job.operation {
            Operation::Encode => {
                let reads = (0..job.k).map(Reads::whole).collect();
                codec.encode_plan()?; // made now, not in the first pass
                Box::new(Encode { codec, reads })
            }
            Operation::Decode(_) => {
                let plan = codec.decode_plan(&job.lost(), &job.survivors())?;
                Box::new(Rebuild::new(plan, codec.shape().alpha))
            }
            Operation::Repair(_) => {
                let plan = codec.repair_plan(&job.lost(), &job.survivors())?;
                Box::new(Rebuild::new(plan, codec.shape().alpha))
            }
        })
    }

    fn same_bytes_as(&self, job: &Job) -> Option<String> {
        // Checked against the slowest and simplest kernel.
        Some(Kiln::spec(job))
    }
}

/// What kiln's user knows: the one here goes round all stripes, so their bytes count, not a call's.
fn hint(stripes: &[Stripe<'_>]) -> TemporalHint {
    let bytes = |stripe: &Stripe<'_>| working_set(&stripe.inputs, &stripe.outputs);
    match stripes.iter().map(bytes).sum::<usize>() > Caches::here().last {
        true => TemporalHint::NonTemporal,
        false => TemporalHint::Temporal,
    }
}

/// Works through all stripes, again and again; returns how long it took.
fn each(
    stripes: &mut [Stripe<'_>],
    repeats: u32,
    work: impl Fn(&mut Stripe<'_>, TemporalHint) -> Result<(), CodeError>,
) -> Result<Seconds, BenchError> {
    let hint = hint(stripes);
    let watch = Stopwatch::start();
    for _ in 0..repeats {
        for stripe in &mut *stripes {
            work(stripe, hint)?;
        }
    }
    Ok(watch.read())
}

struct Encode {
    codec: Codec,
    reads: Vec<Reads>,
}

impl Task for Encode {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        each(stripes, repeats, |s, at| self.codec.encode_on(&s.inputs, &mut s.outputs, at))
    }
}

struct Rebuild {
    plan: Arc<RepairPlan>,
    reads: Vec<Reads>,
}

impl Rebuild {
    fn new(plan: Arc<RepairPlan>, alpha: usize) -> Rebuild {
        let reads = plan.helpers().iter().map(|helper| {
            let all = helper.sub_chunks() == alpha;
            let positions = || helper.runs.iter().cloned().flatten().collect();
            Reads { chunk: helper.chunk, sub_chunks: (!all).then(positions) }
        });
        Rebuild { reads: reads.collect(), plan }
    }
}

impl Task for Rebuild {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        each(stripes, repeats, |s, at| self.plan.run_on(&s.inputs, &mut s.outputs, at))
    }
}
