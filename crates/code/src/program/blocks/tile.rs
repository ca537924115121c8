//! In which order groups of sums come, so that sums in the making stay in a cache.

use std::collections::{BTreeMap, BTreeSet};

/// So many sums stay in the first-level cache, a vector of each row.
const TILE: usize = 64;

/// The order of groups, given the sums of each: pairs of a tile's number and a group's index.
///
/// Where the groups fall into classes, each of which has all the sums once, the first class comes
/// first, and the rest is done tile by tile: parts that share no sums one after the other, each
/// again in this way. Otherwise the order stays as it is.
pub(super) fn order(groups: &[&[usize]], sums: usize) -> Vec<(usize, usize)> {
    let mut order = Vec::with_capacity(groups.len());
    match classes(groups, sums) {
        Some(classes) => tiled(groups, &classes, &mut 0, &mut order),
        None => order.extend((0..groups.len()).map(|group| (0, group))),
    }
    order
}

/// The groups of each class.
fn classes(groups: &[&[usize]], sums: usize) -> Option<Vec<Vec<usize>>> {
    let (mut classes, mut class, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, group) in groups.iter().enumerate() {
        if !group.iter().all(|&sum| seen.insert(sum)) {
            return None;
        }
        class.push(index);
        if seen.len() == sums {
            classes.push(std::mem::take(&mut class));
            seen.clear();
        }
    }
    class.is_empty().then_some(classes)
}

fn tiled(
    groups: &[&[usize]],
    classes: &[Vec<usize>],
    tile: &mut usize,
    order: &mut Vec<(usize, usize)>,
) {
    let [first, rest @ ..] = classes else { return };
    order.extend(first.iter().map(|&group| (*tile, group)));
    let sums: usize = first.iter().map(|&group| groups[group].len()).sum();
    if sums <= TILE || rest.is_empty() {
        return tiled(groups, rest, tile, order);
    }
    for part in parts(groups, rest) {
        *tile += 1;
        tiled(groups, &part, tile, order);
    }
}

/// Classes cut into parts that share no sums.
fn parts(groups: &[&[usize]], classes: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    // The least sum that a sum hangs together with; found by taking turns until nothing changes.
    let mut least: BTreeMap<usize, usize> = BTreeMap::new();
    let all = || classes.iter().flatten().map(|&group| groups[group]);
    all().flatten().for_each(|&sum| _ = least.insert(sum, sum));
    loop {
        let mut changed = false;
        for group in all() {
            let low = group.iter().map(|sum| least[sum]).min().unwrap_or(0);
            for &sum in group {
                changed |= least.insert(sum, low) != Some(low);
            }
        }
        if !changed {
            break;
        }
    }
    let mut parts: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    for (class, members) in classes.iter().enumerate() {
        for &group in members {
            let Some(sum) = groups[group].first() else { continue };
            let part = parts.entry(least[sum]).or_insert_with(|| vec![Vec::new(); classes.len()]);
            part[class].push(group);
        }
    }
    parts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_keep_classes_in_order_and_groups_of_a_tile_together() {
        // 256 sums with four digits in base 4: a class for each digit.
        let cell = |digit: usize, z: usize| -> Vec<usize> {
            let weight = 4_usize.pow(3 - digit as u32);
            (0..4).map(|a| z - z / weight % 4 * weight + a * weight).collect()
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for digit in 0..4 {
            let lowest =
                (0..256).filter(|&z| (z / 4_usize.pow(3 - digit as u32)).is_multiple_of(4));
            groups.extend(lowest.map(|z| cell(digit, z)));
        }
        let groups: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
        let order = order(&groups, 256);
        let all: BTreeSet<usize> = order.iter().map(|&(_, group)| group).collect();
        assert_eq!((order.len(), all.len()), (256, 256));
        assert!(order[..64].iter().all(|&(tile, group)| tile == 0 && group < 64));
        // Then four tiles of 64 sums: 16 groups of each class left.
        let tile = &order[64..112];
        assert!(tile.iter().all(|&(tile, _)| tile == 1));
        let classes: Vec<usize> = tile.iter().map(|&(_, group)| group / 64).collect();
        assert_eq!(classes, [[1; 16], [2; 16], [3; 16]].concat());
        assert!(tile.iter().all(|&(_, group)| groups[group].iter().all(|&sum| sum < 64)));
    }

    #[test]
    fn groups_without_classes_keep_their_order() {
        assert_eq!(order(&[&[0, 1], &[1, 2], &[0]], 3), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(order(&[], 0), []);
    }
}
