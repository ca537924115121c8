//! Buckets: made, found, listed, removed.

use serde::Serialize;

use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, RETRIES, Seen, Written, contended, fresh_id, now_ms};
use crate::names::{self, OBJECTS};
use crate::record::BucketRecord;

/// A bucket as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
}

impl Gate {
    /// Makes a bucket.
    ///
    /// # Errors
    /// [`Code::BucketAlreadyOwnedByYou`]: it is there; the pool's errors.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        names::check_bucket(name)?;
        let mut id = fresh_id();
        id.truncate(16);
        let record = BucketRecord { id, created_ms: now_ms(), removing: false };
        match self.write(&names::bucket(name), &record, &[], None)? {
            Written::Done(_) => Ok(()),
            Written::Conflict => Err(GateError::new(
                Code::BucketAlreadyOwnedByYou,
                "bucket: there is one of this name already",
            )),
        }
    }

    /// Finds a bucket.
    ///
    /// # Errors
    /// [`Code::NoSuchBucket`]; the pool's errors.
    pub(crate) fn bucket(&self, name: &str) -> Result<BucketRecord> {
        Ok(self.see_bucket(name)?.record)
    }

    fn see_bucket(&self, name: &str) -> Result<Seen<BucketRecord>> {
        names::check_bucket(name)?;
        let none = || GateError::new(Code::NoSuchBucket, "bucket: there is none of this name");
        self.see(&names::bucket(name))?.ok_or_else(none)
    }

    /// Makes sure after a change that its bucket was there at that time. A bucket that is being
    /// removed looks for objects after it says so: one of the two sees the other.
    pub(crate) fn still_there(&self, name: &str, known: &BucketRecord) -> Result<()> {
        let now = self.bucket(name)?;
        if now.id != known.id {
            return Err(GateError::new(Code::NoSuchBucket, "bucket: it was removed meanwhile"));
        }
        match now.removing {
            true => Err(GateError::new(Code::OperationAborted, "bucket: it is being removed")),
            false => Ok(()),
        }
    }

    /// Lists buckets in order of name.
    ///
    /// # Errors
    /// The pool's errors.
    pub fn buckets(&self) -> Result<Vec<Bucket>> {
        let prefix = format!("{OBJECTS}bucket/");
        let names = self.names(&prefix)?;
        let records = self.see_all::<BucketRecord>(&names)?;
        let pairs = names.iter().zip(records);
        let bucket = |(name, record): (&String, Option<BucketRecord>)| {
            let name = names::decode(name.strip_prefix(&prefix)?)?;
            Some(Bucket { name, created_ms: record?.created_ms })
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
            self.each(&names::records(&marked.id), None, |_| {
                empty = false;
                Ok(false)
            })?;
            if !empty {
                let open = BucketRecord { removing: false, ..marked };
                // Another one who removes it at the same time has found the same.
                self.write(&object, &open, &[], Some(mark))?;
                let why = "bucket: it has objects; delete them first";
                return Err(GateError::new(Code::BucketNotEmpty, why));
            }
            if let Written::Done(_) = self.remove(&object, mark)? {
                return Ok(());
            }
        }
        Err(contended())
    }
}
