//! The extents of files, their order, and the sets that they are put into.

use crate::Geometry;
use crate::index::{Member, Set};
use std::collections::BTreeMap;

/// A part of a file that is to be put into a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The file, new ones in the order of names, and the place in it.
    pub order: (u64, u64),
    pub len: u64,
    pub device: u64,
}

impl Extent {
    pub fn member(&self) -> Member {
        Member { file: self.order.0, start: self.order.1, len: self.len, sums: Vec::new() }
    }
}

/// Cuts a file of so many bytes evenly.
pub(crate) fn cut(size: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let len = size.div_ceil(size.div_ceil(most).max(1)).next_multiple_of(64).max(64);
    (0..size.div_ceil(len)).map(move |at| (at * len, len.min(size - at * len)))
}

/// Puts extents together: of like lengths, so that little parity is wasted; far from each other in
/// the order of names, or where they `spread` over several devices from one each. With `apart` no
/// set has more extents of a file than that.
pub(crate) fn arrange(
    mut extents: Vec<Extent>,
    group: usize,
    apart: Option<usize>,
    spread: bool,
) -> Vec<Vec<Extent>> {
    extents.sort_by(|a, b| b.len.cmp(&a.len).then(a.order.cmp(&b.order)));
    let mut sets = Vec::new();
    if spread {
        let mut devices = BTreeMap::<u64, Vec<Extent>>::new();
        extents.into_iter().rev().for_each(|one| devices.entry(one.device).or_default().push(one));
        let mut devices: Vec<Vec<Extent>> = devices.into_values().collect();
        while !devices.is_empty() {
            devices.sort_by_key(|extents| std::cmp::Reverse(extents.last().map(|one| one.len)));
            sets.push(devices.iter_mut().take(group).filter_map(Vec::pop).collect());
            devices.retain(|extents| !extents.is_empty());
        }
        return sets;
    }
    while !extents.is_empty() {
        let longest = extents[0].len;
        let alike = extents.partition_point(|extent| extent.len * 8 >= longest * 7);
        let mut rest = extents.split_off(alike.max(group).min(extents.len()));
        extents.sort_by_key(|extent| extent.order);
        let over = if rest.is_empty() { 0 } else { extents.len() % group };
        let step = extents.len().checked_div(over).unwrap_or(usize::MAX);
        let mut files = BTreeMap::<u64, usize>::new();
        extents.iter().for_each(|one| *files.entry(one.order.0).or_default() += 1);
        let most = files.into_values().max().unwrap_or(1);
        let count = (extents.len() - over).div_ceil(group);
        let count = count.max(apart.map_or(0, |losses| most.div_ceil(losses)));
        let mut some = vec![Vec::new(); count];
        let mut left = Vec::new();
        for (at, extent) in extents.into_iter().enumerate() {
            if left.len() < over && at % step == 0 {
                left.push(extent);
            } else {
                some[(at - left.len()) % count].push(extent);
            }
        }
        sets.extend(some);
        left.append(&mut rest);
        left.sort_by(|a, b| b.len.cmp(&a.len).then(a.order.cmp(&b.order)));
        extents = left;
    }
    sets
}

/// A set of extents whose parity is still to be made.
pub(crate) fn set_of(extents: &[Extent], geometry: Geometry) -> Set {
    let longest = extents.iter().map(|extent| extent.len).max().unwrap_or(0);
    let mut members: Vec<_> = extents.iter().map(|extent| Some(extent.member())).collect();
    members.resize(geometry.group, None);
    Set { block: geometry.blocks(longest).block, at: 0, members, sums: Vec::new() }
}
