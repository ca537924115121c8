//! The same pool, event by event, with rare losses reached by splitting.
//!
//! The *level* of a moment is the number of chunks that the worst stripe has lost. A loss of data
//! is reached level by level: each stage begins many trials at states in which the level has just
//! risen and ends each when the level falls again. Every further rise in between is counted, and
//! its state kept for the next stage. The rate of rises to a level is the rate of rises to the one
//! below times the mean number of further rises in a trial, which is large enough to be counted.
//! At the last level the next loss is not waited for: each trial adds the chance of one in every
//! step that it plays.

mod groups;
mod spread;

use crate::{DurabilityError, HOURS_A_YEAR, Placement, PoolModel, error::within};
use fastrand::Rng;

/// The most chunks that a simulation places.
const CHUNKS_MAX: f64 = 1e8;
/// States kept at each stage.
const KEPT: usize = 4096;

/// Effort of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Effort {
    /// A stage ends after so many rises of the level.
    pub rises: u64,
    /// A stage ends after so many trials in any case.
    pub trials: u64,
    /// The same seed gives the same result.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { rises: 1000, trials: 2_000_000, seed: 1 }
    }
}

/// Result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The chance that a year loses data.
    pub loss_a_year: f64,
    /// Its standard error, as a part of it.
    pub relative_error: f64,
    /// By level from 1: how often a year brings some stripe to so many lost chunks.
    pub rises_a_year: Vec<f64>,
    /// By stage: trials, and rises seen in them.
    pub stages: Vec<(u64, u64)>,
}

impl Estimate {
    /// Returns the nines of a year without loss of data.
    pub fn nines_a_year(&self) -> f64 {
        -self.loss_a_year.log10()
    }
}

/// A pool at one moment.
trait State: Clone + Default {
    /// The fixed part: where stripes are.
    type Homes;

    /// Places the stripes.
    fn place(pool: &PoolModel, rng: &mut Rng) -> Self::Homes;

    /// Plays the next event.
    fn step(&mut self, pool: &PoolModel, homes: &Self::Homes, rng: &mut Rng) -> Risk;

    /// Returns the chunks that the worst stripe has lost.
    fn level(&self) -> usize;

    /// Returns the nodes whose failure would be a loss: those that the stripes need which have lost
    /// the most that is survived; their mean number, since two stripes may need the same.
    fn critical(&self, pool: &PoolModel) -> f64;

    /// Returns the hours since the beginning.
    fn now(&self) -> f64;
}

/// Returns the hours until one of so many nodes fails.
fn until_failure(pool: &PoolModel, alive: usize, rng: &mut Rng) -> f64 {
    let rate = pool.failures_per_year / HOURS_A_YEAR * alive as f64;
    -(1.0 - rng.f64()).ln() / rate
}

/// A failure's chance to lose data at once: certain, or a small one that is added up instead of
/// drawn, since it would seldom be drawn at all.
#[derive(Clone, Copy)]
enum Risk {
    Certain,
    Chance(f64),
}

/// Looks at a stripe that has lost `before` chunks and loses one more.
fn risk(pool: &PoolModel, before: usize, rng: &mut Rng) -> Risk {
    let survives = pool.tolerance.next(before);
    if survives < 0.99 && rng.f64() >= survives {
        return Risk::Certain;
    }
    let mut fine = if survives < 0.99 { 1.0 } else { survives };
    if before + 1 == pool.tolerance.most() {
        let read = (pool.tolerance.chunks() - before - 1) as f64;
        fine *= (read * (-pool.bad_chunks).ln_1p()).exp();
    }
    Risk::Chance(1.0 - fine)
}

/// Simulates a pool: failures at exponential times, detection and repair in fixed ones, and, where
/// stripes are spread, those that lost most repaired first.
/// Errors: the pool is none ([`PoolModel::check`]), it has more than 100 million chunks, or a stage
/// saw no rise in all its trials.
pub fn simulate(pool: &PoolModel, effort: &Effort) -> Result<Estimate, DurabilityError> {
    pool.check()?;
    let Placement::Spread { stripes } = pool.placement else {
        return split::<groups::Pool>(pool, effort);
    };
    let expected = "a simulation places at most 1e8; fewer placement groups stand for more stripes";
    let chunks = stripes as f64 * pool.tolerance.chunks() as f64;
    within("chunks of all stripes", chunks, 0.0..=CHUNKS_MAX, expected)?;
    split::<spread::Pool>(pool, effort)
}

/// One stage: trials that begin at a level and end below it.
struct Stage<S> {
    trials: u64,
    /// Rises of the level, and losses that were certain.
    rises: u64,
    lost: u64,
    /// Losses, with chances added up.
    losses: f64,
    /// Sums over trials of what is counted, and of its squares: rises and certain losses, or at the
    /// last level the chances of a loss.
    counted: (f64, f64),
    hours: f64,
    kept: Vec<S>,
}

impl<S: State> Stage<S> {
    fn run(
        pool: &PoolModel,
        homes: &S::Homes,
        (from, level): (&[S], usize),
        effort: &Effort,
        rng: &mut Rng,
    ) -> Stage<S> {
        let mut stage = Stage {
            trials: 0,
            rises: 0,
            lost: 0,
            losses: 0.0,
            counted: (0.0, 0.0),
            hours: 0.0,
            kept: Vec::new(),
        };
        // Losses of pools that survive one lost chunk are frequent enough to be drawn.
        let last = level == pool.tolerance.most() && level > 1;
        let rate = pool.failures_per_year / HOURS_A_YEAR;
        // Each trial of the last level counts, so that fewer are enough there.
        let enough = |stage: &Stage<S>| match last {
            true => stage.trials >= effort.rises.saturating_mul(10),
            false => stage.rises + stage.lost >= effort.rises.max(1),
        };
        while stage.trials < effort.trials.max(1) && !enough(&stage) {
            let mut state = from[rng.usize(..from.len())].clone();
            let (begun, before) = (state.now(), stage.rises + stage.lost);
            let mut chance = 0.0;
            while state.level() >= level {
                let (at, since, critical) = (state.level(), state.now(), state.critical(pool));
                let risk = state.step(pool, homes, rng);
                if last {
                    chance += rate * critical * (state.now() - since);
                }
                // Losses from higher levels are counted by their stages.
                match risk {
                    Risk::Certain => {
                        stage.lost += u64::from(at == level);
                        stage.losses += f64::from(u8::from(at == level && !last));
                        break;
                    }
                    Risk::Chance(chance) if at == level => stage.losses += chance,
                    Risk::Chance(_) => {}
                }
                if at == level && state.level() > level {
                    stage.rises += 1;
                    stage.keep(&state, rng);
                }
            }
            stage.trials += 1;
            stage.hours += state.now() - begun;
            stage.losses += chance;
            let seen = if last { chance } else { (stage.rises + stage.lost - before) as f64 };
            stage.counted = (stage.counted.0 + seen, stage.counted.1 + seen * seen);
        }
        stage
    }

    /// Keeps a state, of all rises each with the same chance.
    fn keep(&mut self, state: &S, rng: &mut Rng) {
        if self.kept.len() < KEPT {
            return self.kept.push(state.clone());
        }
        if let Some(slot) = self.kept.get_mut(rng.u64(..self.rises) as usize) {
            *slot = state.clone();
        }
    }
}

fn split<S: State>(pool: &PoolModel, effort: &Effort) -> Result<Estimate, DurabilityError> {
    let rng = &mut Rng::with_seed(effort.seed);
    let homes = S::place(pool, rng);
    let (mut losses_a_year, mut variance) = (0.0, 0.0);
    let (mut rises_a_year, mut stages) = (Vec::new(), Vec::new());
    // States after a first failure; a node that holds nothing is no failure.
    let mut kept = Vec::new();
    while kept.len() < KEPT {
        let mut state = S::default();
        while state.level() == 0 {
            if matches!(state.step(pool, &homes, rng), Risk::Certain) {
                let year = pool.failures_per_year * pool.nodes as f64;
                return Ok(Estimate {
                    loss_a_year: -(-year).exp_m1(),
                    relative_error: 0.0,
                    rises_a_year,
                    stages,
                });
            }
        }
        kept.push(state);
    }
    let idle: f64 = kept.iter().map(S::now).sum::<f64>() / kept.len() as f64;
    let mut rate = 0.0;
    for level in 1..=pool.tolerance.most() {
        let stage = Stage::run(pool, &homes, (&kept, level), effort, rng);
        let trials = stage.trials as f64;
        stages.push((stage.trials, stage.rises + stage.lost));
        if stage.counted.0 == 0.0 {
            return Err(DurabilityError::NotReached { lost: level + 1, trials: stage.trials });
        }
        if level == 1 {
            rate = HOURS_A_YEAR / (idle + stage.hours / trials);
        }
        rises_a_year.push(rate);
        losses_a_year += rate * stage.losses / trials;
        let mean = stage.counted.0 / trials;
        variance += (stage.counted.1 / trials - mean * mean).max(0.0) / trials / mean / mean;
        rate *= stage.rises as f64 / trials;
        kept = stage.kept;
        if kept.is_empty() {
            break;
        }
    }
    Ok(Estimate {
        loss_a_year: -(-losses_a_year).exp_m1(),
        relative_error: variance.sqrt(),
        rises_a_year,
        stages,
    })
}

#[cfg(test)]
mod tests;
