//! The C interface: calls in any order with any numbers, null pointers, buffers that overlap and
//! messages without room end with a negative errno, or well; nothing is touched that was not given.

pub fn run(input: &[u8]) {
    // More calls only repeat themselves.
    assert!(kiln_c::calls::play(&input[..input.len().min(256)]));
}

/// Codes made, asked, used for encoding and for repairs of one and of two chunks.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = |code: u8| {
        let make = [0, code, 60, 1, 250];
        let encode = [2, 10, 0, 60, 2, 3, 3, 40, 2, 4, 210, 40];
        let plans = [3, 1, 2, 6, 0, 1, 3, 4, 5, 6, 60, 5, 0, 6, 16, 0, 1, 60];
        let two = [4, 2, 0, 1, 5, 2, 3, 4, 5, 6, 60, 5, 3, 6, 3, 0, 2, 0, 7];
        [&make[..], &encode, &plans, &two].concat()
    };
    (0..8).map(all).collect()
}
