//! `kiln decode`

use std::path::PathBuf;

use clap::Args;
use kiln_pool::raw::decode_raw;
use kiln_pool::{DecodeReport, Observer, discover};

use crate::cmd::Command;
use crate::exit::{Exit, Failure};
use crate::lists;
use crate::print::{Stream, pace, worked_around};
use crate::setup::{Folders, Output, Place, RawFlags, RawSetup, ReadFlags, Setup};
use crate::sizes;

const EXAMPLES: &str = "\
Examples:
  kiln decode shards -o photos.tar
  kiln decode /disk0 /disk2 /disk3 /disk5 -o photos.tar
  kiln decode shards -o - | tar -x
  kiln decode chunks --format raw --code rs:4+2 --size 1234567 -o photos.tar

The file appears under its name only when it is complete.";

/// Get the file back from its shards
///
/// Any k of the n shards will do, and damaged spots in the others are worked around. Every byte
/// is checked against the checksums in the shards. With -o - the report goes to standard error.
#[derive(Debug, Args)]
pub struct Decode {
    /// Folders with the shards
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// File to write; - writes to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    reads: ReadFlags,

    #[command(flatten)]
    raw: RawFlags,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

impl Command for Decode {
    const NAME: &'static str = "decode";
    const EXAMPLES: &'static str = EXAMPLES;

    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let raw = self.raw.setup()?;
        let folders = Folders::to_read(setup, &self.folders, self.reads.mode())?;
        let place = Place::new(&self.output)?;
        let outcome = self.decode(raw.as_ref(), &folders, &place, setup);
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        let stream = match place {
            Place::Stdout => Stream::Stderr,
            Place::File(_) => Stream::Stdout,
        };
        warn(&report, setup);
        show(&report, stream, setup)?;
        Ok(Exit::Done)
    }
}

impl Decode {
    fn decode(
        &self,
        raw: Option<&RawSetup>,
        folders: &Folders,
        place: &Place,
        setup: &Setup,
    ) -> Result<DecodeReport, Failure> {
        let (nodes, settings) = (folders.nodes(), setup.settings());
        let (report, output) = match raw {
            Some(raw) => {
                let mut output = Output::open(place, self.force)?;
                (decode_raw(&raw.request(), nodes, &mut output, &settings)?, output)
            }
            None => {
                // Check that there is something to decode before the output is created.
                let set = discover(nodes, self.raw.object.as_deref())?;
                let mut output = Output::open(place, self.force)?;
                (kiln_pool::decode(&set, &mut output, &settings)?, output)
            }
        };
        output.finish()?;
        Ok(report)
    }
}

/// The output is correct despite the damage, but the shards should be repaired.
fn warn(report: &DecodeReport, setup: &Setup) {
    if let Some(found) = worked_around(&report.lost, report.damaged_count) {
        let object = &report.object;
        let message = format!("{object}: {found}; the output is complete, but run kiln repair");
        setup.observer.warn(&message);
    }
}

fn show(report: &DecodeReport, stream: Stream, setup: &Setup) -> Result<(), Failure> {
    if setup.json {
        return stream.json(report);
    }
    if setup.quiet {
        return Ok(());
    }
    let how = match report.strategy.as_str() {
        "direct" => "data shards joined",
        "mixed" => "some stripes rebuilt from parity",
        _ => "rebuilt from parity",
    };
    let mut text =
        format!("{} ({}) decoded: {how}\n", report.object, sizes::show(report.bytes_written));
    if setup.verbose {
        text += &format!(
            "read {} in {} runs from {}\n",
            sizes::show(report.bytes_read),
            report.read_runs,
            lists::named(&report.helpers),
        );
        for damage in &report.damaged {
            text += &format!("  {damage}\n");
        }
    }
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    text += &format!("{}\n", pace(report.bytes_written, report.seconds));
    stream.text(&text)
}
