//! `make bench-order`: the order of sub-chunks (Ma et al., "Repair I/O Optimization for Clay Codes
//! via Gray-Code Based Sub-Chunk Reorganization in Ceph"): counts, and what an order costs when
//! data is written and read.

mod tables;
mod coding;
mod moving;

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::{Clock, Effort};
use crate::page;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// One tiny round of everything: for tests.
    pub tiny: bool,
    /// Where the report goes.
    pub out: Option<&'a Path>,
}

impl Options<'_> {
    /// The effort of a measurement. Threads take part, so the time that passes is what counts.
    fn effort(&self) -> Effort {
        let (rounds_min, budget) = if self.tiny { (1, 0) } else { (9, 2500) };
        Effort {
            pass: Duration::from_millis(if self.tiny { 0 } else { 20 }),
            rounds_min,
            rounds_max: if self.tiny { 1 } else { 31 },
            budget: Duration::from_millis(budget),
            clock: Clock::Wall,
        }
    }
}

/// All that a run found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Counted, not measured.
    pub counts: tables::Counts,
    /// Experiment 6: encoding and reading with the paper's permutation and without.
    pub moving: Vec<moving::Moving>,
    /// Encode and repair in each order.
    pub coding: Vec<coding::Coding>,
}

/// Counts and measures, writes the report and prints what matters as one line of JSON.
///
/// # Errors
/// kiln fails, or the report cannot be written.
pub fn run(options: &Options<'_>) -> Result<(), BenchError> {
    let report = measure(options)?;
    if let Some(folder) = options.out {
        page::write(folder, "order", &report)?;
    }
    println!("{}", report.headline());
    Ok(())
}

fn measure(options: &Options<'_>) -> Result<Report, BenchError> {
    Ok(Report {
        machine: Machine::look(None, Clock::Wall, false),
        counts: tables::count(options)?,
        moving: moving::measure(options)?,
        coding: coding::measure(options)?,
    })
}

impl Report {
    fn headline(&self) -> String {
        let worst = |pick: fn(&coding::Coding) -> f64| {
            self.coding.iter().map(pick).fold(f64::INFINITY, f64::min)
        };
        serde_json::json!({
            "s_total_16_2_natural": self.counts.total("16+2", "natural"),
            "s_total_16_2_gray": self.counts.total("16+2", "gray"),
            "grids_at_s_min": self.counts.census.full_at_bound,
            "grids": self.counts.census.full,
            "encode_worst_over_natural": worst(|row| row.encode_over_natural),
            "repair_worst_over_natural": worst(|row| row.repair_over_natural),
            "moving": self.moving.iter().map(|row| (row.name(), row.slower)).collect::<Vec<_>>(),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything once, tiny; the paper's Tables III and IV are as printed there.
    #[test]
    fn the_whole_bench_runs() -> Result<(), BenchError> {
        let report = measure(&Options { tiny: true, out: None })?;
        let row = |table: &tables::Table, lost: usize| -> Vec<usize> {
            table.columns.iter().map(|(_, runs)| runs[lost]).collect()
        };
        let (third, fourth) = (&report.counts.table_3, &report.counts.table_4);
        assert_eq!(row(third, 6), [8, 5, 2, 3]);
        assert_eq!(row(third, 7), [8, 4, 2, 2]);
        assert_eq!(row(fourth, 12), [64, 33, 33, 72, 30, 29]);
        assert_eq!(row(fourth, 17), [256, 128, 76, 88, 28, 28]);
        let sums: Vec<usize> = fourth.columns.iter().map(|(_, runs)| runs.iter().sum()).collect();
        assert_eq!(sums, [1022, 520, 520, 520, 520, 520]);
        assert_eq!(report.counts.census.full_at_bound, report.counts.census.full);
        assert!(report.moving.iter().all(|row| row.rate.median > 0.0));
        assert!(report.coding.iter().all(|row| row.encode.median > 0.0));
        assert!(page::drawn("order", &report) == "order.svg\norder-4-2.svg\n");
        assert!(report.headline().contains("\"s_total_16_2_gray\":520"));
        Ok(())
    }
}
