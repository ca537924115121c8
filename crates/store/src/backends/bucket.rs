//! A place as object stores are, for tests of what such a place lacks.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capability::Capabilities;
use super::upload::{Existing, NewFile, Tag, Upload};
use super::{Append, Backend, LOCK_RETRY, ReadAt, WriteLock, check_name, check_range};
use crate::{Operation, Result, StoreError};

const PLACE: &str = "bucket";

/// Objects in memory: put whole or conditionally, copied, read in ranges, listed and removed, with
/// a lock. There is no appending and no renaming.
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
    locked: Arc<AtomicBool>,
}

/// The lock of a bucket, until it is dropped.
#[derive(Debug)]
struct Locked(Arc<AtomicBool>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Bucket {
    /// The bytes of an object.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.objects().get(name).map(|bytes| bytes.to_vec())
    }

    /// Puts an object in place, whatever is there: for what others do to a bucket.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.objects().insert(name.to_owned(), bytes.into());
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Bucket {
    fn place(&self) -> String {
        PLACE.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::OBJECTS
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.objects().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        let bytes = self.objects().get(name).cloned().ok_or_else(|| absent(name))?;
        Ok(Box::new(Object { bytes, name: name.to_owned() }))
    }

    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        check_name(file.name)?;
        let (name, existing) = (file.name.to_owned(), file.existing);
        let put = Put { bucket: self.clone(), name, existing, bytes: Vec::new(), done: false };
        Ok(Box::new(put))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        check_name(name)?;
        let (name, existing) = (name.to_owned(), Existing::Replace);
        let put = Put { bucket: self.clone(), name, existing, bytes: Vec::new(), done: false };
        Ok(Box::new(put))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut objects = self.objects();
        let bytes = objects.get(from).cloned().ok_or_else(|| absent(from))?;
        objects.insert(to.to_owned(), bytes);
        Ok(())
    }

    /// Always long ago: there is no clock here.
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        self.objects().get(name).map(|_| Some(0)).ok_or_else(|| absent(name))
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        loop {
            if !self.locked.swap(true, Ordering::SeqCst) {
                return Ok(Some(WriteLock::on(Locked(Arc::clone(&self.locked)))));
            }
            if !wait {
                return Ok(None);
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.objects().remove(name);
        Ok(())
    }
}

fn absent(name: &str) -> StoreError {
    StoreError::io(Operation::Open, PLACE, name, io::ErrorKind::NotFound.into())
}

/// As real ones are: of equal bytes it is equal.
fn tag_of(bytes: &[u8]) -> Option<Tag> {
    Tag::new(&format!("\"{:032x}\"", xxhash_rust::xxh3::xxh3_128(bytes)))
}

struct Object {
    bytes: Arc<[u8]>,
    name: String,
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn tag(&self) -> Option<Tag> {
        tag_of(&self.bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(PLACE, &self.name, offset, buf.len(), self.len())?;
        let start = offset as usize;
        buf.copy_from_slice(&self.bytes[start..start + buf.len()]);
        Ok(())
    }
}

struct Put {
    bucket: Bucket,
    name: String,
    existing: Existing,
    bytes: Vec<u8>,
    done: bool,
}

impl Put {
    fn put(&mut self) -> Result<()> {
        let mut objects = self.bucket.objects();
        let there = objects.get(&self.name);
        let refused = match self.existing {
            Existing::Replace => false,
            Existing::Keep => there.is_some(),
            Existing::Same(tag) => there.and_then(|bytes| tag_of(bytes)) != Some(tag),
        };
        if refused {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::io(Operation::Complete, PLACE, &self.name, source));
        }
        objects.insert(self.name.clone(), std::mem::take(&mut self.bytes).into());
        self.done = true;
        Ok(())
    }
}

impl Upload for Put {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(mut self: Box<Self>) -> Result<()> {
        self.put()
    }
}

impl Append for Put {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.done {
            let what = "it is complete".to_owned();
            return Err(StoreError::Misuse { op: "append", name: self.name.clone(), what });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        self.put()
    }
}
