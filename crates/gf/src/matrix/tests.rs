use super::*;
use crate::field::exp;
use proptest::prelude::*;

/// Determinant by its definition as a sum over permutations, in characteristic 2.
fn determinant(matrix: &Matrix) -> u8 {
    match matrix.rows() {
        0 => 1,
        size => (0..size).fold(0, |sum, c| {
            let rest: Vec<usize> = (0..size).filter(|&other| other != c).collect();
            let below: Vec<usize> = (1..size).collect();
            let minor = matrix.select_rows(&below).select_cols(&rest);
            sum ^ field::mul(matrix.at(0, c), determinant(&minor))
        }),
    }
}

/// The smallest singular minor by brute force, in the order `check_mds` promises.
fn slow_check(matrix: &Matrix) -> Result<(), GfError> {
    for size in 1..=matrix.rows().min(matrix.cols()) {
        let mut rows: Vec<usize> = (0..size).collect();
        loop {
            let mut cols: Vec<usize> = (0..size).collect();
            loop {
                if determinant(&matrix.select_rows(&rows).select_cols(&cols)) == 0 {
                    return Err(GfError::NotMds { rows, cols });
                }
                if !next_combination(&mut cols, matrix.cols()) {
                    break;
                }
            }
            if !next_combination(&mut rows, matrix.rows()) {
                break;
            }
        }
    }
    Ok(())
}

fn matrices(
    rows: std::ops::RangeInclusive<usize>,
    cols: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = Matrix> {
    (rows, cols).prop_flat_map(|(rows, cols)| {
        proptest::collection::vec(any::<u8>(), rows * cols)
            .prop_map(move |data| Matrix::new(rows, cols, data).unwrap())
    })
}

fn squares(size: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Matrix> {
    size.prop_flat_map(|size| matrices(size..=size, size..=size))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn inverse_exists_exactly_when_the_determinant_is_not_zero(matrix in squares(1..=5)) {
        let size = matrix.rows();
        match matrix.invert() {
            Ok(inverse) => {
                prop_assert!(determinant(&matrix) != 0);
                prop_assert!(matrix.mul(&inverse).unwrap().is_identity());
                prop_assert!(inverse.mul(&matrix).unwrap().is_identity());
                prop_assert_eq!(matrix.rank(), size);
            }
            Err(error) => {
                prop_assert_eq!(determinant(&matrix), 0);
                prop_assert_eq!(error, GfError::Singular { size, rank: matrix.rank() });
            }
        }
    }

    #[test]
    fn rank_of_a_product_of_narrow_factors(a in matrices(1..=9, 1..=3), seed in any::<u8>()) {
        let b = Matrix::from_fn(a.cols(), 7, |r, c| exp(r * c + usize::from(seed)));
        let product = a.mul(&b).unwrap();
        // The rows of b are independent (Vandermonde on 7 distinct points).
        prop_assert_eq!(product.rank(), a.rank());
    }

    #[test]
    fn multiplication_is_associative_and_agrees_with_vectors(
        a in matrices(1..=5, 4..=4), b in matrices(4..=4, 3..=3), v in any::<[u8; 3]>()
    ) {
        let ab = a.mul(&b).unwrap();
        prop_assert_eq!(ab.mul_vec(&v).unwrap(), a.mul_vec(&b.mul_vec(&v).unwrap()).unwrap());
    }

    #[test]
    fn mds_check_agrees_with_brute_force(matrix in matrices(1..=4, 1..=5), modulus in 2u8..255) {
        // Few distinct values make singular minors of all sizes likely.
        let few = Matrix::from_fn(matrix.rows(), matrix.cols(), |r, c| {
            1 + matrix.at(r, c) % modulus
        });
        prop_assert_eq!(few.check_mds(), slow_check(&few));
        prop_assert_eq!(matrix.check_mds(), slow_check(&matrix));
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let a = Matrix::zero(2, 3);
    let shape = |what, expected, found| GfError::Shape { what, expected, found };
    assert_eq!(a.mul(&a).unwrap_err(), shape("rows of the right factor", 3, 2));
    assert_eq!(a.mul_vec(&[1, 2]).unwrap_err(), shape("elements of the vector", 3, 2));
    assert_eq!(a.invert().unwrap_err(), shape("columns of a matrix to invert", 2, 3));
    let narrow = Matrix::zero(1, 2);
    assert_eq!(a.stack(&narrow).unwrap_err(), shape("columns of the lower matrix", 3, 2));
    assert_eq!(Matrix::new(2, 2, vec![1; 5]).unwrap_err(), shape("elements of a matrix", 4, 5));
    assert!(Matrix::new(usize::MAX, 2, vec![]).is_err());
}

#[test]
fn select_stack_set_identity() {
    let a = Matrix::from_fn(3, 4, |r, c| (10 * r + c) as u8);
    assert_eq!(a.select_rows(&[2, 0]).data(), [20, 21, 22, 23, 0, 1, 2, 3]);
    assert_eq!(a.select_cols(&[3, 3]).data(), [3, 3, 13, 13, 23, 23]);
    let stacked = a.select_rows(&[0, 1]).stack(&a.select_rows(&[2])).unwrap();
    assert_eq!(stacked, a);
    let mut unit = Matrix::identity(3);
    assert!(unit.is_identity());
    unit.set(2, 1, 9);
    assert!(!unit.is_identity());
    assert_eq!(unit.at(2, 1), 9);
    assert!(!Matrix::zero(2, 3).is_identity());
    assert!(!Matrix::from_fn(2, 2, |r, c| u8::from(r != c)).is_identity());
    assert!(Matrix::zero(0, 0).is_identity());
}

#[test]
fn mds_check_refuses_what_it_cannot_finish() {
    let large = crate::generator("cauchy").unwrap().parity(60, 30).unwrap();
    let limit = MINOR_LIMIT;
    assert_eq!(large.check_mds(), Err(GfError::TooLarge { rows: 30, cols: 60, limit }));
    assert_eq!(Matrix::zero(3, 0).check_mds(), Ok(()));
}

#[test]
fn binomials() {
    assert_eq!([binomial(5, 0), binomial(5, 2), binomial(5, 5)], [1, 10, 1]);
    assert_eq!(binomial(256, 4), 174_792_640);
    assert_eq!(binomial(256, 128), u64::MAX);
}
