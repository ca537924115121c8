//! Sets of chunks to try: all of them in order, or a sample drawn with a seed.

use crate::seed;
use std::iter::successors;

/// Steps to the next ascending combination out of 0..n; false after the last.
fn next_combination(items: &mut [usize], n: usize) -> bool {
    let f = items.len();
    let Some(i) = (0..f).rev().find(|&i| items[i] < n - f + i) else { return false };
    items[i] += 1;
    for j in i + 1..f {
        items[j] = items[j - 1] + 1;
    }
    true
}

/// All ascending combinations of `count` out of 0..n, in order.
pub(crate) fn combinations(n: usize, count: usize) -> impl Iterator<Item = Vec<usize>> {
    successors(Some((0..count).collect()), move |last: &Vec<usize>| {
        let mut items = last.clone();
        next_combination(&mut items, n).then_some(items)
    })
}

/// Returns the numbers below n that are not among these.
pub(crate) fn others(n: usize, without: &[usize]) -> Vec<usize> {
    (0..n).filter(|item| !without.contains(item)).collect()
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
