use super::*;

fn parity(name: &str, k: usize, m: usize) -> Matrix {
    generator(name).unwrap().parity(k, m).unwrap()
}

#[test]
fn values_of_isa() {
    assert_eq!(parity("isa", 4, 2).data(), [1, 1, 1, 1, 1, 2, 4, 8]);
    assert_eq!(parity("isa", 6, 3).row(2), [1, 4, 16, 64, 29, 116]);
    assert_eq!(parity("isa-cauchy", 4, 2).row(0), [71, 167, 122, 186]);
    assert_eq!(parity("isa-cauchy", 4, 2).row(1), [167, 71, 186, 122]);
    // The pair matrix of Clay codes over it.
    assert_eq!(parity("isa-cauchy", 2, 2).data(), [142, 244, 244, 142]);
    assert_eq!(parity("isa-cauchy", 3, 1).data(), [inv(3), inv(2), inv(1)]);
}

#[test]
fn values_of_jerasure() {
    assert_eq!(parity("jerasure", 4, 2).row(1), [1, 70, 143, 200]);
    assert_eq!(parity("jerasure", 6, 3).row(0), [1; 6]);
    assert_eq!(parity("jerasure", 6, 3).row(1), [1, 225, 151, 172, 82, 200]);
    assert_eq!(parity("jerasure", 6, 3).row(2), [1, 123, 245, 143, 244, 142]);
    assert_eq!(parity("jerasure", 2, 2).data(), [1, 1, 1, 143]);
    assert_eq!(parity("jerasure-r6", 5, 2).data(), [1, 1, 1, 1, 1, 1, 2, 4, 8, 16]);
}

/// V x inverse(V_top) of points 0, 1, 2, ...: with V_top = [1 0; 1 1], row i is [1 + i, i].
#[test]
fn values_of_backblaze() {
    assert_eq!(parity("backblaze", 2, 3).data(), [3, 2, 2, 3, 5, 4]);
    // The 4 + 2 matrix printed in Backblaze's article on its code.
    let rows = [[0x1b, 0x1c, 0x12, 0x14], [0x1c, 0x1b, 0x14, 0x12]];
    assert_eq!(parity("backblaze", 4, 2).data(), rows.concat());
}

/// As zfec 1.6 encodes chunks of one byte, all zero but one.
#[test]
fn values_of_zfec() {
    assert_eq!(parity("zfec", 2, 1).data(), [3, 2]);
    assert_eq!(parity("zfec", 3, 2).data(), [15, 8, 6, 45, 48, 28]);
    assert_eq!(parity("zfec", 4, 2).data(), [119, 64, 56, 14, 199, 167, 13, 108]);
}

#[test]
fn values_of_vandermonde() {
    // Points 1, 2, 4: the line through (1, a) and (2, b), taken at 4.
    let scale = inv(1 ^ 2);
    let expected = [mul(4 ^ 2, scale), mul(4 ^ 1, scale)];
    assert_eq!(parity("vandermonde", 2, 1).data(), expected);
}

#[test]
fn the_default_is_nested_and_begins_with_ones() {
    let large = parity("cauchy", 200, 56);
    for (k, m) in [(1, 1), (2, 2), (10, 4), (200, 1), (17, 40)] {
        let corner = Matrix::from_fn(m, k, |r, j| large.at(r, j));
        assert_eq!(parity("cauchy", k, m), corner);
    }
    assert!(large.row(0).iter().all(|&element| element == 1));
    assert!((0..56).all(|r| large.at(r, 0) == 1));
}

/// All generators for all small parameters; the corner of a parity matrix is one for fewer
/// parities only where generators are nested, so all m are tried.
#[test]
fn small_matrices_are_mds() {
    for row in GENERATORS {
        for k in 1..=8 {
            for m in 1..=6 {
                match row.parity(k, m) {
                    Ok(parity) => {
                        assert_eq!((parity.rows(), parity.cols()), (m, k));
                        assert_eq!(parity.check_mds(), Ok(()), "{} {k}+{m}", row.name);
                    }
                    Err(GfError::Parameters { .. }) => assert_eq!(row.name, "jerasure-r6"),
                    Err(_) => assert_eq!(row.name, "isa"),
                }
            }
        }
    }
}

/// Larger ones, up to the ends of the legal range: the largest with at most two parities have
/// few minors. (A matrix is MDS exactly when its transpose is.)
#[test]
fn matrices_at_the_limits_are_mds() {
    for name in ["cauchy", "isa-cauchy", "jerasure", "backblaze", "zfec", "isa"] {
        for (k, m) in [(255, 1), (254, 2), (2, 254), (1, 255), (20, 4)] {
            assert_eq!(parity(name, k, m).check_mds(), Ok(()), "{name} {k}+{m}");
        }
    }
    for (k, m) in [(254, 1), (253, 2), (2, 253), (1, 254), (20, 4)] {
        assert_eq!(parity("vandermonde", k, m).check_mds(), Ok(()), "vandermonde {k}+{m}");
    }
    assert_eq!(parity("jerasure-r6", 254, 2).check_mds(), Ok(()));
}

#[test]
fn isa_outside_its_safe_range_is_refused_with_the_minor() {
    let isa = generator("isa").unwrap();
    let cases: [(usize, usize, &[usize], &[usize]); 5] = [
        (22, 4, &[0, 1, 3], &[0, 10, 21]),
        (6, 5, &[0, 1, 4], &[0, 3, 5]),
        (5, 6, &[0, 2, 5], &[0, 3, 4]),
        (200, 50, &[0, 1, 3], &[0, 10, 21]),
        (4, 252, &[0, 85], &[0, 3]),
    ];
    for (k, m, rows, cols) in cases {
        let parity = Matrix::from_fn(m, k, |r, j| exp(r * j));
        let minor = parity.select_rows(rows).select_cols(cols);
        assert!(minor.rank() < rows.len(), "{k}+{m}");
        match isa.parity(k, m).unwrap_err() {
            GfError::GeneratorNotMds { rows: r, cols: c, legal, .. } => {
                assert_eq!((&r[..], &c[..]), (rows, cols), "{k}+{m}");
                assert!(legal.contains("m = 4 with k <= 21"));
            }
            other => panic!("{k}+{m}: {other}"),
        }
    }
}

/// k = 9, m = 18: after these nine losses 18 chunks are left, but the first nine of them do not
/// suffice to decode.
#[test]
fn isa_wide_parity_loses_a_known_pattern() {
    assert!(generator("isa").unwrap().parity(9, 18).is_err());
    let code = Matrix::identity(9).stack(&Matrix::from_fn(18, 9, |r, j| exp(r * j))).unwrap();
    let lost = [0, 1, 2, 5, 7, 9, 10, 14, 16];
    let kept: Vec<usize> = (0..27).filter(|chunk| !lost.contains(chunk)).take(9).collect();
    assert!(code.select_rows(&kept).rank() < 9);
}

#[test]
fn the_legal_range_of_isa_is_as_stated() {
    let isa = generator("isa").unwrap();
    let stated = |k: usize, m: usize| {
        let (less, more) = (k.min(m), k.max(m));
        less <= 3 || (less == 4 && more <= 21) || (k, m) == (5, 5)
    };
    for k in 1..=24 {
        for m in 1..=24 {
            assert_eq!(isa.parity(k, m).is_ok(), stated(k, m), "{k}+{m}");
        }
    }
}

#[test]
fn parameters_outside_the_field_are_refused() {
    for row in GENERATORS {
        for (k, m) in [(0, 1), (1, 0), (255, 2), (2, 255), (usize::MAX, 2)] {
            match row.parity(k, m).unwrap_err() {
                GfError::Parameters { generator, legal, .. } => {
                    assert_eq!(generator, row.name);
                    assert!(!legal.is_empty());
                }
                other => panic!("{}: {other}", row.name),
            }
        }
    }
    assert!(generator("vandermonde").unwrap().parity(250, 6).is_err());
    assert!(generator("jerasure-r6").unwrap().parity(4, 3).is_err());
    let error = generator("raid6").unwrap_err().to_string();
    assert!(error.contains("cauchy, vandermonde, isa, isa-cauchy, jerasure"), "{error}");
}
