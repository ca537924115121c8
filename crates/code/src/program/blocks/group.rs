//! Groups of subexpressions that are computed together.

use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// Something that is computed from inputs alone and that some accumulators need.
#[derive(Debug, Clone, Default)]
pub(super) struct Subexpression {
    /// The accumulators that need it, ascending.
    pub users: Vec<usize>,
    /// The chunks it is computed from: parts of one chunk are better read together.
    pub chunks: BTreeSet<u32>,
}

/// Subexpressions that are computed together, and the accumulators they are added to.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub accs: Vec<usize>,
    pub exprs: Vec<usize>,
}

/// Groups subexpressions so that those that need the same few accumulators come together: a set of
/// accumulators grows by one that shares subexpressions with more than half of its members, while
/// `fits` says so. A subexpression with one user joins a group of that accumulator, preferably one
/// that reads the same chunk.
pub(super) fn group(exprs: &[Subexpression], fits: impl Fn(&[usize]) -> bool) -> Vec<Group> {
    let mut of_acc: HashMap<usize, Vec<usize>> = HashMap::default();
    for (index, expr) in exprs.iter().enumerate() {
        for &user in &expr.users {
            of_acc.entry(user).or_default().push(index);
        }
    }
    let mut free: Vec<bool> = exprs.iter().map(|expr| expr.users.len() > 1).collect();
    let mut groups: Vec<Group> = Vec::new();
    for first in 0..exprs.len() {
        if !free[first] {
            continue;
        }
        let mut accs: BTreeSet<usize> = exprs[first].users.iter().copied().collect();
        while let Some(next) = grown(&accs, exprs, &of_acc, &free) {
            let mut larger = accs.clone();
            larger.insert(next);
            if !fits(&larger.iter().copied().collect::<Vec<_>>()) {
                break;
            }
            accs = larger;
        }
        let mut members: Vec<usize> = accs.iter().flat_map(|acc| &of_acc[acc]).copied().collect();
        members.retain(|&a| free[a] && exprs[a].users.iter().all(|user| accs.contains(user)));
        members.sort_unstable();
        members.dedup();
        members.iter().for_each(|&member| free[member] = false);
        groups.push(Group { accs: accs.into_iter().collect(), exprs: members });
    }
    add_single_users(&mut groups, exprs);
    groups
}

/// The accumulator that shares free subexpressions with most members of a set; the one with most
/// subexpressions.
fn grown(
    accs: &BTreeSet<usize>,
    exprs: &[Subexpression],
    of_acc: &HashMap<usize, Vec<usize>>,
    free: &[bool],
) -> Option<usize> {
    // Free subexpressions within the set and one more accumulator, by that accumulator: the members
    // they link it to.
    let mut links: HashMap<usize, (usize, BTreeSet<usize>)> = HashMap::default();
    for &expr in accs.iter().flat_map(|acc| &of_acc[acc]).filter(|&&expr| free[expr]) {
        let mut others = exprs[expr].users.iter().filter(|user| !accs.contains(user));
        if let (Some(&other), None) = (others.next(), others.next()) {
            let link = links.entry(other).or_default();
            link.0 += 1;
            link.1.extend(exprs[expr].users.iter().filter(|user| accs.contains(user)));
        }
    }
    let to_most = links.into_iter().filter(|(_, (_, members))| 2 * members.len() > accs.len());
    to_most.max_by_key(|&(acc, (count, _))| (count, std::cmp::Reverse(acc))).map(|(acc, _)| acc)
}

fn add_single_users(groups: &mut Vec<Group>, exprs: &[Subexpression]) {
    let mut with: HashMap<usize, Vec<usize>> = HashMap::default();
    let mut chunks: Vec<BTreeSet<u32>> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        group.accs.iter().for_each(|&acc| with.entry(acc).or_default().push(index));
        chunks.push(group.exprs.iter().flat_map(|&expr| &exprs[expr].chunks).copied().collect());
    }
    for (index, expr) in exprs.iter().enumerate() {
        let [user] = expr.users[..] else { continue };
        let known = with.entry(user).or_insert_with(|| {
            groups.push(Group { accs: vec![user], exprs: Vec::new() });
            chunks.push(expr.chunks.clone());
            vec![groups.len() - 1]
        });
        let same_chunk = known.iter().find(|&&group| !chunks[group].is_disjoint(&expr.chunks));
        if let Some(&group) = same_chunk.or(known.last()) {
            groups[group].exprs.push(index);
        }
    }
}
