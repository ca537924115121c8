//! `kiln-bench mix FOLDER PLAN.json`: applications as processes on the files of a folder.
//!
//! A block device has no names. What file servers are asked for is to a good part about names:
//! of the requests of design automation 60% (Table II of the study of online erasure coding). Each
//! process of a plan has a folder of its own with some files; each of its requests is, by shares
//! that the plan gives, about names (look, create, remove, rename, list), a read, or a write. Data
//! goes past the page cache where the file system allows that.

mod plan;

use crate::BenchError;
use plan::{Plan, Process};
use rustix::fs::OFlags;
use serde_json::json;
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::io::Error;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub const NAME: &str = "mix";
pub const ABOUT: &str = "processes on files: mix FOLDER PLAN.json, for file systems (see mix.rs)";

/// Data past the page cache begins at multiples of this, in memory too.
const ALIGNED: usize = 4096;

/// Makes the plan's files where they are not there yet, lets its processes work, and prints one
/// line of JSON: requests, bytes, rates, as fio's report has them. Each request goes to the log,
/// a line each: when it began (us), `r`, `w` or `m` (about names), place, bytes, us, process.
///
/// # Errors
/// There are not two files; the plan is none; the folder cannot be used.
pub fn run(files: &[PathBuf]) -> Result<(), BenchError> {
    let [folder, plan] = files else {
        let reason = Error::other("it needs a folder and a plan");
        return Err(BenchError::Report { path: NAME.into(), source: reason });
    };
    println!("{}", play(folder, &Plan::open(plan)?)?);
    Ok(())
}

/// One request as it is logged: places are of all files, one after the other.
struct Done {
    began: Duration,
    operation: char,
    offset: u64,
    bytes: u64,
    took: Duration,
}

fn play(folder: &Path, plan: &Plan) -> Result<serde_json::Value, BenchError> {
    let failed = |source| BenchError::Report { path: folder.to_path_buf(), source };
    let (mut workers, mut base) = (Vec::new(), 0);
    for (kind, process) in plan.processes.iter().enumerate() {
        for number in 0..process.count {
            let name = format!("{}{number}", process.name);
            let seed = plan.seed ^ ((kind as u64) << 32 | number as u64);
            let worker = Worker::new(&folder.join(name), process, base, seed).map_err(failed)?;
            workers.push((kind, worker));
            base += process.files * process.file_bytes;
        }
    }
    let (start, length) = (Instant::now(), Duration::from_secs_f64(plan.seconds));
    let ends: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|(kind, worker)| (*kind, scope.spawn(move || worker.work(start, length))))
            .collect();
        threads.into_iter().map(|(kind, thread)| (kind, thread.join())).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = Vec::new();
    for (kind, end) in ends {
        let done = end.map_err(|_| failed(Error::other("a thread panicked")))?.map_err(failed)?;
        all.extend(done.into_iter().map(|done| (kind, done)));
    }
    all.sort_by_key(|(_, done)| done.began);
    if let Some(log) = &plan.log {
        let source = |source| BenchError::Report { path: log.clone(), source };
        fs::write(log, logged(&all)).map_err(source)?;
    }
    let of = |letter| all.iter().filter(move |(_, done)| done.operation == letter);
    let bytes = |letter| of(letter).map(|(_, done)| done.bytes).sum::<u64>();
    Ok(json!({
        "ops": all.len(), "read_ops": of('r').count(), "name_ops": of('m').count(),
        "client_reads": bytes('r'), "client_writes": bytes('w'),
        "bytes": bytes('r') + bytes('w'),
        "iops": all.len() as f64 / seconds.max(1e-9), "seconds": seconds,
    }))
}

fn logged(all: &[(usize, Done)]) -> String {
    let mut text = String::new();
    for (kind, done) in all {
        let (began, took) = (done.began.as_micros(), done.took.as_micros());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{began},{},{},{},{took},{kind}",
            done.operation, done.offset, done.bytes
        );
    }
    text
}

/// One process: its folder, and where it is.
struct Worker<'a> {
    folder: PathBuf,
    process: &'a Process,
    seed: u64,
    /// Where its files lie if those of all processes lay one after the other: for the log.
    base: u64,
    /// The place of its next request of data, if that goes on from the last one.
    next: u64,
    /// Files that it has made and not removed: number of the first, number after the last.
    made: (u64, u64),
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// A process with all of its files.
    fn new(folder: &Path, process: &'a Process, base: u64, seed: u64) -> Result<Worker<'a>, Error> {
        fs::create_dir_all(folder)?;
        let buffer = vec![0; process.bytes as usize + ALIGNED];
        let (folder, made) = (folder.to_path_buf(), (0, 0));
        let mut worker = Worker { folder, process, seed, base, next: 0, made, buffer };
        for number in 0..process.files {
            let path = worker.data(number);
            if fs::metadata(&path).is_ok_and(|found| found.len() == process.file_bytes) {
                continue;
            }
            let mut at = 0;
            while at < process.file_bytes {
                worker.transfer(number, at, true)?;
                at += process.bytes;
            }
        }
        // What an earlier run has made and left.
        for entry in fs::read_dir(&worker.folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("made")) {
                fs::remove_file(path)?;
            }
        }
        Ok(worker)
    }

    /// Requests until the time is over.
    fn work(&mut self, start: Instant, length: Duration) -> Result<Vec<Done>, Error> {
        let mut found = Vec::new();
        // Processes that keep a pace begin at different moments of it.
        let pace = self.process.every();
        let mut due = pace.mul_f64(self.share());
        while start.elapsed().max(due) < length {
            thread::sleep(due.saturating_sub(start.elapsed()));
            due += pace;
            let began = start.elapsed();
            let (operation, offset, bytes) = self.one()?;
            let took = start.elapsed().saturating_sub(began);
            found.push(Done { began, operation, offset, bytes, took });
        }
        Ok(found)
    }

    /// One request: what it was, where, and how many bytes of data.
    fn one(&mut self) -> Result<(char, u64, u64), Error> {
        if self.share() < self.process.names {
            self.about_names()?;
            return Ok(('m', 0, 0));
        }
        let (size, files) = (self.process.file_bytes, self.process.files);
        let places = (files * size / self.process.bytes).max(1);
        let place = match self.share() < self.process.random {
            true => self.below(places),
            false => self.next % places,
        };
        self.next = place + 1;
        let at = place * self.process.bytes;
        let writes = self.share() >= self.process.read;
        self.transfer(at / size, at % size, writes)?;
        Ok((if writes { 'w' } else { 'r' }, self.base + at, self.process.bytes))
    }

    /// A read or a write of data, in a file that is opened for it.
    fn transfer(&mut self, file: u64, at: u64, writes: bool) -> Result<(), Error> {
        let path = self.data(file);
        let file = opened(&path, writes)?;
        let skip = self.buffer.as_ptr().align_offset(ALIGNED);
        let bytes = self.process.bytes as usize;
        let mark = splitmix(&mut self.seed);
        let part = &mut self.buffer[skip..skip + bytes];
        if !writes {
            return file.read_exact_at(part, at);
        }
        for (index, words) in part.chunks_mut(8).enumerate() {
            let word = mark.wrapping_add(at + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            words.copy_from_slice(&word.to_le_bytes()[..words.len()]);
        }
        file.write_all_at(part, at)
    }

    /// One request about names: of 24, 18 look, 2 create, 2 remove, 1 renames, 1 lists.
    fn about_names(&mut self) -> Result<(), Error> {
        let (choice, (first, last)) = (self.below(24), self.made);
        let made = |number| self.folder.join(format!("made{number}"));
        match choice {
            0 | 1 => {
                File::create(made(last))?;
                self.made.1 += 1;
            }
            2 | 3 if first < last => {
                fs::remove_file(made(first))?;
                self.made.0 += 1;
            }
            4 if first < last => {
                // Its place in the row of names is kept: the oldest becomes the newest.
                fs::rename(made(first), made(last))?;
                self.made = (first + 1, last + 1);
            }
            5 => {
                for entry in fs::read_dir(&self.folder)? {
                    entry?;
                }
            }
            _ => {
                let file = self.below(self.process.files);
                fs::metadata(self.data(file))?;
            }
        }
        Ok(())
    }

    fn data(&self, file: u64) -> PathBuf {
        self.folder.join(format!("data{file}"))
    }

    /// A random share of 1, below it.
    fn share(&mut self) -> f64 {
        (splitmix(&mut self.seed) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        splitmix(&mut self.seed) % limit.max(1)
    }
}

/// A file past the page cache, or through it where the file system has no other way.
fn opened(path: &Path, writes: bool) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(writes).create(writes);
    let direct = OFlags::DIRECT.bits().cast_signed();
    match options.clone().custom_flags(direct).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            options.open(path)
        }
        other => other,
    }
}

/// The generator of Steele, Lea and Flood; the next number.
fn splitmix(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *seed;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(log: &Path) -> Plan {
        let text = json!({
            "seconds": 0.3, "seed": 7, "log": log, "processes": [
                {"name": "a", "count": 2, "names": 0.6, "read": 0.375, "random": 0.425,
                 "bytes": 4096, "files": 5, "file_bytes": 16384, "every_us": 0},
                {"name": "b", "count": 1, "names": 0.0, "read": 0.0, "random": 0.0,
                 "bytes": 8192, "files": 1, "file_bytes": 65536, "every_us": 20000}],
        });
        Plan::parse(&text.to_string()).unwrap()
    }

    #[test]
    fn processes_do_what_the_plan_says_and_log_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for _ in 0..2 {
            let found = play(&folder.path().join("files"), &plan(&log)).unwrap();
            let count = |key: &str| found[key].as_u64().unwrap();
            let share = count("name_ops") as f64 / count("ops") as f64;
            assert!((0.5..0.7).contains(&share), "{found}");
            let text = fs::read_to_string(&log).unwrap();
            let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
            assert_eq!(rows.len() as u64, count("ops"));
            let paced: Vec<_> = rows.iter().filter(|row| row[5] == "1").collect();
            assert!((5..=15).contains(&paced.len()), "{}", paced.len());
            for (index, row) in paced.iter().enumerate() {
                assert_eq!((row[1], row[3]), ("w", "8192"));
                let place = 2 * 5 * 16384 + index as u64 % 8 * 8192;
                assert_eq!(row[2].parse(), Ok(place));
            }
        }
        let names = fs::read_dir(folder.path().join("files/a0")).unwrap().count();
        assert!(names >= 5);
        let data = fs::read(folder.path().join("files/b0/data0")).unwrap();
        assert_eq!(data.len(), 65536);
        assert_ne!(data[..8192], data[8192..16384]);
    }
}
