//! The tests that every row of [`KERNELS`] has to pass, against products by definition.

use super::*;
use crate::field::mul;
use crate::{
    AlignedBuf, Block, Buffers, Call, Factor, KernelProgram, Matrix, Product, ProgramSource,
    Routine, Shift, Side, TemporalHint, Unit, Value,
};

pub(super) mod blocks;
#[cfg(unix)]
mod guard;
pub(super) mod lists;

/// Position-dependent bytes that differ from operand to operand.
fn bytes(operand: usize, len: usize) -> Vec<u8> {
    let mut state = (operand as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A matrix with all kinds of coefficients, 0 and 1 included.
fn matrix(rows: usize, cols: usize) -> Matrix {
    let all = bytes(1000 * rows + cols, rows * cols);
    Matrix::from_fn(rows, cols, |r, c| match all[r * cols + c] {
        byte if byte % 16 == 0 => byte / 128,
        byte => byte,
    })
}

/// `matrix` x `srcs` by definition. Byte i depends on bytes i alone, so a prefix of the result is
/// the result for prefixes.
fn expected(matrix: &Matrix, srcs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let len = srcs.first().map_or(0, Vec::len);
    let byte = |r: usize, i: usize| {
        (0..srcs.len()).fold(0, |sum, j| sum ^ mul(matrix.at(r, j), srcs[j][i]))
    };
    (0..matrix.rows()).map(|r| (0..len).map(|i| byte(r, i)).collect()).collect()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// A sequence of one call of a product, every operand a buffer of its own.
fn one_call(product: &Product) -> KernelProgram {
    let (rows, cols) = (product.rows() as u32, product.cols() as u32);
    let operands = (0..cols + rows).map(|region| Unit { region, unit: 0 }).collect();
    let calls = vec![Call::Product { product: 0, sources: 0..cols, results: cols..cols + rows }];
    let (inputs, outputs) = (vec![1; cols as usize], vec![1; rows as usize]);
    let buffers = Buffers { inputs, outputs, scratch: 0 };
    let products = vec![product.clone()];
    KernelProgram::new(ProgramSource { products, calls, operands, ..Default::default() }, buffers)
        .unwrap()
}

/// Runs a product in all three ways on operands of `len` bytes at odd addresses, between bytes
/// that must not change, and compares with `expected`.
fn check(product: &Product, srcs: &[Vec<u8>], expected: &[Vec<u8>], len: usize, skew: usize) {
    let what = || format!("{:?} {:?} len {len} skew {skew}", product.kernel(), product.matrix());
    let (rows, cols) = (product.rows(), product.cols());
    let pitch = (len + skew + 70).next_multiple_of(64) + 1;
    let dirt = bytes(77 + len, (cols + rows) * pitch);

    // Sources and destinations in one buffer; each starts `skew` bytes after another residue.
    let mut buffer = AlignedBuf::zeroed(dirt.len());
    buffer.copy_from_slice(&dirt);
    let offset = |operand: usize| operand * pitch + skew;
    for (j, src) in srcs.iter().enumerate() {
        buffer[offset(j)..][..len].copy_from_slice(&src[..len]);
    }
    let mut wanted = buffer.clone();
    for (r, row) in expected.iter().enumerate() {
        wanted[offset(cols + r)..][..len].copy_from_slice(&row[..len]);
    }

    let program = one_call(product);
    for (slice, hint) in [(96, TemporalHint::Temporal), (len, TemporalHint::NonTemporal)] {
        let mut out = buffer.clone();
        let (head, tail) = out.split_at_mut(cols * pitch);
        let slices: Vec<&[u8]> = (0..cols).map(|j| &head[offset(j)..][..len]).collect();
        let mut dsts: Vec<&mut [u8]> =
            tail.chunks_mut(pitch).map(|chunk| &mut chunk[skew..][..len]).collect();
        program.run(&slices, &mut dsts, slice, hint).unwrap();
        assert!(out[..] == wanted[..], "sequence, {hint:?}, {}", what());
    }

    for add in [false, true] {
        let mut out = buffer.clone();
        let (head, tail) = out.split_at_mut(cols * pitch);
        let slices: Vec<&[u8]> = (0..cols).map(|j| &head[offset(j)..][..len]).collect();
        let mut dsts: Vec<&mut [u8]> =
            tail.chunks_mut(pitch).map(|chunk| &mut chunk[skew..][..len]).collect();
        match add {
            false => product.run(&slices, &mut dsts).unwrap(),
            true => product.run_add(&slices, &mut dsts).unwrap(),
        }
        let mut wanted = wanted.clone();
        if add {
            for r in 0..rows {
                let range = offset(cols + r)..offset(cols + r) + len;
                let sum = xor(&wanted[range.clone()], &buffer[range.clone()]);
                wanted[range].copy_from_slice(&sum);
            }
        }
        assert!(out[..] == wanted[..], "add {add}, {}", what());
    }
}

/// Calls `test` with every kernel of this CPU; says which rows it left out.
fn each_kernel(test: impl Fn(&'static dyn Kernel)) {
    for row in KERNELS {
        match (row.detect)() {
            Some(kernel) => {
                assert_eq!(kernel.name(), row.name);
                test(kernel);
            }
            None => println!("kernel {} does not run here: not tested", row.name),
        }
    }
}

#[test]
fn every_product() {
    let all: Vec<u8> = (0..=255).collect();
    each_kernel(|kernel| {
        for coefficient in 0..=255 {
            let product = Product::new(kernel, &Matrix::from_fn(1, 1, |_, _| coefficient));
            let mut dst = vec![0xa5; 256];
            product.run(&[&all], &mut [&mut dst]).unwrap();
            for byte in 0..=255 {
                let got = dst[usize::from(byte)];
                assert_eq!(got, mul(coefficient, byte), "{kernel:?} {coefficient} * {byte}");
            }
        }
    });
}

#[test]
fn every_length_and_odd_addresses() {
    let srcs: Vec<Vec<u8>> = (0..12).map(|j| bytes(j, 257)).collect();
    each_kernel(|kernel| {
        for (rows, cols) in [(1, 1), (1, 2), (2, 2), (3, 5), (4, 12), (8, 3), (9, 10)] {
            let matrix = matrix(rows, cols);
            let product = Product::new(kernel, &matrix);
            let expected = expected(&matrix, &srcs[..cols]);
            for len in 0..=257 {
                check(&product, &srcs[..cols], &expected, len, len % 5);
                check(&product, &srcs[..cols], &expected, len, 63);
            }
        }
    });
}

/// Matrices of zeros and ones take a way of their own on some kernels.
#[test]
fn sums_of_every_length() {
    for (rows, cols) in [(1, 1), (1, 11), (3, 5), (9, 2)] {
        let ones = Matrix::from_fn(rows, cols, |r, j| u8::from((r * 5 + j * 3) % 4 != 1));
        let srcs: Vec<Vec<u8>> = (0..cols).map(|j| bytes(j, 600)).collect();
        let expected = expected(&ones, &srcs);
        each_kernel(|kernel| {
            let product = Product::new(kernel, &ones);
            for len in (0..=300).step_by(if cols == 5 { 1 } else { 19 }).chain([511, 600]) {
                check(&product, &srcs, &expected, len, len % 3);
            }
        });
    }
}

#[test]
fn every_shape() {
    let srcs: Vec<Vec<u8>> = (0..20).map(|j| bytes(j + 100, 600)).collect();
    each_kernel(|kernel| {
        for rows in 1..=9 {
            for cols in 1..=20 {
                let matrix = matrix(rows, cols);
                let product = Product::new(kernel, &matrix);
                let expected = expected(&matrix, &srcs[..cols]);
                for len in [1, 64, 129, 256, 599] {
                    check(&product, &srcs[..cols], &expected, len, 0);
                }
            }
        }
    });
}

#[test]
fn many_operands_and_strips() {
    // More operands than addresses fit on the stack; several passes over several strips.
    for (rows, cols, len) in [(17, 33, 20_011), (3, 100, 700), (70, 3, 700), (9, 255, 3000)] {
        let matrix = matrix(rows, cols);
        let srcs: Vec<Vec<u8>> = (0..cols).map(|j| bytes(j, len)).collect();
        let expected = expected(&matrix, &srcs);
        each_kernel(|kernel| check(&Product::new(kernel, &matrix), &srcs, &expected, len, 1));
    }
}

#[test]
fn matrices_without_rows_or_columns() {
    each_kernel(|kernel| {
        let no_columns = Product::new(kernel, &Matrix::zero(2, 0));
        let (mut a, mut b) = ([7; 70], [8; 70]);
        no_columns.run_add(&[], &mut [&mut a, &mut b]).unwrap();
        assert_eq!((a, b), ([7; 70], [8; 70]));
        no_columns.run(&[], &mut [&mut a, &mut b]).unwrap();
        assert_eq!((a, b), ([0; 70], [0; 70]));
        Product::new(kernel, &Matrix::zero(0, 2)).run(&[&a, &b], &mut []).unwrap();
    });
}
