//! Which parts of large sums are computed together.

use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// Something that is computed from inputs alone and that some sums need.
#[derive(Debug, Clone, Default)]
pub(super) struct Atom {
    /// The sums that need it, ascending.
    pub users: Vec<usize>,
    /// The chunks it is computed from: parts of one chunk are better read together.
    pub chunks: BTreeSet<u32>,
}

/// Atoms that are computed together, and the sums they are added to.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub sums: Vec<usize>,
    pub atoms: Vec<usize>,
}

/// Groups atoms so that those that need the same few sums come together: a set of sums grows by
/// one that shares atoms with more than half of its members, while `fits` says so. An atom of one
/// sum joins a group of that sum, best one that reads the same chunk.
pub(super) fn group(atoms: &[Atom], fits: impl Fn(&[usize]) -> bool) -> Vec<Group> {
    let mut of_sum: HashMap<usize, Vec<usize>> = HashMap::default();
    for (index, atom) in atoms.iter().enumerate() {
        for &user in &atom.users {
            of_sum.entry(user).or_default().push(index);
        }
    }
    let mut free: Vec<bool> = atoms.iter().map(|atom| atom.users.len() > 1).collect();
    let mut groups: Vec<Group> = Vec::new();
    for first in 0..atoms.len() {
        if !free[first] {
            continue;
        }
        let mut sums: BTreeSet<usize> = atoms[first].users.iter().copied().collect();
        while let Some(next) = grown(&sums, atoms, &of_sum, &free) {
            let mut larger = sums.clone();
            larger.insert(next);
            if !fits(&larger.iter().copied().collect::<Vec<_>>()) {
                break;
            }
            sums = larger;
        }
        let mut members: Vec<usize> = sums.iter().flat_map(|sum| &of_sum[sum]).copied().collect();
        members.retain(|&a| free[a] && atoms[a].users.iter().all(|user| sums.contains(user)));
        members.sort_unstable();
        members.dedup();
        members.iter().for_each(|&member| free[member] = false);
        groups.push(Group { sums: sums.into_iter().collect(), atoms: members });
    }
    add_single_users(&mut groups, atoms);
    groups
}

/// The sum that shares free atoms with most members of a set; the one with most atoms.
fn grown(
    sums: &BTreeSet<usize>,
    atoms: &[Atom],
    of_sum: &HashMap<usize, Vec<usize>>,
    free: &[bool],
) -> Option<usize> {
    // Free atoms within the set and one more sum, by that sum: the members they link it to.
    let mut links: HashMap<usize, (usize, BTreeSet<usize>)> = HashMap::default();
    for &atom in sums.iter().flat_map(|sum| &of_sum[sum]).filter(|&&atom| free[atom]) {
        let mut others = atoms[atom].users.iter().filter(|user| !sums.contains(user));
        if let (Some(&other), None) = (others.next(), others.next()) {
            let link = links.entry(other).or_default();
            link.0 += 1;
            link.1.extend(atoms[atom].users.iter().filter(|user| sums.contains(user)));
        }
    }
    let to_most = links.into_iter().filter(|(_, (_, members))| 2 * members.len() > sums.len());
    to_most.max_by_key(|&(sum, (count, _))| (count, std::cmp::Reverse(sum))).map(|(sum, _)| sum)
}

fn add_single_users(groups: &mut Vec<Group>, atoms: &[Atom]) {
    let mut with: HashMap<usize, Vec<usize>> = HashMap::default();
    let mut chunks: Vec<BTreeSet<u32>> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        group.sums.iter().for_each(|&sum| with.entry(sum).or_default().push(index));
        chunks.push(group.atoms.iter().flat_map(|&atom| &atoms[atom].chunks).copied().collect());
    }
    for (index, atom) in atoms.iter().enumerate() {
        let [user] = atom.users[..] else { continue };
        let known = with.entry(user).or_insert_with(|| {
            groups.push(Group { sums: vec![user], atoms: Vec::new() });
            chunks.push(atom.chunks.clone());
            vec![groups.len() - 1]
        });
        let same_chunk = known.iter().find(|&&group| !chunks[group].is_disjoint(&atom.chunks));
        if let Some(&group) = same_chunk.or(known.last()) {
            groups[group].atoms.push(index);
        }
    }
}
