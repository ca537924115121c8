use super::*;
use kiln_code::Codec;
use kiln_plan::{Problem, SearchBudget, strategy};
use proptest::prelude::*;

/// The shares of a small repair.
pub(crate) fn shares() -> Vec<Assignment> {
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
fn a_few_bytes_cannot_ask_for_much_memory() {
    let good = shares().into_iter().find(|share| !share.targets.is_empty()).unwrap();
    let geometry =
        Geometry { alpha: 1, sub_chunk: 1 << 30, size: 1 << 40, ..good.geometry.clone() };
    let piece = PieceInfo { id: 0, sub_chunks: 1 << 22, chunk: 0, runs: Vec::new() };
    let round = RoundInfo { outputs: vec![0], ..RoundInfo::default() };
    let petabytes = Assignment {
        geometry,
        slice: u32::MAX,
        end: 1,
        pieces: vec![piece],
        rounds: vec![round],
        ..good.clone()
    };
    let text = Assignment::decode(&petabytes.encode()).unwrap_err().to_string();
    assert!(text.contains("bytes of memory"), "{text}");
    let with = |matrix: MatrixInfo, steps: usize| {
        let step = StepInfo { matrix: 0, sources: vec![0] };
        let dag =
            DagInfo { matrices: vec![matrix], steps: vec![step; steps], ..DagInfo::default() };
        let rounds = vec![RoundInfo { dag, ..RoundInfo::default() }];
        Assignment::decode(&Assignment { rounds, ..good.clone() }.encode())
    };
    // A matrix of four thousand million rows and no columns; one of none; one that is cut off.
    assert!(with(MatrixInfo { rows: u32::MAX, entries: Vec::new() }, 1).is_err());
    assert!(with(MatrixInfo { rows: 0, entries: Vec::new() }, 1).is_err());
    assert!(with(MatrixInfo { rows: 2, entries: vec![1; 3] }, 1).is_err());
    // Many steps of a tall matrix: 10 KiB become 80 million vertices.
    let tall = || MatrixInfo { rows: 1 << 16, entries: vec![1; 1 << 16] };
    assert!(with(tall(), 1).is_ok());
    let text = with(tall(), 1200).unwrap_err().to_string();
    assert!(text.contains("vertices"), "{text}");
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

/// Returns the room that a window gets in all places together, in bytes: by what the
/// functions say that they ask.
fn room(share: &Assignment, window: u64) -> u64 {
    let layout = share.layout().unwrap();
    let (stripe, slice) = share.window(&layout, window);
    let pieces: usize =
        share.pieces.iter().map(|piece| share.piece_bytes(piece.id, &slice).unwrap()).sum();
    let sub_chunks = share.sources.iter().map(|source| {
        let mine = share.pieces.iter().filter(|piece| piece.chunk == source.chunk);
        let mut runs: Vec<&Run> = mine.flat_map(|piece| &piece.runs).collect();
        runs.sort_by_key(|run| run.start);
        let mut end = 0;
        let mut count = 0;
        for run in runs {
            count += run.end.saturating_sub(run.start.max(end));
            end = end.max(run.end);
        }
        u64::from(count)
    });
    let read = sub_chunks.sum::<u64>() * layout.sub_len(stripe) as u64;
    let written = share.targets.len() as u64 * layout.chunk_len(stripe) as u64;
    pieces as u64 + read + written
}

/// A small assignment with numbers that ask for much.
fn greedy() -> impl Strategy<Value = Assignment> {
    let number =
        || prop_oneof![0..20u32, any::<u32>(), Just(1 << 20), Just(1 << 24), Just(1 << 30)];
    let numbers = proptest::collection::vec(number(), 12);
    (0..6usize, numbers, any::<u64>(), 0..4096u32).prop_map(|(which, numbers, size, mask)| {
        let all = shares();
        let mut share = all[which % all.len()].clone();
        let asked = |bit: u32| mask >> bit & 1 == 1;
        let fields = [
            &mut share.slice, &mut share.windows, &mut share.geometry.alpha,
            &mut share.geometry.sub_chunk, &mut share.geometry.segment_stripes,
            &mut share.pieces[0].sub_chunks,
        ];
        for (bit, field) in fields.into_iter().enumerate() {
            if asked(bit as u32) {
                *field = numbers[bit];
            }
        }
        if asked(6) {
            share.geometry.size = size;
        }
        for round in share.rounds.iter_mut().filter(|_| asked(7)) {
            let dag = &mut round.dag;
            dag.matrices.iter_mut().for_each(|matrix| matrix.rows = numbers[7]);
            let steps = dag.steps.clone();
            (0..numbers[8] % 64).for_each(|_| dag.steps.extend(steps.iter().cloned()));
        }
        if asked(8) {
            share.end = size;
        }
        share
    })
}

proptest! {
    /// Whatever an assignment asks for, its cost is known before and within its limit.
    #[test]
    fn no_assignment_makes_room_for_more_than_its_cost(greedy in greedy()) {
        if let Ok(share) = Assignment::decode(&greedy.encode()) {
            let layout = share.layout().unwrap();
            let cost = Cost::of(&share, &layout).unwrap();
            prop_assert!(cost.memory(1) <= cost::FLOOR_MAX);
            let last = share.window_count(&layout) - 1;
            for window in [0, last / 2, last] {
                prop_assert!(room(&share, window) <= cost.memory(1));
            }
            for windows in [1, 2, 7, 256] {
                prop_assert!(cost.memory(windows) <= cost.memory(windows + 1));
            }
            let vertices = |round: &RoundInfo| {
                round.dag.build().ok().flatten().map_or(0, |dag| dag.vertices())
            };
            let vertices: usize = share.rounds.iter().map(vertices).sum();
            prop_assert!(vertices as u64 * 64 <= cost.memory(1));
        }
    }

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
