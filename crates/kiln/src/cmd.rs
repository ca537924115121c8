//! The table of commands. To add one: write `cmd/x.rs` and one row in [`COMMANDS`].

pub(crate) mod agent;
mod all;
mod codes;
mod completions;
mod coordinator;
mod cp;
mod decode;
mod encode;
mod get;
mod inspect;
mod key;
mod ls;
mod man;
mod mv;
mod nbd;
mod plan;
mod pool;
mod probe;
mod put;
mod repair;
mod rm;
mod scrub;
mod stat;
mod status;
mod sync;
mod transfer;
mod verify;
mod volume;

use clap::{ArgMatches, Args};

use crate::exit::{Exit, Failure};
use crate::setup::Setup;

/// One command: its arguments, as clap reads them, and what it does.
pub trait Command: Args {
    /// The word the user types.
    const NAME: &'static str;
    /// Shown at the end of its help.
    const EXAMPLES: &'static str;
    /// What somebody who interrupts it is told: what stays, and how to go on. Empty: it deals with
    /// signals by itself.
    const INTERRUPTED: &'static str = "nothing was changed";

    /// Does it.
    fn run(self, setup: &Setup) -> Result<Exit, Failure>;
}

/// A command in the form the table holds it.
pub struct Row {
    /// The word the user types.
    pub name: &'static str,
    /// Shown at the end of its help.
    pub examples: &'static str,
    /// Said when it is interrupted; see [`Command::INTERRUPTED`].
    pub interrupted: &'static str,
    /// Adds its arguments and summary to a clap command.
    pub augment: fn(clap::Command) -> clap::Command,
    /// Reads its arguments and runs it.
    pub run: fn(&ArgMatches, &Setup) -> Result<Exit, Failure>,
}

/// All commands, in the order in which help lists them.
pub static COMMANDS: &[Row] = &[
    row::<encode::Encode>(),
    row::<decode::Decode>(),
    row::<verify::Verify>(),
    row::<repair::Repair>(),
    row::<inspect::Inspect>(),
    row::<pool::Pool>(),
    row::<put::Put>(),
    row::<get::Get>(),
    row::<ls::Ls>(),
    row::<stat::Stat>(),
    row::<rm::Rm>(),
    row::<mv::Mv>(),
    row::<cp::Cp>(),
    row::<sync::Sync>(),
    row::<scrub::Scrub>(),
    row::<status::Status>(),
    row::<volume::VolumeCommand>(),
    row::<nbd::Nbd>(),
    row::<codes::Codes>(),
    row::<plan::Plan>(),
    row::<agent::Agent>(),
    row::<key::Key>(),
    row::<coordinator::Coordinator>(),
    row::<probe::Probe>(),
    row::<man::Man>(),
    row::<completions::Completions>(),
];

const fn row<C: Command>() -> Row {
    Row {
        name: C::NAME,
        examples: C::EXAMPLES,
        interrupted: C::INTERRUPTED,
        augment: C::augment_args,
        run: run::<C>,
    }
}

fn run<C: Command>(matches: &ArgMatches, setup: &Setup) -> Result<Exit, Failure> {
    let command = C::from_arg_matches(matches)
        .map_err(|error| Failure::Arguments { message: error.to_string() })?;
    command.run(setup)
}
