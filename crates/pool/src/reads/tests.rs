use std::ops::Range;

use proptest::prelude::*;

use super::fit::{Sample, fit};
use super::{Combine, Cover, DeviceModel};

/// The best that any choice of gaps can do, by trying all of them.
fn best_by_force(wanted: &[Range<u64>], model: &DeviceModel) -> f64 {
    let gaps = wanted.len() - 1;
    let bytes: u64 = wanted.iter().map(|range| range.end - range.start).sum();
    let choices = (0..1u32 << gaps).map(|choice| {
        let through: u64 = (0..gaps)
            .filter(|gap| choice >> gap & 1 == 1)
            .map(|gap| wanted[gap + 1].start - wanted[gap].end)
            .sum();
        model.seconds((wanted.len() as u32 - choice.count_ones()).into(), bytes + through)
    });
    choices.fold(f64::INFINITY, f64::min)
}

/// Runs with gaps between them from lengths.
fn runs(lengths: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut ranges = Vec::new();
    for &(gap, len) in lengths {
        ranges.push(at + gap..at + gap + len);
        at += gap + len;
    }
    ranges
}

fn combine() -> impl Strategy<Value = Combine> {
    prop_oneof![Just(Combine::Sum), Just(Combine::Larger)]
}

proptest! {
    #[test]
    fn no_choice_of_gaps_is_cheaper(
        lengths in prop::collection::vec((1u64..40, 1u64..40), 1..11),
        read in 0.0..60.0f64,
        start in 0.0..9.0f64,
        combine in combine(),
    ) {
        let wanted = runs(&lengths);
        let model = DeviceModel { start_seconds: start, ..DeviceModel::new(read, 1.0, combine) };
        let cover = Cover::best(&wanted, 1, &model);
        let force = best_by_force(&wanted, &model);
        prop_assert!((cover.seconds - force).abs() < 1e-9, "{} against {force}", cover.seconds);
        // What it says of itself is so.
        let bytes: u64 = cover.reads.iter().map(|read| read.end - read.start).sum();
        prop_assert_eq!(bytes, cover.bytes);
        prop_assert!((model.seconds(cover.reads.len() as u64, bytes) - cover.seconds).abs() < 1e-9);
        // Every run lies within one read.
        for run in &wanted {
            let holds = |read: &&Range<u64>| read.start <= run.start && run.end <= read.end;
            prop_assert_eq!(cover.reads.iter().filter(holds).count(), 1);
        }
        // Never worse than run by run, nor than reading it all.
        let whole = wanted[wanted.len() - 1].end - wanted[0].start;
        prop_assert!(cover.seconds <= cover.seconds_as_runs);
        prop_assert!(cover.seconds <= model.seconds(1, whole) + 1e-9);
    }

    #[test]
    fn aligned_reads_hold_all_runs(
        lengths in prop::collection::vec((0u64..3000, 0u64..3000), 0..40),
        read in 0.0..4000.0f64,
        combine in combine(),
    ) {
        let wanted = runs(&lengths);
        let cover = Cover::best(&wanted, 512, &DeviceModel::new(read, 1.0, combine));
        for read in &cover.reads {
            prop_assert!(read.start % 512 == 0 && read.end % 512 == 0 && read.start < read.end);
        }
        prop_assert!(cover.reads.windows(2).all(|pair| pair[0].end < pair[1].start));
        for run in wanted.iter().filter(|run| !run.is_empty()) {
            let holds = |read: &&Range<u64>| read.start <= run.start && run.end <= read.end;
            prop_assert_eq!(cover.reads.iter().filter(holds).count(), 1);
        }
    }

    #[test]
    fn a_model_is_found_again(
        read in 1e-6..1e-2f64,
        bandwidth in 5e7..5e9f64,
        lone in 1.0..30.0f64,
        combine in combine(),
    ) {
        let truth = DeviceModel::new(read, 1.0 / bandwidth, combine);
        let mut samples = Vec::new();
        for bytes in [4096, 16384, 65536, 262_144, 1 << 20, 4 << 20, 16 << 20] {
            for (depth, slower) in [(1, lone), (4, lone.sqrt()), (16, 1.0), (64, 1.0)] {
                let seconds_each = slower * truth.seconds(1, bytes);
                samples.push(Sample { bytes, depth, seconds_each });
            }
        }
        let found = fit(&samples, 512).unwrap();
        // Where one of both costs hardly shows in any sample it cannot be found; the times can.
        for bytes in [4096, 65536, 1 << 20, 16 << 20] {
            let ratio = combine.of(found.read_seconds, bytes as f64 * found.byte_seconds)
                / truth.seconds(1, bytes);
            prop_assert!((0.7..1.4).contains(&ratio), "{ratio} at {bytes}: {found:?}");
        }
        prop_assert!((found.parallelism / lone - 1.0).abs() < 1e-6);
        prop_assert!(found.check().is_ok());
    }
}

#[test]
fn which_kind_of_device_it_is_shows_in_the_samples() {
    for combine in [Combine::Sum, Combine::Larger] {
        let truth = DeviceModel::new(1.0 / 150.0, 1.0 / 150e6, combine);
        let sizes = [4096u64, 65536, 1 << 20, 2 << 20, 16 << 20];
        let sample = |bytes| Sample { bytes, depth: 1, seconds_each: truth.seconds(1, bytes) };
        let found = fit(&sizes.map(sample), 512).unwrap();
        assert_eq!(found.combine, combine);
        assert!((found.gap_bytes() as f64 / 1e6 - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.worst_fit < 1e-6);
    }
    assert_eq!(fit(&[], 512), None);
    let twice = [
        Sample { bytes: 4096, depth: 1, seconds_each: 1.0 },
        Sample { bytes: 4096, depth: 4, seconds_each: 1.0 },
    ];
    assert_eq!(fit(&twice, 512), None);
    let nonsense = [4096, 8192].map(|bytes| Sample { bytes, depth: 1, seconds_each: 0.0 });
    assert_eq!(fit(&nonsense, 512), None);
}

#[test]
fn models_that_are_no_models_are_refused() {
    let good = DeviceModel::new(1e-3, 1e-9, Combine::Sum);
    assert!(good.check().is_ok());
    let cases = [
        DeviceModel { version: 2, ..good.clone() },
        DeviceModel { read_seconds: -1.0, ..good.clone() },
        DeviceModel { byte_seconds: 0.0, ..good.clone() },
        DeviceModel { byte_seconds: f64::NAN, ..good.clone() },
        DeviceModel { start_seconds: f64::INFINITY, ..good },
    ];
    for case in cases {
        assert!(case.check().is_err(), "{case:?}");
    }
}
