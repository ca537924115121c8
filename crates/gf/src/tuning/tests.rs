use super::*;
use crate::Results;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Second and last levels, in KiB, as processors and virtual machines report them.
const MACHINES: [(usize, usize); 12] = [
    (512, 0),
    (512, 4 << 10),
    (512, 16 << 10),
    (1024, 0),
    (1024, 32 << 10),
    (1024, 96 << 10),
    (1280, 54 << 10),
    (2048, 0),
    (2048, 16 << 10),
    (2048, 105 << 10),
    (2048, 260 << 10),
    (2048, 480 << 10),
];

fn path(caches: &Caches, results: Results, working_set: usize) -> DataPath {
    let hint = caches.hint(working_set, results);
    Tuning::default().path(caches, true, hint, working_set)
}

#[test]
fn choices_on_simulated_machines_follow_owned_levels() {
    for (second, last) in MACHINES {
        let caches: Caches = format!("{second}K,{last}K").parse().unwrap();
        let owned = second * KIB;
        for results in [Results::ReadSoon, Results::Left] {
            assert_eq!(path(&caches, results, 0), DataPath::Reload);
            assert_eq!(path(&caches, results, owned / 4), DataPath::Reload, "{second} {last}");
            let much = match results {
                Results::ReadSoon => DataPath::Once,
                Results::Left => DataPath::Streamed,
            };
            // Whatever a last level claims, nothing large runs as if it were near.
            for working_set in [8 * MIB + 1, 14 * MIB, 256 * MIB, usize::MAX] {
                assert_eq!(path(&caches, results, working_set), much, "{second} {last}");
            }
        }
        assert_eq!(path(&caches, Results::Left, owned / 2 + 1), DataPath::Streamed);
        // The paths of a growing call change once, and never back.
        let paths: Vec<DataPath> = (0..40)
            .map(|step| path(&caches, Results::ReadSoon, (64 * KIB) << (step / 2)))
            .collect();
        assert!(paths.is_sorted_by_key(|path| *path as u8), "{paths:?}");
    }
}

#[test]
fn a_last_level_larger_than_the_bound_changes_nothing() {
    let at = |last: &str| format!("2M,{last}").parse::<Caches>().unwrap();
    for larger in ["33M", "96M", "260M", "480M", "4G"] {
        assert_eq!(at(larger), at("32M"));
    }
}

#[test]
fn variants_replace_rules() {
    let read = |text: &str| text.parse::<Tuning>();
    let caches: Caches = "1M,32M".parse().unwrap();
    let tuning = read("rs=nt:t0:1024,clay=out").unwrap();
    assert_eq!(tuning.single.fetch, Some(Fetch { level: Level::First, lines: 16 }));
    assert_eq!(tuning.layered.fetch, None);
    for hint in [TemporalHint::Temporal, TemporalHint::NonTemporal] {
        for working_set in [0, usize::MAX] {
            assert_eq!(tuning.path(&caches, false, hint, working_set), DataPath::Streamed);
            assert_eq!(tuning.path(&caches, true, hint, working_set), DataPath::Reload);
        }
    }
    assert_eq!(read("clay=in:t1:640").unwrap().layered.fetch.unwrap().lines, 10);
    assert_eq!(read("off").unwrap(), Tuning::default());
    for wrong in ["", "on", "rs", "rs=", "rs=fast", "rs=nt:t0", "rs=nt:t2:64", "clay=nt:t0:0"] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains(TUNE_VARIABLE) && error.contains("rs=PATH"), "{wrong}: {error}");
    }
    for wrong in ["rs=nt,", "xor=nt", "rs=nt:t0:5000", "rs=nt:t0:1:2", "off,rs=nt"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn variants_hold_within_their_scope_only() {
    let tuning: Tuning = "rs=in,clay=nt".parse().unwrap();
    let outside = Tuning::here();
    tuning.with(|| {
        assert_eq!(Tuning::here(), tuning);
        Tuning::default().with(|| assert_eq!(Tuning::here(), Tuning::default()));
        assert_eq!(Tuning::here(), tuning);
    });
    assert_eq!(Tuning::here(), outside);
}

#[test]
fn rules_of_fetching_by_maker() {
    let lines = |loaded, scratch, apart| Fetch::rule(loaded, scratch, apart);
    assert_eq!(lines(8, true, true), Fetch { level: Level::First, lines: 6 });
    assert_eq!(lines(9, true, true), Fetch { level: Level::Second, lines: 10 });
    assert_eq!(lines(9, false, false), Fetch { level: Level::First, lines: 6 });
    assert_eq!(lines(9, true, false), Fetch { level: Level::First, lines: 4 });
    assert_eq!([true, false].map(Fetch::product_rule).map(|fetch| fetch.lines), [4, 16]);
}

#[test]
fn descriptions_name_sizes_and_reasons() {
    let [caches, single, layered] = described();
    assert!(caches.1.contains("second level"), "{caches:?}");
    for (_, text) in [single, layered] {
        assert!(text.contains("ahead into the") && text.contains('('), "{text}");
    }
}
