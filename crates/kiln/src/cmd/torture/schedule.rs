//! Faults and operations of a round, from the seed alone.

use std::time::Duration;

use kiln_store::SplitMix64;

/// Faults, by their names in reports; the last three are of agents alone.
pub const KINDS: [&str; 5] = ["kill", "stop", "cut", "full", "wipe"];

/// A fault of an agent, or of the coordinator, which has the number after theirs.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: &'static str,
    pub target: usize,
    pub begin: Duration,
    pub end: Duration,
}

/// Faults of a client: the seconds by which its clock is wrong, and when it is stopped, or killed.
pub type Wrong = (i64, Option<(Duration, bool)>);

/// Returns the choices of one part of a round.
pub fn choices(seed: u64, round: u64, part: u64) -> SplitMix64 {
    SplitMix64(SplitMix64(SplitMix64(seed).next() ^ round).next() ^ part)
}

fn pick<T: Copy>(random: &mut SplitMix64, from: &[T]) -> T {
    from[(random.next() % from.len() as u64) as usize]
}

fn millis(random: &mut SplitMix64, limit: u128) -> Duration {
    Duration::from_millis(random.next() % limit as u64)
}

/// Returns the faults of a round of so many agents, of which so many at most lose their data.
pub fn faults(random: &mut SplitMix64, agents: usize, wiped: usize, round: Duration) -> Vec<Fault> {
    let (mut wipes, count) = (0, 2 + random.next() as usize % (2 + agents));
    let faults = (0..count).map(|_| {
        let target = random.next() as usize % (agents + 1);
        let kind = pick(random, if target == agents { &KINDS[..2] } else { &KINDS[..] });
        wipes += usize::from(kind == "wipe");
        let kind = if wipes > wiped && kind == "wipe" { "kill" } else { kind };
        let begin = millis(random, round.as_millis());
        Fault { kind, target, begin, end: begin + millis(random, 6_000) }
    });
    faults.collect()
}

/// Returns a client's pause, its next command, the bytes of a put, and what is wrong meanwhile.
pub fn operation(random: &mut SplitMix64) -> (Duration, &'static str, usize, Wrong) {
    let act = pick(random, &["put", "put", "put", "get", "get", "get", "get", "rm"]);
    let (size, after) = (pick(random, &[90, 5_000, 300_000]), millis(random, 250));
    let clock = 86_400 * pick(random, &[0, 0, 0, 0, -3, 3]);
    let hurt = pick(random, &[None, None, None, None, Some(false), Some(true)]);
    (millis(random, 300), act, size, (clock, hurt.map(|killed| (after, killed))))
}

#[test]
fn a_seed_is_one_schedule_and_spares_what_the_code_needs() {
    for seed in 0..200 {
        let play = || faults(&mut choices(seed, 3, 0), 8, 1, Duration::from_secs(8));
        assert_eq!(play(), play());
        assert!(play().iter().filter(|fault| fault.kind == "wipe").count() <= 1);
    }
}
