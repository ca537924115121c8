//! A simulated object store, for tests of places that neither append nor rename.

use kiln_store::{
    Append, Backend, Capabilities, Capability, Existing, Extensions, Locks, MemoryBackend, NewFile,
    Objects, Operation, PlaceInfo, ReadAt, Result, StoreError, Tag, Upload, WriteLock, check_name,
};
use parking_lot::{Mutex, MutexGuard};
use std::{io, sync::Arc};

const PLACE: &str = "bucket";

/// Objects in memory: put whole or conditionally, copied, read in ranges, listed and removed, with
/// a lock. There is no appending and no renaming.
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
        self.turn.lock()
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
        let bytes = self.objects.bytes(name).ok_or_else(|| not_found(name))?.into();
        Ok(Box::new(Object { bytes, name: name.to_owned() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.objects.remove(name)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            objects: Some(self),
            locks: (!self.reads_only).then_some(self),
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl Objects for Bucket {
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
            let copying = format!("copying to {to:?}");
            return Err(StoreError::incapable(self.place(), Capability::Copy, copying));
        }
        check_name(from)?;
        check_name(to)?;
        let bytes = self.objects.bytes(from).ok_or_else(|| not_found(from))?;
        self.objects.put(to, bytes);
        Ok(())
    }
}

impl Locks for Bucket {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        self.objects.lock(wait)
    }
}

impl PlaceInfo for Bucket {
    /// Always long ago: there is no clock here.
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        self.objects.bytes(name).map(|_| Some(0)).ok_or_else(|| not_found(name))
    }
}

fn refused(op: Operation, name: &str, kind: io::ErrorKind) -> StoreError {
    StoreError::Io { op, place: PLACE.to_owned(), name: name.to_owned(), source: kind.into() }
}

fn not_found(name: &str) -> StoreError {
    refused(Operation::Open, name, io::ErrorKind::NotFound)
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
        let (need, have) = (offset.saturating_add(buf.len() as u64), self.len());
        if need > have {
            let (place, name) = (PLACE.to_owned(), self.name.clone());
            return Err(StoreError::Truncated { place, name, need, have });
        }
        buf.copy_from_slice(&self.bytes[offset as usize..need as usize]);
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
            let exists = io::ErrorKind::AlreadyExists;
            return Err(self::refused(Operation::Complete, &self.name, exists));
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
