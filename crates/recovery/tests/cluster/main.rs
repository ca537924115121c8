//! Pools in simulated clusters: clients that put, get and remove, a coordinator that recovers and
//! a scrub, all at once in virtual time, while one seed says what goes wrong.
//!
//! All of it is real but for sockets, the clock and the disks' metal: `kiln_pool` over
//! `RemoteBackend`, links, frames and agents as they are. KILN_SIM_SEED repeats one seed and tells
//! what happened, KILN_SIM_SEEDS says how many there are (a tenth of them with a volume),
//! KILN_SIM_FIRST the first one.

// As the tests of volumes have it; not all of it is of use here.
#[path = "../../../volume/tests/volumes/history.rs"]
#[allow(dead_code)]
mod blocks;
mod history;
mod index_file;
mod keeper;
mod losses;
mod operator;
mod play;
mod scenario;
mod volumes;

/// Imports of `blocks`.
mod common {
    pub use kiln_recovery::sim::Random;
    pub use kiln_volume::BLOCK;
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::BTreeMap, sync::Mutex};

use play::play;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use scenario::Scenario;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Makes the scenario of a seed.
type Of = fn(u64) -> Scenario;

/// Plays one seed; `false` when it failed, with how to repeat it on stderr.
fn passes(seed: u64, of: Of, tell: bool, counts: &Mutex<BTreeMap<String, u64>>) -> bool {
    match catch_unwind(AssertUnwindSafe(|| play(seed, of(seed), tell))) {
        Ok(report) => {
            let mut counts = counts.lock().unwrap();
            report.into_iter().for_each(|(what, times)| *counts.entry(what).or_default() += times);
            true
        }
        Err(_) => {
            eprintln!(
                "seed {seed} failed; repeat it, with all that happens:\n\
                 KILN_SIM_SEED={seed} cargo test -p kiln-recovery --test cluster -- --nocapture"
            );
            false
        }
    }
}

/// Keeps a cluster on one processor: of its threads one runs at a time, and need not be sent to
/// another.
fn stay_on(nth: usize) {
    let (Ok(all), mut one) = (sched_getaffinity(None), CpuSet::new()) else { return };
    if let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).nth(nth) {
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}

/// Plays so many seeds, or one in `share` of what the environment says; what came of it.
fn play_all(of: Of, usual: u64, share: u64) -> (u64, BTreeMap<String, u64>) {
    let one = number("KILN_SIM_SEED");
    let first = one.or(number("KILN_SIM_FIRST")).unwrap_or(0);
    let many = number("KILN_SIM_SEEDS").map_or(usual, |seeds| seeds.div_ceil(share));
    let count = one.map_or(many, |_| 1);
    let (counts, next) = (Mutex::default(), AtomicU64::new(first));
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for nth in 0..threads {
            let (failed, counts, next) = (&failed, &counts, &next);
            scope.spawn(move || {
                stay_on(nth);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    if !passes(seed, of, one.is_some(), counts) {
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let (failed, counts) = (failed.into_inner().unwrap(), counts.into_inner().unwrap());
    println!("{count} seeds: {counts:#?}");
    assert!(failed.is_empty(), "seeds {failed:?} failed, see above");
    (count, counts)
}

/// The rare branches of a kind of scenario: seeds that never take one of them prove nothing of it.
fn rare(kind: &str) -> Vec<&'static str> {
    let mut parts = include_str!("rare.txt").split("## ");
    let part = parts.find_map(|part| part.strip_prefix(kind)?.strip_prefix('\n'));
    part.unwrap().lines().collect()
}

/// Prints which rare branches were never taken; with more than `few` seeds those of `always` must
/// have been.
fn sometimes(played: (u64, BTreeMap<String, u64>), kind: &str, few: u64, always: &[&str]) {
    let (count, counts) = played;
    let times = |what: &str| counts.get(what).copied().unwrap_or(0);
    let mut missed = rare(kind);
    missed.retain(|what| times(what) == 0);
    println!("{{\"sometimes_missed\":{missed:?}}}");
    if count > few {
        // A simulation in which nothing succeeds would prove nothing, nor one without faults.
        assert!(times("put done") > times("put failed"), "{counts:?}");
        assert!(times("get done") > times("get failed"), "{counts:?}");
        assert!(times("put failed") > 0 && times("get failed") > 0, "{counts:?}");
        assert!(always.iter().all(|what| times(what) > 0), "{counts:?}");
        let volumes = times("volume opened") > count && times("blocks written") > count;
        assert!(kind != "volumes" || volumes, "{counts:?}");
    }
}

#[test]
fn what_was_acknowledged_is_what_is_read() {
    let always = [
        "repaired by agents", "copied by agents", "misdirected .kiln", "misdirected .manifest",
        "misdirected kiln-pool.toml", "misread .manifest",
    ];
    sometimes(play_all(Scenario::of_seed, 400, 1), "pools", 100, &always);
}

#[test]
fn volumes_hold_what_was_acknowledged() {
    let always = [
        "volume taken over", "writer deposed", "clone is its snapshot", "clone removed",
        "volume grown",
    ];
    sometimes(play_all(Scenario::with_volume, 100, 10), "volumes", 50, &always);
}

#[test]
fn releases_are_mixed_while_agents_are_exchanged_one_by_one() {
    let always = ["repaired by agents"];
    sometimes(play_all(Scenario::of_versions, 60, 4), "releases", 50, &always);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for (of, seed) in (1..=4)
        .flat_map(|seed| [Scenario::of_seed as Of, Scenario::with_volume].map(|of| (of, seed)))
    {
        let run = || play(seed, of(seed), false);
        assert_eq!(run(), run(), "seed {seed}");
    }
}
