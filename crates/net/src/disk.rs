//! Disk jobs of an agent, done on a [`Backend`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_store::{
    Append, Backend, LogFile, Operation, ReadAt, Result, StoreError, WriteLock, valid_segments,
};

use super::buffers;
use crate::agent::{Disk, DiskDone, Slot, TaskId};
use crate::{proto::BODY_MAX, task_executor::TaskExecutor};

/// Bytes of a record of a log of changes, and of the longest one that does not begin anew.
const RECORD: u64 = 32;
const LONG: u64 = 1 << 20;

/// A backend with the files that are open on it.
pub struct DiskSet {
    backend: Arc<dyn Backend>,
    open: Mutex<HashMap<Slot, Open>>,
    /// The names behind the last page, so that the next page needs no new look at the folder.
    listing: Mutex<Option<Arc<Vec<String>>>>,
    executors: Mutex<HashMap<TaskId, Arc<TaskExecutor>>>,
}

#[derive(Clone)]
enum Open {
    Reader(Arc<dyn ReadAt>),
    Writer(Arc<Mutex<Box<dyn Append>>>),
    Log(Arc<Mutex<Box<dyn LogFile>>>),
    Lock(#[expect(dead_code, reason = "held until it is dropped")] Arc<WriteLock>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskSet {
    /// No open files yet.
    pub fn new(backend: Arc<dyn Backend>) -> DiskSet {
        DiskSet {
            backend,
            open: Mutex::default(),
            listing: Mutex::default(),
            executors: Mutex::default(),
        }
    }

    /// Forgets what is open under a number.
    pub fn forget(&self, slot: Slot) {
        // Dropped after the table is free again: closing a file may take a while.
        let closed = locked(&self.open).remove(&slot);
        drop(closed);
    }

    /// Forgets what is open for a task.
    pub fn forget_task(&self, task: TaskId) {
        let closed = locked(&self.executors).remove(&task);
        drop(closed);
    }

    fn executor(&self, task: TaskId) -> Result<Arc<TaskExecutor>> {
        let known = locked(&self.executors).get(&task).cloned();
        known.ok_or_else(|| misuse("use", "there is no such task"))
    }

    /// Does a job of a task.
    fn run_task(&self, work: Disk) -> Result<DiskDone> {
        match work {
            Disk::Prepare { task, spec } => {
                let executor = TaskExecutor::new(spec, Arc::clone(&self.backend));
                let place = self.backend.place();
                let executor =
                    executor.map_err(|error| error.into_store(Operation::Use, &place, ""))?;
                locked(&self.executors).insert(task, Arc::new(executor));
                Ok(DiskDone::Prepared)
            }
            Disk::Load { task, window } => {
                let pieces = self.executor(task)?.load(window)?;
                Ok(DiskDone::Loaded { window, pieces })
            }
            Disk::Compute { task, window, round, inputs } => {
                let made = self.executor(task)?.compute(window, round, &inputs)?;
                Ok(DiskDone::Computed { window, made })
            }
            Disk::Persist { task, window, round, pieces } => {
                let bytes = self.executor(task)?.persist(window, round, &pieces)?;
                Ok(DiskDone::Persisted { window, bytes })
            }
            Disk::Finish { task } => {
                self.executor(task)?.finish()?;
                Ok(DiskDone::TaskFinished)
            }
            Disk::Commit { task } => self.executor(task)?.commit().map(|()| DiskDone::Done),
            _ => Err(misuse("use", "it is no job of a task")),
        }
    }

    /// Does a job, however long the disk takes.
    pub fn run(&self, work: Disk) -> Result<DiskDone> {
        match work {
            Disk::List { after } => self.list(&after),
            Disk::Space => self.backend.space().map(DiskDone::Room),
            Disk::Open { slot, name } => {
                let reader: Arc<dyn ReadAt> = self.backend.open(&name)?.into();
                let len = reader.len();
                locked(&self.open).insert(slot, Open::Reader(reader));
                Ok(DiskDone::Opened { len })
            }
            Disk::Append { slot, name, at, whole } => {
                let at = if whole { self.end_of_log(&name)? } else { at };
                let writer = self.backend.append(&name, at)?;
                let len = writer.len();
                locked(&self.open).insert(slot, Open::Writer(Arc::new(Mutex::new(writer))));
                Ok(DiskDone::Opened { len })
            }
            Disk::Read { slot, offset, len } => {
                let Some(Open::Reader(reader)) = self.find(slot) else {
                    return Err(misuse("read", "it is not open for reading"));
                };
                let mut bytes = buffers::dirty(len as usize);
                reader.read_at(offset, &mut bytes)?;
                Ok(DiskDone::Bytes(buffers::lend(bytes)))
            }
            Disk::Write { slot, bytes } => {
                let writer = self.writer(slot)?;
                locked(&writer).append(&bytes)?;
                Ok(DiskDone::Done)
            }
            Disk::CreateLog { slot, name, size } => {
                let log = self.backend.create_log(&name, size)?;
                let len = log.len();
                locked(&self.open).insert(slot, Open::Log(Arc::new(Mutex::new(log))));
                Ok(DiskDone::Opened { len })
            }
            Disk::WriteAt { slot, offset, bytes } => {
                let Some(Open::Log(log)) = self.find(slot) else {
                    return Err(misuse("write", "it is no log"));
                };
                locked(&log).write_at(offset, &bytes)?;
                Ok(DiskDone::Done)
            }
            Disk::CloseLog { name, to, force } => {
                self.backend.close_log(&name, &to, force).map(|()| DiskDone::Done)
            }
            Disk::Sync { slot } => self.sync(slot).map(|()| DiskDone::Done),
            Disk::Rename { from, to } => self.backend.rename(&from, &to).map(|()| DiskDone::Done),
            Disk::Remove { name } => self.backend.remove(&name).map(|()| DiskDone::Done),
            Disk::Locate { name } => self.backend.locality(&name).map(DiskDone::Located),
            Disk::CopyHome { from, to } => {
                self.backend.copy_local(&from, &to).map(|()| DiskDone::Done)
            }
            Disk::Resume { part, info } => {
                let segments = valid_segments(&*self.backend, &part, &info)?;
                Ok(DiskDone::Resumed(segments * u64::from(info.segment_stripes)))
            }
            Disk::Lock { slot } => {
                let lock = self.backend.lock(false)?;
                let free = lock.is_some();
                if let Some(lock) = lock {
                    locked(&self.open).insert(slot, Open::Lock(Arc::new(lock)));
                }
                Ok(DiskDone::Locked(free))
            }
            task => self.run_task(task),
        }
    }

    /// Returns where a log of changes is appended to.
    fn end_of_log(&self, name: &str) -> Result<u64> {
        match self.backend.open(name) {
            Ok(file) if file.len() <= LONG => Ok(file.len() / RECORD * RECORD),
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(0),
        }
    }

    fn sync(&self, slot: Slot) -> Result<()> {
        if let Some(Open::Log(log)) = self.find(slot) {
            return locked(&log).sync();
        }
        let writer = self.writer(slot)?;
        locked(&writer).sync()
    }

    fn find(&self, slot: Slot) -> Option<Open> {
        locked(&self.open).get(&slot).cloned()
    }

    fn writer(&self, slot: Slot) -> Result<Arc<Mutex<Box<dyn Append>>>> {
        match self.find(slot) {
            Some(Open::Writer(writer)) => Ok(writer),
            _ => Err(misuse("write", "it is not open for appending")),
        }
    }

    /// One page of names: as many as fit half of the largest body.
    fn list(&self, after: &str) -> Result<DiskDone> {
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
