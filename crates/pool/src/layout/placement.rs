//! Nodes that hold an object: weighted rendezvous hashing over distinct domains.
//!
//! Every node gets a score from a hash of the object's key and its own id; the best n nodes of
//! distinct domains win. Nothing has to be remembered for that, a node that joins takes only
//! its share from the others, and one that leaves gives only its own away. (What was placed is
//! recorded in the manifest all the same: a changed list of nodes must not lose data.)
//!
//! The weighted form is that of Schindelhauer and Schomaker: score = -ln(u) / weight with u uniform
//! in (0, 1), least first. The least of several exponentials has the sum of their rates, so a
//! domain's share is the sum of its nodes' weights.

use crate::Key;

/// A node as placement sees it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// Its id, which never changes.
    pub id: &'a str,
    /// Failure domain of it.
    pub domain: &'a str,
    /// Its share relative to others; more than 0.
    pub weight: f64,
}

/// Positions of all nodes, the best for this object first.
pub fn ranked(key: &Key, nodes: &[Candidate<'_>]) -> Vec<usize> {
    let mut scored: Vec<(f64, usize)> =
        nodes.iter().enumerate().map(|(at, node)| (score(key, node), at)).collect();
    scored.sort_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| nodes[*x].id.cmp(nodes[*y].id)));
    scored.into_iter().map(|(_, at)| at).collect()
}

/// The best `count` nodes of distinct domains, none of which is in `taken`; fewer where there are
/// not so many domains.
pub fn place(key: &Key, nodes: &[Candidate<'_>], count: usize, taken: &[&str]) -> Vec<usize> {
    let mut domains: Vec<&str> = taken.to_vec();
    let mut chosen = Vec::with_capacity(count);
    for at in ranked(key, nodes) {
        if chosen.len() == count {
            break;
        }
        if !domains.contains(&nodes[at].domain) {
            domains.push(nodes[at].domain);
            chosen.push(at);
        }
    }
    chosen
}

fn score(key: &Key, node: &Candidate<'_>) -> f64 {
    let mut bytes = Vec::with_capacity(16 + node.id.len());
    bytes.extend_from_slice(&key.0);
    bytes.extend_from_slice(node.id.as_bytes());
    let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
    // 53 bits fit a double exactly; the half keeps it off 0 and 1.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln() / node.weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u32) -> Key {
        Key::of(&format!("object-{number}")).unwrap()
    }

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("n{at:02}")).collect()
    }

    fn even(ids: &[String]) -> Vec<Candidate<'_>> {
        ids.iter().map(|id| Candidate { id, domain: id, weight: 1.0 }).collect()
    }

    #[test]
    fn load_is_balanced() {
        let ids = ids(30);
        let nodes = even(&ids);
        let mut load = [0u32; 30];
        for number in 0..20_000 {
            place(&key(number), &nodes, 14, &[]).into_iter().for_each(|at| load[at] += 1);
        }
        // Binomial: 20,000 draws of probability 14/30 have a standard deviation of 71.
        let mean = 20_000.0 * 14.0 / 30.0;
        for count in load {
            assert!((f64::from(count) - mean).abs() < 5.0 * 71.0, "{load:?}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let ids = ids(4);
        let mut nodes = even(&ids);
        (nodes[0].weight, nodes[1].domain, nodes[2].domain) = (3.0, "pair", "pair");
        let mut first = [0u32; 4];
        for number in 0..30_000 {
            first[place(&key(number), &nodes, 1, &[])[0]] += 1;
        }
        // Shares of 3, 1, 1, 1: of 30,000 the first gets a half, within 5 standard deviations.
        assert!((f64::from(first[0]) - 15_000.0).abs() < 5.0 * 87.0, "{first:?}");
        assert!((f64::from(first[1] + first[2]) - 10_000.0).abs() < 5.0 * 82.0, "{first:?}");
    }

    #[test]
    fn a_node_that_joins_takes_only_its_share() {
        let ids = ids(21);
        let (before, after) = (even(&ids[..20]), even(&ids));
        let mut moved = 0;
        for number in 0..5_000 {
            let old = place(&key(number), &before, 14, &[]);
            let new = place(&key(number), &after, 14, &[]);
            let gone = old.iter().filter(|at| !new.contains(at)).count();
            assert_eq!(gone, usize::from(new.contains(&20)), "object {number}");
            moved += gone;
        }
        let share = 5_000.0 * 14.0 / 21.0;
        assert!((moved as f64 - share).abs() < 5.0 * 34.0, "{moved} of {share}");
    }

    proptest! {
        #[test]
        fn domains_are_distinct_and_as_many_as_there_are(
            domains in proptest::collection::vec(0u8..6, 1..20),
            count in 0usize..8,
            number: u32,
        ) {
            let ids = ids(domains.len());
            let names: Vec<String> = domains.iter().map(|d| format!("d{d}")).collect();
            let nodes: Vec<Candidate<'_>> = ids.iter().zip(&names)
                .map(|(id, domain)| Candidate { id, domain, weight: 0.5 })
                .collect();
            let taken = ["d0"];
            let chosen = place(&key(number), &nodes, count, &taken);
            let mut used: Vec<&str> = chosen.iter().map(|&at| nodes[at].domain).collect();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), chosen.len());
            prop_assert!(!used.contains(&"d0"));
            let mut known: Vec<&str> =
                names.iter().map(|d| &d[..]).filter(|d| *d != "d0").collect();
            known.sort_unstable();
            known.dedup();
            prop_assert_eq!(chosen.len(), count.min(known.len()));
        }
    }
}
