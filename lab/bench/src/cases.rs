//! The cases: what can be measured by name.

pub mod core;
pub mod quick;

use crate::BenchError;
use crate::measure::{Clock, Effort};
use crate::report::Report;
use crate::setup::Setup;
use std::time::Duration;

/// One row of [`CASES`].
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Time per cell.
    pub effort: Effort,
    /// Measures and adds to the report.
    pub run: fn(&Setup, &mut Report) -> Result<(), BenchError>,
}

/// All cases.
pub static CASES: &[Case] = &[
    Case {
        name: "core",
        about: "all codes x footprints x operations x engines, one core; then two threads",
        effort: Effort {
            pass: Duration::from_millis(4),
            rounds_min: 7,
            rounds_max: 31,
            budget: Duration::from_millis(2500),
            clock: Clock::Wall,
        },
        run: core::run,
    },
    Case {
        name: "quick",
        about: "the headline ratios, worst of each row, in about a minute",
        effort: Effort {
            pass: Duration::from_millis(2),
            rounds_min: 7,
            rounds_max: 25,
            budget: Duration::from_millis(1000),
            clock: Clock::Wall,
        },
        run: quick::run,
    },
];

/// A case by name, beside benches with reports of their own, which are looked for elsewhere.
///
/// # Errors
/// There is none; the error lists what there is.
pub fn case(
    name: &str,
    benches: impl Iterator<Item = &'static str>,
) -> Result<&'static Case, BenchError> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).chain(benches).collect();
        BenchError::UnknownCase { name: name.to_string(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Parts;
    use crate::peers::Engines;

    fn tiny(only: &str, parts: Parts) -> Setup {
        let (pass, budget) = (Duration::ZERO, Duration::ZERO);
        let effort = Effort { pass, rounds_min: 1, rounds_max: 1, budget, clock: Clock::Wall };
        let (engines, only) = (Engines::alone(), only.to_string());
        Setup { engines, huge_pages: false, effort, only, tiny: true, parts }
    }

    /// Benches rot where nobody runs them: every case does all its cells, on tiny buffers.
    #[test]
    fn every_case_runs() -> Result<(), BenchError> {
        for case in CASES {
            let setup = tiny("", Parts::default());
            let mut report = Report::new(case.name, &setup, None);
            (case.run)(&setup, &mut report)?;
            assert!(!report.cells.is_empty() && !report.threads.is_empty(), "{}", case.name);
            for cell in &report.cells {
                assert!(cell.left_out.is_empty(), "{cell:?}");
                assert!(cell.rates.iter().all(|rate| rate.rate.median > 0.0), "{cell:?}");
            }
            let json = report.json().unwrap();
            assert!(json.contains("\"median\"") && json.contains("\"rs 10+4\""), "{json}");
            assert!(crate::page::drawn(case.name, &report).contains(".svg"));
        }
        let error = case("nonsense", ["mix"].into_iter()).err();
        assert!(error.is_some_and(|error| error.to_string().contains("core, quick, mix")));
        Ok(())
    }

    #[test]
    fn a_matrix_goes_on_where_it_was_interrupted() -> Result<(), BenchError> {
        let out = tempfile::tempdir()
            .map_err(|source| BenchError::Report { path: "a folder".into(), source })?;
        let run = || -> Result<Report, BenchError> {
            let setup = tiny("clay 4+2 repair", Parts::new(Some(out.path()), "core", "test"));
            let mut report = Report::new("core", &setup, None);
            core::run(&setup, &mut report)?;
            Ok(report)
        };
        let (first, again) = (run()?, run()?);
        assert_eq!(first.cells.len(), 2);
        for (first, again) in first.cells.iter().zip(&again.cells) {
            assert_eq!((first.job, first.stripes), (again.job, again.stripes));
            assert_eq!(first.rates.len(), again.rates.len());
            for (first, again) in first.rates.iter().zip(&again.rates) {
                assert_eq!((&first.engine, first.bytes), (&again.engine, again.bytes));
                // Kept are five digits of each round.
                let kept = |rate: &crate::cell::Rate| serde_json::to_value(rate).unwrap();
                assert_eq!(kept(first)["seconds"], kept(again)["seconds"], "{}", first.engine);
            }
        }
        Ok(())
    }
}
