//! Maximal recoverability over all patterns, cheapest reads, and Ceph's layers.

use super::{check, coefficients};
use crate::combinations::{combinations, others, sample};
use crate::{CodeSpec, Codec, RebuildMethod, Shape, codes::codec, seed};
use kiln_gf::{Matrix, generator};

fn refused(spec: &str) -> String {
    let error =
        spec.parse::<CodeSpec>().and_then(|spec| Codec::new(&spec)).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// Rows for all n chunks: what each is of the data.
fn rows(codec: &Codec) -> Matrix {
    let parity = codec.encode_plan().unwrap().dag().matrix().unwrap();
    Matrix::identity(codec.shape().k).stack(&parity).unwrap()
}

/// Every loss of up to l + g chunks of a code is decodable if and only if no code of this form
/// could tell more, and its repair reads what the form allows.
fn every_pattern_of(k: usize, l: usize, g: usize) {
    let codec = codec(&format!("lrc:{k}+{l}+{g}"));
    let (n, size, rows) = (k + l + g, k / l, rows(&codec));
    let group = |chunk: usize| match chunk {
        chunk if chunk < k => Some(chunk / size),
        chunk if chunk < k + l => Some(chunk - k),
        _ => None,
    };
    let mut decodable = 0;
    for failures in 1..=l + g {
        for lost in combinations(n, failures) {
            let in_group =
                |index| lost.iter().filter(|&&chunk| group(chunk) == Some(index)).count();
            let counts: Vec<usize> = (0..l).map(in_group).collect();
            let globals = failures - counts.iter().sum::<usize>();
            let unknowns = counts.iter().map(|count| count.saturating_sub(1)).sum::<usize>();
            let bound = unknowns + globals <= g;
            let left = others(n, &lost);
            assert_eq!(codec.tolerates(&lost), bound, "{k}+{l}+{g} {lost:?}");
            assert_eq!(rows.select_rows(&left).rank() == k, bound, "{k}+{l}+{g} {lost:?}");
            if bound {
                decodable += 1;
                let hit = counts.iter().filter(|&&count| count > 0).count();
                let cheapest = match unknowns + globals {
                    0 => (hit * size).min(k),
                    _ => k,
                };
                let (_, dag) = codec.repair_dag(&lost, &left).unwrap();
                assert_eq!(dag.inputs().len(), cheapest, "{k}+{l}+{g} {lost:?}");
            }
        }
    }
    assert!(decodable > 0);
    assert_eq!(codec.margin(&[]), g as i32 + 1);
}

#[test]
fn every_pattern_is_decoded_that_any_code_of_the_form_could() {
    for (k, l, g) in [
        (4, 2, 2),
        (6, 2, 2),
        (12, 2, 2),
        (8, 4, 2),
        (12, 4, 2),
        (12, 3, 2),
        (6, 6, 2),
        (10, 1, 2),
        (6, 3, 1),
        (12, 2, 1),
    ] {
        every_pattern_of(k, l, g);
    }
}

/// All groups that the constructions allow have the differences that they rest on; far more
/// patterns than could be tried.
#[test]
fn coefficients_hold_up_to_their_limits() {
    for (size, groups, globals) in
        [(1, 255, 2), (2, 85, 2), (3, 85, 2), (4, 17, 2), (15, 17, 2), (255, 1, 2), (4, 50, 1)]
    {
        let factors = coefficients(size, groups, globals).unwrap();
        assert!(check(&factors, globals), "{size} {groups} {globals}");
    }
    assert!(coefficients(16, 2, 2).is_none() && coefficients(4, 18, 2).is_none());
    assert!(coefficients(4, 2, 3).is_none());
    // A factor twice, and a difference in two groups.
    assert!(!check(&[vec![1, 1]], 2) && !check(&[vec![1, 2], vec![4, 7]], 2));
    assert!(check(&[vec![1, 2], vec![4, 7]], 1));
}

#[test]
fn repairs_read_groups_where_they_can() {
    let codec = codec("lrc:12+2+2");
    let choose = |lost: &[usize], available: &[usize]| {
        let choice = codec.choose(lost, available).unwrap();
        (choice.strategy, choice.helpers)
    };
    let all = |lost: &[usize]| choose(lost, &others(16, lost));
    assert_eq!(all(&[3]), (RebuildMethod::Repair, vec![0, 1, 2, 4, 5, 12]));
    assert_eq!(all(&[13]), (RebuildMethod::Repair, vec![6, 7, 8, 9, 10, 11]));
    assert_eq!(all(&[14]), (RebuildMethod::Decode, (0..12).collect()));
    assert_eq!(all(&[3, 7]).1.len(), 12);
    // The group is enough, whatever else is gone.
    assert_eq!(choose(&[0], &[1, 2, 3, 4, 5, 12]).0, RebuildMethod::Repair);
    let error = codec.choose(&[0, 6], &[1, 2, 3, 4, 5, 12]).unwrap_err().to_string();
    assert!(error.contains("6 chunks are available, 12 are needed"), "{error}");
    // Four data chunks of one group are one too many, though twelve chunks are left.
    let error = codec.choose(&[0, 1, 2, 3], &others(16, &[0, 1, 2, 3])).unwrap_err().to_string();
    assert!(error.contains("12 chunks are available that count as 11"), "{error}");
    // Any three may be lost; after a chunk of each group and a global parity, one more.
    assert_eq!(codec.margin(&[]), 3);
    assert_eq!(codec.margin(&[0, 6, 14]), 1);
    assert_eq!(codec.margin(&[0, 1, 2, 3, 4]), -2);
    assert!(codec.tolerates(&[0, 1, 6, 7]) && !codec.tolerates(&[0, 1, 2, 3]));
}

/// The parities of Ceph's layers, from their definition: reed_sol_van of all data, and of every
/// group with its share of them one more, which is their sum.
#[test]
fn ceph_layers_are_reed_solomon_and_sums() {
    for (k, m, l) in [(4, 2, 3), (6, 2, 4), (8, 4, 3), (8, 4, 6), (12, 4, 8), (4, 2, 6)] {
        let codec = codec(&format!("plugin=lrc k={k} m={m} l={l}"));
        let groups = (k + m) / l;
        let Shape { m: parities, .. } = codec.shape();
        assert_eq!(parities, groups + m);
        let rows = rows(&codec);
        let global = generator("jerasure").unwrap().parity(k, m).unwrap();
        let mapping = codec.mapping();
        for r in 0..m {
            assert_eq!(rows.row(k + groups + r), global.row(r));
        }
        for group in 0..groups {
            let inside = |chunk: &usize| mapping[*chunk] / (l + 1) == group;
            let members: Vec<usize> = (0..k + parities).filter(inside).collect();
            assert_eq!(members.len(), l + 1);
            for column in 0..k {
                let sum = members.iter().fold(0, |sum, &chunk| sum ^ rows.at(chunk, column));
                assert_eq!(sum, 0, "k={k} m={m} l={l} group {group}");
            }
            // Each of them, global parities too, is rebuilt from l others.
            for &lost in &members {
                let choice = codec.choose(&[lost], &others(k + parities, &[lost])).unwrap();
                let read = if l < k { l } else { k };
                assert_eq!(choice.helpers.len(), read, "k={k} m={m} l={l} chunk {lost}");
            }
        }
    }
}

#[test]
fn specs_say_what_is_legal() {
    let explicit = |spec: &str| spec.parse::<CodeSpec>().unwrap().explicit();
    assert_eq!(explicit("lrc:12+2+2"), "lrc:12+2+2,layout=kiln");
    assert_eq!(explicit("lrc:12+2+3"), "lrc:12+2+3,layout=azure");
    assert_eq!("lrc:6+2+2,layout=kiln".parse::<CodeSpec>().unwrap().to_string(), "lrc:6+2+2");
    assert_eq!(explicit("plugin=lrc k=8 m=4 l=3"), "lrc:8+4+4,layout=ceph");
    assert_eq!(
        explicit("plugin=lrc,k=4,m=2,l=3,crush-locality=rack,crush-failure-domain=host"),
        "lrc:4+2+2,layout=ceph"
    );
    assert_eq!(CodeSpec::of_family("lrc", 12, 4).unwrap().to_string(), "lrc:12+2+2");
    for (spec, legal) in [
        ("lrc:12+4", "k+l+g: data, groups, global parities; e.g. 12+2+2"),
        ("lrc:12+5+2", "l=5 is not possible: groups divide k = 12; the nearest are 4 and 6"),
        ("lrc:12+3+2,layout=ceph", "groups divide k = 12 and g = 2; the nearest is 2"),
        ("lrc:12+2+3,layout=kiln", "g=3 is not possible"),
        ("lrc:5+6+3", "there are at most k = 5 groups; the nearest is 5"),
        ("lrc:40+2+2", "at most 15 data chunks in up to 17 groups"),
        ("lrc:12+2+2,layout=magic", "known: kiln, azure, uniform, cascaded, ceph"),
        ("lrc:250+5+5", "260 chunks"),
        ("plugin=lrc k=4 m=2", "no l="),
        ("plugin=lrc k=4 m=2 l=4", "k + m = 6 is no multiple of l=4"),
        ("plugin=lrc k=4 m=2 l=0", "no multiple"),
        ("plugin=lrc k=8 m=4 l=4", "groups divide k = 8 and g = 4"),
        ("plugin=lrc mapping=DD_ layers=[]", "simple form (k, m, l), without 'mapping'"),
    ] {
        let error = refused(spec);
        assert!(error.contains(legal), "{spec}: {error}");
    }
    assert!(CodeSpec::of_family("lrc", 10, 1).is_err());
}

/// Chunks read for one lost chunk, on average, as published: by `azure`, `uniform` and `cascaded`
/// layout; UniLRC has groups of its locality and one.
#[test]
fn wide_codes_read_what_is_published() {
    for (numbers, azure, uniform, cascaded) in [
        ("24+2+2", 12.857, 13.0, 11.357),
        ("48+4+3", 13.964, 12.764, 12.582),
        ("72+4+4", 20.7, 19.0, 19.15),
        ("96+5+4", 22.133, 20.0, 20.590),
    ] {
        for (layout, chunks) in [("azure", azure), ("uniform", uniform), ("cascaded", cascaded)] {
            let cost = codec(&format!("lrc:{numbers},layout={layout}")).average_cost(1, 0).unwrap();
            let close = (cost.mean_chunks - chunks).abs() < 5e-4;
            assert!(cost.exhaustive && close, "{numbers} {layout} {cost:?}");
        }
    }
    for (numbers, locality) in [("30+6+6", 6.0), ("112+8+16", 16.0), ("180+10+20", 20.0)] {
        let cost = codec(&format!("lrc:{numbers},layout=uniform")).average_cost(1, 0).unwrap();
        assert_eq!((cost.min_chunks, cost.max_chunks), (locality, locality), "{numbers}");
    }
}

/// Every pattern of as many losses as a wide layout promises, for many small codes.
#[test]
fn wide_layouts_tolerate_what_they_promise() {
    let mut patterns = 0;
    for (k, l, g) in [(3, 1, 3), (5, 2, 3), (6, 3, 3), (8, 2, 4), (9, 4, 2), (12, 3, 2), (10, 5, 1)]
    {
        for layout in ["azure", "uniform", "cascaded"] {
            let codec = codec(&format!("lrc:{k}+{l}+{g},layout={layout}"));
            let (n, rows, any) = (k + l + g, rows(&codec), codec.tolerates_any());
            assert_eq!(any, if layout == "cascaded" { g } else { g + 1 });
            for lost in combinations(n, any) {
                let decodable = rows.select_rows(&others(n, &lost)).rank() == k;
                assert!(decodable && codec.tolerates(&lost), "{} {lost:?}", codec.spec());
                patterns += 1;
            }
            assert!(codec.margin(&[]) >= any as i32);
        }
    }
    assert_eq!(patterns, 9_627);
}

/// Wide codes: 300 patterns of the promised losses each, those of one more that are decoded, every
/// whole group of UniLRC (a domain of its own), and one random byte a chunk through encode, a
/// repair and decodes.
#[test]
fn wide_codes_decode() {
    let wide = ["24+2+2", "48+4+3", "72+4+4", "96+5+4"]
        .into_iter()
        .flat_map(|numbers| {
            ["azure", "uniform", "cascaded"].map(|layout| format!("lrc:{numbers},layout={layout}"))
        })
        .chain(["30+6+6", "112+8+16", "180+10+20"].map(|n| format!("lrc:{n},layout=uniform")));
    let mut state = 11;
    for spec in wide {
        let codec = codec(&spec);
        let (Shape { k, .. }, n, any) = (codec.shape(), codec.shape().n(), codec.tolerates_any());
        let mut word: Vec<u8> = (0..k).map(|_| seed::next(&mut state) as u8).collect();
        word.extend(codec.encode_plan().unwrap().dag().eval(&word.clone()).unwrap());
        for _ in 0..300 {
            assert!(codec.tolerates(&sample(n, any, &mut state)), "{spec}");
        }
        assert!(codec.survived(any + 1, 3).unwrap() > 0.8, "{spec}");
        assert_eq!(codec.margin(&[]), any as i32, "{spec}");
        for failures in [1, 2, any, any] {
            let lost = sample(n, failures, &mut state);
            let (_, dag) = codec.repair_dag(&lost, &others(n, &lost)).unwrap();
            let inputs: Vec<u8> = dag.inputs().iter().map(|at| word[at.chunk as usize]).collect();
            let wanted: Vec<u8> = lost.iter().map(|&chunk| word[chunk]).collect();
            assert_eq!(dag.eval(&inputs).unwrap(), wanted, "{spec} {lost:?}");
        }
    }
    for (k, z, g) in [(30, 6, 6), (112, 8, 16), (180, 10, 20)] {
        let codec = codec(&format!("lrc:{k}+{z}+{g},layout=uniform"));
        for group in super::groups("uniform", k, z, g) {
            assert_eq!(group.len(), g + 1);
            assert!(codec.tolerates(&group));
        }
    }
}
