//! `make bench-xor`: the experiments of Luo, Xu and Plank, "An Efficient XOR-Scheduling Algorithm
//! for Erasure Codes Encoding", on this machine, with kiln and Jerasure beside the paper's orders.

mod codes;
mod disk;
mod fixture;
mod orders;
mod contest;
mod headline;

use crate::BenchError;
use crate::engine::Operation;
use crate::machine::Machine;
use crate::measure::{Clock, Effort};
use codes::{CODES, Code, PACKETS};
use contest::{Cell, Jerasure, Point, Who};
use disk::Disk;
use fixture::Place;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Name on the command line.
pub const NAME: &str = "xor";
/// One line for people.
pub const ABOUT: &str = "XOR codes: the paper's orders, kiln and Jerasure over sizes of packets";

/// How a run goes.
pub struct Options<'a> {
    /// Only what the headline needs.
    pub quick: bool,
    /// One tiny round of everything: for tests.
    pub tiny: bool,
    /// Only cells whose name contains this: "liberation:5+2,w=5 encode, packet 1024".
    pub only: &'a str,
    /// Where the peers' libraries are.
    pub peers: &'a Path,
    /// Where the disk is measured and the report goes.
    pub out: Option<&'a Path>,
    /// The core that is pinned.
    pub core: Option<usize>,
    /// The clock.
    pub clock: Clock,
}

impl Options<'_> {
    /// Of the report.
    fn name(&self) -> String {
        crate::isa::named(if self.quick { "bench-xor-quick" } else { "bench-xor" })
    }
}

/// All that a run found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Jerasure's version, or why it takes no part.
    pub jerasure: Result<String, String>,
    /// The disk under the report.
    pub disk: Option<Disk>,
    /// Where the paper shows each code.
    pub papers_figures: BTreeMap<&'static str, &'static str>,
    /// What was measured.
    pub points: Vec<Point>,
}

/// Measures, writes the report and prints the headline as one line of JSON.
///
/// # Errors
/// kiln fails; memory; the report cannot be written.
pub fn run(options: &Options<'_>) -> Result<(), BenchError> {
    let report = measure(options)?;
    if let Some(folder) = options.out {
        let name = options.name();
        crate::page::write(folder, &name, &report)?;
    }
    println!("{}", report.headline());
    Ok(())
}

fn measure(options: &Options<'_>) -> Result<Report, BenchError> {
    let (jerasure, version) = match Jerasure::load(options.peers) {
        Ok(jerasure) => {
            let version = jerasure.version().unwrap_or_default().to_string();
            (jerasure, Ok(version))
        }
        Err(error) => {
            eprintln!("!! PEER MISSING: {error}");
            (Jerasure::absent(), Err(error.to_string()))
        }
    };
    let mut report = Report {
        machine: Machine::look(options.core, options.clock, true),
        jerasure: version,
        disk: None,
        papers_figures: CODES.iter().map(|code| (code.spec, code.figure)).collect(),
        points: Vec::new(),
    };
    for (cell, effort) in cells(options) {
        let points = contest::run(&cell, &jerasure, &effort)?;
        log(&cell, &points);
        report.points.extend(points);
    }
    if let (Some(folder), false) = (options.out, options.quick) {
        report.disk = Some(Disk::measure(folder)?);
    }
    Ok(report)
}

fn log(cell: &Cell<'_>, points: &[Point]) {
    let rate = |point: &Point| format!("{} {:.1}", point.who.name(), point.rate.median);
    let rates: Vec<String> = points.iter().map(rate).collect();
    eprintln!("{}: {}", cell.name(), rates.join(", "));
}

/// The cells of a run and the effort of each.
fn cells(options: &Options<'_>) -> Vec<(Cell<'static>, Effort)> {
    let mut cells = Vec::new();
    for code in CODES {
        for operation in [Operation::Encode, Operation::Decode(2)] {
            for place in [Place::Paper, Place::Cache, Place::Dram] {
                for &packet in PACKETS {
                    if let Some(who) = wanted(options, code, operation, place, packet) {
                        let place = if options.tiny { Place::Tiny } else { place };
                        let cell = Cell { code, operation, packet, place, who };
                        if cell.name().contains(options.only) {
                            cells.push((cell, effort(options, place)));
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Who takes part in a cell. A quick run has the sizes of packets at which contenders have been
/// seen to be fastest, and leaves out what the headline does not need.
fn wanted(
    options: &Options<'_>,
    code: &Code,
    operation: Operation,
    place: Place,
    packet: usize,
) -> Option<&'static [Who]> {
    use Who::{ByWordWords, JerasureDumb, JerasureSmart, Kiln, TraditionalWords};
    if options.tiny {
        return [64, 1024].contains(&packet).then_some(&Who::ALL);
    }
    let dram = [64, 512, 4096, 16 << 10, 64 << 10];
    if !options.quick {
        // The paper has no such place: fewer sizes, which take longest of all.
        return (place != Place::Dram || dram.contains(&packet)).then_some(&Who::ALL);
    }
    let encode = operation == Operation::Encode;
    let (words, vectors): (&[usize], &[usize]) =
        (&[1024, 4096, 16 << 10, 64 << 10], &[64, 512, 1024, 2048, 4096, 8192]);
    match place {
        Place::Paper if encode => {
            words.contains(&packet).then_some(&[TraditionalWords, ByWordWords])
        }
        Place::Cache if encode && vectors.contains(&packet) => match code.bar {
            true => Some(&Who::ALL),
            false => Some(&Who::ALL[..5]),
        },
        Place::Cache => vectors.contains(&packet).then_some(&[Kiln]),
        Place::Dram if encode && code.bar => {
            dram.contains(&packet).then_some(&[Kiln, JerasureDumb, JerasureSmart])
        }
        _ => None,
    }
}

/// The paper codes 300 MB three times; so does a full run, and a quick one less.
fn effort(options: &Options<'_>, place: Place) -> Effort {
    let pass = match (place, options.quick) {
        _ if options.tiny => Duration::ZERO,
        (Place::Paper, false) => Duration::from_millis(15),
        (Place::Cache, false) => Duration::from_millis(4),
        _ => Duration::from_millis(2),
    };
    let rounds = match (options.tiny, options.quick) {
        (true, _) => 1,
        (_, true) => 17,
        (_, false) => 5,
    };
    Effort {
        pass,
        rounds_min: rounds,
        rounds_max: rounds,
        budget: Duration::ZERO,
        clock: options.clock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cell runs, its bytes are checked, and the report says something of each.
    #[test]
    fn every_cell_runs() -> Result<(), BenchError> {
        let options = Options {
            quick: false,
            tiny: true,
            only: "",
            peers: Path::new("no such folder"),
            out: None,
            core: None,
            clock: Clock::Wall,
        };
        let report = measure(&options)?;
        assert_eq!(report.points.len(), CODES.len() * 2 * 3 * 2 * 5); // two packets, no Jerasure
        for code in CODES {
            assert!(report.points.iter().any(|point| point.code == code.spec), "{}", code.spec);
        }
        assert!(report.headline().contains("\"alg2_over_alg1_u64\": null"));
        let pictures = crate::page::drawn("xor", &report);
        assert_eq!(pictures.lines().count(), 2, "an encode and a decode: {pictures}");
        Ok(())
    }
}
