use super::*;
use crate::field::mul;
use crate::{
    Buffers, Call, KernelProgram, Matrix, Product, ProgramSource, Routine, TemporalHint, Unit,
};
use std::process::Command;

#[test]
fn names_are_unique_and_unknown_ones_list_the_known() {
    for (i, row) in KERNELS.iter().enumerate() {
        assert!(KERNELS[..i].iter().all(|other| other.name != row.name));
        match (row.detect)() {
            Some(kernel) => {
                assert_eq!(by_name(row.name).unwrap().name(), row.name);
                assert_eq!(kernel.about(), row.about);
            }
            None => {
                let error = by_name(row.name).unwrap_err();
                assert!(error.to_string().contains("available here: scalar"), "{error}");
            }
        }
    }
    let error = by_name("sse9").unwrap_err();
    assert!(
        error.to_string().contains("scalar, neon, jit-neon, avx2, jit-avx2, avx512, gfni, jit"),
        "{error}"
    );
    assert!(!error.is_retryable());
}

#[test]
fn the_active_kernel_is_the_fastest_or_the_forced_one() {
    let forced = env::var(KERNEL_VARIABLE).ok().filter(|name| !name.is_empty());
    match forced {
        Some(name) => match by_name(&name) {
            Ok(kernel) => assert_eq!(active().unwrap().name(), kernel.name()),
            Err(error) => assert_eq!(active().unwrap_err(), error),
        },
        None => assert_eq!(active().unwrap().name(), available().pop().unwrap().name()),
    }
}

/// The choice is made once per process, so every forced name needs a process of its own.
#[test]
fn the_variable_forces_every_row() {
    let test = "kernel::tests::the_active_kernel_is_the_fastest_or_the_forced_one";
    for name in KERNELS.iter().map(|row| row.name).chain(["", "sse9"]) {
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", test])
            .env(KERNEL_VARIABLE, name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{name:?}: {text}");
    }
}

#[test]
fn operands_that_do_not_fit_are_refused_and_nothing_is_written() {
    let product = Product::new(&scalar::SCALAR, &Matrix::from_fn(2, 2, |_, _| 1));
    let (a, b) = ([1; 8], [2; 8]);
    let (mut x, mut y) = ([9; 8], [9; 8]);
    assert_eq!(
        product.run(&[&a], &mut [&mut x, &mut y]),
        Err(GfError::OperandCount { side: "source", expected: 2, found: 1 })
    );
    assert_eq!(
        product.run_add(&[&a, &b], &mut [&mut x]),
        Err(GfError::OperandCount { side: "destination", expected: 2, found: 1 })
    );
    let length = |side, found| GfError::OperandLength { side, index: 1, expected: 8, found };
    assert_eq!(product.run(&[&a, &b[..7]], &mut [&mut x, &mut y]), Err(length("source", 7)));
    assert_eq!(product.run(&[&a, &b], &mut [&mut x, &mut y[1..]]), Err(length("destination", 7)));
    assert_eq!((x, y), ([9; 8], [9; 8]));
}

/// Two units, each by region and number.
type Two = [(u32, u32); 2];

/// Two sums of two, over an input of 2 units (region 0), an output of 3 (1) and 2 of scratch (2).
fn program(calls: &[(Two, Two)]) -> Result<KernelProgram, GfError> {
    let product = Product::new(&scalar::SCALAR, &Matrix::from_fn(2, 2, |r, c| 1 + (r * c) as u8));
    let unit = |(region, unit)| Unit { region, unit };
    let operands = calls.iter().flat_map(|(s, r)| [s[0], s[1], r[0], r[1]]).map(unit).collect();
    let call = |i: u32| Call::Product {
        product: 0,
        sources: 4 * i..4 * i + 2,
        results: 4 * i + 2..4 * i + 4,
    };
    let calls = (0..calls.len() as u32).map(call).collect();
    let buffers = Buffers { inputs: vec![2], outputs: vec![3], scratch: 2 };
    let products = vec![product];
    KernelProgram::new(ProgramSource { products, calls, operands, ..Default::default() }, buffers)
}

#[test]
fn calls_are_checked() {
    assert!(program(&[([(0, 0), (0, 1)], [(1, 0), (1, 2)])]).is_ok());
    assert!(program(&[([(0, 1), (0, 1)], [(2, 0), (1, 2)])]).is_ok());
    let check = |sources, results| program(&[(sources, results)]).unwrap_err();
    let outside = |side, index, region, offset, size| GfError::OutOfBounds {
        side,
        index,
        region,
        offset,
        len: 1,
        size,
    };
    assert_eq!(check([(0, 0), (0, 2)], [(1, 0), (1, 1)]), outside("source", 1, 0, 2, 2));
    assert_eq!(check([(0, 0), (0, 1)], [(1, 3), (1, 1)]), outside("destination", 0, 1, 3, 3));
    assert_eq!(check([(3, 0), (0, 1)], [(1, 0), (1, 1)]), outside("source", 0, 3, 0, 0));
    let read_only = GfError::ReadOnly { index: 1, region: 0 };
    assert_eq!(check([(0, 0), (0, 0)], [(1, 0), (0, 1)]), read_only);
    let overlap = |index, side, other| GfError::Overlap { index, side, other, region: 1 };
    assert_eq!(check([(0, 0), (1, 1)], [(1, 0), (1, 1)]), overlap(1, "source", 1));
    assert_eq!(check([(0, 0), (0, 1)], [(1, 1), (1, 1)]), overlap(1, "destination", 0));
    let calls = vec![Call::Product { product: 0, sources: 0..0, results: 0..0 }];
    let source = ProgramSource { calls, ..Default::default() };
    assert!(KernelProgram::new(source, Buffers::default()).is_err());
    let unwritten = GfError::Unwritten { index: 1, region: 2, unit: 1 };
    assert_eq!(check([(0, 0), (2, 1)], [(1, 0), (1, 1)]), unwritten);
}

#[test]
fn buffers_of_a_run_are_checked() {
    let program = program(&[([(0, 0), (0, 1)], [(1, 0), (1, 2)])]).unwrap();
    let mut out = [9; 24];
    let mut run = |inputs: &[&[u8]], len: usize| {
        program.run(inputs, &mut [&mut out[..len]], 4, TemporalHint::Temporal)
    };
    assert!(run(&[], 24).is_err());
    assert!(run(&[&[1; 16], &[1; 16]], 24).is_err());
    assert!(run(&[&[1; 15]], 24).is_err());
    assert!(run(&[&[1; 16]], 23).is_err());
    assert!(run(&[], 0).is_err());
    assert_eq!(run(&[&[]], 0), Ok(()));
    assert_eq!(out, [9; 24]);
}

#[test]
fn calls_see_the_results_of_earlier_ones_slice_by_slice() {
    // scratch = [a + b, a + 2 b]; out = [s0 + s1, _, s0 + 2 s1] = [3 b, _, 3 a + 5 b].
    let calls = [([(0, 0), (0, 1)], [(2, 0), (2, 1)]), ([(2, 0), (2, 1)], [(1, 0), (1, 2)])];
    let program = program(&calls).unwrap();
    let input: Vec<u8> = (0..200).map(|i| (i * 37 + 11) as u8).collect();
    for slice in [1, 7, 64, 1000] {
        for hint in [TemporalHint::Temporal, TemporalHint::NonTemporal] {
            let mut out = vec![0xee; 300];
            program.run(&[&input], &mut [&mut out], slice, hint).unwrap();
            for i in 0..100 {
                let (a, b) = (input[i], input[100 + i]);
                assert_eq!(out[i], mul(3, b), "{slice} {i}");
                assert_eq!(out[100 + i], 0xee);
                assert_eq!(out[200 + i], mul(3, a) ^ mul(5, b), "{slice} {i}");
            }
        }
    }
}

#[test]
fn programs_and_products_may_change_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<KernelProgram>();
    shareable::<Product>();
    shareable::<Routine>();
}
