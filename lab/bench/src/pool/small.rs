//! Many small files into a pool and out of it, beside `cp -r` with sync on the same disk.

use super::operations::CODE;
use super::{Options, failed};
use crate::BenchError;
use crate::measure::Spread;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Nodes: folders of one disk.
const NODES: usize = 14;
/// Objects of which the bytes on disk are counted, and bytes of each.
const DISK_OBJECTS: u64 = 20;
const DISK_SIZE: u64 = 5 << 10;

/// One repetition, in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// `kiln cp` into an empty pool.
    pub put: f64,
    /// `kiln cp` out of it.
    pub get: f64,
    /// `cp -r` of the same files, and `sync`.
    pub cp: f64,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Small {
    /// The pool's code.
    pub code: String,
    /// Files that were copied, and their bytes.
    pub files: usize,
    pub bytes: u64,
    /// Every repetition, in order.
    pub rounds: Vec<Round>,
    /// Seconds.
    pub put: Spread,
    pub get: Spread,
    pub cp: Spread,
    /// Of the same round.
    pub put_over_cp: Spread,
    pub get_over_cp: Spread,
    /// Bytes that objects of [`DISK_SIZE`] take on disk, with those of what is kept of their one
    /// folder, over their size.
    pub disk_over_size: f64,
    /// The same of all the files.
    pub files_disk_over_size: f64,
}

/// Measures in folders beside the report.
pub fn measure(options: &Options<'_>) -> Result<Option<Small>, BenchError> {
    if !options.kiln.exists() {
        eprintln!("SKIPPED: small files: there is no {}; build kiln", options.kiln.display());
        return Ok(None);
    }
    let root = match options.out {
        Some(out) => fs::create_dir_all(out).and_then(|()| tempfile::tempdir_in(out)),
        None => tempfile::tempdir(),
    };
    let root = root.map_err(failed)?;
    let rig = Rig { kiln: options.kiln.canonicalize().map_err(failed)?, root: root.path().into() };
    rig.measure(options).map(Some).map_err(failed)
}

struct Rig {
    kiln: PathBuf,
    root: PathBuf,
}

impl Rig {
    fn measure(&self, options: &Options<'_>) -> io::Result<Small> {
        let (files, rounds) = match (options.tiny, options.quick) {
            (true, _) => (40, 1),
            (_, true) => (3_000, 3),
            _ => (3_000, 15),
        };
        let five = self.root.join("five");
        write_files(&five, (DISK_OBJECTS as usize, 1), |_| DISK_SIZE)?;
        let pool = self.pool("disk")?;
        self.kiln(&pool, &["cp", "-q", path(&five), "pool:five"])?;
        let disk_over_size = allocated(&pool)? as f64 / (DISK_OBJECTS * DISK_SIZE) as f64;
        let source = self.root.join("source");
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let bytes = write_files(&source, (files, 30), |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            1024 + random % (19 << 10)
        })?;
        let mut done = Vec::new();
        let mut taken = 0;
        for round in 0..rounds {
            done.push(self.round(round, &source)?);
            if round == 0 {
                taken = allocated(&self.root.join("pool-0"))?;
            }
            eprintln!("round {} of {rounds}: {:?}", round + 1, done[round]);
        }
        let of = |pick: fn(&Round) -> f64| Spread::of(&done.iter().map(pick).collect::<Vec<_>>());
        Ok(Small {
            code: CODE.into(),
            files,
            bytes,
            put: of(|round| round.put),
            get: of(|round| round.get),
            cp: of(|round| round.cp),
            put_over_cp: of(|round| round.put / round.cp),
            get_over_cp: of(|round| round.get / round.cp),
            rounds: done,
            disk_over_size,
            files_disk_over_size: taken as f64 / bytes as f64,
        })
    }

    /// All of it once, in another order every other time. Nothing is removed meanwhile: file
    /// systems pay for that later, and others would pay with them.
    fn round(&self, round: usize, source: &Path) -> io::Result<Round> {
        let pool = self.pool(&format!("pool-{round}"))?;
        let copy = self.root.join(format!("copy-{round}"));
        let back = self.root.join(format!("back-{round}"));
        let cp = || {
            timed(|| {
                run(Command::new("cp").arg("-r").arg(source).arg(&copy))?;
                run(&mut Command::new("sync"))
            })
        };
        let put = || timed(|| self.kiln(&pool, &["cp", "-q", path(source), "pool:files"]));
        run(&mut Command::new("sync"))?;
        let (cp, put) = if round.is_multiple_of(2) {
            let cp = cp()?;
            (cp, put()?)
        } else {
            let put = put()?;
            run(&mut Command::new("sync"))?;
            (cp()?, put)
        };
        let get = timed(|| self.kiln(&pool, &["cp", "-q", "pool:files", path(&back)]))?;
        Ok(Round { put, get, cp })
    }

    /// An empty pool in folders of this disk.
    fn pool(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.root.join(name);
        let nodes: Vec<PathBuf> =
            (0..NODES).map(|at| folder.join("nodes").join(format!("n{at:02}"))).collect();
        let mut words = vec!["pool", "create", "-q", "-c", CODE];
        for node in &nodes {
            fs::create_dir_all(node)?;
            words.extend(["--node", path(node)]);
        }
        self.kiln(&folder, &words)?;
        Ok(folder)
    }

    fn kiln(&self, folder: &Path, words: &[&str]) -> io::Result<()> {
        run(Command::new(&self.kiln).args(words).current_dir(folder))
    }
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}

/// Paths are made here, of ASCII, below a folder that must be UTF-8.
fn path(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Files in so many folders; their bytes in all.
fn write_files(
    folder: &Path,
    (count, folders): (usize, usize),
    mut size: impl FnMut(usize) -> u64,
) -> io::Result<u64> {
    let mut all = 0;
    for at in 0..count {
        let below = folder.join(format!("{:02}", at % folders));
        fs::create_dir_all(&below)?;
        let size = size(at);
        let byte = |offset: u64| (offset.wrapping_mul(offset + at as u64) >> 3) as u8 ^ at as u8;
        let bytes: Vec<u8> = (0..size).map(byte).collect();
        fs::write(below.join(format!("{at:05}.bin")), bytes)?;
        all += size;
    }
    Ok(all)
}

/// Bytes of blocks that the files of a pool's objects take.
fn allocated(folder: &Path) -> io::Result<u64> {
    allocated_but(folder, &mut BTreeSet::new())
}

/// The same, of files that were not seen yet: several names may be one file.
fn allocated_but(folder: &Path, seen: &mut BTreeSet<(u64, u64)>) -> io::Result<u64> {
    let mut all = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            all += allocated_but(&entry.path(), seen)?;
        } else if !seen.insert((meta.dev(), meta.ino())) {
            // Counted already.
        } else if kiln_pool::NodeFile::parse(&entry.file_name().to_string_lossy()).is_some() {
            all += 512 * meta.blocks();
        }
    }
    Ok(all)
}
