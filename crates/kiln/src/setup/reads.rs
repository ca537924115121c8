//! Flags of reading stored bytes.

use clap::Args;
use kiln_store::ReadMode;
use std::num::NonZeroUsize;

// Flags of every command that reads shards. No doc comment: clap would print it as the summary.
#[derive(Debug, Args)]
pub struct ReadFlags {
    /// Read from the devices, past the page cache; runs of a shard are submitted together.
    /// KILN_URING=off submits them one after the other
    #[arg(long)]
    pub direct: bool,
    /// Shards of a stripe that are read at the same time, 32 at most; 1: one after the other
    /// [default: 32]
    #[arg(long, value_name = "N")]
    pub readers: Option<NonZeroUsize>,
}

impl ReadFlags {
    /// The flags as the stores take them; from here on the limit of readers holds.
    pub fn mode(&self) -> ReadMode {
        if let Some(readers) = self.readers {
            kiln_stripe::limit_readers(readers);
        }
        if self.direct { direct() } else { ReadMode::Cached }
    }
}

/// Direct reads as this process is to do them.
pub fn direct() -> ReadMode {
    ReadMode::Direct { together: std::env::var_os("KILN_URING").is_none_or(|word| word != "off") }
}
