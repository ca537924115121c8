//! A matrix prepared for a kernel, and the checked entries to the kernels.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::kernel::engine::{Pass, PassCode, Shape};
use crate::{AlignedBuf, GfError, Matrix, kernel::Kernel};

/// Bytes of sources that should stay in the L2 cache while several passes read them.
const STRIP_BYTES: usize = 256 * 1024;

/// Most sources, and most destinations, whose addresses fit on the stack; more cost allocations.
const STACK_OPERANDS: usize = 64;

/// As [`STACK_OPERANDS`], for the common small calls: clearing the larger arrays would cost them
/// as much time as their bytes.
const FEW_OPERANDS: usize = 16;

/// A matrix prepared for one kernel: destinations = matrix x sources, byte by byte.
///
/// Preparing costs some microseconds, so keep products rather than matrices. A product may be
/// used by many threads at once.
#[derive(Debug, Clone)]
pub struct Product {
    kernel: &'static dyn Kernel,
    matrix: Matrix,
    blocks: Vec<Block>,
}

/// Code that is made once there was enough work for it: making it costs some 100 microseconds.
#[derive(Debug, Default)]
struct Lazy {
    work: AtomicUsize,
    code: OnceLock<Option<Arc<dyn PassCode>>>,
}

/// Bytes of an operand after which code is made.
const WORTH_CODE: usize = if cfg!(test) { 1 } else { 64 << 10 };

impl Lazy {
    fn code(
        &self,
        len: usize,
        make: impl FnOnce() -> Option<Arc<dyn PassCode>>,
    ) -> Option<&dyn PassCode> {
        if let Some(code) = self.code.get() {
            return code.as_deref();
        }
        let work = self.work.fetch_add(len, Ordering::Relaxed).saturating_add(len);
        if work < WORTH_CODE { None } else { self.code.get_or_init(make).as_deref() }
    }
}

/// Some neighbouring rows of the matrix, as many as the kernel takes at once.
#[derive(Debug, Clone)]
struct Block {
    first_row: usize,
    rows: usize,
    /// Column by column, as a pass wants them.
    coefficients: Vec<u8>,
    tables: AlignedBuf,
    code: Arc<Lazy>,
}

impl Block {
    fn new(kernel: &dyn Kernel, matrix: &Matrix, first_row: usize, rows: usize) -> Block {
        let coefficients: Vec<u8> = (0..matrix.cols())
            .flat_map(|j| (first_row..first_row + rows).map(move |r| matrix.at(r, j)))
            .collect();
        let table_len = kernel.table_len();
        let mut tables = AlignedBuf::zeroed(coefficients.len() * table_len);
        if table_len > 0 {
            for (&coefficient, table) in coefficients.iter().zip(tables.chunks_mut(table_len)) {
                kernel.tabulate(coefficient, table);
            }
        }
        Block { first_row, rows, coefficients, tables, code: Arc::default() }
    }

    /// The block's code, where there was work enough and the kernel makes any.
    fn code(&self, kernel: &dyn Kernel, cols: usize, len: usize) -> Option<&dyn PassCode> {
        let shape = Shape { rows: self.rows, cols, coefficients: &self.coefficients };
        self.code.code(len, || kernel.code_gen()?.prepare(&shape))
    }
}

impl Product {
    /// Prepares `matrix` for `kernel`.
    pub fn new(kernel: &'static dyn Kernel, matrix: &Matrix) -> Product {
        // Blocks of nearly equal height: 5 + 4 rows, not 8 + 1, share the loads better.
        let count = matrix.rows().div_ceil(kernel.most_rows());
        let blocks = (0..count).map(|block| {
            let first_row = block * matrix.rows() / count;
            let rows = (block + 1) * matrix.rows() / count - first_row;
            Block::new(kernel, matrix, first_row, rows)
        });
        Product { kernel, matrix: matrix.clone(), blocks: blocks.collect() }
    }

    /// Number of destinations.
    pub fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// Number of sources.
    pub fn cols(&self) -> usize {
        self.matrix.cols()
    }

    /// The matrix.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// The kernel this is prepared for.
    pub fn kernel(&self) -> &'static dyn Kernel {
        self.kernel
    }

    /// `dsts` = matrix x `srcs`. What the destinations held before does not matter.
    ///
    /// Fails with [`GfError::OperandCount`] unless there is one source per column and one
    /// destination per row, and with [`GfError::OperandLength`] unless all have one length;
    /// then nothing is written.
    pub fn run(&self, srcs: &[&[u8]], dsts: &mut [&mut [u8]]) -> Result<(), GfError> {
        self.run_slices(srcs, dsts, false)
    }

    /// `dsts` += matrix x `srcs` (addition in the field is XOR). Fails as [`Product::run`] does.
    pub fn run_add(&self, srcs: &[&[u8]], dsts: &mut [&mut [u8]]) -> Result<(), GfError> {
        self.run_slices(srcs, dsts, true)
    }

    fn run_slices(&self, srcs: &[&[u8]], dsts: &mut [&mut [u8]], add: bool) -> Result<(), GfError> {
        self.check_counts(srcs.len(), dsts.len())?;
        let first = srcs.first().map(|src| src.len()).or(dsts.first().map(|dst| dst.len()));
        let len = first.unwrap_or(0);
        let check = |side, index, found| match found == len {
            true => Ok(()),
            false => Err(GfError::OperandLength { side, index, expected: len, found }),
        };
        for (index, src) in srcs.iter().enumerate() {
            check("source", index, src.len())?;
        }
        for (index, dst) in dsts.iter().enumerate() {
            check("destination", index, dst.len())?;
        }
        with_addresses(srcs.len(), dsts.len(), |src_starts, dst_starts| {
            src_starts.iter_mut().zip(srcs).for_each(|(start, src)| *start = src.as_ptr());
            dst_starts.iter_mut().zip(dsts).for_each(|(start, dst)| *start = dst.as_mut_ptr());
            // SAFETY: one address per slice, all of `len` bytes; the borrows exclude that a
            // destination shares bytes with anything.
            unsafe { self.execute(src_starts, dst_starts, len, add, false) };
            Ok(())
        })
    }

    pub(super) fn check_counts(&self, srcs: usize, dsts: usize) -> Result<(), GfError> {
        let check = |side, expected, found| match found == expected {
            true => Ok(()),
            false => Err(GfError::OperandCount { side, expected, found }),
        };
        check("source", self.cols(), srcs)?;
        check("destination", self.rows(), dsts)
    }

    /// Runs all blocks. Where there are several, bytes are taken in strips short enough that
    /// the sources come from the cache for all blocks but the first.
    ///
    /// # Safety
    /// There is one source per column and one destination per row; all are readable, and
    /// destinations writable, for `len` bytes; no destination shares a byte with another operand.
    pub(super) unsafe fn execute(
        &self,
        srcs: &mut [*const u8],
        dsts: &mut [*mut u8],
        len: usize,
        add: bool,
        stream: bool,
    ) {
        let strip = match self.blocks.len() {
            0 | 1 => len,
            // Whole steps of the kernels, which take up to 256 bytes at once.
            _ => (STRIP_BYTES / self.cols().max(1)).next_multiple_of(256).min(len),
        };
        let mut done = 0;
        while done < len {
            let len = strip.min(len - done);
            for block in &self.blocks {
                let pass = Pass {
                    coefficients: &block.coefficients,
                    tables: &block.tables,
                    code: block.code(self.kernel, self.matrix.cols(), len),
                    srcs,
                    dsts: &dsts[block.first_row..][..block.rows],
                    len,
                    add,
                    stream,
                };
                // SAFETY: the block was made by this kernel for these columns and rows; the
                // operands were promised, and `len` bytes of each are left.
                unsafe { self.kernel.pass(&pass) };
            }
            done += len;
            srcs.iter_mut().for_each(|start| *start = start.wrapping_add(len));
            dsts.iter_mut().for_each(|start| *start = start.wrapping_add(len));
        }
    }
}

/// Calls `action` with room for the addresses of so many sources and destinations.
fn with_addresses<T>(
    srcs: usize,
    dsts: usize,
    action: impl FnOnce(&mut [*const u8], &mut [*mut u8]) -> T,
) -> T {
    if srcs <= FEW_OPERANDS && dsts <= FEW_OPERANDS {
        let (mut src_starts, mut dst_starts) =
            ([ptr::null(); FEW_OPERANDS], [ptr::null_mut(); FEW_OPERANDS]);
        action(&mut src_starts[..srcs], &mut dst_starts[..dsts])
    } else if srcs <= STACK_OPERANDS && dsts <= STACK_OPERANDS {
        let (mut src_starts, mut dst_starts) =
            ([ptr::null(); STACK_OPERANDS], [ptr::null_mut(); STACK_OPERANDS]);
        action(&mut src_starts[..srcs], &mut dst_starts[..dsts])
    } else {
        action(&mut vec![ptr::null(); srcs], &mut vec![ptr::null_mut(); dsts])
    }
}
