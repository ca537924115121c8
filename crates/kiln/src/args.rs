//! Flags that every command takes, and parsers of values.

pub use crate::texts::help;
use crate::{names::MARK, sizes};
use clap::{ArgAction, Args};
use std::{convert::Infallible, ops::Range, path::PathBuf};

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

/// The name of an object, or how names begin, in a command that takes nothing else: `pool:` before
/// it means what it means to `kiln cp`, and so does `/`: names begin at the pool's root. An object
/// whose name begins so is `pool:pool:NAME`.
pub fn in_pool(name: &str) -> Result<String, Infallible> {
    Ok(name.strip_prefix(MARK).unwrap_or(name).trim_start_matches('/').to_owned())
}

/// [`sizes::parse`] in the form that clap takes.
pub fn size(text: &str) -> Result<u64, String> {
    sizes::parse(text)
}

/// A range of bytes as people write it: START+LENGTH.
pub fn byte_range(text: &str) -> Result<Range<u64>, String> {
    let Some((start, len)) = text.split_once('+') else {
        return Err(format!("'{text}' is not a range: write START+LENGTH, e.g. 1MiB+64KiB"));
    };
    let (start, len) = (sizes::parse(start)?, sizes::parse(len)?);
    Ok(start..start.saturating_add(len))
}
