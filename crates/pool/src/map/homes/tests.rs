use super::*;
use crate::Policy;
use proptest::prelude::*;

/// A pool of so many nodes, of W = 3 copies.
fn config(nodes: usize) -> PoolConfig {
    let mut config = PoolConfig::new([1; 16], "x", Policy::for_code("rs:4+2").unwrap());
    for at in 0..nodes {
        config.node.push(NodeConfig::new(&format!("n{at}"), &format!("memory://{at}")));
    }
    config
}

fn key(number: u32) -> Key {
    Key::of(&format!("object {number}")).unwrap()
}

fn named(homes: &Homes<'_>, config: &PoolConfig) -> Vec<String> {
    homes.positions().map(|at| config.node[at].id.clone()).collect()
}

#[test]
fn any_copies_of_the_homes_meet_any_other() {
    let config = config(14);
    let homes = config.homes_now(&key(1));
    assert_eq!((homes.nodes.len(), homes.copies), (5, 3));
    let all: Vec<usize> = homes.positions().collect();
    let all = &all;
    for written in 0..32u32 {
        for read in 0..32u32 {
            let of = |set: u32| move |at: usize| set >> all_position(all, at) & 1 == 1;
            if written.count_ones() >= 3 && homes.answered(of(read)) {
                assert!(written & read != 0);
            }
            assert_eq!(homes.answered(of(read)), read.count_ones() >= 3);
            assert_eq!(homes.hold(of(written)), written.count_ones() >= 3);
            // Denied by so many that it cannot have been acknowledged.
            assert_eq!(homes.deny(of(read)), 5 - read.count_ones() < 3);
        }
    }
}

fn all_position(all: &[usize], at: usize) -> usize {
    all.iter().position(|home| *home == at).unwrap()
}

#[test]
fn the_past_counts_until_it_is_settled() {
    let first = config(8);
    let second = first.next(|c| {
        c.node[3].state = NodeState::Leaving;
        Ok(())
    });
    let second = second.unwrap();
    assert_eq!((second.revision, second.settled, second.past.len()), (2, 1, 1));
    let both = second.homes(&key(4));
    assert_eq!(both.len(), 2);
    assert_eq!(named(&both[1], &second), named(&first.homes_now(&key(4)), &first));
    assert!(both[0].positions().all(|at| at != 3));
    // A floor moves nothing, and does not settle anything either.
    let third = second.next(|c| {
        c.floor = 9;
        Ok(())
    });
    let third = third.unwrap();
    assert_eq!((third.settled, third.past.len(), third.is_settled()), (1, 1, false));
    let settled = third.next(|c| {
        c.settle();
        Ok(())
    });
    let settled = settled.unwrap();
    assert_eq!((settled.revision, settled.settled, settled.is_settled()), (4, 4, true));
    let floor = settled.next(|c| {
        c.floor = 10;
        Ok(())
    });
    assert!(floor.unwrap().is_settled());
}

#[test]
fn what_only_the_gone_had_is_given_up_only_with_them() {
    let mut config = config(8);
    config = config
        .next(|c| {
            let gone = c.node.remove(0).id;
            c.gone.push(gone);
            Ok(())
        })
        .unwrap();
    for number in 0..50 {
        let homes = config.homes(&key(number));
        let lost = homes[1].nodes.iter().filter(|(at, _)| at.is_none()).count();
        let left: Vec<usize> = homes[1].positions().collect();
        // With two more silent, three of five do not answer where one of them is gone.
        let answered = homes[1].answered(|at| !left[..2].contains(&at));
        assert_eq!(answered, lost == 0, "{homes:?}");
        assert!(homes[1].answered(|at| left[1] != at));
    }
}

#[test]
fn a_pool_from_before_history_asks_everybody() {
    let text = config(9).to_toml().unwrap();
    let old: String = (text.lines())
        .filter(|line| !line.starts_with("settled") && !line.starts_with("floor"))
        .map(|line| if line == "version = 2" { "version = 1" } else { line })
        .flat_map(|line| [line, "\n"])
        .collect();
    let old = old.replacen("weight = 1.0\n", "weight = 1.0\ndraining = true\n", 1);
    let config = PoolConfig::from_toml(&old).unwrap();
    assert!(!config.is_settled() && config.node[0].state == NodeState::Leaving);
    let homes = config.homes(&key(1));
    assert_eq!(homes[1].nodes.len(), 9);
    assert!(homes[1].answered(|at| at > 1) && !homes[1].answered(|at| at > 2));
    assert_eq!(PoolConfig::from_toml(&config.to_toml().unwrap()).unwrap(), config);
}

#[test]
fn too_many_changes_wait_for_a_repair() {
    let mut config = config(8);
    for round in 0..MAX_PAST {
        config = config
            .next(|c| {
                c.node[round % 8].weight += 1.0;
                Ok(())
            })
            .unwrap();
    }
    let error = config.next(|c| {
        c.node[0].weight += 1.0;
        Ok(())
    });
    assert!(error.unwrap_err().to_string().contains("kiln repair"));
}

proptest! {
    /// A node that joins or leaves changes few homes, and each by one.
    #[test]
    fn homes_follow_the_members(number: u32, nodes in 5usize..20, gone in 0usize..20) {
        let before = config(nodes);
        let after = before.next(|c| {
            c.node[gone % nodes].state = NodeState::Out;
            Ok(())
        }).unwrap();
        let (old, new) = (before.homes_now(&key(number)), after.homes_now(&key(number)));
        let (old, new) = (named(&old, &before), named(&new, &after));
        let kept = old.iter().filter(|id| new.contains(id)).count();
        let left = format!("n{}", gone % nodes);
        prop_assert_eq!(kept, old.len() - usize::from(old.contains(&left)));
        prop_assert_eq!(new.len(), 5.min(nodes - 1));
    }
}

/// Nodes that are out decide where no other is left.
#[test]
fn a_node_is_left_to_decide() {
    let mut config = config(5);
    for at in [0, 1] {
        config.node[at].state = NodeState::Out;
    }
    let of = |config: &PoolConfig| config.majority(|id| id < "n3");
    assert_eq!(of(&config), Err((1, 3)));
    config.node.truncate(2);
    assert_eq!(of(&config), Ok((2, 2)));
    assert_eq!(config.majority(|id| id == "n0"), Err((1, 2)));
}
