//! `kiln`: erasure coding of files over folders, disks and machines.
//!
//! This file is the table of contents: parse the command line, set up the parts, run one command,
//! turn its outcome into an exit code. Everything else has a file of its own:
//!
//! * `args.rs` flags of all commands; `cmd.rs` the command line; `cmd/` one file per command
//! * `setup.rs` ready parts (threads, rate limit, observer, nodes), so commands see no raw flag
//! * `observer.rs` progress, warnings and throttling; `sizes.rs`, `times.rs` and `lists.rs` small
//!   parsers
//! * `page.rs` what a coordinator shows over HTTP; `plan_picture.rs` a plan as a picture
//! * `archive.rs` folders as a stream of bytes and back
//! * `interrupt.rs` what Ctrl-C says
//! * `transfer.rs` files between folders and pools; `exit.rs` the exit codes and the one error type
//!   of the program

#![forbid(unsafe_code)]

mod exit;
mod lists;
mod monitor;
mod names;
mod plan_picture;
mod sizes;
mod print;
mod times;
mod texts;
mod args;
mod interrupt;
mod observer;
mod volume_logs;
mod page;
mod setup;
mod archive;
mod transfer;
mod mount;
mod cmd;

use crate::exit::Result;
use exit::Exit;
use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(tell_panic));
    // Asked before the words are understood: what is wrong may be the words.
    let json = std::env::args_os().any(|word| word == "--json");
    // The reason was printed by the hook.
    let outcome = std::panic::catch_unwind(|| run(std::env::args_os())).unwrap_or(Ok(Exit::Io));
    outcome.unwrap_or_else(|failure| print::report(&failure, json)).into()
}

/// Prints the reason of a panic in one line: the system gives no threads, where a library cannot
/// say so otherwise, or there is a bug.
fn tell_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
    let threads = ["failed to spawn thread", "spawn worker thread"];
    print::error_line(&match panic.location() {
        _ if threads.iter().any(|words| text.contains(words)) => {
            format!("threads: the system gives no more of them ({text}); see ulimit -u")
        }
        Some(at) => format!(
            "internal error: a thread panicked: {text} at {at} (a bug in kiln, please report it)"
        ),
        None => {
            format!("internal error: a thread panicked: {text} (a bug in kiln, please report it)")
        }
    });
}

/// Parse, set up, run.
fn run(words: impl Iterator<Item = OsString>) -> Result<Exit> {
    let Some(program) = cmd::parse(words)? else { return Ok(Exit::Done) };
    let setup = setup::Setup::new(&program.common)?;
    setup.need_role(program.command.least_role(), program.command.works_by_prefix())?;
    interrupt::watch(program.command.interrupted());
    program.command.run(&setup)
}
