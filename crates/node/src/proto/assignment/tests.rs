use kiln_code::Codec;
use kiln_plan::{Problem, SearchBudget, strategy};
use proptest::prelude::*;

use super::*;

/// The shares of a small repair.
fn shares() -> Vec<Assignment> {
    let codec = Codec::new(&"clay:4+2".parse().unwrap()).unwrap();
    let (_, dag) = codec.repair_dag(&[2], &[0, 1, 3, 4, 5]).unwrap();
    let problem = Problem::on_own_nodes(dag).unwrap();
    let plan = strategy("central").unwrap().plan(&problem, &mut SearchBudget::new(1)).unwrap();
    let execution = plan.execution().unwrap();
    let geometry = Geometry {
        spec: "clay:4+2".into(),
        object: "x".into(),
        run: [1; 16],
        source: [0; 16],
        k: 4,
        n: 6,
        alpha: 8,
        sub_chunk: 64,
        segment_stripes: 4,
        size: 10_000,
        digests: vec![[3; 16]; 6],
    };
    let peers: Vec<Peer> = (0..6)
        .map(|node| Peer { node, address: format!("kiln+plain://127.0.0.1:{}", node + 1) })
        .collect();
    let fill = |node: usize| {
        let chunk = node as u32;
        let file = SourceFile { chunk, name: format!("x.{node:02}.kiln") };
        let target = TargetFile { chunk, part: ".x".into(), name: file.name.clone() };
        let (sources, targets) =
            if node == 2 { (vec![], vec![target]) } else { (vec![file], vec![]) };
        Some(Assignment {
            end: 5,
            slice: 24,
            windows: 4,
            geometry: geometry.clone(),
            peers: peers.clone(),
            sources,
            targets,
            ..Assignment::of(&execution, node)?
        })
    };
    (0..6).filter_map(fill).collect()
}

#[test]
fn assignments_come_back_and_their_dags_compute_the_same() {
    let mut dags = 0;
    for share in shares() {
        assert_eq!(Assignment::decode(&share.encode()).unwrap(), share);
        for round in &share.rounds {
            let Some(dag) = round.dag.build().unwrap() else { continue };
            assert_eq!(DagInfo::of(&dag).build().unwrap().unwrap().matrix(), dag.matrix());
            dags += 1;
        }
    }
    assert!(dags > 0);
}

#[test]
fn windows_cover_every_byte_of_every_stripe_once() {
    let share = &shares()[0];
    let layout = share.layout().unwrap();
    let mut covered = vec![Vec::new(); 5];
    for window in 0..share.window_count(&layout) {
        let (stripe, slice) = share.window(&layout, window);
        assert!(!slice.is_empty());
        covered[stripe as usize].push(slice);
    }
    for (stripe, slices) in covered.iter().enumerate() {
        assert_eq!(slices.first().unwrap().start, 0);
        assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(slices.last().unwrap().end, layout.sub_len(stripe as u64));
    }
}

#[test]
fn numbers_beyond_their_limits_are_refused() {
    let good = shares().into_iter().find(|share| !share.targets.is_empty()).unwrap();
    let helper = shares().into_iter().find(|share| !share.sources.is_empty()).unwrap();
    let spoilt: Vec<Assignment> = vec![
        Assignment { end: 99, ..good.clone() },
        Assignment { first: 5, ..good.clone() },
        Assignment { slice: 0, ..good.clone() },
        Assignment { windows: 0, ..good.clone() },
        Assignment { windows: 100_000, ..good.clone() },
        Assignment { pieces: Vec::new(), ..good.clone() },
        Assignment { targets: Vec::new(), ..good.clone() },
        Assignment { peers: Vec::new(), ..helper.clone() },
        Assignment { sources: Vec::new(), ..helper.clone() },
        Assignment { geometry: Geometry { alpha: 0, ..good.geometry.clone() }, ..good.clone() },
        Assignment {
            geometry: Geometry { digests: vec![], ..good.geometry.clone() },
            ..good.clone()
        },
        Assignment {
            sources: vec![SourceFile { name: "../x".into(), ..helper.sources[0].clone() }],
            ..helper.clone()
        },
    ];
    for (number, spoilt) in spoilt.iter().enumerate() {
        assert!(Assignment::decode(&spoilt.encode()).is_err(), "{number}");
    }
    let mut long = good.encode();
    long.push(0);
    assert!(Assignment::decode(&long).is_err());
}

proptest! {
    /// Whatever arrives, it is an assignment within its limits or an error.
    #[test]
    fn changed_assignments_are_refused_or_sound(at in any::<usize>(), byte in any::<u8>()) {
        for share in shares() {
            let mut bytes = share.encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(share) = Assignment::decode(&bytes) {
                let layout = share.layout().unwrap();
                let last = share.window_count(&layout) - 1;
                prop_assert!(!share.window(&layout, last).1.is_empty());
                for round in &share.rounds {
                    let _ = round.dag.build();
                }
            }
        }
    }
}
