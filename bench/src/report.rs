//! Results as JSON and as Markdown tables.

use crate::BenchError;
use crate::cases::Setup;
use crate::cell::{Cell, Rate};
use crate::figures;
use crate::headline::{headline, line};
use crate::machine::Machine;
use crate::peers::Found;
use crate::small::Small;
use crate::threads::TwoThreads;
use serde::Serialize;
use std::fmt::Write;
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
        line(&headline(&self.cells, &self.threads))
    }

    /// The whole report as JSON.
    ///
    /// # Errors
    /// Numbers that JSON does not have.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Tables for people.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "### `kiln-bench {}`\n", self.case)?;
        let pages = if self.machine.huge_pages { "huge" } else { "small" };
        writeln!(out, "{}, {pages} pages.\n", self.machine.line())?;
        for peer in &self.peers {
            match (&peer.version, &peer.missing) {
                (Some(version), _) => writeln!(out, "- {version}")?,
                (_, missing) => writeln!(
                    out,
                    "- **{} is missing**: {}",
                    peer.library,
                    missing.as_deref().unwrap_or_default()
                )?,
            }
        }
        writeln!(out, "\n| promise | bar | worst cell |\n|---|---|---|")?;
        for (key, bar, ratio) in headline(&self.cells, &self.threads) {
            let ratio = ratio.map_or("not measured".into(), |r| format!("{r:.2}"));
            writeln!(out, "| {key} | {bar} | {ratio} |")?;
        }
        writeln!(
            out,
            "\nGB/s, one core: data of an encode, rebuilt chunks otherwise. Median \
            (quarter to three quarters) of interleaved rounds."
        )?;
        for group in self.groups() {
            write_group(out, &group)?;
        }
        if !self.threads.is_empty() {
            writeln!(
                out,
                "\nTwo threads: the ratio is of the rounds in which a plain loop gained {} or more \
                 from the second core.\n\n| encode in cache | chunk | one thread | two threads | \
                 ratio | plain loop | rounds that count |\n|---|---|---|---|---|---|---|",
                crate::threads::THERE
            )?;
        }
        for t in &self.threads {
            writeln!(
                out,
                "| {} | {} | {:.1} | {:.1} | {:.2} | {:.2} | {} of {} |",
                t.code,
                t.chunk,
                t.one.median,
                t.two.median,
                t.ratio,
                t.plain.median,
                t.there,
                t.rounds
            )?;
        }
        self.write_small(out)
    }

    fn write_small(&self, out: &mut String) -> std::fmt::Result {
        if self.small.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n| microseconds | codec | plan of encoding | a stripe of 4 KiB | chunk |")?;
        writeln!(out, "|---|---|---|---|---|")?;
        for s in &self.small {
            let times = [s.codec, s.plan, s.stripe].map(|spread| format!("{:.1}", spread.median));
            writeln!(out, "| {} | {} | {} |", s.code, times.join(" | "), s.chunk)?;
        }
        Ok(())
    }

    /// Cells of one family, operation and footprint.
    fn groups(&self) -> Vec<Vec<&Cell>> {
        let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
        for cell in &self.cells {
            let key = title(cell);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((key, vec![cell])),
            }
        }
        groups.into_iter().map(|(_, cells)| cells).collect()
    }

    /// Writes data, page and pictures into a folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), BenchError> {
        figures::write(folder, &self.case, self, &self.markdown())
    }
}

/// `rs encode, cache 1 MiB`; for all m "decode m" is one group.
fn title(cell: &Cell) -> String {
    let mut operation = cell.job.operation.to_string();
    if operation == format!("decode {}", cell.job.m) {
        operation = "decode m".into();
    }
    format!("{} {operation}, {}", cell.job.family.name(), cell.footprint)
}

/// The name of a contender in a group: its family too if it is not the group's.
fn label(cell: &Cell, rate: &Rate) -> String {
    match rate.code == cell.job.code() {
        true => rate.engine.clone(),
        false => format!("{} ({})", rate.engine, rate.code.split(' ').next().unwrap_or_default()),
    }
}

/// All contenders of a group, in order of first appearance.
fn labels(group: &[&Cell]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (cell, rate) in group.iter().flat_map(|cell| cell.rates.iter().map(move |r| (cell, r))) {
        let label = label(cell, rate);
        if !all.contains(&label) {
            all.push(label);
        }
    }
    all
}

fn write_group(out: &mut String, group: &[&Cell]) -> std::fmt::Result {
    let Some(first) = group.first() else { return Ok(()) };
    let labels = labels(group);
    writeln!(out, "\n**{}**\n", title(first))?;
    writeln!(out, "| code | chunk | {} |", labels.join(" | "))?;
    writeln!(out, "|---|---{}|", "|---".repeat(labels.len()))?;
    for cell in group {
        write!(out, "| {} | {} |", cell.job.code(), cell.job.chunk)?;
        for wanted in &labels {
            match cell.rates.iter().find(|rate| label(cell, rate) == *wanted) {
                Some(Rate { rate, .. }) => {
                    write!(out, " {:.1} ({:.1}-{:.1}) |", rate.median, rate.p25, rate.p75)?;
                }
                None => write!(out, " |")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
