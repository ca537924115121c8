use super::*;
use kiln_pool::{Key, NodeConfig, Policy};

fn config(nodes: usize) -> PoolConfig {
    let mut config = PoolConfig::new([1; 16], "test", Policy::for_code("clay:4+2").unwrap());
    for at in 0..nodes {
        config.node.push(NodeConfig::new(&format!("n{at}"), &format!("kiln://h{at}:1")));
    }
    config
}

/// An object over nodes `first`, `first + 1`, ... that lost these shards.
fn want(name: &str, first: usize, nodes: usize, lost: &[u16]) -> DamagedObject {
    let listed = Listed {
        name: name.to_owned(),
        size: 8 << 20,
        code: "clay:4+2".to_owned(),
        k: 4,
        nodes: (0..6).map(|chunk| format!("n{}", (first + chunk) % nodes)).collect(),
        ..Listed::default()
    };
    let damaged = Damaged {
        key: Key::of(name).unwrap(),
        lost: lost.to_vec(),
        margin: 2 - lost.len() as i32,
        bytes: 2 << 20,
        transient: false,
    };
    DamagedObject { listed, damaged: Some(damaged), ..DamagedObject::default() }
}

#[test]
fn a_lost_node_is_rebuilt_over_the_others_evenly_and_the_endangered_first() {
    let config = config(10);
    let mut usable = vec![true; 10];
    (usable[0], usable[1]) = (false, false);
    let pool = Snapshot { config: &config, usable, to: None };
    let wants: Vec<DamagedObject> = (0..60)
        .map(|i| {
            let first = i % 10;
            let gone = |chunk: &u16| (first + usize::from(*chunk)) % 10 < 2;
            let lost: Vec<u16> = (0..6).filter(gone).collect();
            want(&format!("o{i}"), first, 10, &lost)
        })
        .filter(|want| !want.lost().is_empty())
        .collect();
    let all = wants.len();
    let batch = Batch::new(wants, &pool, &Rules::new(JOINT, 1).unwrap()).unwrap();
    assert_eq!(batch.repairs().len(), all);
    let margins: Vec<i32> =
        batch.repairs().iter().map(|job| job.want.damaged.as_ref().unwrap().margin).collect();
    assert!(margins.is_sorted() && margins[0] == 0);
    let mut got = [0; 10];
    for job in batch.repairs() {
        for (index, node) in batch.targets(job).unwrap() {
            assert!(job.want.lost().contains(&index));
            assert!(!job.want.listed.nodes.contains(&format!("n{node}")));
            got[node] += 1;
        }
        batch.plan(job).unwrap().check().unwrap();
    }
    let (least, most) = (got[2..].iter().min().unwrap(), got.iter().max().unwrap());
    assert!(got[..2] == [0, 0] && most - least <= 4, "{got:?}");
    assert!(batch.busiest() <= 1.15 * batch.bound().unwrap());
}

#[test]
fn what_leaves_a_node_that_answers_is_copied_or_rebuilt_by_the_others() {
    let mut config = config(10);
    config.node[0].state = kiln_pool::NodeState::Leaving;
    let pool = Snapshot { config: &config, usable: vec![true; 10], to: None };
    // Chunk (10 - first) % 10 of each is on node 0.
    let wants = (0..48).map(|i| {
        let first = 5 + i % 6;
        want(&format!("o{i}"), first, 10, &[((10 - first) % 10) as u16])
    });
    let wants: Vec<DamagedObject> = wants.collect();
    let batch = Batch::new(wants, &pool, &Rules::new(JOINT, 1).unwrap()).unwrap();
    let rebuilt = batch.repairs().iter().filter(|job| batch.rebuilds_leaving(job)).count();
    assert!((10..44).contains(&rebuilt), "{rebuilt}");
    for job in batch.repairs() {
        // A copied shard has no plan; nothing is sent to the node that leaves.
        assert_eq!(batch.plan(job).is_some(), batch.rebuilds_leaving(job));
        assert!(batch.targets(job).unwrap().iter().all(|(_, node)| *node != 0));
    }
    let ((busiest, all), bound) = (batch.bytes(), batch.bound_bytes().unwrap());
    assert!(bound <= busiest && busiest < 1.35 * bound, "{busiest} {bound}");
    assert!(all > busiest && busiest < 48.0 * f64::from(2 << 20));
    // A node that is gone gives nothing away.
    let usable = (0..10).map(|at| at != 0).collect();
    let pool = Snapshot { config: &config, usable, to: None };
    let wants = vec![want("o", 0, 10, &[0])];
    let batch = Batch::new(wants, &pool, &Rules::new(JOINT, 1).unwrap()).unwrap();
    assert!(
        !batch.rebuilds_leaving(&batch.repairs()[0]) && batch.plan(&batch.repairs()[0]).is_some()
    );
}

#[test]
fn shards_go_back_to_a_node_that_is_there_or_where_a_part_lies_or_where_told() {
    let config = config(10);
    let mut pool = Snapshot { config: &config, usable: vec![true; 10], to: None };
    let rules = Rules::new("central", 1).unwrap();
    let target = |pool: &Snapshot<'_>, want: DamagedObject| {
        let batch = Batch::new(vec![want], pool, &rules).unwrap();
        batch.targets(&batch.repairs()[0]).unwrap()
    };
    assert_eq!(target(&pool, want("a", 0, 10, &[2])), [(2, 2)]);
    pool.usable[2] = false;
    let mut left = want("a", 0, 10, &[2]);
    left.parts.insert(2, 8);
    assert_eq!(target(&pool, left.clone()), [(2, 8)]);
    pool.to = Some(vec![9]);
    assert_eq!(target(&pool, left.clone()), [(2, 9)]);
    // Node 3 has a shard of it already.
    pool.to = Some(vec![3]);
    let [(2, elsewhere)] = target(&pool, left.clone())[..] else { panic!() };
    assert!((6..10).contains(&elsewhere));
    pool.usable[6..].fill(false);
    let batch = Batch::new(vec![left.clone()], &pool, &rules).unwrap();
    assert!(batch.targets(&batch.repairs()[0]).is_none());
    assert!(pool.places(&left, &[2], &|_| 0).is_none());
    pool.usable[6..].fill(true);
    pool.to = None;
    let places = pool.places(&left, &[2, 4], &|at| at as u64).unwrap();
    assert_eq!(places, [(2, 8), (4, 4)]);
}

#[test]
fn what_fits_no_group_is_left_to_itself() {
    let config = config(10);
    let pool = Snapshot { config: &config, usable: vec![true; 10], to: None };
    let mut inline = want("a", 0, 10, &[]);
    inline.listed.nodes.clear();
    let mut packets = want("b", 0, 10, &[1]);
    packets.listed.code = "liberation:3+2,w=3,packet=8".to_owned();
    let unknown = want("c", 0, 10, &[9]);
    let rules = Rules::new(JOINT, 1).unwrap();
    let batch = Batch::new(vec![inline, packets, unknown], &pool, &rules).unwrap();
    assert!(batch.repairs().iter().all(|job| batch.plan(job).is_none()));
    assert_eq!((batch.repairs().len(), batch.concentration()), (3, None));
}
