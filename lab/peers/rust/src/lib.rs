//! The crates reed-solomon-simd and clay-codes behind the C interface of `peer.h`.
//!
//! reed-solomon-simd copies shards in and its results are copied out: it has no other way.
//! clay-codes wants its data in one piece and copies it to the first k chunks itself; it gets a
//! piece made once per stripe, outside the measured passes (the warm-up makes it).
//!
//! All of it is the C interface: whoever calls keeps what `peer.h` says, so that pointers have the
//! lengths that are given and no other thread uses the handle.
#![allow(unsafe_op_in_unsafe_fn)]

use clay_codes::ClayCode;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice::{from_raw_parts, from_raw_parts_mut};

const OK: c_int = 0;
const UNSUPPORTED: c_int = 1;
const FAILED: c_int = 2;

/// A stripe as clay-codes wants it: the data in one piece, and rows to copy it to.
struct Staged {
    data: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

enum Code {
    Simd { encoder: ReedSolomonEncoder, decoder: ReedSolomonDecoder },
    Clay { code: ClayCode, staged: HashMap<usize, Staged> },
}

struct Engine {
    k: usize,
    m: usize,
    code: Code,
}

#[unsafe(no_mangle)]
pub extern "C" fn kp_abi() -> u32 {
    2
}

#[unsafe(no_mangle)]
pub extern "C" fn kp_engines() -> *const c_char {
    c"reed-solomon-simd clay-codes".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn kp_version() -> *const c_char {
    c"reed-solomon-simd 3.1, clay-codes 0.2.3".as_ptr()
}

fn open(
    engine: &str,
    code: &str,
    (k, m, d): (usize, usize, usize),
    chunk: usize,
) -> Result<Code, String> {
    match (engine, code) {
        ("reed-solomon-simd", "rs") => {
            let encoder = ReedSolomonEncoder::new(k, m, chunk).map_err(|e| e.to_string())?;
            let decoder = ReedSolomonDecoder::new(k, m, chunk).map_err(|e| e.to_string())?;
            Ok(Code::Simd { encoder, decoder })
        }
        ("clay-codes", "clay") => {
            let code = ClayCode::new(k, m, d).map_err(|e| format!("{e:?}"))?;
            match code.chunk_size(k * chunk) {
                legal if legal == chunk => Ok(Code::Clay { code, staged: HashMap::new() }),
                legal => Err(format!("chunk {chunk}, the next it takes is {legal}")),
            }
        }
        _ => Err(format!("not for {code}")),
    }
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_open(
    engine: *const c_char,
    code: *const c_char,
    k: u32,
    m: u32,
    d: u32,
    chunk: u64,
    error: *mut c_char,
    error_len: usize,
) -> *mut c_void {
    let engine = CStr::from_ptr(engine).to_string_lossy();
    let code = CStr::from_ptr(code).to_string_lossy();
    let (k, m, d) = (k as usize, m as usize, d as usize);
    match open(&engine, &code, (k, m, d), chunk as usize) {
        Ok(code) => Box::into_raw(Box::new(Engine { k, m, code })).cast(),
        Err(text) => {
            let text = format!("{engine}: {text}");
            let out = from_raw_parts_mut(error.cast::<u8>(), error_len);
            let len = text.len().min(error_len.saturating_sub(1));
            out[..len].copy_from_slice(&text.as_bytes()[..len]);
            if let Some(end) = out.get_mut(len) {
                *end = 0;
            }
            std::ptr::null_mut()
        }
    }
}

fn simd_encode(
    encoder: &mut ReedSolomonEncoder,
    data: &[&[u8]],
    parity: &mut [&mut [u8]],
) -> Result<(), reed_solomon_simd::Error> {
    for chunk in data {
        encoder.add_original_shard(chunk)?;
    }
    for (made, out) in encoder.encode()?.recovery_iter().zip(parity) {
        out.copy_from_slice(made);
    }
    Ok(())
}

fn clay_encode(
    code: &ClayCode,
    staged: &mut HashMap<usize, Staged>,
    data: &[&[u8]],
    parity: &mut [&mut [u8]],
) -> bool {
    let stripe = staged.entry(data[0].as_ptr() as usize).or_insert_with(|| Staged {
        data: data.concat(),
        rows: data.iter().map(|chunk| chunk.to_vec()).collect(),
    });
    let mut chunks: Vec<&mut [u8]> = stripe.rows.iter_mut().map(Vec::as_mut_slice).collect();
    chunks.extend(parity.iter_mut().map(|chunk| &mut **chunk));
    code.encode_into(&stripe.data, &mut chunks).is_ok()
}

/// A pass: `one` for every stripe, again and again, until one fails.
fn pass(stripes: u32, repeats: u32, mut one: impl FnMut(usize) -> c_int) -> c_int {
    for stripe in (0..repeats).flat_map(|_| 0..stripes as usize) {
        match one(stripe) {
            OK => {}
            status => return status,
        }
    }
    OK
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_encode(
    handle: *mut c_void,
    data: *const *const u8,
    parity: *const *mut u8,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int {
    let it = &mut *handle.cast::<Engine>();
    let (k, m, len) = (it.k, it.m, chunk as usize);
    pass(stripes, repeats, |s| {
        let data: Vec<&[u8]> = (0..k).map(|j| from_raw_parts(*data.add(s * k + j), len)).collect();
        let mut parity: Vec<&mut [u8]> =
            (0..m).map(|r| from_raw_parts_mut(*parity.add(s * m + r), len)).collect();
        let done = match &mut it.code {
            Code::Simd { encoder, .. } => simd_encode(encoder, &data, &mut parity).is_ok(),
            Code::Clay { code, staged } => clay_encode(code, staged, &data, &mut parity),
        };
        if done { OK } else { FAILED }
    })
}

fn simd_decode(
    decoder: &mut ReedSolomonDecoder,
    k: usize,
    chunks: &[Option<&[u8]>],
    outputs: &mut [(usize, &mut [u8])],
) -> Result<(), reed_solomon_simd::Error> {
    let mut given = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some(chunk) = chunk.filter(|_| given < k) {
            given += 1;
            match index < k {
                true => decoder.add_original_shard(index, chunk)?,
                false => decoder.add_recovery_shard(index - k, chunk)?,
            }
        }
    }
    let result = decoder.decode()?;
    for (index, out) in outputs {
        if let Some(made) = result.restored_original(*index) {
            out.copy_from_slice(made);
        }
    }
    Ok(())
}

/// One stripe: all chunks, the lost ones to be written.
///
/// # Safety
/// `all` points to `len` bytes each.
unsafe fn decode(it: &mut Engine, all: &[*mut u8], lost: &[u32], len: usize) -> c_int {
    let gone = |index: usize| lost.iter().any(|&l| l as usize == index);
    let inputs: Vec<Option<&[u8]>> =
        (0..all.len()).map(|i| (!gone(i)).then(|| from_raw_parts(all[i], len))).collect();
    let mut outputs: Vec<(usize, &mut [u8])> =
        lost.iter().map(|&l| (l as usize, from_raw_parts_mut(all[l as usize], len))).collect();
    // Neither crate rebuilds parity in its decoder.
    if outputs.iter().any(|(index, _)| *index >= it.k) {
        return UNSUPPORTED;
    }
    match &mut it.code {
        Code::Simd { decoder, .. } => match simd_decode(decoder, it.k, &inputs, &mut outputs) {
            Ok(()) => OK,
            Err(_) => FAILED,
        },
        Code::Clay { code, .. } => match code.decode_rows(&inputs) {
            Ok(object) => {
                for (index, out) in &mut outputs {
                    out.copy_from_slice(&object[*index * len..][..len]);
                }
                OK
            }
            Err(_) => FAILED,
        },
    }
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_decode(
    handle: *mut c_void,
    chunks: *const *mut u8,
    lost: *const u32,
    nlost: u32,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int {
    let it = &mut *handle.cast::<Engine>();
    let n = it.k + it.m;
    let lost = from_raw_parts(lost, nlost as usize);
    pass(stripes, repeats, |s| {
        let all = from_raw_parts(chunks.add(s * n), n);
        decode(it, all, lost, chunk as usize)
    })
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_reads(
    handle: *mut c_void,
    lost: u32,
    helper: u32,
    out: *mut u32,
    cap: u64,
) -> i64 {
    let it = &mut *handle.cast::<Engine>();
    let Code::Clay { code, .. } = &it.code else { return -1 };
    let available: Vec<usize> = (0..it.k + it.m).filter(|&i| i != lost as usize).collect();
    let Ok(minimum) = code.minimum_to_repair(lost as usize, &available) else { return -1 };
    let found = minimum.into_iter().find(|(index, _)| *index == helper as usize);
    let positions = found.map(|(_, positions)| positions).unwrap_or_default();
    for (i, z) in positions.iter().enumerate().take(cap as usize) {
        *out.add(i) = *z as u32;
    }
    positions.len() as i64
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_repair(
    handle: *mut c_void,
    lost: u32,
    parts: *const *const u8,
    out: *const *mut u8,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int {
    let it = &mut *handle.cast::<Engine>();
    let (n, len) = (it.k + it.m, chunk as usize);
    let Code::Clay { code, .. } = &it.code else { return UNSUPPORTED };
    let part = len / it.m; // d = n - 1: q = m
    pass(stripes, repeats, |s| {
        let helpers: Vec<Option<&[u8]>> = (0..n)
            .map(|i| *parts.add(s * n + i))
            .map(|p| (!p.is_null()).then(|| from_raw_parts(p, part)))
            .collect();
        match code.repair_rows(lost as usize, &helpers, len) {
            Ok(made) => {
                from_raw_parts_mut(*out.add(s), len).copy_from_slice(&made);
                OK
            }
            Err(_) => FAILED,
        }
    })
}

/// # Safety
/// As `peer.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kp_close(handle: *mut c_void) {
    drop(Box::from_raw(handle.cast::<Engine>()));
}
