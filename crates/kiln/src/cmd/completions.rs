//! `kiln completions`

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::args::program;
use crate::cmd::Command;
use crate::exit::{Exit, Failure};
use crate::print::Stream;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  kiln completions bash > /usr/share/bash-completion/completions/kiln
  kiln completions zsh > ~/.zfunc/_kiln
  kiln completions fish > ~/.config/fish/completions/kiln.fish";

/// Print what a shell needs to complete kiln's words
#[derive(Debug, Args)]
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

impl Command for Completions {
    const NAME: &'static str = "completions";
    const EXAMPLES: &'static str = EXAMPLES;

    fn run(self, _: &Setup) -> Result<Exit, Failure> {
        let shell = match self.shell {
            Which::Bash => Shell::Bash,
            Which::Zsh => Shell::Zsh,
            Which::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut program(), "kiln", &mut script);
        Stream::Stdout.text(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
