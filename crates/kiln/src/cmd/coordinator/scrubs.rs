//! Scrubs on a schedule: interval, pace, position, and the command that gets their findings.

use std::{path::PathBuf, time::Duration};

use crate::exit::Result;
use clap::Args;
use kiln_recovery::ScrubPosition;
use kiln_stripe::Depth;

use crate::setup::{PoolFlags, Setup, write_file};
use crate::{args::size, exit::Failure, names, times};

/// Most bytes of the file.
const MOST: usize = 64 << 10;

// No doc comment: clap would take it for the summary.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scrubs on a schedule, with --stay")]
pub struct ScrubFlags {
    /// Read every byte of the pool once in this time (e.g. 30d, 12h), and repair what is damaged.
    /// Its position stays in a file beside the pool's description, so it goes on there
    #[arg(long, value_name = "TIME", value_parser = times::parse, requires = "stay")]
    scrub_every: Option<Duration>,
    /// Bytes that scrubs read at each node a second
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "10MiB",
          requires = "scrub_every")]
    scrub_rate: u64,
    /// Also compute parity again and compare it with what is stored
    #[arg(long, requires = "scrub_every")]
    scrub_deep: bool,
    /// Command of the shell that is run when a scrub finds damage, with the findings as JSON on its
    /// standard input; it is ended after a minute
    #[arg(long, value_name = "CMD", requires = "scrub_every")]
    on_finding: Option<String>,
}

impl ScrubFlags {
    /// From one round to the next.
    pub fn every(&self) -> Option<Duration> {
        self.scrub_every
    }

    /// The command that gets findings.
    pub fn on_finding(&self) -> Option<&str> {
        self.on_finding.as_deref()
    }

    /// Depth of reading.
    pub fn depth(&self) -> Depth {
        if self.scrub_deep { Depth::Parity } else { Depth::Data }
    }

    /// Opens places at the pace of scrubs.
    /// Errors: a pace at which nothing is read.
    pub fn setup(&self, setup: &Setup) -> Result<Setup> {
        if self.scrub_rate == 0 {
            let problem = "must be at least 1 byte per second".to_owned();
            return Err(Failure::Flag { flag: "--scrub-rate", problem });
        }
        let least = setup.limit_rate().map_or(self.scrub_rate, |rate| rate.min(self.scrub_rate));
        Ok(setup.paced(Some(least)))
    }
}

/// The file in which the position is kept, beside the pool's description.
pub struct PositionFile {
    path: PathBuf,
}

impl PositionFile {
    /// The scrub position file of a pool.
    pub fn of(pool: &PoolFlags) -> PositionFile {
        PositionFile { path: names::scrub(&pool.path()) }
    }

    /// Reads the position; the beginning when there is no file.
    /// Errors: the file cannot be read, or is something else: then it is not replaced.
    pub fn read(&self) -> Result<ScrubPosition> {
        let failed = |source| Failure::Io { action: "read", path: self.path.clone(), source };
        let unusable = |problem: String| Failure::NotUsable { path: self.path.clone(), problem };
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(ScrubPosition::default());
            }
            bytes => bytes.map_err(failed)?,
        };
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= MOST);
        let text = text.ok_or_else(|| unusable("not a scrub position; remove it".to_owned()))?;
        toml::from_str(text).map_err(|error| {
            let why = error.message();
            unusable(format!(
                "not a scrub position ({why}); remove it to start the next scrub anew"
            ))
        })
    }

    /// Keeps a position, durably.
    /// Errors: in words: the folder cannot be written.
    pub fn write(&self, position: &ScrubPosition) -> Result<(), String> {
        let text = toml::to_string(position).map_err(|error| error.to_string())?;
        let written = write_file(&self.path, text.as_bytes());
        written.map_err(|error| format!("scrub position: not saved ({error})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = PositionFile { path: folder.path().join("pool.scrub.toml") };
        assert_eq!(file.read().ok().unwrap(), ScrubPosition::default());
        let position = ScrubPosition {
            began_ms: 1_790_000_000_000,
            after: Some("a/\"quoted\"\n\u{e9}".to_owned()),
            objects: 7,
            ..ScrubPosition::default()
        };
        file.write(&position).unwrap();
        assert_eq!(file.read().ok().unwrap(), position);
        for bad in [&b"objects = -1"[..], b"other = 1", b"\xff", &[b'#'; MOST + 1]] {
            std::fs::write(&file.path, bad).unwrap();
            assert!(file.read().is_err());
        }
    }
}
