//! `kiln-bench devices`: reads of repairs on emulated disks, by order of the sub-chunks and with
//! the read planner.
//!
//! Repeats the experiments of G-Clay (Ma et al.) on what one machine can offer. Each section is a
//! file in `devices/` and a row of [`SECTIONS`].

mod disk;
mod device;
mod parallel;
mod process;

use serde::Serialize;
use std::path::{Path, PathBuf};

use crate::BenchError;
use crate::machine::Machine;
use crate::measure::Clock;
use crate::page;

/// Of the report.
const NAME: &str = "order-devices";

/// How much to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The bars only, in about a minute.
    pub quick: bool,
    /// Everything is run, nothing is measured: for tests.
    pub tiny: bool,
    /// Only sections whose name contains this, or `device:NAME` for one emulated disk, or
    /// `device:NAME:NUMBER` for one experiment (`device::5`: on all disks).
    pub only: String,
    /// The program, for sections that run it.
    pub kiln: PathBuf,
}

/// What a section found out.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Name of its row.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Everything, for programs.
    pub json: serde_json::Value,
}

/// One row of [`SECTIONS`].
pub struct SectionRow {
    /// Name on the command line.
    pub name: &'static str,
    /// Finds it out.
    pub run: fn(&Options) -> Result<Section, BenchError>,
}

impl SectionRow {
    /// Whether `only` wants this section, or a part of it.
    fn is_asked(&self, only: &str) -> bool {
        let section = only.split_once(':').map_or(only, |(section, _)| section);
        self.name.contains(section)
    }
}

/// All sections, in the order of the report.
pub static SECTIONS: &[SectionRow] = &[
    SectionRow { name: "process", run: process::run },
    SectionRow { name: "parallel", run: parallel::run },
    SectionRow { name: "device", run: device::run },
];

/// Runs the sections and writes `order-devices.json` into `out`.
///
/// # Errors
/// A section that fails, a folder that cannot be written.
pub fn run(options: &Options, out: Option<&Path>) -> Result<(), BenchError> {
    let machine = Machine::look(None, Clock::Wall, false);
    let mut sections = Vec::new();
    for row in SECTIONS.iter().filter(|row| row.is_asked(&options.only)) {
        let section = (row.run)(options)?;
        eprintln!("{}: {}", section.name, section.title);
        sections.push(section);
    }
    let Some(out) = out else { return Ok(()) };
    let whole = serde_json::json!({ "machine": machine, "sections": sections });
    page::write(out, NAME, &whole)
}

/// A section that cannot be run here says so where nobody overlooks it.
fn skipped(name: &str, title: &str, why: &str) -> Section {
    eprintln!("SKIPPED: {name}: {why}");
    Section { name: name.into(), title: title.into(), json: serde_json::json!({ "skipped": why }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Benches rot where nobody runs them: every section runs on tiny devices, or says why not.
    #[test]
    fn every_section_runs() {
        let kiln = std::env::current_exe().unwrap().with_file_name("../kiln");
        let options = Options { quick: true, tiny: true, only: String::new(), kiln };
        let folder = tempfile::tempdir().unwrap();
        run(&options, Some(folder.path())).unwrap();
        let json = fs::read_to_string(folder.path().join("order-devices.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let names = report["sections"].as_array().unwrap().iter().map(|section| &section["name"]);
        assert!(names.eq(SECTIONS.iter().map(|row| row.name)), "{json}");
    }
}
