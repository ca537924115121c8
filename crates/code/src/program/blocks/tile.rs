//! The order of groups of accumulators, so that partial accumulators stay in a cache.

use std::collections::{BTreeMap, BTreeSet};

/// This many accumulators fit into the first-level cache, with a vector of each row.
const TILE: usize = 64;

/// The order of groups, given the accumulators of each: pairs of a tile's number and a group's
/// index.
///
/// Where the groups fall into classes, each of which has all the accumulators once, the first class
/// comes first, and the rest is done tile by tile: parts that share no accumulators one after the
/// other, each again in this way. Otherwise the order stays as it is.
pub(super) fn order(groups: &[&[usize]], accs: usize) -> Vec<(usize, usize)> {
    let mut order = Vec::with_capacity(groups.len());
    match classes(groups, accs) {
        Some(classes) => tiled(groups, &classes, &mut 0, &mut order),
        None => order.extend((0..groups.len()).map(|group| (0, group))),
    }
    order
}

/// The groups of each class.
fn classes(groups: &[&[usize]], accs: usize) -> Option<Vec<Vec<usize>>> {
    let (mut classes, mut class, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, group) in groups.iter().enumerate() {
        if !group.iter().all(|&acc| seen.insert(acc)) {
            return None;
        }
        class.push(index);
        if seen.len() == accs {
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
    let accs: usize = first.iter().map(|&group| groups[group].len()).sum();
    if accs <= TILE || rest.is_empty() {
        return tiled(groups, rest, tile, order);
    }
    for part in view(groups, rest) {
        *tile += 1;
        tiled(groups, &part, tile, order);
    }
}

/// Classes cut into parts that share no accumulators.
fn view(groups: &[&[usize]], classes: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    // The least accumulator of each connected set, found by iterating until nothing changes.
    let mut least: BTreeMap<usize, usize> = BTreeMap::new();
    let all = || classes.iter().flatten().map(|&group| groups[group]);
    all().flatten().for_each(|&acc| _ = least.insert(acc, acc));
    loop {
        let mut changed = false;
        for group in all() {
            let low = group.iter().map(|acc| least[acc]).min().unwrap_or(0);
            for &acc in group {
                changed |= least.insert(acc, low) != Some(low);
            }
        }
        if !changed {
            break;
        }
    }
    let mut view: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    for (class, members) in classes.iter().enumerate() {
        for &group in members {
            let Some(acc) = groups[group].first() else { continue };
            let part = view.entry(least[acc]).or_insert_with(|| vec![Vec::new(); classes.len()]);
            part[class].push(group);
        }
    }
    view.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_keep_classes_in_order_and_groups_of_a_tile_together() {
        // 256 accumulators with four digits in base 4: a class for each digit.
        let planned = |digit: usize, z: usize| -> Vec<usize> {
            let weight = 4_usize.pow(3 - digit as u32);
            (0..4).map(|a| z - z / weight % 4 * weight + a * weight).collect()
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for digit in 0..4 {
            let lowest =
                (0..256).filter(|&z| (z / 4_usize.pow(3 - digit as u32)).is_multiple_of(4));
            groups.extend(lowest.map(|z| planned(digit, z)));
        }
        let groups: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
        let order = order(&groups, 256);
        let all: BTreeSet<usize> = order.iter().map(|&(_, group)| group).collect();
        assert_eq!((order.len(), all.len()), (256, 256));
        assert!(order[..64].iter().all(|&(tile, group)| tile == 0 && group < 64));
        // Then four tiles of 64 accumulators: 16 groups of each class left.
        let tile = &order[64..112];
        assert!(tile.iter().all(|&(tile, _)| tile == 1));
        let classes: Vec<usize> = tile.iter().map(|&(_, group)| group / 64).collect();
        assert_eq!(classes, [[1; 16], [2; 16], [3; 16]].concat());
        assert!(tile.iter().all(|&(_, group)| groups[group].iter().all(|&acc| acc < 64)));
    }

    #[test]
    fn groups_without_classes_keep_their_order() {
        assert_eq!(order(&[&[0, 1], &[1, 2], &[0]], 3), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(order(&[], 0), []);
    }
}
