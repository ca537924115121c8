//! Access keys: who may do what with which buckets.
//!
//! Keys are records in the pool. Their secrets are needed in plain to check signatures, so they can
//! be read from the disks of the pool; they appear in no log and no listing.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::error::{Code, Result};
use crate::gate::{Gate, RETRIES, Written, contended, fresh, now_ms};
use crate::names::{self, OBJECTS};

/// Stands for all buckets among a key's rights.
pub const ANY_BUCKET: &str = "*";

/// The right to use a bucket; each includes those before it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Get and list objects.
    Read,
    /// Put and delete them.
    Write,
    /// Make and remove the bucket.
    Owner,
}

/// A secret: it is shown only by [`Secret::reveal`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns the secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// An access key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// Its public name, which requests carry.
    pub id: String,
    /// The secret that requests are signed with.
    pub secret: Secret,
    /// A description by the operator.
    pub name: String,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// Rights by bucket; [`ANY_BUCKET`] stands for all.
    pub rights: BTreeMap<String, Right>,
    /// It may make buckets, which belong to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
}

impl AccessKey {
    /// Returns whether the key has a right to a bucket.
    pub fn may(&self, bucket: &str, right: Right) -> bool {
        let has = |name| self.rights.get(name).is_some_and(|has| *has >= right);
        has(bucket) || has(ANY_BUCKET)
    }

    /// Returns the key of requests that carry no signature: it has no rights.
    pub(crate) fn anonymous() -> AccessKey {
        AccessKey { id: String::new(), ..AccessKey::fresh("", BTreeMap::new()) }
    }

    /// Makes a key with a random id and secret.
    pub fn fresh(name: &str, rights: BTreeMap<String, Right>) -> AccessKey {
        let id = crate::digest::hex(&fresh()[..9]).to_ascii_uppercase();
        // 244 random bits.
        let secret = crate::digest::hex(&fresh()) + &crate::digest::hex(&fresh());
        AccessKey {
            id: format!("K1{id}"),
            secret: Secret(secret),
            name: name.to_owned(),
            created_ms: now_ms(),
            rights,
            create: false,
        }
    }
}

impl Gate {
    /// Keeps a new access key.
    /// Errors: a right to what can be no bucket; the pool's errors.
    pub fn create_key(&self, key: AccessKey) -> Result<AccessKey> {
        for bucket in key.rights.keys().filter(|bucket| *bucket != ANY_BUCKET) {
            names::check_bucket(bucket)?;
        }
        match self.write(&names::access_key(&key.id), &key, &[], None)? {
            Written::Done(_) => Ok(key),
            Written::Conflict => Err(contended()),
        }
    }

    /// Finds an access key; `None`: there is none, or it was revoked.
    pub fn key(&self, id: &str) -> Result<Option<AccessKey>> {
        let plain = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !plain || id.is_empty() {
            return Ok(None);
        }
        let seen = self.see::<AccessKey>(&names::access_key(id))?;
        Ok(seen.map(|seen| seen.record))
    }

    /// Lists access keys.
    pub fn keys(&self) -> Result<Vec<AccessKey>> {
        let names = self.names(&format!("{OBJECTS}key/"))?;
        Ok(self.see_all(&names)?.into_iter().flatten().collect())
    }

    /// Revokes an access key: servers refuse it within seconds.
    /// Errors: [`Code::InvalidAccessKeyId`]: there is no such key; the pool's errors.
    pub fn revoke_key(&self, id: &str) -> Result<()> {
        let name = names::access_key(id);
        for _ in 0..RETRIES {
            let Some(seen) = self.see::<AccessKey>(&name)? else {
                return Code::InvalidAccessKeyId
                    .err(format!("access key: there is none of id {id:?}"));
            };
            if let Written::Done(_) = self.remove(&name, seen.run)? {
                return Ok(());
            }
        }
        Err(contended())
    }
}
