//! What the user typed: the command line, parsed but not yet acted upon.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::cmd::{COMMANDS, Row};
use crate::exit::{EXIT_CODES, Failure};
use crate::setup::kinds_of_places;
use crate::sizes;

const ABOUT: &str = "\
kiln cuts a file into n shards, so that any k of them give the file back.

Put the shards on different disks or machines. When some are lost or corrupted, kiln rebuilds
them from the others; codes of the 'clay' family read about a third of what Reed-Solomon reads
for that.";

const EXAMPLES: &str = "\
Examples:
  kiln encode photos.tar -c clay:10+4 -o shards     14 shards; any 4 of them may be lost
  kiln verify shards                                is everything still there and intact?
  kiln repair shards                                rebuild what is missing or damaged
  kiln decode shards -o photos.tar                  get the file back
  kiln codes                                        which codes there are, and what each costs

'10+4' means 10 data shards and 4 parity shards. Every command explains itself: kiln encode --help";

const PLACES: &str = "\
Places: where a command wants a folder with shards, or a pool a node, any of these will do. What has
:// in it is never made a folder; for one of such a name write ./odd://name";

// Flags that every command takes. No doc comment: clap would print it as the program's summary.
#[derive(Debug, Args)]
pub struct Common {
    /// Print one JSON object for scripts instead of text
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,

    /// No progress and no summary; only warnings and errors
    #[arg(short, long, global = true, help_heading = "Common options")]
    pub quiet: bool,

    /// Print more, e.g. what each node had to read
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Common options")]
    pub verbose: u8,

    /// Threads that compute [default: all cores]
    #[arg(long, global = true, value_name = "N", help_heading = "Common options")]
    pub threads: Option<usize>,

    /// Read and write at most SIZE bytes per second at each node, e.g. 50MiB
    #[arg(long, global = true, value_name = "SIZE", value_parser = size,
          help_heading = "Common options")]
    pub limit_rate: Option<u64>,

    /// The cluster's key, for agents (kiln://host:port) [default: the file named by KILN_KEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub key: Option<PathBuf>,

    /// Seconds to wait for a folder that another kiln has locked
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        default_value_t = 60,
        help_heading = "Common options"
    )]
    pub lock_wait: u64,

    /// Seed of all random choices, so that a run can be repeated
    #[arg(
        long,
        global = true,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Common options"
    )]
    pub seed: u64,
}

/// [`sizes::parse`] in the form that clap takes.
pub fn size(text: &str) -> Result<u64, String> {
    sizes::parse(text)
}

/// A range of bytes as people write it: START+LENGTH.
pub fn byte_range(text: &str) -> Result<Range<u64>, String> {
    let Some((start, len)) = text.split_once('+') else {
        return Err(format!("'{text}' is no range: write START+LENGTH, e.g. 1MiB+64KiB"));
    };
    let (start, len) = (sizes::parse(start)?, sizes::parse(len)?);
    Ok(start..start.saturating_add(len))
}

/// A command line that asks for a command.
pub struct Invocation {
    /// The row of the command table.
    pub row: &'static Row,
    /// The command's own arguments, still raw.
    pub matches: ArgMatches,
    /// The flags that every command takes.
    pub common: Common,
}

/// What came of the command line.
pub enum Parsed {
    /// Help or the version was asked for, and has been printed.
    Shown,
    /// A command is to be run.
    Run(Box<Invocation>),
}

/// Parses the command line.
///
/// # Errors
/// [`Failure::Arguments`] in one line when the words make no sense.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Parsed, Failure> {
    let matches = match program().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return shown_or_wrong(&error),
    };
    let common = match Common::from_arg_matches(&matches) {
        Ok(common) => common,
        Err(error) => return shown_or_wrong(&error),
    };
    let Some((name, sub)) = matches.subcommand() else {
        return Err(Failure::Arguments { message: "no command given; see kiln --help".into() });
    };
    let Some(row) = COMMANDS.iter().find(|row| row.name == name) else {
        return Err(Failure::Arguments { message: format!("no command '{name}'") });
    };
    Ok(Parsed::Run(Box::new(Invocation { row, matches: sub.clone(), common })))
}

/// The whole program as clap knows it, put together from the table of commands.
pub fn program() -> Command {
    let mut program = Command::new("kiln")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Erasure coding of files, with cheap repair")
        .long_about(ABOUT)
        .after_help(format!("{EXAMPLES}\n\n{PLACES}\n{}\n{EXIT_CODES}", kinds_of_places()))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100);
    program = Common::augment_args(program);
    for row in COMMANDS {
        let command = (row.augment)(Command::new(row.name))
            .after_help(format!("{}\n\n{EXIT_CODES}", row.examples));
        program = program.subcommand(command);
    }
    program
}

/// Help and version go to stdout; anything else becomes one line.
fn shown_or_wrong(error: &clap::Error) -> Result<Parsed, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe (kiln --help | head -1) is no failure worth a message.
            let _ = error.print();
            Ok(Parsed::Shown)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Err(Failure::Arguments { message: "no command was given; they stand above".into() })
        }
        _ => Err(Failure::Arguments { message: one_line(&error.to_string()) }),
    }
}

/// clap explains itself in paragraphs; scripts and people's logs want one line. The first paragraph
/// says what is wrong, one with `tip:` may follow; usage is left to --help.
fn one_line(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let useful: Vec<String> = paragraphs
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .enumerate()
        .filter(|(index, words)| *index == 0 || words.starts_with("tip:"))
        // Nobody who mistypes a flag wants it as a value.
        .filter(|(_, words)| !words.starts_with("tip: to pass '-"))
        .map(|(_, words)| words)
        .collect();
    let joined = useful.join("; ");
    let problem = joined.strip_prefix("error: ").unwrap_or(&joined);
    format!("{problem} (see --help)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_table_is_a_sound_program() {
        program().debug_assert();
    }

    #[test]
    fn wrong_words_become_one_line() {
        let words = ["kiln", "encode", "--nonsense"].map(OsString::from);
        let Err(failure) = parse(words.into_iter()) else { panic!("accepted nonsense") };
        let line = failure.to_string();
        assert!(!line.contains('\n') && line.contains("--nonsense"), "{line}");
    }
}
