//! A code ready for work: plans and programs made once, kept in a bounded cache, shared by threads.

use crate::codes::{self, Choice, Code};
use crate::dag::At;
use crate::order::Layers;
use crate::{CodeError, CodeSpec, Packets, Program, RebuildMethod, RepairPlan, Result, Shape};
use kiln_gf::{Kernel, Results, TemporalHint};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, ops::Range};

/// Plans kept, at most. One loss pattern at a time is repaired; rot adds a few more.
const PLANS_MAX: usize = 32;

/// Margins remembered, at most: some hundred bytes each.
const MARGINS_MAX: usize = 4096;

type Key = (bool, Vec<usize>, Vec<usize>);

/// A code with its kernel: encodes stripes and plans repairs. `Send + Sync`; share it by reference.
///
/// ```
/// use kiln_code::Codec;
/// let codec = Codec::new(&"rs:2+1".parse()?)?;
/// let mut parity = [0; 3];
/// codec.encode(&[b"abc", b"xyz"], &mut [&mut parity])?;
/// // Chunk 0 comes back from chunk 1 and the parity.
/// let plan = codec.repair_plan(&[0], &[1, 2])?;
/// let mut rebuilt = [0; 3];
/// plan.run(&[b"xyz", &parity], &mut [&mut rebuilt])?;
/// assert_eq!(&rebuilt, b"abc");
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
pub struct Codec {
    spec: CodeSpec,
    code: Box<dyn Code>,
    kernel: &'static dyn Kernel,
    encode: OnceLock<Arc<RepairPlan>>,
    plans: Mutex<VecDeque<(Key, Arc<RepairPlan>)>>,
    /// By lost chunks, for codes that have to be asked for every pattern.
    margins: Mutex<HashMap<Vec<usize>, i32>>,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({}, {})", self.spec, self.kernel.name())
    }
}

impl Codec {
    /// Builds the code with the kernel chosen for this machine (`KILN_KERNEL` forces one).
    ///
    /// # Errors
    /// The parameters give no MDS code, or one that is too large; no such kernel.
    pub fn new(spec: &CodeSpec) -> Result<Codec> {
        Codec::with_kernel(spec, kiln_gf::active()?)
    }

    /// Builds the code with a kernel of the caller's choice.
    ///
    /// # Errors
    /// The parameters give no MDS code, or one that is too large.
    pub fn with_kernel(spec: &CodeSpec, kernel: &'static dyn Kernel) -> Result<Codec> {
        let code = codes::build(spec)?;
        let (encode, plans, margins) = Default::default();
        Ok(Codec { spec: spec.clone(), code, kernel, encode, plans, margins })
    }

    /// The code's spec.
    pub fn spec(&self) -> &CodeSpec {
        &self.spec
    }

    /// The numbers of the code.
    pub fn shape(&self) -> Shape {
        self.code.shape()
    }

    /// The kernel that its programs are compiled for.
    pub(crate) fn kernel(&self) -> &'static dyn Kernel {
        self.kernel
    }

    /// The order of sub-chunks on disk.
    pub fn order(&self) -> &str {
        self.code.order()
    }

    /// The layers that the order permutes; nothing for codes without orders.
    pub fn layers(&self) -> Option<&Layers> {
        self.code.layers()
    }

    /// Returns whether a part of every sub-chunk may be computed from the same parts of others.
    /// Not with packets: there a sub-chunk is not one range of bytes, so that blocks of packets are
    /// read whole.
    pub fn sliceable(&self) -> bool {
        self.code.packets().is_none()
    }

    /// The blocks of packets that sub-chunks hold, for codes that have them.
    pub fn packets(&self) -> Option<Packets> {
        self.code.packets()
    }

    /// The shard that each chunk is in Ceph, where data need not come first (the chunk mapping of
    /// its interface): bare chunk files have these numbers.
    pub fn mapping(&self) -> Vec<usize> {
        self.code.mapping()
    }

    /// Returns whether any k chunks give all others (maximum distance separable), so that any m may
    /// be lost, and no m + 1.
    pub fn is_mds(&self) -> bool {
        self.code.is_mds()
    }

    /// The number of losses that are tolerated whichever they are, as far as it is proved.
    pub(crate) fn tolerates_any(&self) -> usize {
        self.code.tolerates_any()
    }

    /// Returns whether the chunks `lost` can be computed from all others. A chunk that the code
    /// does not have can not.
    pub fn tolerates(&self, lost: &[usize]) -> bool {
        let mut lost = lost.to_vec();
        lost.sort_unstable();
        lost.dedup();
        lost.last().is_none_or(|&last| last < self.shape().n()) && self.code.tolerates(&lost)
    }

    /// The cheapest way to rebuild `lost` from some of `available`, without making its plan.
    ///
    /// # Errors
    /// As [`Codec::repair_plan`].
    pub fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let (lost, available) = self.sorted(lost, available)?;
        self.code.choose(&lost, &available)
    }

    /// The whole chunks to read for a decode of `lost`, data chunks first: for reads that want
    /// the whole object anyway.
    ///
    /// # Errors
    /// As [`Codec::repair_plan`].
    pub fn decode(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        let (lost, available) = self.sorted(lost, available)?;
        self.code.decode(&lost, &available)
    }

    /// The margins known, few enough to keep; see [`Codec::margin`].
    pub(crate) fn margins(&self) -> MutexGuard<'_, HashMap<Vec<usize>, i32>> {
        let mut margins = self.margins.lock().unwrap_or_else(PoisonError::into_inner);
        if margins.len() >= MARGINS_MAX {
            margins.clear();
        }
        margins
    }

    /// Encodes one stripe: m parity chunks from k data chunks, all of one length, a multiple of
    /// alpha.
    ///
    /// # Errors
    /// Wrong number or lengths of chunks; parity is then untouched.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<()> {
        let hint = TemporalHint::of(data, parity, Results::ReadSoon);
        self.encode_on(data, parity, hint)
    }

    /// As [`Codec::encode`], by a caller who does not read the parity next, or knows where the data
    /// lies.
    ///
    /// # Errors
    /// As [`Codec::encode`].
    pub fn encode_on(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        hint: TemporalHint,
    ) -> Result<()> {
        let plan = self.encode_ready()?;
        self.shape().check_chunk(data.first().map_or(0, |chunk| chunk.len()))?;
        if data.len() != self.shape().k {
            let (expected, got) = (self.shape().k, data.len());
            return Err(CodeError::Shape { what: "data chunks", expected, got });
        }
        // Replication reads one of its k = 1 chunks, every other code all k of them.
        plan.run_on(data, parity, hint)
    }

    /// Encoding as a plan: all parity is lost, the data chunks are the helpers.
    pub fn encode_plan(&self) -> Result<Arc<RepairPlan>> {
        self.encode_ready().cloned()
    }

    /// As [`Codec::encode_plan`], counting no users: every stripe comes here.
    fn encode_ready(&self) -> Result<&Arc<RepairPlan>> {
        if let Some(plan) = self.encode.get() {
            return Ok(plan);
        }
        let Shape { k, m, .. } = self.shape();
        let (parity, data): (Vec<_>, Vec<_>) = ((k..k + m).collect(), (0..k).collect());
        let plan = self.make(Choice::new(RebuildMethod::Decode, &parity, data))?;
        Ok(self.encode.get_or_init(|| plan))
    }

    /// The cheapest way, in bytes read, to rebuild `lost` from some of `available`. Chunks in
    /// neither list are neither wanted nor readable.
    ///
    /// # Errors
    /// Not enough chunks are available, or the lists are not of distinct chunks of this code.
    pub fn repair_plan(&self, lost: &[usize], available: &[usize]) -> Result<Arc<RepairPlan>> {
        self.plan(false, lost, available)
    }

    /// The plan that reads k whole chunks, data chunks first: for reads that want the whole
    /// object anyway.
    ///
    /// # Errors
    /// As [`Codec::repair_plan`].
    pub fn decode_plan(&self, lost: &[usize], available: &[usize]) -> Result<Arc<RepairPlan>> {
        self.plan(true, lost, available)
    }

    /// The plan that reads those k whole chunks that cost the least; where they are not enough, as
    /// of codes that are not MDS, that of [`Codec::decode_plan`].
    ///
    /// # Errors
    /// As [`Codec::repair_plan`].
    pub fn cheapest_decode_plan(
        &self,
        lost: &[usize],
        available: &[usize],
        cost: impl Fn(usize) -> f64,
    ) -> Result<Arc<RepairPlan>> {
        let mut cheapest = available.to_vec();
        cheapest.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(a.cmp(&b)));
        cheapest.truncate(self.shape().k);
        self.decode_plan(lost, &cheapest).or_else(|_| self.decode_plan(lost, available))
    }

    /// The part of [`Codec::repair_plan`] that gives a run of sub-chunks of each lost chunk, which
    /// are then its outputs: it reads no more than these need. Not for codes with packets.
    ///
    /// # Errors
    /// As [`Codec::repair_plan`]; a run is empty.
    pub fn part_plan(
        &self,
        wanted: &[(usize, Range<u32>)],
        available: &[usize],
    ) -> Result<Arc<RepairPlan>> {
        let lost: Vec<usize> = wanted.iter().map(|(chunk, _)| *chunk).collect();
        let whole = self.repair_plan(&lost, available)?;
        let wants = |at: At| {
            let holds = |(chunk, run): &(usize, Range<u32>)| {
                *chunk == at.chunk as usize && run.contains(&at.position)
            };
            wanted.iter().any(holds)
        };
        let dag = whole.dag().restricted(|_| true, wants)?;
        let program = Program::compile(&dag, self.kernel)?;
        Ok(Arc::new(RepairPlan::new(whole.strategy(), whole.lost().to_vec(), dag, program)))
    }

    fn plan(&self, whole: bool, lost: &[usize], available: &[usize]) -> Result<Arc<RepairPlan>> {
        let (lost, available) = self.sorted(lost, available)?;
        let key: Key = (whole, lost, available);
        // A panic elsewhere cannot leave the list half changed: entries go in and out whole.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = plans.iter().position(|(known, _)| *known == key) {
            let hit = plans.remove(at);
            plans.extend(hit);
            return plans
                .back()
                .map(|(_, plan)| plan.clone())
                .ok_or_else(|| CodeError::Internal("plan cache".into()));
        }
        drop(plans);
        let choice = match whole {
            true => self.code.decode(&key.1, &key.2)?,
            false => self.code.choose(&key.1, &key.2)?,
        };
        let plan = self.make(choice)?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= PLANS_MAX {
            plans.pop_front();
        }
        plans.push_back((key, plan.clone()));
        Ok(plan)
    }

    fn make(&self, choice: Choice) -> Result<Arc<RepairPlan>> {
        let dag = self.code.emit(&choice)?;
        let program = Program::compile(&dag, self.kernel)?;
        let program = match self.code.packets() {
            Some(packets) => program.in_packets(packets)?,
            None => program,
        };
        Ok(Arc::new(RepairPlan::new(choice.strategy, choice.lost, dag, program)))
    }

    /// The DAG of a repair as the code emits it, before any pass, and without compiling it: what
    /// a planner places on nodes.
    ///
    /// # Errors
    /// As [`Codec::repair_plan`].
    pub fn repair_dag(
        &self,
        lost: &[usize],
        available: &[usize],
    ) -> Result<(crate::RebuildMethod, crate::Dag), CodeError> {
        let (lost, available) = self.sorted(lost, available)?;
        let (choice, dag) = self.dag_of(&lost, &available)?;
        Ok((choice.strategy, dag))
    }

    /// The choice and DAG of a repair without compiling it: for planning tables.
    pub(crate) fn dag_of(
        &self,
        lost: &[usize],
        available: &[usize],
    ) -> Result<(Choice, crate::Dag), CodeError> {
        let choice = self.code.choose(lost, available)?;
        let dag = self.code.emit(&choice)?;
        Ok((choice, dag))
    }

    fn sorted(
        &self,
        lost: &[usize],
        available: &[usize],
    ) -> Result<(Vec<usize>, Vec<usize>), CodeError> {
        let n = self.shape().n();
        let mut seen = vec![false; n];
        for &index in lost.iter().chain(available) {
            let bad = |reason| CodeError::BadChunk { index, reason, last: n - 1 };
            match seen.get_mut(index) {
                None => return Err(bad("out of range")),
                Some(true) => return Err(bad("named twice")),
                Some(seen) => *seen = true,
            }
        }
        if lost.is_empty() {
            let (what, expected, got) = ("lost chunks", 1, 0);
            return Err(CodeError::Shape { what, expected, got });
        }
        let sorted = |list: &[usize]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        Ok((sorted(lost), sorted(available)))
    }
}
