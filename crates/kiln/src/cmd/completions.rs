//! `kiln completions`

use crate::exit::{Exit, Result};
use crate::{args::help, print::Stream, setup::Setup};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

/// Print what a shell needs to complete kiln's words
#[derive(Debug, Args)]
#[command(after_help = help("completions"))]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub fn run(self, _: &Setup) -> Result<Exit> {
        let shell = match self.shell {
            Which::Bash => Shell::Bash,
            Which::Zsh => Shell::Zsh,
            Which::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut super::Program::command(), "kiln", &mut script);
        Stream::Stdout.text(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
