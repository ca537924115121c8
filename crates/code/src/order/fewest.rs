//! The fewest runs over the nodes that exist (beyond the paper, which takes q to divide n).
//!
//! Virtual nodes are never lost, so runs of their values cost nothing. The *price* of entering a
//! layer is one for each digit that changes to the value of a stored node; the first layer pays for
//! all its digits. S_total is the sum of prices. A layer without a virtual value costs at least
//! one; let that be the base, and what is paid above it the excess.
//!
//! *One section has virtual nodes, and r stored ones.* Let N = q^(t-1) be the words of the other
//! digits. For r >= 2, sweep that section's digit fastest, with stored nodes at both ends:
//! S = N r + t - 1, which is the base alone. For r = 1, the same with the stored node at the last
//! end: S = N + t - 1 + ceil((N - 2) / 2). No order has less. Take a maximal stretch of layers with
//! virtual values. Each change of word within it is excess; entering it is free only from the
//! stored layer of its first word, leaving it only to that of its last, and without a change of
//! word these are one layer, which is passed once. So a stretch over j words has an excess of at
//! least max(1, j - 1), or j - 1 where the order begins or ends with it: one for every two words,
//! but for two of them.
//!
//! *Two sections have virtual nodes* (only for d < n - 1), with r1 and r2 stored ones. Let N =
//! q^(t-2). Once in every word of the other digits the layers with two virtual values must be left,
//! which is excess: S >= N (r1 r2 + 1) + t - 3. [`pair`] passes the q x q layers of a word at that
//! price, there and back in turn, and meets the bound for even q; for odd q it has one run more.

use super::{Layers, OrderKind, gray, no_arguments, weights};

pub(super) const KIND: OrderKind = OrderKind {
    name: "fewest",
    syntax: "fewest",
    about: "the Gray code with the fewest runs over the nodes that exist; where d-k+1 divides k+m \
            it is 'gray', else it needs fewer runs than any order that ignores virtual nodes",
    is_gray: true,
    needs_text: false,
    canonical: no_arguments,
    make: |layers, _| {
        let short = short_sections(layers);
        Ok(match short[..] {
            [(y, r), (other, r_other)] => pair(layers, [y, other], [r, r_other]),
            _ => {
                let stored = weights::by_node(layers, |_| 1.0);
                gray::reflected(layers, &weights::best_sweeps(layers, &stored))
            }
        })
    },
};

/// The sections with virtual nodes, and how many stored ones each has.
pub(super) fn short_sections(layers: &Layers) -> Vec<(usize, usize)> {
    let stored = |y| (0..layers.q()).filter(|&x| layers.chunk_of(x, y).is_some()).count();
    (0..layers.t()).map(|y| (y, stored(y))).filter(|&(_, r)| r < layers.q()).collect()
}

/// The other digits as a reflected code; in each of their words the cells of both sections, there
/// and back in turn.
fn pair(layers: &Layers, sections: [usize; 2], stored: [usize; 2]) -> Vec<u32> {
    let q = layers.q();
    let values = |section: usize| {
        let is_stored = |&x: &usize| layers.chunk_of(x, section).is_some();
        let (real, absent): (Vec<usize>, Vec<usize>) = (0..q).partition(is_stored);
        (real, absent)
    };
    let [(real, absent), (real_other, absent_other)] = sections.map(values);
    debug_assert_eq!([real.len(), real_other.len()], stored);
    let path = cells(&real, &absent, &real_other, &absent_other);
    let mut cells: Vec<usize> = path
        .iter()
        .map(|&(x, x_other)| x * layers.weight(sections[0]) + x_other * layers.weight(sections[1]))
        .collect();
    // The end among the layers with two virtual values comes first: its first price is the least.
    cells.reverse();
    let others: Vec<usize> = (0..layers.t()).filter(|y| !sections.contains(y)).collect();
    let words = q.pow(others.len() as u32);
    let mut list = Vec::with_capacity(layers.count());
    for word in 0..words {
        let mut rest = word;
        let mut above = 0;
        for &y in others.iter().rev() {
            let (step, done) = (rest % q, rest / q);
            above += if done.is_multiple_of(2) { step } else { q - 1 - step } * layers.weight(y);
            rest = done;
        }
        list.extend(cells.iter().map(|cell| (above + cell) as u32));
        cells.reverse();
    }
    list
}

/// A path over all pairs of values (a, b) in which every pair of stored values is entered by one
/// change, every pair with one virtual value by a change to that, and which ends with the pairs of
/// two virtual values. Column after column of stored values, the last two columns as a ladder.
fn cells(
    real: &[usize],
    absent: &[usize],
    real_other: &[usize],
    absent_other: &[usize],
) -> Vec<(usize, usize)> {
    let mut path = Vec::new();
    let mut rows: Vec<usize> = real_other.to_vec();
    let (columns, ladder) = real.split_at(real.len() - 2);
    for &a in columns {
        // Between the first two rows, so that it is entered and left within the column.
        path.push((a, rows[0]));
        path.extend(absent_other.iter().map(|&b| (a, b)));
        path.extend(rows[1..].iter().map(|&b| (a, b)));
        rows.reverse();
    }
    let (mut here, mut there) = (ladder[0], ladder[1]);
    // Each row takes the ladder to its other side, so the last column is known beforehand.
    let last = if rows.len() % 2 == 1 { there } else { here };
    let mut climbed = Vec::new();
    for (index, &b) in rows.iter().enumerate() {
        if index > 0 && here != last && !climbed.contains(&here) {
            path.extend(absent_other.iter().map(|&b| (here, b)));
            climbed.push(here);
        }
        path.push((here, b));
        path.extend(absent.iter().map(|&a| (a, b)));
        path.push((there, b));
        std::mem::swap(&mut here, &mut there);
    }
    path.extend(absent_other.iter().map(|&b| (last, b)));
    let mut column = absent_other.to_vec();
    column.reverse();
    for &a in absent {
        path.extend(column.iter().map(|&b| (a, b)));
        column.reverse();
    }
    path
}
