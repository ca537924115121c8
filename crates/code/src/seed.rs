//! Random numbers from a seed (SplitMix64): for searches, samples and proofs, not for secrets.

/// Returns the next number; `state` is any seed at first.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a number below `limit`, which is small against 2^32.
pub fn below(state: &mut u64, limit: usize) -> usize {
    (((next(state) >> 32) * limit as u64) >> 32) as usize
}
