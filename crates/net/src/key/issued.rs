//! Records beside a key's file: `FILE.issued`, the keys that it issued, and `FILE.revoked`, those
//! that are refused here. The second is copied to agents, beside the key file of each.

use std::io::{ErrorKind, Write};
use std::{fs, os::unix::fs::OpenOptionsExt, path::PathBuf};

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use super::{ClusterKey, io_error};
use crate::{NetError, NetOperation, Result, agent::Rights};

/// A key that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedKey {
    /// The first 64 bits of the SHA-256 of its certificate, in hex.
    pub id: String,
    /// Its role.
    pub role: String,
    /// It is for objects whose names begin with this; `None`: for all.
    pub prefix: Option<String>,
    /// The date of its end.
    pub ends: String,
    /// The file that it was written to.
    pub file: String,
    /// Says whether it is revoked.
    pub revoked: bool,
}

/// Returns the number of a certificate, by which it is revoked.
pub(super) fn id_of(certificate: &CertificateDer<'_>) -> String {
    Sha256::digest(certificate).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the word for rights in a record: the role, with the prefix behind it if there is one.
pub(super) fn word_of(rights: &Rights) -> String {
    let prefix = rights.prefix.iter().map(|p| p.replace('%', "%25").replace(' ', "%20"));
    prefix.fold(rights.role.to_string(), |role, prefix| format!("{role}:{prefix}"))
}

impl ClusterKey {
    fn beside(&self, ending: &str) -> PathBuf {
        PathBuf::from(format!("{}.{ending}", self.keys.file))
    }

    /// Returns the text of a file beside the key's, nothing where there is none.
    fn read_beside(&self, ending: &str) -> Result<String> {
        let path = self.beside(ending);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|source| io_error(NetOperation::ReadFile, &path, source)),
        }
    }

    pub(super) fn note(&self, ending: &str, line: &str) -> Result<()> {
        let path = self.beside(ending);
        let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| {
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| io_error(NetOperation::CreateFile, &path, source))
    }

    /// Returns the keys that were issued with this file, the oldest first.
    pub fn issued(&self) -> Result<Vec<IssuedKey>> {
        let (issued, revoked) = (self.read_beside("issued")?, self.read_beside("revoked")?);
        let key = |line: &str| {
            let mut words = line.splitn(4, ' ').map(str::to_owned);
            let (id, role, ends) = (words.next()?, words.next()?, words.next()?);
            let (file, revoked) = (words.next()?, revoked.lines().any(|line| line.trim() == id));
            let (role, prefix) =
                role.split_once(':').map_or((&role[..], None), |(role, prefix)| {
                    (role, Some(prefix.replace("%20", " ").replace("%25", "%")))
                });
            let role = role.to_owned();
            Some(IssuedKey { id, role, prefix, ends, file, revoked })
        };
        Ok(issued.lines().filter_map(key).collect())
    }

    /// Revokes an issued key: agents that have this list beside their key refuse its connections.
    /// Errors: no key of this number was issued with this file; the list cannot be written.
    pub fn revoke(&self, id: &str) -> Result<()> {
        if !self.issued()?.iter().any(|key| key.id == id) {
            let why = format!("{id} is no key that it issued; kiln key --list names those");
            return Err(NetError::Setup { what: self.keys.file.clone(), why });
        }
        self.note("revoked", id)
    }

    /// Returns whether a certificate is on the list beside this key. All are, as long as there is a
    /// list that cannot be read.
    pub(crate) fn is_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        match self.read_beside("revoked") {
            Ok(list) => !list.is_empty() && list.lines().any(|l| l.trim() == id_of(certificate)),
            Err(error) => {
                tracing::warn!(%error, "the list of revoked keys cannot be read");
                true
            }
        }
    }
}
