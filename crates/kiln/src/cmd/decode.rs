//! `kiln decode`

use std::path::{Path, PathBuf};
use std::{io::Write, ops::Range, time::SystemTime};

use clap::Args;
use kiln_files::{Salvaged, discover, discover_any, raw::decode_raw};
use kiln_stripe::{DecodeReport, Observer, ShardReport};
use minijinja::context;
use serde::Serialize;

use crate::args::{byte_range, help};
use crate::exit::{Exit, Failure, Result};
use crate::print::{damages, worked_around};
use crate::setup::{
    Folders, Output, OutputTarget, OutputTree, RawFlags, RawSetup, ReadFlags, Setup,
    kept::noted_time, local,
};
use crate::{archive::Unpacking, cmd::multi_object};

/// Get the file back from its shards
///
/// Any k of the n shards will do, and damaged spots in the others are worked around. Every byte
/// is checked against the checksums in the shards. With -o - the report goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = help("decode"))]
pub struct Decode {
    /// Folders with the shards
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// File to write; - writes to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Make the folder again that was encoded (any tar archive will do), as FILE
    #[arg(long, conflicts_with_all = ["range", "salvage"])]
    unpack: bool,
    /// Only LENGTH bytes, beginning at START; sizes as in 64KiB
    #[arg(long, value_name = "START+LENGTH", value_parser = byte_range)]
    range: Option<Range<u64>>,
    /// If not everything can be decoded, write all readable data, zero-fill the rest, and list
    /// the missing bytes (exit code 6)
    #[arg(long, conflicts_with = "range")]
    salvage: bool,
    /// All objects in the folders and in all folders below them, as files of their names below the
    /// folder FILE
    #[arg(long, conflicts_with_all = ["object", "range", "unpack"])]
    all: bool,
    #[command(flatten)]
    reads: ReadFlags,
    #[command(flatten)]
    raw: RawFlags,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

impl Decode {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let raw = self.raw.setup()?;
        if self.all {
            multi_object::refuse_raw(raw.is_some())?;
            return self.decode_all(setup);
        }
        let place = OutputTarget::new(&self.output)?;
        if self.unpack && place.is_stdout() {
            let problem = "a folder cannot go to standard output; without --unpack the archive can"
                .to_owned();
            return Err(Failure::Flag { flag: "--unpack", problem });
        }
        let folders = Folders::to_read(setup, &self.folders, self.reads.mode())?;
        folders.keep_private(self.raw.object.as_deref());
        let outcome = match &raw {
            Some(raw) => self.decode_raw(raw, &folders, &place, setup),
            None => self.decode(&folders, self.raw.object.as_deref(), &place, setup),
        };
        setup.observer.finish();
        if outcome.is_err() {
            folders.refuse_unreadable(self.raw.object.as_deref())?;
        }
        let mut answer = outcome?;
        answer.report.seconds = setup.seconds();
        warn(&answer, setup);
        setup.report(&answer, || answer.text(setup))?;
        Ok(answer.exit())
    }
}

/// Report of a decode, with that of a salvage.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: DecodeReport,
    #[serde(flatten)]
    salvaged: Option<Salvaged>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

impl Answer {
    fn of(report: DecodeReport) -> Answer {
        Answer { report, salvaged: None, left_out: Vec::new() }
    }

    fn text(&self, setup: &Setup) -> String {
        let damages = damages(&self.report.damaged, self.report.damaged_count);
        setup.text("decode", self, context! { damages })
    }

    fn exit(&self) -> Exit {
        match &self.salvaged {
            Some(found) if found.missing_bytes + found.by_code_bytes > 0 => Exit::Partial,
            _ => Exit::Done,
        }
    }
}

impl Decode {
    fn decode_raw(
        &self,
        raw: &RawSetup,
        folders: &Folders,
        place: &OutputTarget,
        setup: &Setup,
    ) -> Result<Answer> {
        let given = [("--salvage", self.salvage), ("--range", self.range.is_some())];
        if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
            let problem = "bare chunks have no checksums to tell good bytes by".to_owned();
            return Err(Failure::Flag { flag, problem });
        }
        let settings = setup.settings();
        self.write_to(place, None, |out| {
            let report = decode_raw(&raw.request(), folders.nodes(), out, &settings)?;
            Ok(Answer::of(report))
        })
    }

    fn decode(
        &self,
        folders: &Folders,
        object: Option<&str>,
        place: &OutputTarget,
        setup: &Setup,
    ) -> Result<Answer> {
        let settings = setup.settings();
        // Check that there is something to decode before the output is created.
        let set = match self.salvage {
            true => discover_any(folders.nodes(), object)?,
            false => discover(folders.nodes(), object)?,
        };
        let path = |shard: ShardReport| Some(Path::new(&shard.node?).join(shard.name?));
        let paths = set.report().shards.into_iter().filter_map(path);
        let time = self.range.is_none().then(|| noted_time(paths)).flatten();
        self.write_to(place, time, |out| {
            Ok(match &self.range {
                _ if self.salvage => {
                    let (report, found) = kiln_files::salvage(&set, out, &settings)?;
                    Answer { salvaged: Some(found), ..Answer::of(report) }
                }
                Some(range) => {
                    Answer::of(kiln_files::decode_range(&set, range.clone(), out, &settings)?)
                }
                None => Answer::of(kiln_files::decode(&set, out, &settings)?),
            })
        })
    }

    /// Opens the output, has it written, and gives it its name.
    fn write_to(
        &self,
        place: &OutputTarget,
        time: Option<SystemTime>,
        body: impl FnOnce(&mut dyn Write) -> Result<Answer>,
    ) -> Result<Answer> {
        let unpacking = match (self.unpack, place) {
            (true, OutputTarget::File(path)) => Some(Unpacking::new(path)?),
            (true, OutputTarget::Below(tree, inside)) => Some(Unpacking::below(tree, inside)?),
            _ => None,
        };
        match unpacking {
            Some(mut output) => {
                let mut answer = body(&mut output)?;
                answer.left_out = output.finish()?;
                Ok(answer)
            }
            None => {
                let mut output = Output::open(place, self.force)?.dated(time);
                let answer = body(&mut output)?;
                output.finish()?;
                Ok(answer)
            }
        }
    }

    fn decode_all(&self, setup: &Setup) -> Result<Exit> {
        let into = local(&self.output)?;
        let groups = multi_object::groups(setup, &self.folders, self.reads.mode())?;
        let failed = |source| Failure::Io { action: "create", path: into.to_owned(), source };
        let tree = OutputTree::open(into).map_err(failed)?;
        multi_object::each(&groups, setup, |group| {
            group.folders.keep_private(Some(&group.object));
            let place = OutputTarget::Below(tree.clone(), group.below.join(&group.object));
            let mut answer = self.decode(&group.folders, Some(&group.object), &place, setup)?;
            answer.report.seconds = setup.seconds() - group.begun.get();
            warn(&answer, setup);
            Ok((answer.exit(), answer.text(setup), answer))
        })
    }
}

/// The output is correct despite the damage, but the shards should be repaired.
fn warn(answer: &Answer, setup: &Setup) {
    let report = &answer.report;
    for what in &answer.left_out {
        setup.observer.warn(&format!("left out: {what}"));
    }
    if let (Exit::Done, Some(found)) =
        (answer.exit(), worked_around(&report.lost, report.damaged_count))
    {
        let object = &report.object;
        let message = format!("{object}: {found}; the output is complete, but run kiln repair");
        setup.observer.warn(&message);
    }
}
