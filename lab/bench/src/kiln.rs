//! kiln as an engine: through [`Codec`], as every other user of the library; and once more with
//! ordinary stores only, as its peers store.

use crate::BenchError;
use crate::engine::{Engine, Family, Job, Operation, Reads, Stripe, Task};
use crate::measure::{Seconds, Stopwatch};
use kiln_code::{
    Caches, CodeError, CodeSpec, Codec, DataPath, RepairPlan, TemporalHint, Tuning, working_set,
};
use std::sync::Arc;

/// kiln with the kernel it chose for this machine.
#[derive(Debug)]
pub struct Kiln {
    name: &'static str,
    /// Hint of calls; by the bytes of all stripes if `None`.
    hint: Option<TemporalHint>,
    /// Variants that replace kiln's own choice of the way to run.
    tuning: Option<Tuning>,
}

/// Ways to run that kiln's rules choose from, as `KILN_TUNE` names them: one of them is what
/// `kiln` itself does in a cell, the others are what its rule rejected.
const VARIANTS: &[(&str, &str)] = &[
    ("kiln-out", "rs=out,clay=out"),
    ("kiln-in", "rs=in,clay=in"),
    ("kiln-nt-t0-256", "rs=nt:t0:256,clay=nt:t0:256"),
    ("kiln-nt-t0-384", "rs=nt:t0:384,clay=nt:t0:384"),
    ("kiln-nt-t0-1024", "rs=nt:t0:1024,clay=nt:t0:1024"),
    ("kiln-nt-t1-640", "rs=nt:t1:640,clay=nt:t1:640"),
];

impl Kiln {
    /// As a user has it.
    pub const USUAL: Kiln = Kiln { name: "kiln", hint: None, tuning: None };
    /// With ordinary stores, wherever the data lies: its peers have no others, so beside them it
    /// says what stores past the caches bring.
    pub const TEMPORAL: Kiln =
        Kiln { name: Kiln::TEMPORAL_NAME, hint: Some(TemporalHint::Temporal), tuning: None };
    /// The name of that form.
    pub const TEMPORAL_NAME: &str = "kiln-temporal";

    /// The ways to run that the rules choose from.
    pub fn variants() -> impl Iterator<Item = Kiln> {
        let read = |(name, tuning): &(&'static str, &str)| {
            Some(Kiln { name, hint: None, tuning: Some(tuning.parse().ok()?) })
        };
        VARIANTS.iter().filter_map(read)
    }

    /// The names of the ways to run.
    pub fn variant_names() -> impl Iterator<Item = &'static str> {
        VARIANTS.iter().map(|(name, _)| *name)
    }

    /// Whether a way to run is the one that the rules choose in a cell: the same code, which
    /// cannot beat itself.
    pub fn is_chosen(name: &str, job: &Job, memory: bool) -> bool {
        let hint = match memory {
            true => TemporalHint::NonTemporal,
            false => TemporalHint::Temporal,
        };
        let (caches, layered) = (Caches::here(), job.family == Family::Clay);
        let path = Tuning::default().path(&caches, layered, hint, job.n() * job.chunk);
        matches!((name, path), ("kiln-out", DataPath::Reload) | ("kiln-in", DataPath::Once))
    }

    /// Runs some work with the variants of this form.
    fn tuned<T>(tuning: Option<Tuning>, work: impl FnOnce() -> T) -> T {
        match tuning {
            Some(tuning) => tuning.with(work),
            None => work(),
        }
    }

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
        self.name
    }

    fn version(&self) -> &str {
        concat!("kiln ", env!("CARGO_PKG_VERSION"))
    }

    fn prepare(&self, job: &Job) -> Result<Box<dyn Task + '_>, BenchError> {
        let (hint, tuning) = (self.hint, self.tuning);
        Kiln::tuned(tuning, || Kiln::task(job, hint, tuning))
    }

    fn same_bytes_as(&self, job: &Job) -> Option<String> {
        // Checked against the slowest and simplest kernel.
        Some(Kiln::spec(job))
    }
}

impl Kiln {
    fn task<'a>(
        job: &Job,
        hint: Option<TemporalHint>,
        tuning: Option<Tuning>,
    ) -> Result<Box<dyn Task + 'a>, BenchError> {
        let codec = Kiln::codec(&Kiln::spec(job))?;
        Ok(match job.operation {
            Operation::Encode => {
                let reads = (0..job.k).map(Reads::whole).collect();
                codec.encode_plan()?; // made now, not in the first pass
                Box::new(Encode { codec, reads, hint, tuning })
            }
            Operation::Decode(_) => {
                let plan = codec.decode_plan(&job.lost(), &job.survivors())?;
                Box::new(Rebuild::new(plan, codec.shape().alpha, hint, tuning))
            }
            Operation::Repair(_) => {
                let plan = codec.repair_plan(&job.lost(), &job.survivors())?;
                Box::new(Rebuild::new(plan, codec.shape().alpha, hint, tuning))
            }
        })
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
    given: Option<TemporalHint>,
    work: impl Fn(&mut Stripe<'_>, TemporalHint) -> Result<(), CodeError>,
) -> Result<Seconds, BenchError> {
    let hint = given.unwrap_or_else(|| hint(stripes));
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
    hint: Option<TemporalHint>,
    tuning: Option<Tuning>,
}

impl Task for Encode {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        let Encode { codec, hint, tuning, .. } = self;
        let encode = |s: &mut Stripe<'_>, at| codec.encode_on(&s.inputs, &mut s.outputs, at);
        Kiln::tuned(*tuning, || each(stripes, repeats, *hint, encode))
    }
}

struct Rebuild {
    plan: Arc<RepairPlan>,
    reads: Vec<Reads>,
    hint: Option<TemporalHint>,
    tuning: Option<Tuning>,
}

impl Rebuild {
    fn new(
        plan: Arc<RepairPlan>,
        alpha: usize,
        hint: Option<TemporalHint>,
        tuning: Option<Tuning>,
    ) -> Rebuild {
        let reads = plan.helpers().iter().map(|helper| {
            let all = helper.sub_chunks() == alpha;
            let positions = || helper.runs.iter().cloned().flatten().collect();
            Reads { chunk: helper.chunk, sub_chunks: (!all).then(positions) }
        });
        Rebuild { reads: reads.collect(), plan, hint, tuning }
    }
}

impl Task for Rebuild {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        let Rebuild { plan, hint, tuning, .. } = self;
        let rebuild = |s: &mut Stripe<'_>, at| plan.run_on(&s.inputs, &mut s.outputs, at);
        Kiln::tuned(*tuning, || each(stripes, repeats, *hint, rebuild))
    }
}
