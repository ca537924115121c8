//! Interleaved repetitions and what is left of them: medians with spread.

use crate::BenchError;
use core_affinity::CoreId;
use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize, Serializer};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Which clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Time as it passes.
    Wall,
    /// Time this process had the core; on an idle machine both clocks agree.
    Cpu,
}

/// What both clocks say of one pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Time as it passed.
    pub wall: f64,
    /// Time on a core, all threads of the process.
    pub cpu: f64,
}

impl Seconds {
    /// What one clock says.
    pub fn by(&self, clock: Clock) -> f64 {
        match clock {
            Clock::Wall => self.wall,
            Clock::Cpu => self.cpu,
        }
    }
}

/// A pair of running clocks.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: ProcessTime,
}

impl Stopwatch {
    /// Starts both clocks.
    pub fn start() -> Stopwatch {
        Stopwatch { cpu: ProcessTime::now(), wall: Instant::now() }
    }

    /// Reads both clocks.
    pub fn read(&self) -> Seconds {
        let wall = self.wall.elapsed().as_secs_f64();
        Seconds { wall, cpu: self.cpu.elapsed().as_secs_f64() }
    }
}

/// How much time is spent on a cell.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// A pass of one engine repeats its work until it takes about this long.
    pub pass: Duration,
    /// Rounds at least, however slow an engine is.
    pub rounds_min: usize,
    /// Rounds at most.
    pub rounds_max: usize,
    /// After this time no round begins, once `rounds_min` are done.
    pub budget: Duration,
    /// The clock of the results.
    pub clock: Clock,
}

/// Order statistics of the rates of one engine, GB/s: the median is the number to quote.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Spread {
    /// Slowest pass.
    pub min: f64,
    /// A quarter of the passes were slower.
    pub p25: f64,
    /// The middle.
    pub median: f64,
    /// A quarter of the passes were faster.
    pub p75: f64,
    /// Fastest pass.
    pub max: f64,
}

impl Spread {
    /// Order statistics of `samples`; all zero if there are none.
    pub fn of(samples: &[f64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            let index = sorted.len().saturating_sub(1) * quarter;
            let (low, rest) = (index / 4, (index % 4) as f64 / 4.0);
            let sample = |i: usize| sorted.get(i).or(sorted.last()).copied().unwrap_or(0.0);
            sample(low) * (1.0 - rest) + sample(low + 1) * rest
        };
        Spread { min: at(0), p25: at(1), median: at(2), p75: at(3), max: at(4) }
    }
}

/// Runs `contenders` passes in turn, round by round, and returns each one's seconds for a single
/// run of its work.
///
/// `pass(i, repeats)` does contender i's work so many times and returns the seconds it took.
/// Every round begins with another contender and has another order: a pass pays for what the one
/// before it left to be written back, so nobody always follows the same neighbour.
///
/// # Errors
/// The first error of a pass.
pub fn interleave(
    contenders: usize,
    effort: &Effort,
    pass: &mut dyn FnMut(usize, u32) -> Result<Seconds, BenchError>,
) -> Result<Vec<Vec<f64>>, BenchError> {
    let mut repeats = Vec::with_capacity(contenders);
    for i in 0..contenders {
        // Fills caches and lazy tables; code may be made after some work: the fastest pass counts.
        let (mut all, mut least) = (0.0, pass(i, 1)?.by(effort.clock).max(1e-9));
        for _ in 0..WARM_UP {
            let seconds = pass(i, 1)?.by(effort.clock).max(1e-9);
            (all, least) = (all + seconds, seconds.min(least));
            if all >= effort.pass.as_secs_f64() {
                break;
            }
        }
        let wanted = (effort.pass.as_secs_f64() / least).ceil();
        repeats.push(wanted.clamp(1.0, 1e6) as u32);
    }
    let prime = |&step: &usize| {
        (2..=step).all(|d| !step.is_multiple_of(d) || !contenders.is_multiple_of(d))
    };
    let steps: Vec<usize> = (1..=contenders.max(1)).filter(prime).collect();
    let mut samples = vec![Vec::new(); contenders];
    let begin = Instant::now();
    for round in 0..effort.rounds_max {
        if round >= effort.rounds_min && begin.elapsed() > effort.budget {
            break;
        }
        let step = steps[round % steps.len()];
        for turn in 0..contenders {
            let i = (turn * step + round) % contenders;
            let seconds = pass(i, repeats[i])?.by(effort.clock).max(1e-9);
            samples[i].push(seconds / f64::from(repeats[i]));
        }
    }
    Ok(samples)
}

/// Passes before the first round, at most.
const WARM_UP: usize = 64;

/// Seconds of rounds as reports have them: five digits are more than any clock is good for.
///
/// # Errors
/// Those of the serializer.
pub fn samples<S: Serializer>(seconds: &[f64], to: S) -> Result<S::Ok, S::Error> {
    let short = |s: &f64| format!("{s:.4e}").parse::<f64>().unwrap_or(*s);
    to.collect_seq(seconds.iter().map(short))
}

/// The median over rounds of `ours / theirs` where both are seconds for the same work: how many
/// times faster `theirs` is. Noise that lasts longer than a round falls on both.
pub fn paired_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    Spread::of(&ratios).median
}

/// The cores this process may use: asked once, since a pinned thread sees only its own.
fn allowed() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}

/// Pins this thread to one core; returns it, or `None` where the system does not allow it.
pub fn pin(core: usize) -> Option<usize> {
    let cores = allowed();
    let chosen = *cores.get(core % cores.len().max(1))?;
    core_affinity::set_for_current(chosen).then_some(chosen.id)
}

/// Number of cores this process may use.
pub fn cores() -> usize {
    allowed().len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!([spread.min, spread.p25, spread.median], [1.0, 2.0, 3.0]);
        assert_eq!([spread.p75, spread.max], [4.0, 5.0]);
        assert_eq!(Spread::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of(&[]).median, 0.0);
    }

    #[test]
    fn contenders_take_turns_and_repeat_enough() -> Result<(), BenchError> {
        let effort = Effort {
            pass: Duration::from_millis(10),
            rounds_min: 2,
            rounds_max: 3,
            budget: Duration::from_secs(9),
            clock: Clock::Cpu,
        };
        let mut log = Vec::new();
        let samples = interleave(2, &effort, &mut |i, repeats| {
            log.push((i, repeats));
            Ok(Seconds { wall: 99.0, cpu: f64::from(repeats) * [0.001, 0.02][i] })
        })?;
        let (warm, rounds) = log.split_at(13);
        assert_eq!(warm[..11], [(0, 1); 11], "10 ms of passes after the first one");
        assert_eq!(warm[11..], [(1, 1); 2]);
        assert_eq!(rounds, [(0, 10), (1, 1), (1, 1), (0, 10), (0, 10), (1, 1)]);
        assert!((paired_ratio(&samples[1], &samples[0]) - 20.0).abs() < 1e-9);
        Ok(())
    }
}
