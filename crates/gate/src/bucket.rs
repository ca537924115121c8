//! Buckets: made, found, listed, removed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::access::{AccessKey, Right};
use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, RETRIES, Seen, Written, contended, fresh_id, now_ms};
use crate::names::{self, OBJECTS};
use crate::policy;
use crate::record::{BucketRecord, Versioning};

/// A bucket as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// Id of the access key that made it; empty: of none.
    pub owner: String,
    /// Everybody may get its objects, or some of them.
    pub public: bool,
}

impl Gate {
    /// Makes a bucket that belongs to an access key; `settings`: its documents.
    ///
    /// # Errors
    /// [`Code::BucketAlreadyOwnedByYou`], [`Code::BucketAlreadyExists`]; the pool's errors.
    pub fn create_bucket(
        &self,
        name: &str,
        owner: &AccessKey,
        settings: BTreeMap<String, String>,
    ) -> Result<()> {
        names::check_bucket(name)?;
        let mut id = fresh_id();
        id.truncate(16);
        let record = BucketRecord {
            id,
            created_ms: now_ms(),
            removing: false,
            owner: owner.id.clone(),
            settings,
        };
        match self.write(&names::bucket(name), &record, &[], None)? {
            Written::Done(_) => Ok(()),
            Written::Conflict => {
                let there = self.bucket(name)?;
                let mine = there.owner == owner.id || owner.may(name, Right::Owner);
                // S3's oldest region, which is ours by name, answers its owner so.
                if mine && record.settings.is_empty() {
                    return Ok(());
                }
                let code = match mine {
                    true => Code::BucketAlreadyOwnedByYou,
                    false => Code::BucketAlreadyExists,
                };
                Err(GateError::new(code, "bucket: there is one of this name already"))
            }
        }
    }

    /// Sets or removes a document of a bucket.
    /// Errors: [`Code::NoSuchBucket`]; [`Code::InvalidBucketState`]: object lock needs versioning;
    /// the pool's errors.
    pub(crate) fn set(&self, bucket: &str, name: &str, document: Option<&str>) -> Result<()> {
        for _ in 0..RETRIES {
            let Seen { mut record, run, .. } = self.see_bucket(bucket)?;
            let had = match document {
                Some(text) => record.settings.insert(name.to_owned(), text.to_owned()),
                None => record.settings.remove(name),
            };
            if had.as_deref() == document {
                return Ok(());
            }
            let locked = record.settings.contains_key("object-lock");
            if locked && record.versioning() != Versioning::Enabled {
                return Code::InvalidBucketState.err(match name {
                    "object-lock" => {
                        "Versioning must be 'Enabled' on the bucket to apply a Object Lock \
                         configuration"
                    }
                    _ => {
                        "An Object Lock configuration is present on this bucket, so the \
                         versioning state cannot be changed."
                    }
                });
            }
            if let Written::Done(_) = self.write(&names::bucket(bucket), &record, &[], Some(run))? {
                return Ok(());
            }
        }
        Err(contended())
    }

    /// Lets everybody get the objects of a bucket, and list them if `list`; or nobody again.
    ///
    /// # Errors
    /// [`Code::NoSuchBucket`]; the pool's errors.
    pub fn set_public(&self, bucket: &str, public: bool, list: bool) -> Result<()> {
        let policy = public.then(|| policy::public(bucket, list));
        self.set(bucket, "policy", policy.as_deref())
    }

    /// Finds a bucket.
    /// Errors: [`Code::NoSuchBucket`]; the pool's errors.
    pub(crate) fn bucket(&self, name: &str) -> Result<BucketRecord> {
        Ok(self.see_bucket(name)?.record)
    }

    fn see_bucket(&self, name: &str) -> Result<Seen<BucketRecord>> {
        names::check_bucket(name)?;
        let none = || Code::NoSuchBucket.error("bucket: there is none of this name");
        self.see(&names::bucket(name))?.ok_or_else(none)
    }

    /// Makes sure after a change that its bucket was there at that time. A bucket that is being
    /// removed looks for objects after it says so: one of the two sees the other.
    pub(crate) fn still_there(&self, name: &str, known: &BucketRecord) -> Result<()> {
        let now = self.bucket(name)?;
        if now.id != known.id {
            return Code::NoSuchBucket.err("bucket: it was removed meanwhile");
        }
        match now.removing {
            true => Code::OperationAborted.err("bucket: it is being removed"),
            false => Ok(()),
        }
    }

    /// Lists buckets in order of name.
    pub fn buckets(&self) -> Result<Vec<Bucket>> {
        let prefix = format!("{OBJECTS}bucket/");
        let names = self.names(&prefix)?;
        let records = self.see_all::<BucketRecord>(&names)?;
        let pairs = names.iter().zip(records);
        let bucket = |(name, record): (&String, Option<BucketRecord>)| {
            let name = names::decode(name.strip_prefix(&prefix)?)?;
            let BucketRecord { created_ms, owner, settings, .. } = record?;
            let public = settings.contains_key("policy");
            Some(Bucket { name, created_ms, owner, public })
        };
        Ok(pairs.filter_map(bucket).collect())
    }

    /// Removes an empty bucket; uploads in parts that were begun in it go with it.
    ///
    /// # Errors
    /// [`Code::BucketNotEmpty`]; [`Code::NoSuchBucket`]; the pool's errors.
    pub fn delete_bucket(&self, name: &str) -> Result<()> {
        let object = names::bucket(name);
        for _ in 0..RETRIES {
            let seen = self.see_bucket(name)?;
            let marked = BucketRecord { removing: true, ..seen.record };
            let Written::Done(mark) = self.write(&object, &marked, &[], Some(seen.run))? else {
                continue;
            };
            let mut empty = true;
            self.each((&names::records(&marked.id), None, true), |_| {
                empty = false;
                Ok(false)
            })?;
            if !empty {
                let open = BucketRecord { removing: false, ..marked };
                // Another one who removes it at the same time has found the same.
                self.write(&object, &open, &[], Some(mark))?;
                return Code::BucketNotEmpty.err(match open.versioning() {
                    Versioning::Never => "bucket: it has objects; delete them first",
                    _ => {
                        "The bucket you tried to delete is not empty. You must delete all \
                         versions in the bucket."
                    }
                });
            }
            if let Written::Done(_) = self.remove(&object, mark)? {
                // No client can end its uploads any more; a sweep takes their parts.
                self.discard(&self.names(&names::uploads(&marked.id)).unwrap_or_default());
                return Ok(());
            }
        }
        Err(contended())
    }
}
