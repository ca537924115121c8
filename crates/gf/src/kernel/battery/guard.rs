//! Operands that end, or start, at memory whose touch kills the process.

use super::*;
use std::{ptr, slice};

/// Some pages with an inaccessible page on both sides.
struct Guarded {
    mapping: *mut libc::c_void,
    page: usize,
    inner: usize,
}

impl Guarded {
    fn new(inner: usize) -> Guarded {
        // SAFETY: plain system calls; the new mapping belongs to this value alone.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let inner = inner.max(1).next_multiple_of(page);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
            let mapping =
                libc::mmap(ptr::null_mut(), inner + 2 * page, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(mapping, libc::MAP_FAILED);
            let guarded = Guarded { mapping, page, inner };
            guarded.protect(libc::PROT_READ | libc::PROT_WRITE);
            guarded
        }
    }

    fn protect(&self, protection: libc::c_int) {
        // SAFETY: changes only the inner pages of our own mapping.
        let status =
            unsafe { libc::mprotect(self.mapping.byte_add(self.page), self.inner, protection) };
        assert_eq!(status, 0);
    }

    /// `len` bytes that touch the guard page before or behind.
    fn slice(&mut self, len: usize, at_end: bool) -> &mut [u8] {
        let skip = if at_end { self.inner - len } else { 0 };
        // SAFETY: within the inner pages, borrowed from `self`.
        unsafe { slice::from_raw_parts_mut(self.mapping.byte_add(self.page + skip).cast(), len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no borrow of it is left.
        unsafe { libc::munmap(self.mapping, self.inner + 2 * self.page) };
    }
}

fn check_at_edges(product: &Product, len: usize, at_end: bool) {
    let matrix = product.matrix();
    let data: Vec<Vec<u8>> = (0..matrix.cols()).map(|j| bytes(j + 7, len)).collect();
    let expected = expected(matrix, &data);
    let mut srcs: Vec<Guarded> = data.iter().map(|_| Guarded::new(len)).collect();
    let mut dsts: Vec<Guarded> = expected.iter().map(|_| Guarded::new(len)).collect();
    for (src, data) in srcs.iter_mut().zip(&data) {
        src.slice(len, at_end).copy_from_slice(data);
        // A write to a source, even of its own bytes, is a fault too.
        src.protect(libc::PROT_READ);
    }
    let srcs: Vec<&[u8]> = srcs.iter_mut().map(|src| &*src.slice(len, at_end)).collect();
    let mut dsts: Vec<&mut [u8]> = dsts.iter_mut().map(|dst| dst.slice(len, at_end)).collect();
    dsts.iter_mut().for_each(|dst| dst.fill(0x5a));
    product.run(&srcs, &mut dsts).unwrap();
    for (dst, expected) in dsts.iter().zip(&expected) {
        assert!(dst[..] == expected[..], "run {product:?} len {len}");
    }
    product.run_add(&srcs, &mut dsts).unwrap();
    for dst in &dsts {
        assert!(dst.iter().all(|&byte| byte == 0), "run_add {product:?} len {len}");
    }
}

#[test]
fn nothing_beyond_the_operands_is_touched() {
    each_kernel(|kernel| {
        for (rows, cols) in [(1, 1), (4, 3), (9, 2)] {
            let product = Product::new(kernel, &matrix(rows, cols));
            for len in (0..=257).chain([511, 513, 4095, 4096, 4097]) {
                check_at_edges(&product, len, false);
                check_at_edges(&product, len, true);
            }
        }
    });
}

#[test]
fn blocks_touch_nothing_beyond_their_operands() {
    let block = blocks::random_block(&mut blocks::Random(5), 6, 9, 4);
    each_kernel(|kernel| {
        let program = blocks::repeated(kernel, &block, 2);
        let Buffers { inputs, outputs, .. } = program.buffers();
        for len in (0..=130).chain([2048, 2049]) {
            for (at_end, hint) in
                [(false, TemporalHint::NonTemporal), (true, TemporalHint::Temporal)]
            {
                let mut srcs: Vec<Guarded> = inputs.iter().map(|_| Guarded::new(2 * len)).collect();
                let mut dsts: Vec<Guarded> =
                    outputs.iter().map(|_| Guarded::new(2 * len)).collect();
                for (j, src) in srcs.iter_mut().enumerate() {
                    src.slice(2 * len, at_end).copy_from_slice(&bytes(j, 2 * len));
                    src.protect(libc::PROT_READ);
                }
                let srcs: Vec<&[u8]> =
                    srcs.iter_mut().map(|src| &*src.slice(2 * len, at_end)).collect();
                let mut dsts: Vec<&mut [u8]> =
                    dsts.iter_mut().map(|dst| dst.slice(2 * len, at_end)).collect();
                program.run(&srcs, &mut dsts, 512, hint).unwrap();
            }
        }
    });
}
