//! A place as object stores are, for tests of what such a place lacks.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capability::{Capabilities, Capability};
use super::memory::MemoryBackend;
use super::upload::{Existing, NewFile, Tag, Upload};
use super::{Append, Backend, ReadAt, WriteLock, check_name, check_range};
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
    objects: Arc<MemoryBackend>,
    /// Held while a condition is looked at and what it allows is done.
    turn: Arc<Mutex<()>>,
    /// It neither locks nor copies.
    reads_only: bool,
}

impl Bucket {
    /// A bucket whose objects are the files of this memory, for tests that look into it.
    #[must_use]
    pub fn over(objects: Arc<MemoryBackend>) -> Bucket {
        Bucket { objects, ..Bucket::default() }
    }

    /// A bucket that can neither be locked nor copy its objects: no shards are written to it.
    #[must_use]
    pub fn reads_only() -> Bucket {
        Bucket { reads_only: true, ..Bucket::default() }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Bucket {
    fn place(&self) -> String {
        PLACE.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        match self.reads_only {
            true => Capabilities::READ.and(&[Capability::CreateIfAbsent]),
            false => Capabilities::OBJECTS.and(&[Capability::Durable]),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        self.objects.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        let bytes = self.objects.bytes(name).ok_or_else(|| absent(name))?.into();
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
        if self.reads_only {
            return Err(self.incapable(Capability::Copy, &format!("copying to {to:?}")));
        }
        check_name(from)?;
        check_name(to)?;
        let bytes = self.objects.bytes(from).ok_or_else(|| absent(from))?;
        self.objects.put(to, bytes);
        Ok(())
    }

    /// Always long ago: there is no clock here.
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        self.objects.bytes(name).map(|_| Some(0)).ok_or_else(|| absent(name))
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        match self.reads_only {
            true => Err(self.incapable(Capability::Lock, "writing to it")),
            false => self.objects.lock(wait),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.objects.remove(name)
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
        let _turn = self.bucket.turn();
        let there = self.bucket.objects.bytes(&self.name);
        let refused = match self.existing {
            Existing::Replace => false,
            Existing::Keep => there.is_some(),
            Existing::Same(tag) => there.and_then(|bytes| tag_of(&bytes)) != Some(tag),
        };
        if refused {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::io(Operation::Complete, PLACE, &self.name, source));
        }
        self.bucket.objects.put(&self.name, std::mem::take(&mut self.bytes));
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
