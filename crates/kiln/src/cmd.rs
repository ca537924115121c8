//! The command line: all commands, and how words become one of them. To add a command, write
//! `cmd/x.rs` and a row of [`Command`].

/// Makes an enum of commands, each of which runs.
macro_rules! commands {
    ($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$help:meta])* $row:ident($arguments:ty),)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Subcommand)]
        $visible enum $name {
            $($(#[$help])* $row($arguments),)*
        }

        impl $name {
            /// Does what was asked.
            $visible fn run(self, setup: &Setup) -> Result<Exit> {
                match self {
                    $($name::$row(command) => command.run(setup),)*
                }
            }

            /// The name of its row.
            #[allow(dead_code)] // only that of whole programs is asked
            fn row(&self) -> &'static str {
                match self {
                    $($name::$row(_) => stringify!($row),)*
                }
            }
        }
    };
}

mod advise;
pub(crate) mod agent;
mod multi_object;
mod codes;
mod completions;
mod cp;
mod decode;
mod encode;
mod get;
mod inspect;
mod key;
mod ls;
mod man;
mod mount;
mod mv;
mod nbd;
mod plan;
mod probe;
mod protect;
mod put;
mod recode;
mod repair;
mod rm;
mod s3;
mod scrub;
mod serve;
mod stat;
mod status;
mod pool;
mod coordinator;
mod sync;
mod torture;
mod verify;
mod volume;

use std::ffi::OsString;

use clap::{Parser, Subcommand, error::ErrorKind};
use kiln_net::agent::PeerRole;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{Setup, kinds_of_places};
use crate::{args::Common, print::Stream, texts::help_part};

#[derive(Debug, Parser)]
#[command(
    name = "kiln",
    version,
    about = "Erasure coding of files, with cheap repair",
    long_about = help_part("about"),
    after_help = [help_part("kiln"), &kinds_of_places(), help_part("exit codes")].join("\n"),
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Program {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

commands! {
    /// All commands, in the order in which help lists them.
    pub enum Command {
        Encode(encode::Encode),
        Decode(decode::Decode),
        Verify(verify::Verify),
        Repair(repair::Repair),
        Recode(recode::Recode),
        Inspect(inspect::Inspect),
        Protect(protect::Protect),
        Pool(pool::Pool),
        Put(put::Put),
        Get(get::Get),
        Ls(ls::Ls),
        Stat(stat::Stat),
        Rm(rm::Rm),
        Mv(mv::Mv),
        Cp(cp::Cp),
        Sync(sync::Sync),
        Mount(mount::Mount),
        Scrub(scrub::Scrub),
        Status(status::Status),
        Volume(volume::VolumeCommand),
        Nbd(nbd::Nbd),
        Serve(serve::Serve),
        S3(s3::S3),
        Codes(codes::Codes),
        Advise(advise::Advise),
        Plan(plan::Plan),
        Agent(agent::Agent),
        Key(key::Key),
        Coordinator(coordinator::Coordinator),
        Probe(probe::Probe),
        Torture(torture::Torture),
        Man(man::Man),
        Completions(completions::Completions),
    }
}

impl Command {
    /// The least role that a key must have for what the command does beyond its requests to agents,
    /// or where agents cannot tell it from lesser ones.
    pub fn least_role(&self) -> Option<PeerRole> {
        match self {
            Command::Put(_) | Command::Rm(_) | Command::Mv(_) => Some(PeerRole::Writer),
            Command::Repair(_) | Command::Coordinator(_) => Some(PeerRole::Operator),
            Command::Scrub(scrub) => (!scrub.dry_run).then_some(PeerRole::Operator),
            Command::Pool(pool) => pool.least_role(),
            _ => None,
        }
    }

    /// Returns whether a key for names with a prefix is enough: objects are named one by one, or no
    /// agent is asked for any.
    pub fn works_by_prefix(&self) -> bool {
        match self {
            Command::Get(get) => get.at.is_none(),
            Command::Rm(rm) => !rm.recursive,
            Command::Pool(_) | Command::Ls(_) | Command::Mv(_) | Command::Cp(_) => false,
            Command::Sync(_) | Command::Mount(_) | Command::Scrub(_) | Command::Status(_) => false,
            Command::Volume(_) | Command::Nbd(_) | Command::Serve(_) | Command::S3(_) => false,
            Command::Repair(_) | Command::Recode(_) | Command::Coordinator(_) => false,
            _ => true,
        }
    }

    /// Printed at an interrupt: what stays, and how to go on. Empty for commands that handle
    /// signals themselves or have nothing to say.
    pub fn interrupted(&self) -> &'static str {
        match self {
            Command::Coordinator(_)
            | Command::Agent(_)
            | Command::Codes(_)
            | Command::Advise(_)
            | Command::Ls(_)
            | Command::Plan(_)
            | Command::Mount(_)
            | Command::Nbd(_)
            | Command::Serve(_)
            | Command::Status(_) => "",
            _ => match help_part(&format!("interrupted {}", self.row())) {
                "" => "nothing was changed",
                words => words,
            },
        }
    }
}

/// Parses the command line; `None`: help or the version was asked for, and has been printed.
/// Errors: [`Failure::Arguments`] in one line when the words make no sense.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Option<Program>> {
    Program::try_parse_from(words).map(Some).or_else(|error| shown_or_wrong(&error))
}

/// Help and version go to stdout; anything else becomes one line.
fn shown_or_wrong(error: &clap::Error) -> Result<Option<Program>> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Stream::Stdout.text(&error.render().to_string())?;
            Ok(None)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Err(Failure::Arguments { message: "no command given; see the list above".into() })
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
        // A mistyped flag is not meant as a value.
        .filter(|(_, words)| !words.starts_with("tip: to pass '-"))
        .map(|(_, words)| words)
        .collect();
    let joined = useful.join("; ");
    let problem = joined.strip_prefix("error: ").unwrap_or(&joined);
    format!("{problem} (see --help)")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_a_sound_program() {
        Program::command().debug_assert();
        let words = include_str!("help.txt").lines();
        for row in words.filter_map(|line| line.strip_prefix("## interrupted ")) {
            assert!(Program::command().find_subcommand(row.to_lowercase()).is_some(), "{row}");
        }
        let put = parse(["kiln", "put", "x"].map(Into::into).into_iter()).ok().flatten();
        assert!(put.unwrap().command.interrupted().starts_with("nothing was put; rerun"));
    }

    #[test]
    fn every_example_of_the_help_is_a_command() {
        let text = include_str!("help.txt").replace("\\\n", " ").replace("--node ...", "--node d");
        let commands = text.lines().filter_map(|line| line.strip_prefix("  "));
        let commands = commands.filter(|line| line.starts_with("kiln "));
        let wrong = |line: &&str| {
            let command = line.split("  ").next().unwrap_or_default();
            let end = command.find([';', '|', '>', '<', '&']).unwrap_or(command.len());
            let words =
                command[..end].split('\'').enumerate().flat_map(|(at, words)| match at % 2 {
                    0 => words.split_whitespace().filter(|word| *word != "...").collect(),
                    _ => vec![words],
                });
            parse(words.map(Into::into)).is_err()
        };
        assert!(commands.clone().count() > 150);
        assert_eq!(commands.filter(wrong).collect::<Vec<_>>(), [""; 0]);
    }
}
