//! `kiln key`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kiln_net::agent::PeerRole;
use serde::Serialize;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::print::Stream;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  kiln key --role client --days 30 -o client.key --key cluster.key
      a key with which a person or program reads and writes files, and no more
  kiln key --role agent -o agent.key --key cluster.key
      a key for a machine that only serves its folder; it cannot delete what others serve

To change the cluster's key, put the new one behind the old one in the file of every machine
(cat old.key new.key > cluster.key) and start the agents again; then the new one before the old one;
then the new one alone. Members with one of these files and with the one before or after it agree.";

/// Issue a key for one role that ends after some days
///
/// The cluster's key permits everything and issues others. An issued key is enough for
/// its role: client (files of agents, and the rebuilding of what is read), agent (serving a folder,
/// and its part in repairs) or administrator (repairs and recovery too).
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Key {
    /// Role of its holder
    #[arg(long, value_enum)]
    role: Role,

    /// Days after which it ends
    #[arg(long, value_name = "N", default_value_t = 90,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,

    /// File for it, which must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    Client,
    Agent,
    Administrator,
}

/// The key that was made.
#[derive(Serialize)]
struct Issued {
    file: String,
    role: String,
    ends: String,
}

impl Key {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let role = match self.role {
            Role::Client => PeerRole::Client,
            Role::Agent => PeerRole::Agent,
            Role::Administrator => PeerRole::Administrator,
        };
        let time = Duration::from_secs(u64::from(self.days) * 86_400);
        let ends = setup.key()?.issue(&self.output, role, time)?;
        let (file, role) = (self.output.display().to_string(), role.to_string());
        match (setup.json, setup.quiet) {
            (true, _) => Stream::Stdout.json(&Issued { file, role, ends })?,
            (false, true) => {}
            (false, false) => Stream::Stdout
                .text(&format!("{file} is a key of the role {role}; it expires on {ends}\n"))?,
        }
        Ok(Exit::Done)
    }
}
