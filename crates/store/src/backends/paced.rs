//! A limit of what is read and written at a place: wraps any backend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::extensions::{BatchFiles, Extensions, Logs, Objects};
use super::open_file::{Append, BatchRead, ReadAt};
use super::upload::{NewFile, Upload};
use super::{Backend, log::LogFile, tag::Tag};
use crate::Result;

/// A place at which at most so many bytes a second are read and written, together. Names, locks and
/// opening are not limited.
#[derive(Debug)]
pub struct PacedBackend {
    inner: Arc<dyn Backend>,
    pace: Arc<Pace>,
}

/// Makes its callers sleep, so that all of them together stay below a rate.
#[derive(Debug)]
struct Pace {
    rate: f64,
    /// The moment up to which the bytes so far are paid for.
    paid_until: Mutex<Instant>,
}

impl Pace {
    /// Waits until what was asked for before is paid, and takes so many bytes more.
    fn pay(&self, bytes: usize) {
        let price = Duration::from_secs_f64(bytes as f64 / self.rate);
        let wait = {
            // The guarded value is a plain time, always valid.
            let mut paid = self.paid_until.lock();
            let (now, begin) = (Instant::now(), *paid);
            // Idle time is not saved up: that would allow a burst later.
            *paid = begin.max(now) + price;
            begin.saturating_duration_since(now)
        };
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }
}

impl PacedBackend {
    /// Wraps a backend; at least one byte a second is allowed.
    pub fn new(inner: Arc<dyn Backend>, bytes_per_second: u64) -> Self {
        let rate = bytes_per_second.max(1) as f64;
        Self { inner, pace: Arc::new(Pace { rate, paid_until: Mutex::new(Instant::now()) }) }
    }
}

impl Backend for PacedBackend {
    crate::forward_backend!(inner: place capabilities list each_name rename remove);

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        let inner = self.inner.open(name)?;
        Ok(Box::new(PacedReader { inner, pace: Arc::clone(&self.pace) }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        let inner = self.inner.append(name, at)?;
        Ok(Box::new(PacedAppender { inner, pace: Arc::clone(&self.pace) }))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            objects: Some(self),
            batch: Some(self),
            logs: Some(self),
            ..self.inner.extensions()
        }
    }
}

impl Objects for PacedBackend {
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        Ok(Box::new(PacedUpload { inner: self.inner.create(file)?, pace: &self.pace }))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        let inner = self.inner.write_once(name)?;
        Ok(Box::new(PacedAppender { inner, pace: Arc::clone(&self.pace) }))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.inner.copy(from, to)
    }
}

impl BatchFiles for PacedBackend {
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        self.pace.pay(files.iter().map(|(_, bytes)| bytes.len()).sum());
        self.inner.write_all(files)
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        self.inner.rename_all(names)
    }

    fn remove_all(&self, names: &[&str]) -> Vec<Result<()>> {
        self.inner.remove_all(names)
    }

    fn compact(&self) -> Result<u64> {
        self.inner.compact()
    }

    fn missing(&self, names: &[String]) -> Option<Vec<bool>> {
        self.inner.missing(names)
    }
}

impl Logs for PacedBackend {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        let inner = self.inner.create_log(name, size)?;
        Ok(Box::new(PacedLog { inner, pace: Arc::clone(&self.pace) }))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        self.inner.close_log(name, to, force)
    }
}

struct PacedReader {
    inner: Box<dyn ReadAt>,
    pace: Arc<Pace>,
}

impl ReadAt for PacedReader {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.pace.pay(buf.len());
        self.inner.read_at(offset, buf)
    }

    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        self.pace.pay(reads.iter().map(|read| read.buf.len()).sum());
        self.inner.read_batch(reads)
    }

    fn tag(&self) -> Option<Tag> {
        self.inner.tag()
    }

    fn expect_random(&self) {
        self.inner.expect_random();
    }

    fn alignment(&self) -> u64 {
        self.inner.alignment()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        self.inner.next_data(offset)
    }
}

struct PacedAppender {
    inner: Box<dyn Append>,
    pace: Arc<Pace>,
}

impl Append for PacedAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.pace.pay(bytes.len());
        self.inner.append(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn drop_behind(&mut self) {
        self.inner.drop_behind();
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }

    fn complete(&mut self) -> Result<()> {
        self.inner.complete()
    }
}

struct PacedLog {
    inner: Box<dyn LogFile>,
    pace: Arc<Pace>,
}

impl LogFile for PacedLog {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.pace.pay(bytes.len());
        self.inner.write_at(offset, bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
}

struct PacedUpload<'a> {
    inner: Box<dyn Upload + 'a>,
    pace: &'a Pace,
}

impl Upload for PacedUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.pace.pay(bytes.len());
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }

    fn complete(self: Box<Self>) -> Result<()> {
        self.inner.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryBackend;

    #[test]
    fn all_of_a_place_together_keep_to_the_rate() {
        let disk = PacedBackend::new(Arc::new(MemoryBackend::new()), 1_000_000);
        let start = Instant::now();
        disk.append("a", 0).unwrap().append(&[1; 60_000]).unwrap();
        let file = disk.open("a").unwrap();
        std::thread::scope(|scope| {
            for part in 0..3 {
                let file = &file;
                scope.spawn(move || file.read_at(part * 20_000, &mut [0; 20_000]).unwrap());
            }
        });
        let mut last = [0; 1];
        file.read_batch(&mut [BatchRead::new(0, &mut last)]).unwrap();
        // What was asked for before the last byte takes 0.12 s; a machine may be slower.
        assert!(start.elapsed() >= Duration::from_millis(119));
    }
}
