use std::process::Command;

use super::*;
use crate::Matrix;

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
    assert!(error.to_string().contains("scalar, neon, avx2, avx512, gfni"), "{error}");
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

/// A product 2 x 2 on a read-only region 0 of 16 bytes and an exclusive region 1 of 32 bytes.
fn run_in(srcs: [(u32, usize); 2], dsts: [(u32, usize); 2], len: usize) -> Result<(), GfError> {
    let product = Product::new(&scalar::SCALAR, &Matrix::from_fn(2, 2, |_, _| 1));
    let (shared, mut exclusive) = ([5; 16], [6; 32]);
    let mut regions = Regions::with_capacity(2);
    assert_eq!(regions.read(&shared), RegionId::new(0));
    assert_eq!(regions.write(&mut exclusive), RegionId::new(1));
    let span = |(region, offset)| Span { region: RegionId::new(region), offset };
    let result = product.run_in(&mut regions, &srcs.map(span), &dsts.map(span), len);
    drop(regions);
    assert!(result.is_ok() || exclusive == [6; 32]);
    result
}

#[test]
fn spans_are_checked() {
    assert_eq!(run_in([(0, 0), (0, 8)], [(1, 0), (1, 24)], 8), Ok(()));
    // Sources may overlap each other, and destinations may touch sources.
    assert_eq!(run_in([(0, 4), (0, 4)], [(1, 0), (1, 8)], 8), Ok(()));
    assert_eq!(run_in([(1, 8), (1, 12)], [(1, 0), (1, 20)], 8), Ok(()));

    let outside = |side, index, region, offset, size| {
        Err(GfError::OutOfBounds { side, index, region, offset, len: 8, size })
    };
    assert_eq!(run_in([(0, 0), (0, 9)], [(1, 0), (1, 8)], 8), outside("source", 1, 0, 9, 16));
    assert_eq!(
        run_in([(0, usize::MAX), (0, 9)], [(1, 0), (1, 8)], 8),
        outside("source", 0, 0, usize::MAX, 16)
    );
    assert_eq!(
        run_in([(0, 0), (0, 8)], [(1, 25), (1, 8)], 8),
        outside("destination", 0, 1, 25, 32)
    );
    assert_eq!(run_in([(2, 0), (0, 8)], [(1, 0), (1, 8)], 8), outside("source", 0, 2, 0, 0));
    assert_eq!(
        run_in([(0, 0), (0, 8)], [(1, 0), (0, 8)], 8),
        Err(GfError::ReadOnly { index: 1, region: 0 })
    );

    let overlap = |index, side, other| Err(GfError::Overlap { index, side, other, region: 1 });
    assert_eq!(run_in([(0, 0), (1, 0)], [(1, 16), (1, 7)], 8), overlap(1, "source", 1));
    assert_eq!(run_in([(1, 9), (0, 0)], [(1, 2), (1, 24)], 8), overlap(0, "source", 0));
    assert_eq!(run_in([(0, 0), (0, 0)], [(1, 16), (1, 16)], 8), overlap(1, "destination", 0));
    // Nothing overlaps nothing.
    assert_eq!(run_in([(1, 4), (1, 4)], [(1, 4), (1, 4)], 0), Ok(()));
}

#[test]
fn regions_and_products_may_change_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Regions<'_>>();
    shareable::<Product>();
}
