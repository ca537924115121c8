//! Permissions of files that are made: outputs are private until they are complete, and never more
//! open than the files that they are made of; files of pools are their owner's.

use rustix::{fs::Mode, process::umask};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{os::unix::fs::PermissionsExt, path::Path};

/// Permission bits of all but the owner.
const OTHERS: u32 = 0o077;

/// The caller's umask, until files of a pool narrow that of the process.
static MASK: AtomicU32 = AtomicU32::new(u32::MAX);
/// Bits that sources of outputs deny.
static DENIED: AtomicU32 = AtomicU32::new(0);

fn narrow(bits: u32) -> u32 {
    let old = umask(Mode::from_raw_mode(OTHERS));
    umask(old | Mode::from_raw_mode(bits));
    let old = old.bits();
    match MASK.compare_exchange(u32::MAX, old, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => old,
        Err(mask) => mask,
    }
}

/// Keeps files and folders that are made from now on to their owner: those of a pool's nodes, of
/// its index and of keys. Outputs have modes of their own: see [`output_mode`].
pub fn for_owner_alone() {
    narrow(OTHERS);
}

/// The mode of a complete output: that of the file that it replaces, else what the caller's umask
/// leaves; without the bits that its sources deny.
pub fn output_mode(replaced: Option<u32>) -> u32 {
    let mask = narrow(0);
    replaced.unwrap_or(0o666 & !mask) & 0o777 & !DENIED.load(Ordering::Relaxed)
}

/// The mode of a folder that is made for outputs.
pub fn folder_mode() -> u32 {
    0o777 & !narrow(0)
}

/// Denies files that are made from now on to all who may not use this one.
pub fn as_private_as(path: &Path) {
    if let Ok(meta) = path.metadata().or_else(|_| path.symlink_metadata()) {
        let mode = meta.permissions().mode();
        // A file's mode does not say which folders may be entered.
        let denied = !mode & if meta.is_dir() { OTHERS } else { 0o066 };
        DENIED.fetch_or(denied, Ordering::Relaxed);
        narrow(denied);
    }
}
