//! The file with the keys of a sealed pool.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kiln_pool::PoolKeys;
use uuid::Uuid;

use super::pool_flags::{PoolFlags, read_text};
use crate::exit::Failure;
use crate::names;
use crate::setup::variable;

/// Most bytes of a key's file.
const MAX_KEY: u64 = 1 << 16;

impl PoolFlags {
    /// The file with the pool's key, and whether it must be there since it was named.
    pub fn key_path(&self) -> (PathBuf, bool) {
        let named = || variable("KILN_POOL_KEY");
        match self.pool_key.clone().or_else(named) {
            Some(path) => (path, true),
            None => (names::pool_key(&self.path()), false),
        }
    }

    /// The keys of the pool that are at hand.
    ///
    /// # Errors
    /// A file that was named is not there, or has no key.
    pub fn keys(&self) -> Result<PoolKeys, Failure> {
        let (path, named) = self.key_path();
        if !named && !path.exists() {
            return Ok(PoolKeys::default());
        }
        Ok(PoolKeys::parse(&read_text(&path, MAX_KEY)?)?)
    }

    /// Makes the file with the pool's key, unless it is there; whether it did.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn make_key(&self) -> Result<bool, Failure> {
        let (path, _) = self.key_path();
        if path.exists() {
            return Ok(false);
        }
        // A name appears with its whole content: half a key would lock the pool's users out.
        let new = beside(&path);
        let made = create(&new, &PoolKeys::text_of(&fresh_secret()))
            .and_then(|()| fs::hard_link(&new, &path))
            .and_then(|()| sync_folder(&path));
        let _ = fs::remove_file(&new);
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true).map_err(|source| failed(&path, source)),
        }
    }

    /// Puts a fresh key before those in the file.
    ///
    /// # Errors
    /// The file has as many keys as it may; it cannot be read or written.
    pub fn add_key(&self) -> Result<(), Failure> {
        let (path, _) = self.key_path();
        let text = PoolKeys::text_of(&fresh_secret()) + &read_text(&path, MAX_KEY)?;
        PoolKeys::parse(&text)?;
        replace(&path, &text)
    }

    /// Takes all keys but the first out of the file.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn drop_old_keys(&self) -> Result<(), Failure> {
        let keys = self.keys()?;
        match keys.ids().len() {
            0 | 1 => Ok(()),
            _ => replace(&self.key_path().0, &keys.text_of_first()),
        }
    }
}

fn fresh_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    // 244 random bits.
    secret[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    secret[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    secret
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
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| failed(path, source);
    let path = path.canonicalize().map_err(failed)?;
    let new = beside(&path);
    create(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(failed)?;
    sync_folder(&path).map_err(failed)
}

/// The name under which a key's file is written.
fn beside(path: &Path) -> PathBuf {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    PathBuf::from(new)
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn failed(path: &Path, source: std::io::Error) -> Failure {
    Failure::Io { action: "write", path: path.to_owned(), source }
}
