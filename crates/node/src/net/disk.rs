//! Disk jobs of an agent, done on a [`Backend`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kiln_store::{Append, Backend, ReadAt, StoreError, WriteLock};

use crate::agent::{Disk, DiskDone, Slot};
use crate::proto::BODY_MAX;

/// A backend with the files that are open on it.
pub(crate) struct DiskSet {
    backend: Arc<dyn Backend>,
    open: Mutex<HashMap<Slot, Open>>,
    /// The names behind the last page, so that the next page needs no new look at the folder.
    listing: Mutex<Option<Arc<Vec<String>>>>,
}

#[derive(Clone)]
enum Open {
    Reader(Arc<dyn ReadAt>),
    Writer(Arc<Mutex<Box<dyn Append>>>),
    Lock(#[expect(dead_code, reason = "held until it is dropped")] Arc<WriteLock>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskSet {
    pub fn new(backend: Arc<dyn Backend>) -> DiskSet {
        DiskSet { backend, open: Mutex::default(), listing: Mutex::default() }
    }

    /// Forgets what is open under a number.
    pub fn forget(&self, slot: Slot) {
        // Dropped after the table is free again: closing a file may take a while.
        let closed = locked(&self.open).remove(&slot);
        drop(closed);
    }

    /// Does a job, however long the disk takes.
    pub fn run(&self, work: Disk) -> Result<DiskDone, StoreError> {
        match work {
            Disk::List { after } => self.list(&after),
            Disk::Open { slot, name } => {
                let reader: Arc<dyn ReadAt> = self.backend.open(&name)?.into();
                let len = reader.len();
                locked(&self.open).insert(slot, Open::Reader(reader));
                Ok(DiskDone::Opened { len })
            }
            Disk::Append { slot, name, at } => {
                let writer = self.backend.append(&name, at)?;
                let len = writer.len();
                locked(&self.open).insert(slot, Open::Writer(Arc::new(Mutex::new(writer))));
                Ok(DiskDone::Opened { len })
            }
            Disk::Read { slot, offset, len } => {
                let Some(Open::Reader(reader)) = self.find(slot) else {
                    return Err(misuse("read", "it is not open for reading"));
                };
                let mut bytes = vec![0; len as usize];
                reader.read_at(offset, &mut bytes)?;
                Ok(DiskDone::Bytes(Bytes::from(bytes)))
            }
            Disk::Write { slot, bytes } => {
                let writer = self.writer(slot)?;
                locked(&writer).append(&bytes)?;
                Ok(DiskDone::Done)
            }
            Disk::Sync { slot } => {
                let writer = self.writer(slot)?;
                locked(&writer).sync()?;
                Ok(DiskDone::Done)
            }
            Disk::Rename { from, to } => self.backend.rename(&from, &to).map(|()| DiskDone::Done),
            Disk::Remove { name } => self.backend.remove(&name).map(|()| DiskDone::Done),
            Disk::Lock { slot } => {
                let lock = self.backend.lock(false)?;
                let free = lock.is_some();
                if let Some(lock) = lock {
                    locked(&self.open).insert(slot, Open::Lock(Arc::new(lock)));
                }
                Ok(DiskDone::Locked(free))
            }
        }
    }

    fn find(&self, slot: Slot) -> Option<Open> {
        locked(&self.open).get(&slot).cloned()
    }

    fn writer(&self, slot: Slot) -> Result<Arc<Mutex<Box<dyn Append>>>, StoreError> {
        match self.find(slot) {
            Some(Open::Writer(writer)) => Ok(writer),
            _ => Err(misuse("write", "it is not open for appending")),
        }
    }

    /// One page of names: as many as fit half of the largest body.
    fn list(&self, after: &str) -> Result<DiskDone, StoreError> {
        let kept = locked(&self.listing).take().filter(|_| !after.is_empty());
        let names = match kept {
            Some(names) => names,
            None => Arc::new(self.backend.list()?),
        };
        let first = names.partition_point(|name| name.as_str() <= after);
        let mut bytes = 0;
        let page: Vec<String> = names[first..]
            .iter()
            .take_while(|name| {
                bytes += name.len() + 2;
                bytes <= BODY_MAX / 2
            })
            .cloned()
            .collect();
        let more = first + page.len() < names.len();
        if more {
            *locked(&self.listing) = Some(names);
        }
        Ok(DiskDone::Names { names: page, more })
    }
}

fn misuse(op: &'static str, what: &str) -> StoreError {
    StoreError::Misuse { op, name: String::new(), what: what.to_owned() }
}
