//! Results as JSON and as Markdown tables.

use crate::BenchError;
use crate::cases::Setup;
use crate::cell::{Cell, Rate};
use crate::figures;
use crate::headline::{headline, line};
use crate::machine::Machine;
use crate::page::{cells, table};
use crate::peers::Found;
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
        let pages = if self.machine.huge_pages { "huge" } else { "small" };
        let mut out = format!("### `kiln-bench {}`\n\n", self.case);
        out += &format!("{}, {pages} pages.\n\n", self.machine.line());
        for peer in &self.peers {
            out += &match (&peer.version, &peer.missing) {
                (Some(version), _) => format!("- {version}\n"),
                (_, missing) => format!(
                    "- **{} is missing**: {}\n",
                    peer.library,
                    missing.as_deref().unwrap_or_default()
                ),
            };
        }
        let promises = headline(&self.cells, &self.threads).into_iter().map(|(key, bar, ratio)| {
            let ratio = ratio.map_or("not measured".into(), |r| format!("{r:.2}"));
            format!("{key} | {bar} | {ratio}")
        });
        out += &table("promise | bar | worst cell", promises);
        out += "\nGB/s, one core: data of an encode, rebuilt chunks otherwise. Median (quarter to \
                three quarters) of interleaved rounds.\n";
        out += PLANS;
        out.extend(self.groups().iter().map(|group| group_table(group)));
        out + &self.threads() + &self.small()
    }

    fn threads(&self) -> String {
        if self.threads.is_empty() {
            return String::new();
        }
        let head = "encode in cache | chunk | one thread | two threads | ratio | plain loop | \
                    rounds that count";
        let row = |t: &TwoThreads| {
            let (one, two, plain) = (t.one.median, t.two.median, t.plain.median);
            let rates = format!("{one:.1} | {two:.1} | {:.2} | {plain:.2}", t.ratio);
            format!("{} | {} | {rates} | {} of {}", t.code, t.chunk, t.there, t.rounds)
        };
        format!(
            "\nTwo threads: the ratio is of the rounds in which a plain loop gained {} or more \
             from the second core.\n{}",
            crate::threads::THERE,
            table(head, self.threads.iter().map(row))
        )
    }

    fn small(&self) -> String {
        let row = |s: &Small| {
            let times = [s.codec, s.plan, s.stripe].map(|spread| format!("{:.1}", spread.median));
            format!("{} | {} | {}", s.code, cells(times), s.chunk)
        };
        let head = "microseconds | codec | plan of encoding | a stripe of 4 KiB | chunk";
        table(head, self.small.iter().map(row))
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

/// Who has made what the loss of a cell needs before its rounds begin.
const PLANS: &str = "What a decode or repair needs for its loss (plan, inverse, tables) is there \
    before the rounds with kiln, klauspost, ISA-L and `ceph-isa`, which keep it; Jerasure, Ceph's \
    other plugins and the crates make it in every call.\n";

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

fn group_table(group: &[&Cell]) -> String {
    let (labels, title) = (labels(group), group.first().map_or(String::new(), |cell| title(cell)));
    let row = |cell: &&Cell| {
        let rates = labels.iter().map(|wanted| {
            let rate = cell.rates.iter().find(|rate| label(cell, rate) == *wanted);
            rate.map_or(String::new(), |rate| format!("{:.1}", rate.rate))
        });
        format!("{} | {} | {}", cell.job.code(), cell.job.chunk, cells(rates))
    };
    let head = format!("code | chunk | {}", cells(&labels));
    format!("\n**{title}**\n{}", table(&head, group.iter().map(row)))
}
