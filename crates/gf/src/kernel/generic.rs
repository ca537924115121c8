//! The body of kernels that are compiled ahead of time, over the vectors of any CPU.
//!
//! Everything here is inlined into functions that enable the features of the CPU, so that
//! operations on vectors become its instructions.

use super::{engine::Pass, fetch::prefetch};
use std::ptr;

/// Distance at which loops fetch their sources ahead where data is in memory.
const AHEAD: usize = 512;
/// Vectors of a row that are summed at once where nothing is multiplied: enough to wait for loads,
/// few enough for registers.
const SUMS: usize = 4;
/// Bytes of the longest vector.
const WIDEST: usize = 64;

/// A vector register and its multiplication.
///
/// # Safety
/// Functions run on CPUs with the features that the implementing kernel proves. Addresses are
/// readable or writable for `WIDTH` bytes, or for those that are named.
#[allow(clippy::missing_safety_doc)] // the trait's holds for all functions
pub(super) trait Vector: Copy {
    /// Bytes of a vector.
    const WIDTH: usize;
    /// Bytes of table per coefficient.
    const TABLE_LEN: usize;
    /// True if the products of two sources are added at once.
    const PAIRS: bool = false;
    /// A source as products want it.
    type Source: Copy;
    /// The table of a coefficient in registers.
    type Map: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn source(self) -> Self::Source;
    unsafe fn map(table: *const u8) -> Self::Map;
    /// Adds the product of a source.
    unsafe fn add(self, source: Self::Source, map: Self::Map) -> Self;

    /// Adds the products of two sources.
    #[inline(always)]
    unsafe fn add_two(self, sources: [Self::Source; 2], maps: [Self::Map; 2]) -> Self {
        // SAFETY: as the caller promises.
        unsafe { self.add(sources[0], maps[0]).add(sources[1], maps[1]) }
    }

    /// Stores past the caches, where the CPU can do that; `to` is a multiple of `WIDTH`.
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { self.store(to) }
    }

    /// Loads `len` bytes, fewer than a vector; the others are zeros.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, len: usize) -> Self {
        let mut bytes = [0; WIDEST];
        // SAFETY: `len` bytes are readable, and `bytes` has a whole vector.
        unsafe {
            ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            Self::load(bytes.as_ptr())
        }
    }

    /// Stores the first `len` bytes, fewer than a vector.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, len: usize) {
        let mut bytes = [0; WIDEST];
        // SAFETY: `len` bytes are writable, and `bytes` has room for a whole vector.
        unsafe {
            self.store(bytes.as_mut_ptr());
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
    }
}

/// Loads N vectors, or `len` bytes of one.
///
/// # Safety
/// These bytes are readable, and the CPU has the vectors.
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(from: *const u8, len: usize) -> [V; N] {
    // SAFETY: the caller promises the bytes of N vectors, or `len` of one, and the CPU.
    unsafe {
        let mut vectors = [V::zero(); N];
        for (n, vector) in vectors.iter_mut().enumerate() {
            *vector = match len < V::WIDTH {
                true => V::load_part(from, len),
                false => V::load(from.add(n * V::WIDTH)),
            };
        }
        vectors
    }
}

/// Stores N vectors, or `len` bytes of one; past the caches where asked for and possible.
///
/// # Safety
/// These bytes are writable, and the CPU has the vectors.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(
    to: *mut u8,
    vectors: &[V; N],
    len: usize,
    stream: bool,
) {
    // SAFETY: the caller promises the bytes of N vectors, or `len` of one, and the CPU.
    unsafe {
        let stream = stream && to.addr().is_multiple_of(V::WIDTH);
        for (n, vector) in vectors.iter().enumerate() {
            match len < V::WIDTH {
                true => vector.store_part(to, len),
                false if stream => vector.stream(to.add(n * V::WIDTH)),
                false => vector.store(to.add(n * V::WIDTH)),
            }
        }
    }
}

/// Computes all bytes from `at` on of a pass with R rows, N vectors at a time.
///
/// # Safety
/// As [`super::engine::Engine::pass`]; `dsts` has R elements, and the CPU has the vectors.
#[inline(always)]
pub(super) unsafe fn all<V: Vector, const R: usize, const N: usize>(
    pass: &Pass<'_>,
    mut at: usize,
) {
    // SAFETY: each step stays below `len`.
    unsafe {
        while at + N * V::WIDTH <= pass.len {
            step::<V, R, N>(pass, at, V::WIDTH);
            at += N * V::WIDTH;
        }
        while at < pass.len {
            step::<V, R, 1>(pass, at, (pass.len - at).min(V::WIDTH));
            at += V::WIDTH;
        }
    }
}

/// Computes N vectors of each of R destinations from byte `at` on, or `len` bytes of one.
///
/// # Safety
/// As [`all`]; these bytes lie within the pass.
#[inline(always)]
unsafe fn step<V: Vector, const R: usize, const N: usize>(pass: &Pass<'_>, at: usize, len: usize) {
    let stream = N > 1 && pass.stream;
    // SAFETY: the caller promises R destinations, R x cols tables, the operands and the CPU.
    unsafe {
        let mut sums = [[V::zero(); N]; R];
        if pass.add {
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = load(pass.dsts.get_unchecked(r).add(at), len);
            }
        }
        if stream {
            for src in pass.srcs {
                prefetch(src.wrapping_add(at + AHEAD), N * V::WIDTH);
            }
        }
        let mut tables = pass.tables.as_ptr();
        let mut srcs = pass.srcs;
        while let ([a, b, rest @ ..], true) = (srcs, V::PAIRS) {
            let (a, b) = (load::<V, N>(a.add(at), len), load::<V, N>(b.add(at), len));
            for (r, sums) in sums.iter_mut().enumerate() {
                let (first, second) = (r * V::TABLE_LEN, (R + r) * V::TABLE_LEN);
                let maps = [V::map(tables.add(first)), V::map(tables.add(second))];
                for n in 0..N {
                    sums[n] = sums[n].add_two([a[n].source(), b[n].source()], maps);
                }
            }
            tables = tables.add(2 * R * V::TABLE_LEN);
            srcs = rest;
        }
        for &src in srcs {
            let vectors = load::<V, N>(src.add(at), len);
            let mut sources = [V::zero().source(); N];
            for n in 0..N {
                sources[n] = vectors[n].source();
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let map = V::map(tables.add(r * V::TABLE_LEN));
                for n in 0..N {
                    sums[n] = sums[n].add(sources[n], map);
                }
            }
            tables = tables.add(R * V::TABLE_LEN);
        }
        for (r, sums) in sums.iter().enumerate() {
            store(pass.dsts.get_unchecked(r).add(at), sums, len, stream);
        }
    }
}

/// Returns whether a pass only adds: all its coefficients are 0 or 1. XOR codes are made of these
/// on kernels that make no machine code of blocks.
pub(super) fn only_adds(pass: &Pass<'_>) -> bool {
    pass.coefficients.iter().all(|&coefficient| coefficient <= 1)
}

/// Computes all bytes from `at` on of a pass that only adds, without tables or multiplications.
///
/// # Safety
/// As [`super::engine::Engine::pass`], and the CPU has the vectors.
#[inline(always)]
pub(super) unsafe fn sums<V: Vector>(pass: &Pass<'_>, mut at: usize) {
    // SAFETY: each step stays below `len`.
    unsafe {
        // All rows of a stretch while its sources are in the nearest cache.
        while at + SUMS * V::WIDTH <= pass.len {
            for row in 0..pass.dsts.len() {
                sum::<V, SUMS>(pass, row, at, V::WIDTH);
            }
            at += SUMS * V::WIDTH;
        }
        while at < pass.len {
            let len = (pass.len - at).min(V::WIDTH);
            for row in 0..pass.dsts.len() {
                sum::<V, 1>(pass, row, at, len);
            }
            at += V::WIDTH;
        }
    }
}

/// Computes N vectors of one row, or `len` bytes of one.
///
/// # Safety
/// As [`sums`]; these bytes lie within the pass, and the row exists.
#[inline(always)]
unsafe fn sum<V: Vector, const N: usize>(pass: &Pass<'_>, row: usize, at: usize, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let dst = pass.dsts.get_unchecked(row).add(at);
        let mut sums = if pass.add { load(dst, len) } else { [V::zero(); N] };
        for (j, src) in pass.srcs.iter().enumerate() {
            if pass.coefficients[j * pass.dsts.len() + row] == 0 {
                continue;
            }
            let source = load::<V, N>(src.add(at), len);
            for n in 0..N {
                sums[n] = sums[n].xor(source[n]);
            }
        }
        store(dst, &sums, len, false);
    }
}

/// Functions of a [`Vector`], each by one expression.
macro_rules! operations {
    ($(fn $name:ident($($arguments:tt)*) -> $result:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            #[allow(unused_unsafe)] // some do nothing that is
            unsafe fn $name($($arguments)*) -> $result {
                // SAFETY: the trait's callers promise the addresses and the CPU.
                unsafe { $body }
            }
        )*
    };
}
pub(super) use operations;

/// A kernel of vectors: its type, whose values prove that the CPU has the features, and its passes.
/// `rows` are the rows that one pass may have, each with the vectors of a row at a time.
macro_rules! kernel {
    (
        $(#[$doc:meta])* $kernel:ident($vector:ty) = $name:literal, here: $here:expr,
        features: $features:literal, tabulate: $tabulate:path, most: $most:literal,
        rows: $($rows:literal x $n:literal),*
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $kernel(());

        pub(super) fn detect() -> Option<&'static dyn Kernel> {
            proof().map(|kernel| kernel as &dyn Kernel)
        }

        /// The kernel as what it proves.
        pub(super) fn proof() -> Option<&'static $kernel> {
            static KERNEL: $kernel = $kernel(());
            $here.then_some(&KERNEL)
        }

        impl Kernel for $kernel {
            fn name(&self) -> &'static str {
                $name
            }

            fn vector_len(&self) -> usize {
                WIDTH
            }
        }

        impl Engine for $kernel {
            fn most_rows(&self) -> usize {
                $most
            }

            fn table_len(&self) -> usize {
                <$vector as Vector>::TABLE_LEN
            }

            fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
                $tabulate(coefficient, table);
            }

            unsafe fn pass(&self, pass: &Pass<'_>) {
                // SAFETY: promised by the caller.
                unsafe { self.pass_from(pass, 0) };
            }
        }

        impl $kernel {
            /// Computes a pass from byte `from` of every operand on.
            ///
            /// # Safety
            /// As [`Engine::pass`].
            pub(super) unsafe fn pass_from(&self, pass: &Pass<'_>, from: usize) {
                /// # Safety
                /// As [`Engine::pass`], and the CPU has the features.
                #[target_feature(enable = $features)]
                unsafe fn run(pass: &Pass<'_>, from: usize) {
                    // SAFETY: the caller vouches for the operands and the CPU.
                    unsafe {
                        match pass.dsts.len() {
                            _ if generic::only_adds(pass) => generic::sums::<$vector>(pass, from),
                            $($rows => generic::all::<$vector, $rows, $n>(pass, from),)*
                            rows => unreachable!("{rows} rows in one pass"),
                        }
                    }
                }
                // SAFETY: the caller vouches for the operands, `self` for the CPU.
                unsafe { run(pass, from) }
            }
        }
    };
}
pub(super) use kernel;
