//! Calls of the interface as bytes say: what a fuzzer drives it with.
//!
//! Every promise that C has to keep is kept here: pointers are null or lead to as many bytes as the
//! call says, and to no more, so that a reader past an end is found by the address sanitizer.
//! Everything else is as the input has it.

use crate::codec::{
    kiln_codec, kiln_codec_free, kiln_codec_new, kiln_codec_shape, kiln_codec_spec, kiln_encode,
    kiln_shape,
};
use crate::plan::{
    kiln_helper, kiln_plan, kiln_plan_decode, kiln_plan_free, kiln_plan_helper, kiln_plan_helpers,
    kiln_plan_repair, kiln_plan_run,
};
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

/// Codes that are made quickly.
const SPECS: [&str; 8] = [
    "rs:4+2", "clay:3+2", "rep:3", "cauchy:3+2,w=4", "lrc:4+2+2", "butterfly:4+2", "rdp:4+2",
    "star:5+3",
];
/// Most bytes of a chunk, and most chunks that buffers are made for.
const MOST_LEN: usize = 4096;
const MOST_BUFFERS: usize = 64;

/// The rest of the input.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(usize::from(*first))
    }

    fn numbers(&mut self) -> Vec<u32> {
        let count = self.next().unwrap_or(0) % 12;
        // Mostly indices, sometimes what no code has.
        let number =
            |byte: usize| if byte < 250 { byte as u32 % 9 } else { u32::MAX - byte as u32 };
        (0..count).map_while(|_| self.next()).map(number).collect()
    }
}

/// Makes the calls that the bytes name, in order. `true`: all went as far as their promises allow,
/// and messages end where their buffers do.
pub fn play(input: &[u8]) -> bool {
    let mut bytes = Bytes(input);
    let (mut codec, mut plan): (*mut kiln_codec, *mut kiln_plan) = (null_mut(), null_mut());
    let mut sound = true;
    while let Some(call) = bytes.next() {
        sound &= match call % 8 {
            0 => make_codec(&mut bytes, &mut codec, &mut plan),
            1 => ask_codec(&mut bytes, codec),
            2 => encode(&mut bytes, codec),
            3 | 4 => make_plan(&mut bytes, codec, &mut plan, call % 8 == 3),
            5 => ask_plan(&mut bytes, plan),
            6 => run_plan(&mut bytes, codec, plan),
            _ => {
                end(&mut codec, &mut plan);
                true
            }
        };
    }
    end(&mut codec, &mut plan);
    sound
}

/// A buffer for a message of a length that the input names, and whether it was kept.
fn with_message(bytes: &mut Bytes<'_>, call: impl FnOnce(*mut c_char, usize) -> c_int) -> bool {
    let len = bytes.next().unwrap_or(0);
    let mut message = vec![0x7fu8; len];
    let status = match len {
        0 => call(null_mut(), 0),
        _ => call(message.as_mut_ptr().cast(), len),
    };
    // Text ends within the buffer, whatever there was to say.
    status <= 0 && (status == 0 || len == 0 || message.contains(&0))
}

fn end(codec: &mut *mut kiln_codec, plan: &mut *mut kiln_plan) {
    // SAFETY: both are null, or were made by the interface and not ended since.
    unsafe {
        kiln_plan_free(*plan);
        kiln_codec_free(*codec);
    }
    (*codec, *plan) = (null_mut(), null_mut());
}

fn make_codec(
    bytes: &mut Bytes<'_>,
    codec: &mut *mut kiln_codec,
    plan: &mut *mut kiln_plan,
) -> bool {
    end(codec, plan);
    let which = bytes.next().unwrap_or(0);
    let spec = match which {
        255 => None,
        ..200 => CString::new(SPECS[which % SPECS.len()]).ok(),
        // Hostile text is the business of another target; long parameters only take time.
        _ => CString::new(
            (0..which % 7).map_while(|_| bytes.next()).map(|b| b as u8 | 1).collect::<Vec<_>>(),
        )
        .ok(),
    };
    let at = spec.as_ref().map_or(std::ptr::null(), |spec| spec.as_ptr());
    let mut made = null_mut();
    // SAFETY: null or text with its end; `made` is a place; the message has its length.
    let kept = with_message(bytes, |m, len| unsafe { kiln_codec_new(at, &raw mut made, m, len) });
    *codec = made;
    kept
}

fn shape_of(codec: *const kiln_codec) -> Option<kiln_shape> {
    let mut shape = kiln_shape { k: 0, m: 0, alpha: 0 };
    // SAFETY: null or alive; a place for the answer.
    let status = unsafe { kiln_codec_shape(codec, &raw mut shape) };
    (status == 0).then_some(shape)
}

fn ask_codec(bytes: &mut Bytes<'_>, codec: *const kiln_codec) -> bool {
    let mut text = vec![0x7fu8; 5 * bytes.next().unwrap_or(0)];
    // SAFETY: null or alive; as many bytes as said; a null place is refused.
    let (status, refused) = unsafe {
        let status = kiln_codec_spec(codec, text.as_mut_ptr().cast(), text.len());
        (status, kiln_codec_shape(codec, null_mut()))
    };
    refused < 0 && (status < 0 || text.contains(&0))
}

/// Buffers of one length, and the pointers to them; some are null or the same where `odd` says so.
fn buffers(lens: &[usize], odd: usize, fill: u8) -> (Vec<Vec<u8>>, Vec<*mut u8>) {
    let mut all: Vec<Vec<u8>> = lens.iter().map(|&len| vec![fill; len]).collect();
    let mut pointers: Vec<*mut u8> = all.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect();
    if let (Some(at), 200..) = (odd.checked_rem(pointers.len()), odd) {
        pointers[at] = null_mut();
    }
    (all, pointers)
}

fn encode(bytes: &mut Bytes<'_>, codec: *const kiln_codec) -> bool {
    let Some(shape) = shape_of(codec) else { return true };
    let (k, m) = (shape.k as usize, shape.m as usize);
    let unit = bytes.next().unwrap_or(0);
    // Mostly whole sub-chunks.
    let len = if unit % 5 == 4 { unit } else { unit * shape.alpha as usize };
    let odd = bytes.next().unwrap_or(0);
    if len > MOST_LEN || k + m > MOST_BUFFERS {
        return true;
    }
    let (data, ins) = buffers(&vec![len; k], odd, 0x31);
    let (_parity, mut outs) = buffers(&vec![len; m], odd ^ 0x55, 0x32);
    // An output that is an input must be refused.
    let shares = odd % 16 == 3 && len > 0 && odd < 200 && (odd ^ 0x55) < 200;
    if shares {
        outs[0] = ins[0];
    }
    // A length from nowhere is refused before anything is touched.
    let said = if odd == 199 { usize::MAX } else { len };
    let mut status = 0;
    // SAFETY: null or alive; k and m pointers, null or to `len` bytes each, which live until here.
    let kept = with_message(bytes, |text, text_len| unsafe {
        status = kiln_encode(codec, ins.as_ptr().cast(), outs.as_ptr(), said, text, text_len);
        status
    });
    kept && (!shares || status < 0) && data.iter().flatten().all(|&byte| byte == 0x31)
}

fn make_plan(
    bytes: &mut Bytes<'_>,
    codec: *const kiln_codec,
    plan: &mut *mut kiln_plan,
    repair: bool,
) -> bool {
    // SAFETY: null, or made by the interface and not ended since.
    unsafe { kiln_plan_free(*plan) };
    *plan = null_mut();
    let (lost, available) = (bytes.numbers(), bytes.numbers());
    let mut made = null_mut();
    // SAFETY: null or alive; lists of their lengths; a place for the plan.
    let kept = with_message(bytes, |m, len| unsafe {
        let make = if repair { kiln_plan_repair } else { kiln_plan_decode };
        let (many, some) = ((lost.as_ptr(), lost.len()), (available.as_ptr(), available.len()));
        make(codec, many.0, many.1, some.0, some.1, &raw mut made, m, len)
    });
    *plan = made;
    kept
}

/// The reads of a plan by helper, in sub-chunks.
fn helpers(plan: *const kiln_plan) -> Vec<usize> {
    // SAFETY: null or alive.
    let count = unsafe { kiln_plan_helpers(plan) };
    let helper = |index| {
        let (runs, run_count) = (std::ptr::null(), 0);
        let mut helper = kiln_helper { chunk: 0, sub_chunks: 0, runs, run_count };
        // SAFETY: null or alive; a place for the answer.
        let status = unsafe { kiln_plan_helper(plan, index, &raw mut helper) };
        assert_eq!(status, 0, "helper {index} of {count}");
        // SAFETY: as many runs as said, as long as the plan lives.
        let runs = unsafe { std::slice::from_raw_parts(helper.runs, helper.run_count) };
        let sum: u32 = runs.iter().map(|run| run.count).sum();
        assert_eq!(sum, helper.sub_chunks);
        sum as usize
    };
    (0..count).map(helper).collect()
}

fn ask_plan(bytes: &mut Bytes<'_>, plan: *const kiln_plan) -> bool {
    let known = helpers(plan).len();
    let beyond = known + bytes.next().unwrap_or(0);
    // SAFETY: null or alive; a null place is refused, as is a helper that there is not.
    unsafe { kiln_plan_helper(plan, beyond, null_mut()) < 0 }
}

fn run_plan(bytes: &mut Bytes<'_>, codec: *const kiln_codec, plan: *const kiln_plan) -> bool {
    let (Some(shape), reads) = (shape_of(codec), helpers(plan)) else { return true };
    let (len, odd) = (bytes.next().unwrap_or(0) % 32, bytes.next().unwrap_or(0));
    let lost = bytes.next().unwrap_or(0) % 12;
    let ins: Vec<usize> = reads.iter().map(|sub_chunks| sub_chunks * len).collect();
    let (_data, ins) = buffers(&ins, odd, 0x41);
    // As many as any plan here writes.
    let outs = vec![shape.alpha as usize * len; MOST_BUFFERS.min(12.max(lost))];
    let (_rebuilt, outs) = buffers(&outs, odd ^ 0x55, 0x42);
    // SAFETY: null or alive; a pointer for each helper, null or to what it reads, and at least one
    // for each lost chunk (lists of them have at most 11 entries), null or to a chunk.
    with_message(bytes, |m, text_len| unsafe {
        kiln_plan_run(plan, ins.as_ptr().cast(), outs.as_ptr(), len, m, text_len)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_made_asked_and_used() {
        let calls = [
            [0, 1, 60].to_vec(),
            [1, 250].to_vec(),
            [2, 10, 0, 60].to_vec(),
            [3, 1, 2, 4, 0, 1, 3, 4, 60].to_vec(),
            [5, 0].to_vec(),
            [6, 16, 0, 1, 60].to_vec(),
        ];
        assert!(play(&calls.concat()));
        // Every null pointer, no room for messages, nothing made.
        assert!(play(&[1, 0, 2, 1, 1, 1, 5, 9, 6, 1, 1, 1, 1, 7, 0, 255, 0]));
    }
}
