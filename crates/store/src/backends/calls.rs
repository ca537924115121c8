//! Every operation of a place as a method of `dyn Backend`: its extension, or what stands for it.

use std::{path::Path, time::Duration};

use super::extensions::{Extensions, Located, Locks, remove_each, rename_each};
use super::lock::{LockAnswer, LockAttempt, WriteLock};
use super::upload::{NewFile, Upload, by_rename};
use super::{Append, Backend, log::LogFile, space::Space};
use crate::{Result, StoreError, capability::Capability};

/// Documented at the traits in [`super::extensions`].
#[allow(missing_docs)]
impl dyn Backend + '_ {
    pub fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        match self.extensions().objects {
            Some(objects) => objects.create(file),
            None => by_rename(self, file),
        }
    }

    pub fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        match self.extensions().objects {
            Some(objects) => objects.write_once(name),
            None => self.append(name, 0),
        }
    }

    pub fn copy(&self, from: &str, to: &str) -> Result<()> {
        let copying = || format!("copying to {to:?}");
        self.need(|of| of.objects, Capability::Copy, copying)?.copy(from, to)
    }

    pub fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let naming = || format!("a new file {to:?}");
        self.need(|of| of.create_new, Capability::CreateIfAbsent, naming)?.rename_new(from, to)
    }

    pub fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        let write = |(name, bytes): &(&str, &[u8])| {
            let mut file = self.append(name, 0)?;
            file.append(bytes)?;
            file.sync()
        };
        match self.extensions().batch {
            Some(batch) => batch.write_all(files),
            None => files.iter().map(write).collect(),
        }
    }

    pub fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        match self.extensions().batch {
            Some(batch) => batch.rename_all(names),
            None => rename_each(self, names),
        }
    }

    pub fn remove_all(&self, names: &[&str]) -> Vec<Result<()>> {
        match self.extensions().batch {
            Some(batch) => batch.remove_all(names),
            None => remove_each(self, names),
        }
    }

    pub fn compact(&self) -> Result<u64> {
        self.extensions().batch.map_or(Ok(0), |batch| batch.compact())
    }

    pub fn missing(&self, names: &[String]) -> Option<Vec<bool>> {
        self.extensions().batch?.missing(names)
    }

    pub fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        self.locks()?.lock(wait)
    }

    pub fn begin_lock(&self) -> Option<LockAnswer<'_>> {
        self.extensions().locks?.begin_lock()
    }

    pub fn lock_within(&self, time: Duration) -> Result<LockAttempt> {
        self.locks()?.lock_within(time)
    }

    pub fn lock_holder(&self) -> Option<String> {
        self.extensions().locks?.lock_holder()
    }

    pub fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        let making = || format!("making the log {name:?}");
        self.need(|of| of.logs, Capability::Log, making)?.create_log(name, size)
    }

    pub fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        let closing = || format!("closing the log {name:?}");
        self.need(|of| of.logs, Capability::Log, closing)?.close_log(name, to, force)
    }

    pub fn locality(&self, name: &str) -> Result<Located> {
        let locality = self.extensions().locality;
        locality.map_or(Ok(Located::Unmanaged), |of| of.locality(name))
    }

    pub fn copy_local(&self, from: &str, to: &str) -> Result<()> {
        let copying = || format!("copying to {to:?}");
        self.need(|of| of.locality, Capability::Copy, copying)?.copy_local(from, to)
    }

    pub fn modified(&self, name: &str) -> Result<Option<u64>> {
        self.extensions().info.map_or(Ok(None), |info| info.modified(name))
    }

    pub fn space(&self) -> Result<Option<Space>> {
        self.extensions().info.map_or(Ok(None), |info| info.space())
    }

    pub fn reads(&self) -> Result<Option<u32>> {
        self.extensions().info.map_or(Ok(None), |info| info.reads())
    }

    pub fn use_object(&self, name: &str) -> Result<()> {
        self.extensions().info.map_or(Ok(()), |info| info.use_object(name))
    }

    pub fn folder(&self) -> Option<&Path> {
        self.extensions().info?.folder()
    }

    pub fn io_counters(&self) -> (u64, u64) {
        self.extensions().info.map_or((0, 0), |info| info.io_counters())
    }

    fn locks(&self) -> Result<&dyn Locks> {
        self.need(|of| of.locks, Capability::Lock, || "writing to it".to_owned())
    }

    /// The extension, or the refusal of what the place cannot do without it.
    fn need<'a, T>(
        &'a self,
        extension: impl FnOnce(Extensions<'a>) -> Option<T>,
        lacks: Capability,
        what: impl FnOnce() -> String,
    ) -> Result<T> {
        let refusal = || StoreError::incapable(self.place(), lacks, what());
        extension(self.extensions()).ok_or_else(refusal)
    }
}
