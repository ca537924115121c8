//! Names of the files that the program itself keeps. Those of shards and of pools' nodes are
//! `kiln_pool`'s.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A pool's description, where no other file is named.
pub const POOL: &str = "pool.toml";
/// The model of a folder's device. Hidden, so no command takes it for a shard.
pub const DEVICE_MODEL: &str = ".kiln-device";
/// File that `kiln probe` reads.
pub const PROBE_SCRATCH: &str = ".kiln-probe.part";

/// The limits of repair traffic, beside the pool's description.
pub fn limits(pool: &Path) -> PathBuf {
    pool.with_extension("limits.toml")
}

/// Position of the scrub on a schedule, beside the pool's description.
pub fn scrub(pool: &Path) -> PathBuf {
    pool.with_extension("scrub.toml")
}

/// The local index, beside the pool's description.
pub fn index(pool: &Path) -> PathBuf {
    pool.with_extension("index.redb")
}

/// The key of a pool, beside its description.
pub fn pool_key(pool: &Path) -> PathBuf {
    pool.with_extension("seal.key")
}

/// Lock against two kilns doing the same to a pool, beside its description.
pub fn lock(pool: &Path, what: &str) -> PathBuf {
    pool.with_extension(format!("{what}.lock"))
}

/// An output file while it is written.
pub fn output_part(name: &OsStr) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".kiln-part");
    hidden
}
