mod cautious;

use super::fit::{Sample, fit};
use super::{Combine, DeviceModel, ReadPlan};
use proptest::prelude::*;
use std::ops::Range;

/// The best that any choice of gaps can do, by trying all of them.
fn best_by_force(wanted: &[Range<u64>], model: &DeviceModel) -> f64 {
    let choices = (0..1u32 << (wanted.len() - 1)).map(|choice| {
        let reads = super::joins::merged(wanted, |at| choice >> (at - 1) & 1 == 1);
        model.seconds_of(&reads)
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
        // From much shorter than most runs to longer than everything.
        piece_bytes in prop::option::of(3u64..600),
    ) {
        let wanted = runs(&lengths);
        let plain = DeviceModel::new(read, 1.0, combine);
        let model = DeviceModel { start_seconds: start, piece_bytes, ..plain };
        let read_plan = ReadPlan::best(&wanted, 1, &model);
        let force = best_by_force(&wanted, &model);
        // Only where reads are cut and the larger cost counts is it not the best of all: then it
        // is one of the best trades of reads against bytes, and better than all simple ways.
        let exact = combine == Combine::Sum || piece_bytes.is_none();
        prop_assert!(read_plan.seconds > force - 1e-9, "{} against {force}", read_plan.seconds);
        let loss = read_plan.seconds / force;
        prop_assert!(loss < if exact { 1.0 + 1e-9 } else { 1.5 }, "{loss} times {force}");
        // What it says of itself is so.
        let bytes: u64 = read_plan.reads.iter().map(|read| read.end - read.start).sum();
        prop_assert_eq!(bytes, read_plan.bytes);
        prop_assert_eq!(model.seconds_of(&read_plan.reads), read_plan.seconds);
        prop_assert_eq!(model.seconds(read_plan.operations, bytes), read_plan.seconds);
        // Every run lies within one read.
        for run in &wanted {
            let holds = |read: &&Range<u64>| read.start <= run.start && run.end <= read.end;
            prop_assert_eq!(read_plan.reads.iter().filter(holds).count(), 1);
        }
        // Never worse than run by run, nor than reading it all.
        let whole = wanted[0].start..wanted[wanted.len() - 1].end;
        prop_assert!(read_plan.seconds <= read_plan.seconds_as_runs);
        prop_assert!(read_plan.seconds <= model.seconds_of(&[whole]) + 1e-9);
    }

    #[test]
    fn aligned_reads_hold_all_runs(
        lengths in prop::collection::vec((0u64..3000, 0u64..3000), 0..40),
        read in 0.0..4000.0f64,
        combine in combine(),
    ) {
        let wanted = runs(&lengths);
        let read_plan = ReadPlan::best(&wanted, 512, &DeviceModel::new(read, 1.0, combine));
        for read in &read_plan.reads {
            prop_assert!(read.start % 512 == 0 && read.end % 512 == 0 && read.start < read.end);
        }
        prop_assert!(read_plan.reads.windows(2).all(|pair| pair[0].end < pair[1].start));
        for run in wanted.iter().filter(|run| !run.is_empty()) {
            let holds = |read: &&Range<u64>| read.start <= run.start && run.end <= read.end;
            prop_assert_eq!(read_plan.reads.iter().filter(holds).count(), 1);
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
                samples.push(Sample::new(bytes, depth, seconds_each));
            }
        }
        let found = fit(&samples, 512, &[]).unwrap();
        prop_assert_eq!((found.piece_bytes, found.version), (None, 1));
        // Where one of both costs hardly shows in any sample it cannot be found; the times can.
        for bytes in [4096, 65536, 1 << 20, 16 << 20] {
            let ratio = combine.of(found.read_seconds, bytes as f64 * found.byte_seconds)
                / truth.seconds(1, bytes);
            prop_assert!((0.7..1.4).contains(&ratio), "{ratio} at {bytes}: {found:?}");
        }
        // Depths that are nearly as fast count as equal.
        let gain = found.parallelism / lone;
        prop_assert!((0.79..1.000_001).contains(&gain), "{gain}");
        prop_assert!(found.check().is_ok());
    }
}

#[test]
fn reads_that_are_cut_show_in_the_samples() {
    const KIB: u64 = 1 << 10;
    let sizes = [4, 16, 64, 256, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096].map(|n| n * KIB);
    // 300 requests and 300 MiB a second; a volume of 150; a disk that pays for every request.
    let devices = [
        (1.0 / 300.0, 1.0 / (300.0 * 1048576.0), Combine::Larger, 1280 * KIB),
        (1.0 / 150.0, 1.0 / 1e9, Combine::Larger, 512 * KIB),
        (8e-3, 1.0 / 150e6, Combine::Sum, 512 * KIB),
        (8e-3, 1.0 / 150e6, Combine::Sum, 640 * KIB),
    ];
    for (read, byte, combine, piece) in devices {
        let plain = DeviceModel::new(read, byte, combine);
        let truth = DeviceModel { piece_bytes: Some(piece), version: 2, ..plain };
        let sample = |bytes| {
            let seconds_each = truth.seconds(truth.operations(bytes), bytes);
            // Up to 3% of noise, the same every time.
            let noise = 1.0 + 0.03 * ((bytes / KIB * 7 % 5) as f64 / 2.0 - 1.0);
            Sample::new(bytes, 4, seconds_each * noise)
        };
        let found = fit(&sizes.map(sample), 512, &[640 * KIB]).unwrap();
        assert_eq!((found.piece_bytes, found.combine), (Some(piece), combine), "{found:?}");
        assert!((found.read_seconds / read - 1.0).abs() < 0.1, "{found:?}");
        assert!(found.worst_fit < 0.1 && found.check().is_ok(), "{found:?}");
    }
}

#[test]
fn records_of_the_first_version_are_still_read() {
    let text = r#"{"version":1,"read_seconds":0.008,"byte_seconds":1e-8,"start_seconds":0.0,
        "combine":"sum","parallelism":1.0,"depth":1,"alignment":512,"worst_fit":0.0}"#;
    let old: DeviceModel = serde_json::from_str(text).unwrap();
    assert!(old.check().is_ok() && old.piece_bytes.is_none());
    let written = serde_json::to_string(&old).unwrap();
    // What knows nothing of pieces reads what has none.
    assert!(!written.contains("piece_bytes") && written.contains("\"version\":1"));
    let new = DeviceModel { version: 2, piece_bytes: Some(1 << 20), ..old };
    let again: DeviceModel = serde_json::from_str(&serde_json::to_string(&new).unwrap()).unwrap();
    assert_eq!(again, new);
}

#[test]
fn which_kind_of_device_it_is_shows_in_the_samples() {
    for combine in [Combine::Sum, Combine::Larger] {
        let truth = DeviceModel::new(1.0 / 150.0, 1.0 / 150e6, combine);
        let sizes = [4096u64, 65536, 1 << 20, 2 << 20, 16 << 20];
        let sample = |bytes| Sample::new(bytes, 1, truth.seconds(1, bytes));
        let found = fit(&sizes.map(sample), 512, &[]).unwrap();
        assert_eq!(found.combine, combine);
        assert!((found.gap_bytes() as f64 / 1e6 - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.worst_fit < 1e-6);
    }
    assert_eq!(fit(&[], 512, &[]), None);
    let twice = [Sample::new(4096, 1, 1.0), Sample::new(4096, 4, 1.0)];
    assert_eq!(fit(&twice, 512, &[]), None);
    let nonsense = [4096, 8192].map(|bytes| Sample::new(bytes, 1, 0.0));
    assert_eq!(fit(&nonsense, 512, &[]), None);
}

#[test]
fn models_that_are_no_models_are_refused() {
    let good = DeviceModel::new(1e-3, 1e-9, Combine::Sum);
    assert!(good.check().is_ok());
    let cases = [
        DeviceModel { version: 3, ..good.clone() },
        DeviceModel { piece_bytes: Some(0), ..good.clone() },
        DeviceModel { read_seconds: -1.0, ..good.clone() },
        DeviceModel { byte_seconds: 0.0, ..good.clone() },
        DeviceModel { byte_seconds: f64::NAN, ..good.clone() },
        DeviceModel { start_seconds: f64::INFINITY, ..good },
    ];
    for case in cases {
        assert!(case.check().is_err(), "{case:?}");
    }
}
