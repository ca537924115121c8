//! A place as object stores are, for tests of what such a place lacks.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capability::{Capabilities, Capability};
use super::upload::{Existing, NewFile, Upload};
use super::{Backend, ReadAt, check_name, check_range};
use crate::{Operation, Result, StoreError};

const PLACE: &str = "bucket";

/// Objects in memory: put whole or conditionally, read in ranges, listed and removed. There is no
/// appending, renaming or locking.
///
/// ```
/// use kiln_store::backends::bucket::Bucket;
/// use kiln_store::{Backend, Capability, write_whole};
/// let bucket = Bucket::default();
/// write_whole(&bucket, "a", b"bytes")?;
/// assert_eq!(bucket.list()?, ["a"]);
/// assert!(!bucket.capabilities().has(Capability::Append) && bucket.append("a", 0).is_err());
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    objects: Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>,
}

impl Bucket {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Bucket {
    fn place(&self) -> String {
        PLACE.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::READ.and(&[Capability::CreateIfAbsent])
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.objects().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        let absent = || {
            let source = io::ErrorKind::NotFound.into();
            StoreError::io(Operation::Open, PLACE, name, source)
        };
        let bytes = self.objects().get(name).cloned().ok_or_else(absent)?;
        Ok(Box::new(Object { bytes, name: name.to_owned() }))
    }

    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        check_name(file.name)?;
        let (name, existing) = (file.name.to_owned(), file.existing);
        Ok(Box::new(Put { bucket: self, name, existing, bytes: Vec::new() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.objects().remove(name);
        Ok(())
    }
}

struct Object {
    bytes: Arc<[u8]>,
    name: String,
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(PLACE, &self.name, offset, buf.len(), self.len())?;
        let start = offset as usize;
        buf.copy_from_slice(&self.bytes[start..start + buf.len()]);
        Ok(())
    }
}

struct Put<'a> {
    bucket: &'a Bucket,
    name: String,
    existing: Existing,
    bytes: Vec<u8>,
}

impl Upload for Put<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(self: Box<Self>) -> Result<()> {
        let mut objects = self.bucket.objects();
        if self.existing == Existing::Keep && objects.contains_key(&self.name) {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::io(Operation::Complete, PLACE, &self.name, source));
        }
        objects.insert(self.name, self.bytes.into());
        Ok(())
    }
}
