//! Files with the keys of sealed and of encrypted pools.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::{io::Write, os::unix::fs::OpenOptionsExt};

use crate::exit::Result;
use kiln_pool::{PoolKeys, random};

use super::pool_flags::{PoolFlags, read_text};
use crate::{exit::Failure, names, setup::variable};

/// Most bytes of a key's file.
const MAX_KEY: u64 = 1 << 16;

/// A file with keys of a pool.
pub struct KeyFile {
    pub path: PathBuf,
    /// It was named, so it must be there.
    named: bool,
}

impl PoolFlags {
    /// The file with the keys that seal a pool.
    pub fn seal_key(&self) -> KeyFile {
        KeyFile::of(self.pool_key.as_ref(), "KILN_POOL_KEY", || names::pool_key(&self.path()))
    }

    /// The file with the keys that wrap keys of objects.
    pub fn data_key(&self) -> KeyFile {
        KeyFile::of(self.data_key.as_ref(), "KILN_DATA_KEY", || names::data_key(&self.path()))
    }
}

impl KeyFile {
    fn of(flag: Option<&PathBuf>, named: &str, beside: impl FnOnce() -> PathBuf) -> KeyFile {
        match flag.cloned().or_else(|| variable(named)) {
            Some(path) => KeyFile { path, named: true },
            None => KeyFile { path: beside(), named: false },
        }
    }

    /// The keys in it.
    /// Errors: a file that was named is not there, or has no key.
    pub fn keys(&self) -> Result<PoolKeys> {
        if !self.named && !self.path.exists() {
            return Ok(PoolKeys::default());
        }
        Ok(PoolKeys::parse(&read_text(&self.path, MAX_KEY)?)?)
    }

    /// Makes it with a fresh key, unless it is there; whether it did.
    pub fn make(&self) -> Result<bool> {
        let path = &self.path;
        if path.exists() {
            return Ok(false);
        }
        let _lock = lock_folder(path)?;
        // A name appears with its whole content: half a key would lock the pool's users out.
        let new = beside(path);
        let made = create(&new, &PoolKeys::text_of(&random()?))
            .and_then(|()| fs::hard_link(&new, path))
            .and_then(|()| sync_folder(path));
        let _ = fs::remove_file(&new);
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true).map_err(|source| failed(path, source)),
        }
    }

    /// Puts a fresh key before those in the file.
    /// Errors: the file has as many keys as it may; it cannot be read or written.
    pub fn add(&self) -> Result<()> {
        let secret = random()?;
        change(&self.path, |text| {
            let text = PoolKeys::text_of(&secret) + text;
            PoolKeys::parse(&text)?;
            Ok(text)
        })
    }

    /// Takes the keys out of the file that come after the one of this id, which the pool uses.
    /// Errors: it cannot be read or written, or does not have that key any more.
    pub fn drop_after(&self, id: &str) -> Result<()> {
        drop_keys_after(&self.path, id)
    }
}

/// Takes the keys out of a file that come after the one of this id: one that another process put
/// before it meanwhile does not seal yet, and stays beside it.
fn drop_keys_after(path: &Path, sealing: &str) -> Result<()> {
    change(path, |text| {
        let kept = PoolKeys::parse(text)?.text_up_to(sealing);
        kept.ok_or_else(|| Failure::NotUsable {
            path: path.to_owned(),
            problem: format!("key {sealing}, which the pool uses, is not in it any more"),
        })
    })
}

/// Replaces the content of a key's file by what `edit` makes of the content that it has at that
/// moment: one process at a time changes files of its folder so.
fn change(path: &Path, edit: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let path = path.canonicalize().map_err(|source| failed(path, source))?;
    let _lock = lock_folder(&path)?;
    let text = read_text(&path, MAX_KEY)?;
    let new = edit(&text)?;
    if new == text { Ok(()) } else { replace(&path, &new) }
}

/// A new file that only its owner reads, on disk.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    // Of a run that was cut short.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Another content of a key's file: a crash leaves the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |source| failed(path, source);
    let new = beside(path);
    create(&new, text).and_then(|()| fs::rename(&new, path)).map_err(failed)?;
    sync_folder(path).map_err(failed)
}

/// The name under which a key's file is written.
fn beside(path: &Path) -> PathBuf {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    PathBuf::from(new)
}

/// Keeps other processes from changing keys in the folder of this file.
fn lock_folder(path: &Path) -> Result<File> {
    let lock = File::open(folder_of(path)).and_then(|folder| folder.lock().map(|()| folder));
    lock.map_err(|source| failed(path, source))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn failed(path: &Path, source: std::io::Error) -> Failure {
    Failure::Io { action: "write", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that was put before the one that seals, by a process that prepares the next exchange,
    /// must not push that one out; and of keys that are added at the same time none is lost.
    #[test]
    fn the_key_that_seals_stays_whatever_others_add() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.seal.key");
        let texts = [1, 2, 3].map(|byte| PoolKeys::text_of(&[byte; 32]));
        let ids = PoolKeys::parse(&texts.concat()).unwrap().ids();
        fs::write(&path, texts.concat()).unwrap();
        drop_keys_after(&path, &ids[1]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), texts[..2].concat());
        assert!(drop_keys_after(&path, &ids[2]).is_err());
        let file = KeyFile { path: path.clone(), named: true };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| file.add().unwrap())));
        });
        let kept = PoolKeys::parse(&fs::read_to_string(&path).unwrap()).unwrap().ids();
        assert_eq!((kept.len(), &kept[4..]), (6, &ids[..2]));
    }
}
