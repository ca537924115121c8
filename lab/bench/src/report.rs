//! Results as JSON.

use crate::BenchError;
use crate::cell::{Cell, Rate};
use crate::headline::{headline, line, rule_beaten_by};
use crate::machine::Machine;
use crate::page;
use crate::peers::Found;
use crate::setup::Setup;
use crate::small::Small;
use crate::threads::TwoThreads;
use serde::Serialize;
use std::path::Path;

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the case.
    pub case: String,
    /// Where it ran.
    pub machine: Machine,
    /// Libraries that took part, and those that were missing.
    pub peers: Vec<Found>,
    /// Measured cells.
    pub cells: Vec<Cell>,
    /// Two threads against one.
    pub threads: Vec<TwoThreads>,
    /// Small work.
    pub small: Vec<Small>,
}

impl Report {
    /// An empty report of a case that runs on `core`.
    pub fn new(case: &str, setup: &Setup, core: Option<usize>) -> Report {
        Report {
            case: case.to_string(),
            machine: Machine::look(core, setup.effort.clock, setup.huge_pages),
            peers: setup.engines.found.clone(),
            cells: Vec::new(),
            threads: Vec::new(),
            small: Vec::new(),
        }
    }

    /// Adds a cell and says on standard error what it found.
    pub fn add(&mut self, cell: Cell) {
        let title = format!("{} {}, {}", cell.job.code(), cell.job.operation, cell.footprint);
        let rate = |r: &Rate| {
            let other = if r.code == cell.job.code() { "" } else { " (rs)" };
            format!("{}{other} {:.1}", r.engine, r.rate.median)
        };
        let rates: Vec<String> = cell.rates.iter().map(rate).collect();
        eprintln!("{title}: {}", rates.join(", "));
        self.cells.push(cell);
    }

    /// The headline as one line of JSON.
    pub fn headline(&self) -> String {
        line(&headline(&self.cells, &self.threads), rule_beaten_by(&self.cells).as_ref())
    }

    /// The whole report as JSON.
    ///
    /// # Errors
    /// Numbers that JSON does not have.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Writes the data into a folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), BenchError> {
        page::write(folder, &self.case, self)
    }
}
