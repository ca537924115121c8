use super::*;
use crate::Tolerance;

fn effort(rises: u64) -> Effort {
    Effort { rises, ..Effort::default() }
}

/// Stripes of so many chunks, of which `m` may be lost, spread over nodes; failures of a node a
/// year, hours to detect one, and hours to repair it.
fn spread(
    nodes: usize,
    (chunks, m): (usize, usize),
    stripes: u64,
    (failures_per_year, detection_hours, repair_hours): (f64, f64, f64),
) -> PoolModel {
    PoolModel {
        nodes,
        tolerance: Tolerance::any(chunks, m).unwrap(),
        placement: Placement::Spread { stripes },
        failures_per_year,
        detection_hours,
        repair_hours,
        bad_chunks: 0.0,
    }
}

/// The example of a public simulator (mlec-sim): 10 groups of 7+3, drives of 20 TB (counted as
/// 20 x 1024 x 1024 MB) at 100 MB/s, of which 5% fail in a year: 7.018 nines (0.008).
#[test]
fn a_published_simulation_is_reproduced() {
    let pool = PoolModel {
        nodes: 100,
        tolerance: Tolerance::any(10, 3).unwrap(),
        placement: Placement::Groups,
        failures_per_year: -(0.95_f64).ln(),
        detection_hours: 0.0,
        repair_hours: 20.0 * 1024.0 * 1024.0 / 100.0 / 3600.0,
        bad_chunks: 0.0,
    };
    let played = simulate(&pool, &effort(2000)).unwrap();
    assert!((played.nines_a_year() - 7.018).abs() < 0.05, "{played:?}");
    let solved = pool.chain().unwrap().nines_a_year();
    assert!((solved - 7.018).abs() < 0.05, "{solved}");
}

/// Chain and simulation share the rules but no code: they agree where both can be had.
#[test]
fn chain_and_simulation_agree() {
    let base = spread(40, (6, 2), 4000, (0.2, 0.5, 24.0));
    let lrc = Tolerance::new(10, &[1.0, 1.0, 1.0, 1.0, 0.857]).unwrap();
    let cases = [
        base.clone(),
        PoolModel { bad_chunks: 1e-5, ..base.clone() },
        PoolModel { detection_hours: 0.0, repair_hours: 100.0, ..base.clone() },
        PoolModel { placement: Placement::Spread { stripes: 400 }, ..base.clone() },
        PoolModel { placement: Placement::Spread { stripes: 70 }, ..base.clone() },
        PoolModel { nodes: 60, tolerance: lrc, placement: Placement::Groups, ..base.clone() },
    ];
    for (index, pool) in cases.iter().enumerate() {
        let played = simulate(pool, &effort(300)).unwrap();
        let solved = pool.chain().unwrap().nines_a_year();
        let apart = played.nines_a_year() - solved;
        println!("{index}: played {:.3}, solved {solved:.3}", played.nines_a_year());
        assert!(apart.abs() < 0.2, "{index}: {played:?}, chain {solved}");
    }
}

#[test]
fn the_same_seed_gives_the_same_and_too_much_is_refused() {
    let pool = spread(12, (3, 1), 100, (0.3, 0.1, 10.0));
    assert_eq!(simulate(&pool, &effort(50)).unwrap(), simulate(&pool, &effort(50)).unwrap());
    let large = PoolModel { placement: Placement::Spread { stripes: 1 << 40 }, ..pool.clone() };
    assert!(matches!(simulate(&large, &effort(1)), Err(DurabilityError::Number { .. })));
    let never = PoolModel { failures_per_year: 1e-9, ..pool };
    let few = Effort { trials: 10, ..effort(10) };
    let found = simulate(&never, &few);
    assert!(matches!(found, Err(DurabilityError::NotReached { .. })), "{found:?}");
}

/// Ten thousand nodes with stripes on all of them, as one would plan a large site.
#[test]
fn ten_thousand_nodes_are_played_in_seconds() {
    let pool = spread(10_000, (12, 2), 100_000, (0.05, 1.0, 2.0));
    let played = simulate(&pool, &effort(1000)).unwrap();
    let solved = pool.chain().unwrap();
    println!(
        "played {:.2}, solved {:.2}, {played:?}",
        played.nines_a_year(),
        solved.nines_a_year()
    );
    assert_eq!(played.rises_a_year.len(), 2);
    assert!((played.nines_a_year() - solved.nines_a_year()).abs() < 0.15);
}
