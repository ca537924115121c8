//! Names of the files that the program itself keeps. Those of shards and of pools' nodes are
//! `kiln_pool`'s.

use std::path::{Path, PathBuf};

/// A pool's description, where no other file is named.
pub const POOL: &str = "pool.toml";
/// Marks a name that is in the pool.
pub const MARK: &str = "pool:";
/// The model of a folder's device. Hidden, so no command takes it for a shard.
pub const DEVICE_MODEL: &str = ".kiln-device";
/// File that `kiln probe` reads.
pub const PROBE_SCRATCH: &str = ".kiln-probe.part";

/// A file beside a pool's description. Only `.toml` is replaced: descriptions `pool.eu` and
/// `pool.us` share no file.
fn beside(pool: &Path, ending: &str) -> PathBuf {
    if pool.extension().is_some_and(|extension| extension == "toml") {
        return pool.with_extension(ending);
    }
    let mut name = pool.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    pool.with_file_name(name)
}

/// As [`beside`]; but a file that an earlier version named, whatever the description's ending,
/// stays in use where there is no other.
fn beside_or_former(pool: &Path, ending: &str) -> PathBuf {
    let (own, former) = (beside(pool, ending), pool.with_extension(ending));
    if !own.exists() && former.exists() { former } else { own }
}

/// The limits of repair traffic, beside the pool's description.
pub fn limits(pool: &Path) -> PathBuf {
    beside_or_former(pool, "limits.toml")
}

/// Position of the scrub on a schedule, beside the pool's description.
pub fn scrub(pool: &Path) -> PathBuf {
    beside(pool, "scrub.toml")
}

/// The local index, beside the pool's description.
pub fn index(pool: &Path) -> PathBuf {
    beside(pool, "index.redb")
}

/// Agents that were silent, a hint beside the pool's description.
pub fn silent(pool: &Path) -> PathBuf {
    beside(pool, "silent")
}

/// The index of the S3 server, beside the pool's description.
pub fn bucket_index(pool: &Path) -> PathBuf {
    beside(pool, "s3.redb")
}

/// The key that wraps keys of objects in an encrypted pool, beside its description.
pub fn data_key(pool: &Path) -> PathBuf {
    beside(pool, "data.key")
}

/// The key of a pool, beside its description.
pub fn pool_key(pool: &Path) -> PathBuf {
    beside_or_former(pool, "seal.key")
}

/// Lock against two kilns doing the same to a pool, beside its description.
pub fn lock(pool: &Path, what: &str) -> PathBuf {
    beside(pool, &format!("{what}.lock"))
}

/// An output file while it is written: hidden, and no longer than file systems allow.
pub use kiln_protect::part_of as output_part;

/// Returns whether a name is one of [`output_part`].
pub fn is_output_part(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(kiln_protect::PART)
}
