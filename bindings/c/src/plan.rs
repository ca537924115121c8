//! `kiln_plan`: what to read to get lost chunks back, and the computation that does it.

use crate::codec::{alive, kiln_codec};
use crate::failure::{Failure, Message, guard};
use crate::regions::{Given, Regions, numbers};
use kiln_code::{CodeError, Codec, RepairPlan};
use libc::{c_char, c_int};
use std::{iter::repeat_n, sync::Arc};

/// A repair: made by `kiln_plan_repair` or `kiln_plan_decode`, ended by `kiln_plan_free`.
#[allow(non_camel_case_types)]
pub struct kiln_plan {
    plan: Arc<RepairPlan>,
    alpha: usize,
    runs: Vec<Vec<kiln_run>>,
    /// Of each helper, in all its runs.
    sub_chunks: Vec<usize>,
}

/// A contiguous range of sub-chunks.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct kiln_run {
    /// The first sub-chunk.
    pub first: u32,
    /// Number of sub-chunks.
    pub count: u32,
}

/// The reads of one helper.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct kiln_helper {
    /// The helper's chunk.
    pub chunk: u32,
    /// Sub-chunks in all its runs together.
    pub sub_chunks: u32,
    /// Its runs, ascending; they live as long as the plan.
    pub runs: *const kiln_run,
    /// Number of runs.
    pub run_count: usize,
}

/// Plans the cheapest way, in bytes read, to rebuild the chunks `lost` from some of `available`.
/// -EIO when too few are available.
///
/// # Safety
/// `codec` is alive; the lists have as many entries as said; `plan` may be written to; `message`
/// is null or has `message_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_repair(
    codec: *const kiln_codec,
    lost: *const u32,
    lost_count: usize,
    available: *const u32,
    available_count: usize,
    plan: *mut *mut kiln_plan,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let (lost, available) = ((lost, lost_count), (available, available_count));
        let message = Message::new(message, message_len);
        make(codec, lost, available, plan, message, Codec::repair_plan)
    }
}

/// As `kiln_plan_repair`, but with k whole chunks read, data chunks first: for reads that want the
/// whole object anyway.
///
/// # Safety
/// As `kiln_plan_repair`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_decode(
    codec: *const kiln_codec,
    lost: *const u32,
    lost_count: usize,
    available: *const u32,
    available_count: usize,
    plan: *mut *mut kiln_plan,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let (lost, available) = ((lost, lost_count), (available, available_count));
        let message = Message::new(message, message_len);
        make(codec, lost, available, plan, message, Codec::decode_plan)
    }
}

type Planner = fn(&Codec, &[usize], &[usize]) -> Result<Arc<RepairPlan>, CodeError>;

/// # Safety
/// As `kiln_plan_repair`.
unsafe fn make(
    codec: *const kiln_codec,
    lost: (*const u32, usize),
    available: (*const u32, usize),
    out: *mut *mut kiln_plan,
    message: Message,
    planner: Planner,
) -> c_int {
    guard(message, || {
        // SAFETY: alive, and lists as long as said.
        let (codec, lost, available) = unsafe {
            (alive(codec)?, numbers(lost.0, lost.1)?, numbers(available.0, available.1)?)
        };
        if out.is_null() {
            return Err(Failure::invalid("plan: a null pointer"));
        }
        let plan = planner(codec, &lost, &available)?;
        let run =
            |run: &std::ops::Range<u32>| kiln_run { first: run.start, count: run.end - run.start };
        let runs = plan.helpers().iter().map(|h| h.runs.iter().map(run).collect()).collect();
        let sub_chunks = plan.helpers().iter().map(|h| h.sub_chunks()).collect();
        let made = Box::new(kiln_plan { plan, alpha: codec.shape().alpha, runs, sub_chunks });
        // SAFETY: not null, and writable as promised.
        unsafe { out.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Ends a plan; null is allowed.
///
/// # Safety
/// `plan` is null or came from `kiln_plan_repair` or `kiln_plan_decode`, and is not used any
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_free(plan: *mut kiln_plan) {
    if !plan.is_null() {
        // SAFETY: a box of `make` that is given back once.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// The number of helpers; 0 for null.
///
/// # Safety
/// `plan` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_helpers(plan: *const kiln_plan) -> usize {
    // SAFETY: null or alive as promised.
    unsafe { plan.as_ref() }.map_or(0, |plan| plan.runs.len())
}

/// Returns the reads of helper number `index`, chunks ascending.
///
/// # Safety
/// `plan` is alive, `helper` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_helper(
    plan: *const kiln_plan,
    index: usize,
    helper: *mut kiln_helper,
) -> c_int {
    // SAFETY: null or alive as promised.
    let Some(plan) = (unsafe { plan.as_ref() }) else { return -libc::EINVAL };
    let (Some(reads), Some(runs)) = (plan.plan.helpers().get(index), plan.runs.get(index)) else {
        return -libc::ERANGE;
    };
    if helper.is_null() {
        return -libc::EINVAL;
    }
    let (chunk, sub_chunks) = (reads.chunk as u32, reads.sub_chunks() as u32);
    let value = kiln_helper { chunk, sub_chunks, runs: runs.as_ptr(), run_count: runs.len() };
    // SAFETY: not null, and writable as promised.
    unsafe { helper.write(value) };
    0
}

/// Rebuilds: `inputs[i]` holds the runs of helper i one after the other, `outputs[j]` becomes the
/// whole j-th lost chunk, lost chunks ascending. A sub-chunk has `sub_chunk_len` bytes. No output
/// may overlap another buffer.
///
/// # Safety
/// `plan` is alive; `inputs` leads to a pointer for each helper, to its `sub_chunks` x
/// `sub_chunk_len` bytes; `outputs` to one for each lost chunk, to alpha x `sub_chunk_len` bytes;
/// `message` is null or has `message_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_plan_run(
    plan: *const kiln_plan,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    sub_chunk_len: usize,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = unsafe { Message::new(message, message_len) };
    guard(message, || {
        // SAFETY: null or alive as promised.
        let Some(plan) = (unsafe { plan.as_ref() }) else {
            return Err(Failure::invalid("plan: a null pointer"));
        };
        // No helper reads more than its chunk.
        let chunk = plan.alpha.checked_mul(sub_chunk_len).ok_or_else(|| {
            Failure::invalid(format!("sub-chunks of {sub_chunk_len} bytes are too long"))
        })?;
        let ins = plan.sub_chunks.iter().map(|sub_chunks| sub_chunks * sub_chunk_len);
        let outs = repeat_n(chunk, plan.plan.lost().len());
        let inputs = Given { pointers: inputs, lens: ins };
        let outputs = Given { pointers: outputs.cast(), lens: outs };
        // SAFETY: a pointer for each helper and lost chunk, to as many bytes, as promised.
        let mut regions = unsafe { Regions::new(inputs, outputs) }?;
        let hint = regions.hint();
        Ok(plan.plan.run_on(&regions.inputs, &mut regions.outputs, hint)?)
    })
}
