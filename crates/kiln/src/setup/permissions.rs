//! Permissions of outputs: shards of a file that only its owner may read, and files decoded
//! from such shards, are for the owner alone too.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

use super::Folders;

/// Permission bits of all but the owner.
const OTHERS: u32 = 0o077;

/// Denies files that are made from now on to all who may not use this one.
pub fn as_private_as(path: &Path) {
    if let Ok(meta) = path.metadata().or_else(|_| path.symlink_metadata()) {
        let mode = meta.permissions().mode();
        // What may be entered is not said by a file's mode.
        let denied = !mode & OTHERS & if meta.is_dir() { OTHERS } else { 0o066 };
        let old = umask(Mode::empty());
        umask(old | Mode::from_raw_mode(denied));
    }
}

/// The same by the files of an object in folders of this machine.
pub fn as_private_as_shards(folders: &Folders, object: Option<&str>) {
    for node in folders.nodes() {
        let Some(folder) = node.store.folder() else { continue };
        for name in node.store.list().unwrap_or_default() {
            let of = |object: &str| name.strip_prefix(object).is_some_and(|r| r.starts_with('.'));
            if name.ends_with(".kiln") && object.is_none_or(of) {
                as_private_as(&folder.join(&name));
            }
        }
    }
}
