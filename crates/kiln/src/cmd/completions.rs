//! `kiln completions`

use crate::exit::{Exit, Result};
use crate::{args::with_exit_codes, print::Stream, setup::Setup};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  kiln completions bash > /usr/share/bash-completion/completions/kiln
  kiln completions zsh > ~/.zfunc/_kiln
  kiln completions fish > ~/.config/fish/completions/kiln.fish";

/// Print what a shell needs to complete kiln's words
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
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
