//! `kiln_codec`: a code ready for work.

use crate::failure::{Failure, Message, guard, put_text, text};
use crate::regions::{Given, Regions};
use kiln_code::{CodeSpec, Codec};
use libc::{c_char, c_int};
use std::iter::repeat_n;

/// A code with everything it needs. Made by `kiln_codec_new`, ended by `kiln_codec_free`.
#[allow(non_camel_case_types)]
pub struct kiln_codec {
    pub(crate) codec: Codec,
}

/// The numbers of a code.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct kiln_shape {
    /// Data chunks.
    pub k: u32,
    /// Parity chunks.
    pub m: u32,
    /// Sub-chunks of a chunk: the length of a chunk is a multiple of it.
    pub alpha: u32,
}

/// Makes a code from a spec (`clay:10+4,d=13`) or from a Ceph profile (`plugin=isa k=8 m=4`).
///
/// # Safety
/// `spec` ends with a zero byte; `codec` may be written to; `message` is null or has `message_len`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_codec_new(
    spec: *const c_char,
    codec: *mut *mut kiln_codec,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = unsafe { Message::new(message, message_len) };
    guard(message, || {
        if codec.is_null() {
            return Err(Failure::invalid("codec: a null pointer"));
        }
        // SAFETY: ended by zero as promised.
        let spec: CodeSpec = unsafe { text(spec) }?.parse()?;
        let made = Box::new(kiln_codec { codec: Codec::new(&spec)? });
        // SAFETY: not null, and writable as promised.
        unsafe { codec.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Ends a code; null is allowed. Plans made from it live on.
///
/// # Safety
/// `codec` is null or came from `kiln_codec_new`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_codec_free(codec: *mut kiln_codec) {
    if !codec.is_null() {
        // SAFETY: a box of `kiln_codec_new` that is given back once.
        drop(unsafe { Box::from_raw(codec) });
    }
}

/// A handle as a reference.
///
/// # Safety
/// `codec` is null or alive.
pub(crate) unsafe fn alive<'a>(codec: *const kiln_codec) -> Result<&'a Codec, Failure> {
    // SAFETY: null or alive as promised.
    let codec = unsafe { codec.as_ref() };
    codec.map(|c| &c.codec).ok_or_else(|| Failure::invalid("codec: a null pointer"))
}

/// The numbers of a code.
///
/// # Safety
/// `codec` is alive, `shape` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_codec_shape(
    codec: *const kiln_codec,
    shape: *mut kiln_shape,
) -> c_int {
    // SAFETY: no message.
    guard(unsafe { Message::new(std::ptr::null_mut(), 0) }, || {
        // SAFETY: alive as promised.
        let numbers = unsafe { alive(codec) }?.shape();
        if shape.is_null() {
            return Err(Failure::invalid("shape: a null pointer"));
        }
        let (k, m, alpha) = (numbers.k as u32, numbers.m as u32, numbers.alpha as u32);
        // SAFETY: not null, and writable as promised.
        unsafe { shape.write(kiln_shape { k, m, alpha }) };
        Ok(())
    })
}

/// Returns the bytes of a packet, and writes into `count` how many sub-chunks hold the same blocks
/// of packets (Jerasure's `packetsize`), so that they are read together. 0, and 1 sub-chunk, for
/// codes without packets.
///
/// # Safety
/// `codec` is alive, `count` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_codec_packet(codec: *const kiln_codec, count: *mut u32) -> usize {
    // SAFETY: alive as promised.
    let packets = unsafe { alive(codec) }.ok().and_then(Codec::packets);
    if !count.is_null() {
        // SAFETY: not null, and writable as promised.
        unsafe { count.write(packets.map_or(1, |packets| packets.count as u32)) };
    }
    packets.map_or(0, |packets| packets.bytes)
}

/// Writes the code's spec, complete, as text ended by a zero byte: two codes of one such text make
/// the same bytes. -ERANGE when it does not fit; 1100 bytes are always enough.
///
/// # Safety
/// `codec` is alive; `spec` has `spec_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_codec_spec(
    codec: *const kiln_codec,
    spec: *mut c_char,
    spec_len: usize,
) -> c_int {
    // SAFETY: the caller's promise; the message is separate and absent.
    let (room, none) =
        unsafe { (Message::new(spec, spec_len), Message::new(std::ptr::null_mut(), 0)) };
    guard(none, || {
        // SAFETY: alive as promised.
        put_text(room, &unsafe { alive(codec) }?.spec().explicit())
    })
}

/// Encodes a stripe: `parity[0..m]` from `data[0..k]`, all of `chunk_len` bytes, a multiple of
/// alpha. No parity may overlap another buffer.
///
/// # Safety
/// `codec` is alive; `data` leads to k pointers and `parity` to m, each to `chunk_len` bytes;
/// `message` is null or has `message_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_encode(
    codec: *const kiln_codec,
    data: *const *const u8,
    parity: *const *mut u8,
    chunk_len: usize,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = unsafe { Message::new(message, message_len) };
    guard(message, || {
        // SAFETY: alive as promised.
        let codec = unsafe { alive(codec) }?;
        let shape = codec.shape();
        let data = Given { pointers: data, lens: repeat_n(chunk_len, shape.k) };
        let parity = Given { pointers: parity.cast(), lens: repeat_n(chunk_len, shape.m) };
        // SAFETY: k and m pointers to `chunk_len` bytes each, as promised.
        let mut regions = unsafe { Regions::new(data, parity) }?;
        let hint = regions.hint();
        Ok(codec.encode_on(&regions.inputs, &mut regions.outputs, hint)?)
    })
}
