//! Sets of chunks to try: all of them in order, or a sample drawn with a seed.

use crate::seed;

/// Steps to the next ascending combination out of 0..n; false after the last.
pub(crate) fn next_combination(items: &mut [usize], n: usize) -> bool {
    let f = items.len();
    let Some(i) = (0..f).rev().find(|&i| items[i] < n - f + i) else { return false };
    items[i] += 1;
    for j in i + 1..f {
        items[j] = items[j - 1] + 1;
    }
    true
}

/// `count` distinct numbers below n, ascending, from a SplitMix64 sequence.
pub(crate) fn sample(n: usize, count: usize, state: &mut u64) -> Vec<usize> {
    let mut items: Vec<usize> = (0..n).collect();
    for i in 0..count {
        let j = i + (seed::next(state) % (n - i) as u64) as usize;
        items.swap(i, j);
    }
    items.truncate(count);
    items.sort_unstable();
    items
}
