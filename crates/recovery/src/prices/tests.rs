use super::*;
use kiln_code::Codec;

const EXTENT: Extent = Extent { stripes: 10, sub_bytes: 1000 };

fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse().unwrap()).unwrap()
}

/// Node i has chunk i, but for the lost one, which a further node gets.
fn wanted(codec: &Codec, lost: usize) -> Wanted<'_> {
    let n = codec.shape().n();
    Wanted {
        codec,
        nodes: n + 1,
        homes: (0..n).filter(|chunk| *chunk != lost).map(|chunk| (chunk, chunk)).collect(),
        targets: vec![(lost, n)],
        runs: None,
    }
}

fn helpers(plan: &Plan) -> Vec<usize> {
    plan.dag().reads().iter().map(|reads| reads.chunk).collect()
}

/// Nodes of the zones of this list, where a byte that leaves costs what its zone says.
fn zones(of: &[usize], byte: &[f64]) -> Vec<NodePrice> {
    of.iter().map(|&zone| NodePrice { zone: Some(zone), read: 0.0, byte: byte[zone] }).collect()
}

#[test]
fn dear_helpers_are_left_out_where_others_are_enough() {
    let codec = codec("rs:3+2");
    let wanted = wanted(&codec, 1);
    let mut nodes = vec![NodePrice { zone: None, read: 0.0, byte: 1.0 }; 6];
    // Without prices the first three help.
    let by = ByPrice::new(nodes.clone(), Some("central"));
    let (plan, price) = by.cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!((helpers(&plan), price.planned), (vec![0, 2, 3], 3000.0));
    nodes[0].byte = 5.0;
    let (plan, price) =
        ByPrice::new(nodes.clone(), Some("central")).cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!(helpers(&plan), [2, 3, 4]);
    assert_eq!((price.planned, price.unweighed), (3000.0, 7000.0));
    // Reads are paid for, too: ten stripes, a run in each.
    nodes[4].read = 1000.0;
    let (plan, price) = ByPrice::new(nodes, Some("central")).cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!((helpers(&plan), price.planned), (vec![0, 2, 3], 7000.0));
}

#[test]
fn sums_are_made_in_a_zone_before_they_leave_it() {
    let codec = codec("rs:4+2");
    let wanted = wanted(&codec, 0);
    // Two of those that can help are where the new node is.
    let of = [0, 1, 1, 1, 0, 0, 0];
    let nodes = zones(&of, &[1.0, 1.0]);
    let central = ByPrice::new(nodes.clone(), Some("central"));
    let (_, price) = central.cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!(price.planned, 2000.0);
    let (plan, price) = ByPrice::new(nodes, None).cheapest(&wanted, 1, EXTENT).unwrap();
    plan.check().unwrap();
    assert_eq!(price.planned, 1000.0, "{}", plan.strategy());
    // What stays in a zone costs nothing, so where all can there is nothing to pay.
    let nodes = zones(&[0; 7], &[1.0]);
    let (_, price) = ByPrice::new(nodes, None).cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!(price.planned, 0.0);
}

#[test]
fn a_code_reads_less_of_more_or_all_of_fewer() {
    // A quarter more helpers of which a part is read, or any four whole.
    let codec = codec("clay:4+2");
    let wanted = wanted(&codec, 2);
    let mut nodes = vec![NodePrice { zone: None, read: 0.0, byte: 1.0 }; 7];
    let by = |nodes: &[NodePrice]| ByPrice::new(nodes.to_vec(), Some("central"));
    let (plan, _) = by(&nodes).cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!(helpers(&plan).len(), 5);
    nodes[5].byte = 100.0;
    let (plan, price) = by(&nodes).cheapest(&wanted, 1, EXTENT).unwrap();
    assert_eq!(helpers(&plan), [0, 1, 3, 4]);
    assert!(price.planned < price.unweighed);
}

#[test]
fn what_cannot_be_planned_is_said() {
    let codec = codec("rs:3+2");
    let mut wanted = wanted(&codec, 1);
    let nodes = vec![NodePrice { zone: None, read: 0.0, byte: 1.0 }; 6];
    let error = ByPrice::new(nodes.clone(), Some("luck")).cheapest(&wanted, 1, EXTENT);
    assert!(error.unwrap_err().to_string().contains("luck"));
    wanted.homes.truncate(2);
    assert!(ByPrice::new(nodes, None).cheapest(&wanted, 1, EXTENT).is_err());
    let prices: Prices =
        [("a".to_owned(), NodePrice { zone: Some(1), read: 2.0, byte: 3.0 })].into_iter().collect();
    let of = prices.of(["b", "a"].into_iter());
    assert_eq!((of[0].byte, of[1].byte, of[1].zone), (0.0, 3.0, Some(1)));
}

/// Nine of thirteen helpers are elsewhere, and what they add crosses as one chunk.
#[test]
fn a_wide_code_sends_one_chunk_between_zones() {
    for (spec, alpha) in [("clay:10+4", 256), ("rs:10+4", 1)] {
        let codec = codec(spec);
        let of = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
        let by = ByPrice::new(zones(&of, &[1.0, 1.0]), None);
        let (plan, price) = by.cheapest(&wanted(&codec, 3), 1, EXTENT).unwrap();
        assert_eq!(price.planned, f64::from(alpha) * 1000.0, "{spec}: {}", plan.strategy());
        assert!(price.unweighed > price.planned);
    }
}
