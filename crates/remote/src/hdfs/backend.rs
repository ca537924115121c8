//! The backend: the files of a folder of HDFS.

use crate::{LOCK, lock_now_or, lock_within};
use crate::{
    hdfs::client::Client, hdfs::lease::PlaceLock, hdfs::moved, hdfs::place::Place,
    hdfs::read::File, hdfs::write::Writer,
};
use kiln_store::{
    Append, Backend, Capabilities, Capability, CreateNew, Extensions, Locality, Located, Location,
    LockAttempt, Locks, Operation, PlaceInfo, ReadAt, Result, WriteLock, check_name,
};
use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

/// A folder of HDFS as a place of files; clones share it.
#[derive(Debug, Clone)]
pub struct FolderBackend {
    client: Arc<Client>,
    locks: Arc<PlaceLock>,
}

impl FolderBackend {
    /// A place as a user writes it. Nothing is sent yet.
    /// Errors: `StoreError::BadPlace`: it is not written as it should be.
    pub fn open(place: &Location<'_>) -> Result<FolderBackend> {
        FolderBackend::with(place, false)
    }

    /// As [`FolderBackend::open`], to serve it to others: a lock that was given back is kept for a
    /// moment.
    pub fn open_to_serve(place: &Location<'_>) -> Result<FolderBackend> {
        FolderBackend::with(place, true)
    }

    fn with(place: &Location<'_>, serves: bool) -> Result<FolderBackend> {
        let client = Arc::new(Client::new(Place::of(place)?));
        let locks = PlaceLock::new(Arc::clone(&client), serves);
        Ok(FolderBackend { client, locks })
    }

    fn renamed(&self, from: &str, to: &str, over: bool) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.client.check_fence()?;
        if from == to && over {
            // HDFS refuses that.
            let path = self.client.path(from);
            return self.client.status(Operation::Rename, from, &path).map(drop);
        }
        self.client.rename(from, to, over)
    }
}

impl Backend for FolderBackend {
    fn place(&self) -> String {
        self.client.place.text.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FILES.and(&[Capability::CreateIfAbsent, Capability::Durable])
    }

    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let mut after = String::new();
        loop {
            let (page, more) = self.client.page(&after)?;
            for status in page.iter().filter(|status| status.is_file()) {
                let name = &status.path_suffix;
                if check_name(name).is_ok() && name != LOCK {
                    see(name)?;
                }
            }
            match page.last() {
                Some(last) if more && last.path_suffix != after => {
                    after.clone_from(&last.path_suffix);
                }
                _ => return Ok(()),
            }
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        Ok(Box::new(File::open(&self.client, name)?))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        check_name(name)?;
        match at {
            0 => Ok(Box::new(Writer::new(&self.client, name))),
            _ => Ok(Box::new(Writer::resume(&self.client, name, at)?)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.renamed(from, to, true)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.client.check_fence()?;
        self.client.delete(name, &self.client.path(name))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            create_new: Some(self),
            locks: Some(self),
            locality: Some(self),
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl CreateNew for FolderBackend {
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.renamed(from, to, false)
    }
}

impl Locks for FolderBackend {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        lock_now_or(wait, || Ok(self.locks.acquire()?.map(WriteLock::on)))
    }

    fn lock_within(&self, time: Duration) -> Result<LockAttempt> {
        lock_within(self, time)
    }

    fn lock_holder(&self) -> Option<String> {
        self.locks.holder()
    }
}

impl Locality for FolderBackend {
    fn locality(&self, name: &str) -> Result<Located> {
        check_name(name)?;
        moved::locality(&self.client, name)
    }

    fn copy_local(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        moved::copy_local(&self.client, from, to)
    }
}

impl PlaceInfo for FolderBackend {
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        check_name(name)?;
        let path = self.client.path(name);
        let status = self.client.status(Operation::Open, name, &path)?;
        Ok(Some(status.modification_time))
    }

    fn io_counters(&self) -> (u64, u64) {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.client.reads), count(&self.client.bytes))
    }
}
