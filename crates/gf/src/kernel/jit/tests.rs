use super::*;

#[test]
fn code_is_made_and_given_back() {
    let Some(_) = gfni::proof() else { return };
    let coefficients = [1, 1, 1, 2];
    let before = pages::in_use();
    let code = Code::new(&Shape { rows: 2, cols: 2, coefficients: &coefficients }).unwrap();
    assert!(pages::in_use() > 0);
    drop(code);
    // Other tests of this process make code too: only an upper bound can be asserted.
    assert!(pages::in_use() <= pages::LIMIT && before <= pages::LIMIT);
}

#[test]
fn a_matrix_that_is_too_large_gets_no_code() {
    let coefficients = vec![7; 8 * 255];
    assert!(Code::new(&Shape { rows: 8, cols: 255, coefficients: &coefficients }).is_none());
}
