//! Other libraries as engines, through the C interface of `lab/peers/peer.h`.
//!
//! The only file of the bench with unsafe code: it loads shared libraries and calls them.
#![allow(unsafe_code)]

use crate::BenchError;
use crate::engine::{Engine, Job, Operation, Reads, Stripe, Task};
use crate::measure::{Seconds, Stopwatch};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

/// The version of `peer.h` that is spoken here.
const ABI: u32 = 2;
/// More chunks than any case of the bench has.
const CHUNKS_MAX: usize = 64;
/// Room for an error text.
const TEXT: usize = 256;

/// The file names of the peers' libraries, in the order of reports.
pub const LIBRARIES: &[&str] =
    &["klauspost", "isal", "isal-next", "jerasure", "ceph", "crates", "ceiling"];

/// An engine's name, and what kiln's spec makes the same bytes: `{}` stands for `k+m`.
const SAME_BYTES: &[(&str, &str)] = &[
    ("isal", "rs:{},matrix=isa"),
    ("isal-cauchy", "rs:{},matrix=isa-cauchy"),
    ("isal-next", "rs:{},matrix=isa"),
    ("klauspost", "rs:{},matrix=backblaze"),
    ("klauspost-2", "rs:{},matrix=backblaze"),
    ("jerasure", "rs:{},matrix=jerasure"),
    ("ceph-isa", "rs:{},matrix=isa"),
    ("ceph-jerasure", "rs:{},matrix=jerasure"),
    ("ceph-clay-isa", "clay:{},mds=isa,coupling=ceph"),
    ("ceph-clay-jerasure", "clay:{},mds=jerasure,coupling=ceph"),
];

type Text = unsafe extern "C" fn() -> *const c_char;
type Open = unsafe extern "C" fn(
    engine: *const c_char,
    code: *const c_char,
    k: u32,
    m: u32,
    d: u32,
    chunk: u64,
    error: *mut c_char,
    error_len: usize,
) -> *mut c_void;
type Encode = unsafe extern "C" fn(
    *mut c_void,
    data: *const *const u8,
    parity: *const *mut u8,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int;
type Decode = unsafe extern "C" fn(
    *mut c_void,
    chunks: *const *mut u8,
    lost: *const u32,
    nlost: u32,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int;
type ReadsOf =
    unsafe extern "C" fn(*mut c_void, lost: u32, helper: u32, out: *mut u32, cap: u64) -> i64;
type Repair = unsafe extern "C" fn(
    *mut c_void,
    lost: u32,
    parts: *const *const u8,
    out: *const *mut u8,
    chunk: u64,
    stripes: u32,
    repeats: u32,
) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);

struct Functions {
    open: Open,
    encode: Encode,
    decode: Decode,
    reads: ReadsOf,
    repair: Repair,
    close: Close,
    // Last, so that nothing above outlives the code it points to.
    _library: Library,
}

/// One engine of a peer's library.
pub struct Peer {
    name: String,
    version: String,
    functions: Arc<Functions>,
}

impl Peer {
    /// Loads a library and lists its engines.
    ///
    /// # Errors
    /// [`BenchError::Peer`] if it is absent, does not load or speaks another `peer.h`.
    pub fn load(path: &Path) -> Result<Vec<Peer>, BenchError> {
        let bad = |reason: String| BenchError::Peer { path: path.to_path_buf(), reason };
        let missing = |error: libloading::Error| bad(error.to_string());
        // SAFETY: the library is one that lab/peers/build.sh made; its initialisers are those
        // of the C, C++, Go and Rust run-times. Types are those of peer.h, whose version is
        // compared before anything else is called.
        let (functions, names, version) = unsafe {
            let library = Library::new(path).map_err(missing)?;
            let abi: unsafe extern "C" fn() -> u32 = *library.get(b"kp_abi\0").map_err(missing)?;
            let abi = abi();
            if abi != ABI {
                return Err(bad(format!("version {abi} of peer.h, expected {ABI}")));
            }
            let names: Text = *library.get(b"kp_engines\0").map_err(missing)?;
            let version: Text = *library.get(b"kp_version\0").map_err(missing)?;
            let text = |pointer| CStr::from_ptr(pointer).to_string_lossy().into_owned();
            let (names, version) = (text(names()), text(version()));
            let functions = Functions {
                open: *library.get(b"kp_open\0").map_err(missing)?,
                encode: *library.get(b"kp_encode\0").map_err(missing)?,
                decode: *library.get(b"kp_decode\0").map_err(missing)?,
                reads: *library.get(b"kp_reads\0").map_err(missing)?,
                repair: *library.get(b"kp_repair\0").map_err(missing)?,
                close: *library.get(b"kp_close\0").map_err(missing)?,
                _library: library,
            };
            (Arc::new(functions), names, version)
        };
        // The run-times of Go and Ceph have threads that outlive any handle: never unload.
        std::mem::forget(functions.clone());
        let engine = |name: &str| Peer {
            name: name.to_string(),
            version: version.clone(),
            functions: functions.clone(),
        };
        Ok(names.split_whitespace().map(engine).collect())
    }

    fn open(&self, code: &str, job: &Job, k: usize, m: usize) -> Result<Handle<'_>, BenchError> {
        let unsupported = |reason| BenchError::Unsupported { engine: self.name.clone(), reason };
        if job.n() > CHUNKS_MAX || k + m > CHUNKS_MAX {
            return Err(unsupported(format!("more than {CHUNKS_MAX} chunks")));
        }
        let name = CString::new(self.name.as_str()).unwrap_or_default();
        let code = CString::new(code).unwrap_or_default();
        let mut error = [0u8; TEXT];
        // SAFETY: as peer.h says; both strings end in zero, the text has room for TEXT bytes.
        let raw = unsafe {
            (self.functions.open)(
                name.as_ptr(),
                code.as_ptr(),
                k as u32,
                m as u32,
                job.helpers() as u32,
                job.chunk as u64,
                error.as_mut_ptr().cast(),
                TEXT,
            )
        };
        if raw.is_null() {
            let text = CStr::from_bytes_until_nul(&error).unwrap_or_default();
            return Err(unsupported(text.to_string_lossy().into_owned()));
        }
        Ok(Handle { raw, peer: self })
    }

    /// What a repair of `job`'s lost chunk reads.
    fn repair_reads(&self, handle: &Handle<'_>, job: &Job) -> Result<Vec<Reads>, BenchError> {
        let unsupported = |reason: &str| BenchError::Unsupported {
            engine: self.name.clone(),
            reason: reason.to_string(),
        };
        let &[lost] = &job.lost()[..] else {
            return Err(unsupported("repairs one chunk at a time"));
        };
        let mut reads = Vec::new();
        for chunk in job.survivors() {
            let mut list = vec![0; job.alpha()];
            let room = list.len() as u64;
            // SAFETY: the list has that room.
            let count = unsafe {
                let out = list.as_mut_ptr();
                (self.functions.reads)(handle.raw, lost as u32, chunk as u32, out, room)
            };
            match usize::try_from(count) {
                Err(_) => return Err(unsupported("has no repair of its own")),
                Ok(0) => {}
                Ok(count) if count <= list.len() => {
                    list.truncate(count);
                    reads.push(Reads { chunk, sub_chunks: Some(list) });
                }
                Ok(_) => return Err(unsupported("counts other sub-chunks than kiln")),
            }
        }
        Ok(reads)
    }

    /// Prepares an encode of any shape, for ceilings: `k` inputs and `m` outputs, the first `len`
    /// bytes of each output. An output may be cut into several.
    ///
    /// # Errors
    /// The ceiling is not defined for these numbers.
    pub(crate) fn prepare_shape(
        &self,
        job: &Job,
        reads: Vec<Reads>,
        shape: Shape,
    ) -> Result<Box<dyn Task + '_>, BenchError> {
        let job = Job { chunk: shape.len, ..*job };
        let handle = self.open(job.family.name(), &job, reads.len(), shape.outputs)?;
        Ok(Box::new(Traffic { handle, reads, shape }))
    }
}

/// A pass of a ceiling over a stripe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Streams written.
    pub outputs: usize,
    /// Bytes of each stream, read or written.
    pub len: usize,
}

impl Engine for Peer {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn prepare(&self, job: &Job) -> Result<Box<dyn Task + '_>, BenchError> {
        self.prepare_code(job.family.name(), job)
    }

    fn same_bytes_as(&self, job: &Job) -> Option<String> {
        let row = SAME_BYTES.iter().find(|(name, _)| *name == self.name)?;
        Some(row.1.replace("{}", &format!("{}+{}", job.k, job.m)))
    }
}

impl Peer {
    /// As [`Engine::prepare`] for a code that `peer.h` names and no [`Job`] does.
    ///
    /// # Errors
    /// The library has no such code or operation.
    pub fn prepare_code(&self, code: &str, job: &Job) -> Result<Box<dyn Task + '_>, BenchError> {
        let handle = self.open(code, job, job.k, job.m)?;
        let reads = match job.operation {
            Operation::Encode => (0..job.k).map(Reads::whole).collect(),
            Operation::Decode(_) => job.survivors().into_iter().map(Reads::whole).collect(),
            Operation::Repair(_) => self.repair_reads(&handle, job)?,
        };
        let lost = job.lost().into_iter().map(|chunk| chunk as u32).collect();
        Ok(Box::new(Call { handle, job: *job, reads, lost }))
    }
}

/// An open handle; closes itself.
struct Handle<'a> {
    raw: *mut c_void,
    peer: &'a Peer,
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by the same library, closed once.
        unsafe { (self.peer.functions.close)(self.raw) }
    }
}

impl Handle<'_> {
    fn result(&self, status: c_int) -> Result<(), BenchError> {
        let (engine, reason) = (self.peer.name.clone(), format!("status {status}"));
        match status {
            0 => Ok(()),
            1 => Err(BenchError::Unsupported { engine, reason: "no such operation".into() }),
            _ => Err(BenchError::Failed { engine, reason }),
        }
    }
}

/// A job prepared by a peer.
struct Call<'a> {
    handle: Handle<'a>,
    job: Job,
    reads: Vec<Reads>,
    lost: Vec<u32>,
}

impl Call<'_> {
    /// Pointers to all n chunks of all stripes: inputs where they are read, outputs where the
    /// lost ones go. A repair has its outputs beside them instead.
    fn chunks(&self, stripes: &mut [Stripe<'_>], with_outputs: bool) -> Vec<*mut u8> {
        let n = self.job.n();
        let mut all = vec![std::ptr::null_mut(); n * stripes.len()];
        for (chunks, stripe) in all.chunks_exact_mut(n).zip(stripes) {
            for (read, input) in self.reads.iter().zip(&stripe.inputs) {
                chunks[read.chunk] = input.as_ptr().cast_mut(); // peer.h: read only
            }
            for (&lost, output) in self.lost.iter().zip(&mut stripe.outputs) {
                if with_outputs {
                    chunks[lost as usize] = output.as_mut_ptr();
                }
            }
        }
        all
    }
}

impl Task for Call<'_> {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        let functions = &self.handle.peer.functions;
        let (raw, len, count) = (self.handle.raw, self.job.chunk as u64, stripes.len() as u32);
        let lost = (self.lost.as_ptr(), self.lost.len() as u32);
        let (inputs, outputs) = pointers(stripes);
        // The views of one job have the number and lengths of chunks that peer.h demands; inputs
        // are only read, outputs are borrowed exclusively.
        let (status, seconds) = match self.job.operation {
            // SAFETY: k inputs and m outputs a stripe, of this job's length.
            Operation::Encode => timed(|| unsafe {
                (functions.encode)(raw, inputs.as_ptr(), outputs.as_ptr(), len, count, repeats)
            }),
            Operation::Decode(_) => {
                let all = self.chunks(stripes, true);
                // SAFETY: n chunks a stripe, the lost ones are outputs.
                timed(|| unsafe {
                    (functions.decode)(raw, all.as_ptr(), lost.0, lost.1, len, count, repeats)
                })
            }
            Operation::Repair(_) => {
                let (all, lost) = (self.chunks(stripes, false), self.lost[0]);
                let parts = all.as_ptr().cast();
                // SAFETY: n parts a stripe as kp_reads named them, and one output.
                timed(|| unsafe {
                    (functions.repair)(raw, lost, parts, outputs.as_ptr(), len, count, repeats)
                })
            }
        };
        self.handle.result(status).map(|()| seconds)
    }
}

/// Clears the upper halves of the vector registers. Some libraries (ISA-L 2.30) leave them full,
/// and code with 128-bit instructions that runs next (Jerasure) is then four times slower: no
/// engine may pay for its neighbour in a round.
pub fn clear_vector_state() {
    #[cfg(target_arch = "x86_64")]
    {
        /// Clears them.
        ///
        /// # Safety
        /// The CPU has AVX.
        #[target_feature(enable = "avx")]
        fn clear() {
            std::arch::x86_64::_mm256_zeroupper();
        }
        if is_x86_feature_detected!("avx") {
            // SAFETY: the CPU has the instruction, and callers keep nothing in upper halves.
            unsafe { clear() }
        }
    }
}

fn timed(work: impl FnOnce() -> c_int) -> (c_int, Seconds) {
    let watch = Stopwatch::start();
    let status = work();
    (status, watch.read())
}

/// Inputs and outputs of all stripes, one after the other.
fn pointers(stripes: &mut [Stripe<'_>]) -> (Vec<*const u8>, Vec<*mut u8>) {
    let inputs = stripes.iter().flat_map(|s| s.inputs.iter().map(|input| input.as_ptr()));
    let inputs = inputs.collect();
    let outputs = stripes.iter_mut().flat_map(|s| s.outputs.iter_mut().map(|o| o.as_mut_ptr()));
    (inputs, outputs.collect())
}

/// A ceiling's pass.
struct Traffic<'a> {
    handle: Handle<'a>,
    reads: Vec<Reads>,
    shape: Shape,
}

impl Task for Traffic<'_> {
    fn reads(&self) -> &[Reads] {
        &self.reads
    }

    fn pass(&mut self, stripes: &mut [Stripe<'_>], repeats: u32) -> Result<Seconds, BenchError> {
        let Shape { outputs: count, len } = self.shape;
        let (inputs, _) = pointers(stripes);
        let mut outputs = Vec::with_capacity(stripes.len() * count);
        let mut short = len == 0 || inputs.len() != stripes.len() * self.reads.len();
        for stripe in &mut *stripes {
            short |= stripe.inputs.iter().any(|input| input.len() < len);
            let pieces = stripe.outputs.iter_mut().flat_map(|o| o.chunks_exact_mut(len.max(1)));
            outputs.extend(pieces.take(count).map(|piece| piece.as_mut_ptr()));
        }
        if short || outputs.len() != stripes.len() * count {
            let (engine, reason) = (self.handle.peer.name.clone(), "buffers too short".into());
            return Err(BenchError::Unsupported { engine, reason });
        }
        let (encode, raw, number) =
            (self.handle.peer.functions.encode, self.handle.raw, stripes.len() as u32);
        // SAFETY: as many pointers as the handle was opened for, `len` bytes behind each, just
        // checked; outputs are disjoint pieces.
        let (status, seconds) = timed(|| unsafe {
            encode(raw, inputs.as_ptr(), outputs.as_ptr(), len as u64, number, repeats)
        });
        self.handle.result(status).map(|()| seconds)
    }
}
