//! Buffers of Python as slices of bytes, without copies.
//!
//! A buffer that Python exports stays where it is, and as long as it is, until it is released; it
//! is released when its [`PyBuffer`] is dropped, which is after the work. So addresses and lengths
//! hold while the interpreter's lock is not held. kiln cannot prevent another thread of the
//! caller from writing to a buffer meanwhile; callers promise not to (as with hashlib, zlib and
//! numpy; see `docs/guide/python.md`). All else is checked: elements are bytes, and
//! contiguous; outputs may be written to; no output overlaps another buffer.

use std::{ops::Range, ptr::NonNull};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::{buffer::PyBuffer, types::PyByteArray};

use crate::failure::Failure;

/// Bytes that a call reads.
pub enum Input {
    /// Their address in Python's memory.
    View(Bytes, Range<usize>),
    /// Put together from several places.
    Gathered(Vec<u8>),
}

/// A contiguous buffer of bytes.
pub struct Bytes {
    buffer: PyBuffer<u8>,
    at: NonNull<[u8]>,
}

// SAFETY: it is an address and a buffer that is exported until it is dropped; neither belongs to a
// thread. `PyBuffer` is `Send` and `Sync` for the same reason.
unsafe impl Send for Bytes {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// A buffer that is read.
    ///
    /// # Errors
    /// Not a buffer, not of bytes, or not contiguous.
    pub fn new(object: &Bound<'_, PyAny>, what: &str) -> Result<Bytes, Failure> {
        let py = object.py();
        let buffer = PyBuffer::<u8>::get(object).map_err(|error| {
            let kind = object.get_type();
            if error.is_instance_of::<PyBufferError>(py) {
                let todo = "give it as bytes: memoryview(x).cast('B'), or x.view('uint8')";
                return Failure::usage(format!(
                    "{what}: {kind} whose elements are no bytes; {todo}"
                ));
            }
            let text = format!("{what}: {kind} is no buffer of bytes (bytes, bytearray, numpy...)");
            Failure::Python(PyTypeError::new_err(text))
        })?;
        let at = buffer.as_slice_ptr().ok_or_else(|| {
            Failure::usage(format!("{what}: its bytes are not contiguous; copy them first"))
        })?;
        Ok(Bytes { buffer, at })
    }

    /// A buffer that is written.
    ///
    /// # Errors
    /// As [`Bytes::new`]; it is read-only.
    pub fn to_write(object: &Bound<'_, PyAny>, what: &str) -> Result<Bytes, Failure> {
        let bytes = Bytes::new(object, what)?;
        match bytes.buffer.readonly() {
            true => Err(Failure::usage(format!("{what}: it cannot be written to"))),
            false => Ok(bytes),
        }
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    fn start(&self) -> *mut u8 {
        self.at.as_ptr().cast()
    }

    /// Its bytes.
    ///
    /// # Safety
    /// No thread writes to them as long as the slice lives.
    pub unsafe fn slice(&self) -> &[u8] {
        // SAFETY: exported and contiguous; no thread writes, as promised.
        unsafe { self.at.as_ref() }
    }
}

impl Input {
    /// All of a buffer.
    pub fn whole(object: &Bound<'_, PyAny>, what: &str) -> Result<Input, Failure> {
        let bytes = Bytes::new(object, what)?;
        let all = 0..bytes.len();
        Ok(Input::View(bytes, all))
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.span().1
    }

    /// Address and number of its bytes.
    fn span(&self) -> (usize, usize) {
        match self {
            Input::View(bytes, part) => (bytes.start().addr() + part.start, part.len()),
            Input::Gathered(bytes) => (bytes.as_ptr().addr(), bytes.len()),
        }
    }

    /// # Safety
    /// As [`Bytes::slice`].
    unsafe fn slice(&self) -> &[u8] {
        match self {
            // SAFETY: as promised.
            Input::View(bytes, part) => unsafe { bytes.slice() }.get(part.clone()).unwrap_or(&[]),
            Input::Gathered(bytes) => bytes,
        }
    }
}

/// The buffers of one call, proved not to overlap where they must not.
pub struct Work<'a> {
    /// The buffers to read.
    pub inputs: Vec<&'a [u8]>,
    /// The buffers to write.
    pub outputs: Vec<&'a mut [u8]>,
}

impl<'a> Work<'a> {
    /// Slices of all buffers of a call.
    ///
    /// # Safety
    /// No other thread writes to inputs, or reads or writes outputs, during `'a`.
    ///
    /// # Errors
    /// An output overlaps another buffer.
    pub unsafe fn new(inputs: &'a [Input], outputs: &'a [Bytes]) -> Result<Work<'a>, Failure> {
        let written = |bytes: &Bytes| (bytes.start().addr(), bytes.len());
        for (index, output) in outputs.iter().enumerate() {
            let after = outputs[index + 1..].iter().map(written);
            let mut others = inputs.iter().map(Input::span).chain(after);
            if others.any(|other| overlap(written(output), other)) {
                let what = format!("output {index} overlaps another buffer of the call");
                return Err(Failure::usage(what));
            }
        }
        // SAFETY: exported as long as the buffers live; inputs are written and outputs
        // touched by no other thread as promised, and by no other slice made here, as just seen.
        unsafe {
            Ok(Work {
                inputs: inputs.iter().map(|input| input.slice()).collect(),
                outputs: outputs.iter().map(|output| &mut *output.at.as_ptr()).collect(),
            })
        }
    }
}

/// Returns whether two buffers share a byte.
fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0.max(b.0) < (a.0 + a.1).min(b.0 + b.1)
}

/// New memory of zeros for results.
///
/// # Errors
/// There is not as much memory.
pub fn fresh(py: Python<'_>, len: usize) -> Result<Bound<'_, PyAny>, Failure> {
    if len > isize::MAX as usize {
        return Err(Failure::usage(format!("{len} bytes are more than memory has")));
    }
    Ok(PyByteArray::new_with(py, len, |_| Ok(()))?.into_any())
}
