//! Probes that are wrong, and what the planner makes of them.

use std::{ops::Range, sync::Mutex};

use crate::{BatchRead, ReadAt, Result};
use proptest::prelude::*;
use proptest::{strategy::ValueTree, test_runner::TestRunner};

use super::runs;
use crate::device::fit::{Sample, fit};
use crate::device::{DeviceModel, ReadPlan, Uncertainty};
use crate::{device::measure::measure, random::SplitMix64};

const KIB: u64 = 1 << 10;
const SIZES: [u64; 12] = [4, 16, 64, 256, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096];

/// A device as it really is: costs of reads and bytes go together in some way between adding up
/// and the larger one alone, which no model says just so.
#[derive(Clone, Debug)]
struct Truth {
    read: f64,
    byte: f64,
    /// 1: they add up; the larger it is, the more the larger one alone counts.
    norm: f64,
    piece: Option<u64>,
}

impl Truth {
    fn seconds(&self, reads: &[Range<u64>]) -> f64 {
        let length = |read: &Range<u64>| read.end - read.start;
        let pieces = |read| self.piece.map_or(1, |piece| length(read).div_ceil(piece));
        let operations: u64 = reads.iter().map(pieces).sum();
        let bytes: u64 = reads.iter().map(length).sum();
        let (reads, bytes) = (operations as f64 * self.read, bytes as f64 * self.byte);
        let (less, more) = (reads.min(bytes), reads.max(bytes));
        more * (1.0 + (less / more).powf(self.norm)).powf(1.0 / self.norm)
    }

    /// Planned reads against the faster simple way, in truth.
    fn loss(&self, read_plan: &ReadPlan, wanted: &[Range<u64>]) -> f64 {
        let whole = wanted[0].start..wanted[wanted.len() - 1].end;
        let whole = self.seconds(std::slice::from_ref(&whole));
        let simple = self.seconds(wanted).min(whole);
        self.seconds(&read_plan.reads) / simple
    }
}

fn truth() -> impl Strategy<Value = Truth> {
    let norm = prop_oneof![Just(1.0), Just(60.0), 1.0..8.0f64];
    let piece = prop_oneof![Just(None), Just(Some(448 * KIB)), Just(Some(1280 * KIB))];
    let gap = (12.0..21.0f64).prop_map(f64::exp2);
    (gap, 7.5..9.5f64, norm, piece).prop_map(|(gap, rate, norm, piece)| {
        let byte = 10f64.powf(-rate);
        Truth { read: gap * byte, byte, norm, piece }
    })
}

/// Runs of a Clay-like repair: of 4 KiB or more, and as wide apart or some times as wide.
fn wanted() -> impl Strategy<Value = Vec<Range<u64>>> {
    let even = (2usize..200, 1u64..64, 1u64..6)
        .prop_map(|(count, pages, apart)| vec![(pages * apart * 4 * KIB, pages * 4 * KIB); count]);
    let any = prop::collection::vec((1u64..400, 1u64..100), 2..120)
        .prop_map(|all| all.iter().map(|&(gap, len)| (gap * 4 * KIB, len * 4 * KIB)).collect());
    prop_oneof![even, any].prop_map(|lengths: Vec<(u64, u64)>| runs(&lengths))
}

/// Returns a probe of it, each size off by up to `noise`.
fn probed(truth: &Truth, noise: f64, seed: u64) -> DeviceModel {
    let mut random = SplitMix64(seed);
    let mut sample = |kib: u64| {
        let off = (random.next() % 2001) as f64 / 1000.0 - 1.0;
        let seconds = truth.seconds(std::slice::from_ref(&(0..kib * KIB))) * (1.0 + noise * off);
        Sample { spread: noise / 2.0, ..Sample::new(kib * KIB, 4, seconds) }
    };
    let samples: Vec<Sample> = SIZES.iter().map(|&kib| sample(kib)).collect();
    fit(&samples, 4096, &[448 * KIB]).unwrap()
}

proptest! {
    /// Where the truth is one of the models that the probe allows, the risk that is stated is one.
    #[test]
    fn the_risk_that_is_stated_is_kept(
        truth in truth(),
        wanted in wanted(),
        noise in 0.0..0.5f64,
        seed in any::<u64>(),
    ) {
        let model = probed(&truth, noise, seed);
        prop_assert!(model.check().is_ok(), "{model:?}");
        let read_plan = ReadPlan::best(&wanted, 4096, &model);
        let runs = ReadPlan::as_runs(&wanted, 4096, &model).reads;
        let whole = wanted[0].start..wanted[wanted.len() - 1].end;
        for model in model.plausible() {
            let whole = model.seconds_of(std::slice::from_ref(&whole));
            let simple = whole.min(model.seconds_of(&runs));
            let loss = model.seconds_of(&read_plan.reads) / simple;
            prop_assert!(loss <= read_plan.risk * (1.0 + 1e-9), "{loss} over {}", read_plan.risk);
        }
    }
}

/// No bound holds for a device of neither kind: in 60,000 cases of each noise that were tried, one
/// in a thousand was 4% slower than the faster simple way where the probe was off by up to 10%,
/// and 35% where by 40%; the worst were 24% and 81% slower. So these are the same cases each time.
#[test]
fn what_caution_gains_and_costs() {
    // In all cases of a noise: how much slower than the simple way, and how much is saved.
    let found = |noise: f64, cautious: bool| {
        let mut runner = TestRunner::deterministic();
        let mut losses: Vec<f64> = (0..400)
            .map(|seed| {
                let truth = truth().new_tree(&mut runner).unwrap().current();
                let wanted = wanted().new_tree(&mut runner).unwrap().current();
                let model = probed(&truth, noise, seed);
                let certain = DeviceModel { uncertainty: Uncertainty::default(), ..model.clone() };
                let model = if cautious { model } else { certain };
                truth.loss(&ReadPlan::best(&wanted, 4096, &model), &wanted)
            })
            .collect();
        losses.sort_by(f64::total_cmp);
        let saved = 1.0 - losses.iter().sum::<f64>() / losses.len() as f64;
        (losses[losses.len() * 98 / 100], saved, losses[losses.len() - 1])
    };
    for (noise, most) in [(0.02, 1.15), (0.1, 1.15), (0.4, 1.6)] {
        let (_, _, worst) = found(noise, true);
        assert!(worst <= most, "{worst} at {noise}");
    }
    for noise in [0.02, 0.1] {
        let ((loss, saved, _), (credulous, could, _)) = (found(noise, true), found(noise, false));
        assert!(loss <= 1.0 + 1e-9, "in 98 of 100 cases nothing is lost: {loss} at {noise}");
        assert!(credulous > 1.02, "which is not so without caution: {credulous} at {noise}");
        assert!(saved > 0.7 * could && saved > 0.02, "{saved} of {could} at {noise}");
    }
}

/// A device with a clock of its own, limited in slices or not, and now and then busy with others.
struct Simulated {
    truth: Truth,
    /// Limits are granted for so many seconds at once.
    slice: Option<f64>,
    /// While others are busy a batch takes so many times as long.
    slower: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: f64,
    /// Use of the slice that began last: reads and bytes, each in seconds.
    slice_began: f64,
    used: (f64, f64),
    busy_until: f64,
    calm_until: f64,
    random: SplitMix64,
}

impl Simulated {
    fn clock(&self) -> f64 {
        self.state.lock().unwrap().clock
    }

    /// Waits, as a throttle does, until the slice has enough left of both.
    fn grant(&self, state: &mut State, slice: f64, reads: f64, bytes: f64) {
        state.clock += 40e-6;
        if state.clock > state.slice_began + slice {
            // What was not used is not kept.
            let gone = ((state.clock - state.slice_began) / slice).floor();
            state.slice_began += gone * slice;
            state.used.0 = (state.used.0 - gone * slice).max(0.0);
            state.used.1 = (state.used.1 - gone * slice).max(0.0);
        }
        state.used.0 += reads;
        state.used.1 += bytes;
        let over = state.used.0.max(state.used.1);
        if over > slice {
            state.clock = state.clock.max(state.slice_began + (over / slice).floor() * slice);
        }
    }
}

impl ReadAt for Simulated {
    fn len(&self) -> u64 {
        1 << 30
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_batch(&mut [BatchRead::new(offset, buf)])
    }

    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let began = state.clock;
        let state = &mut *state;
        let length = |read: &BatchRead<'_>| read.buf.len() as u64;
        match self.slice {
            Some(slice) => {
                for read in reads.iter() {
                    let pieces = self.truth.piece.map_or(1, |piece| length(read).div_ceil(piece));
                    let seconds = length(read) as f64 * self.truth.byte;
                    self.grant(state, slice, pieces as f64 * self.truth.read, seconds);
                }
            }
            None => {
                let ranges: Vec<_> = reads.iter().map(|r| r.offset..r.offset + length(r)).collect();
                state.clock += self.truth.seconds(&ranges);
            }
        }
        if self.slower > 1.0 && state.clock > state.calm_until {
            // Others are busy for up to half a second, every second or so.
            let mut some = || (state.random.next() % 1000) as f64 / 1000.0;
            let (busy, calm) = (0.5 * some(), 0.4 + some());
            state.busy_until = state.clock + busy;
            state.calm_until = state.busy_until + calm;
        }
        if state.clock < state.busy_until {
            state.clock += (self.slower - 1.0) * (state.clock - began);
        }
        Ok(())
    }
}

/// Probes it for so many seconds of its clock.
fn probe(device: &Simulated, seconds: f64, seed: u64) -> DeviceModel {
    let measured = measure(device, seconds, seed, &|| device.clock(), |_| {}).unwrap();
    assert!(device.clock() < 6.0 * seconds, "{} s instead of {seconds}", device.clock());
    fit(&measured.samples, 4096, &[448 * KIB]).unwrap()
}

#[test]
fn disturbed_probes_lose_nothing() {
    let mut runner = TestRunner::deterministic();
    for case in 0..24u64 {
        let truth = truth().new_tree(&mut runner).unwrap().current();
        let sliced = case % 4 == 3;
        // A throttle is the larger of both.
        let norm = if sliced { 60.0 } else { truth.norm };
        let truth = Truth { norm, byte: truth.byte.max(2e-9), read: truth.read.max(1e-4), ..truth };
        let slower = [1.0, 1.5, 3.0][(case % 3) as usize];
        let state = Mutex::new(State { random: SplitMix64(case), ..State::default() });
        let device =
            Simulated { truth: truth.clone(), slice: sliced.then_some(0.1), slower, state };
        let model = probe(&device, 10.0, case);
        for _ in 0..20 {
            let wanted = wanted().new_tree(&mut runner).unwrap().current();
            let loss = truth.loss(&ReadPlan::best(&wanted, 4096, &model), &wanted);
            assert!(loss < 1.02, "{loss}: {truth:?}, {slower} times slower at times: {model:?}");
        }
    }
}
