//! `kiln cp`

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_pool::{FileSource, GetRequest, Observer, Pool, PoolError, PutRequest};
use serde::Serialize;

use crate::cmd::Command;
use crate::exit::{Exit, Failure};
use crate::print::{Stream, count, pace};
use crate::setup::{Output, Place, PoolFlags, Setup, fresh_run, local, now_ms};
use crate::sizes;

/// Marks the side that is in the pool.
const MARK: &str = "pool:";
/// Failures told one by one; the rest is counted.
const MAX_TOLD: usize = 50;

const EXAMPLES: &str = "\
Examples:
  kiln cp photos pool:photos            every file below photos, as photos/...
  kiln cp pool:photos/2024 back         all objects below photos/2024/, into the folder back
  kiln cp photos pool:photos --skip     only what is not there yet, e.g. after an interruption";

/// Copy a folder into a pool, or out of it
///
/// Each file becomes an object, atomically; a file that cannot be read is told at the end and the
/// others are copied (exit code 4). Symbolic links and special files are left out.
#[derive(Debug, Args)]
pub struct Cp {
    /// A folder or file, or pool:PREFIX
    from: String,

    /// pool:PREFIX, or a folder
    to: String,

    /// Replace what is there
    #[arg(long, conflicts_with = "skip")]
    force: bool,

    /// Leave what is there as it is
    #[arg(long)]
    skip: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

/// What a copy did.
#[derive(Debug, Default, Serialize)]
struct Report {
    copied: u64,
    bytes: u64,
    skipped: u64,
    failed: u64,
    failures: Vec<String>,
    seconds: f64,
}

impl Report {
    /// Counts what became of one file or object: copied bytes, or nothing when it was left out.
    fn count(&mut self, name: &str, outcome: Result<Option<u64>, Failure>) {
        match outcome {
            Ok(Some(bytes)) => {
                self.copied += 1;
                self.bytes += bytes;
            }
            Ok(None) => self.skipped += 1,
            Err(failure) => self.fail(name, &failure),
        }
    }

    fn fail(&mut self, name: &str, failure: &Failure) {
        self.failed += 1;
        if self.failures.len() < MAX_TOLD {
            self.failures.push(format!("{name}: {failure}"));
        }
    }
}

/// Progress of many objects as one.
struct Whole<'a>(&'a dyn Observer);

impl Observer for Whole<'_> {
    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn warn(&self, message: &str) {
        self.0.warn(message);
    }
}

impl Command for Cp {
    const NAME: &'static str = "cp";
    const EXAMPLES: &'static str = EXAMPLES;

    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let outcome = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(prefix)) => self.copy_in(&pool, local(self.from.as_ref())?, prefix, setup),
            (Some(prefix), None) => self.copy_out(&pool, prefix, local(self.to.as_ref())?, setup),
            _ => {
                let problem =
                    "exactly one of the two paths must be in the pool: write that one as pool:NAME"
                        .into();
                Err(Failure::Flag { flag: "TO", problem })
            }
        };
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        report.failures.iter().for_each(|failure| setup.observer.warn(failure));
        show(&report, setup)?;
        Ok(if report.failed > 0 { Exit::Io } else { Exit::Done })
    }
}

impl Cp {
    fn copy_in(
        &self,
        pool: &Pool,
        from: &Path,
        prefix: &str,
        setup: &Setup,
    ) -> Result<Report, Failure> {
        let prefix = prefix.trim_matches('/');
        let (mut report, mut files, mut total) = (Report::default(), Vec::new(), 0);
        walk(from, &mut |path, bytes| {
            total += bytes;
            files.push(path.to_owned());
        })?;
        setup.observer.begin("copy", Some(total));
        let whole = Whole(&setup.observer);
        let settings = kiln_pool::Settings { observer: &whole, ..setup.settings() };
        for path in files {
            let inside = path.strip_prefix(from).unwrap_or(&path);
            let Some(inside) = inside.to_str() else {
                let problem = "its name is not UTF-8".to_owned();
                let failure = Failure::NotUsable { path: path.clone(), problem };
                report.fail(&path.display().to_string(), &failure);
                continue;
            };
            let parts = [prefix, inside].into_iter().filter(|part| !part.is_empty());
            let mut name = parts.collect::<Vec<_>>().join("/");
            if name.is_empty() {
                name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            }
            report.count(&name, self.put(pool, &path, &name, &settings));
        }
        Ok(report)
    }

    /// Puts one file; `None` when it was left out.
    fn put(
        &self,
        pool: &Pool,
        path: &Path,
        name: &str,
        settings: &kiln_pool::Settings<'_>,
    ) -> Result<Option<u64>, Failure> {
        let failed = |source| Failure::Io { action: "open", path: path.to_owned(), source };
        let mut source = FileSource::open(path).map_err(failed)?;
        if self.skip {
            match pool.manifest(name) {
                Ok(manifest) => {
                    settings.observer.advance(manifest.size);
                    return Ok(None);
                }
                Err(PoolError::NoObject { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace: self.force };
        Ok(Some(pool.put(&req, &mut source, settings)?.size))
    }

    fn copy_out(
        &self,
        pool: &Pool,
        prefix: &str,
        to: &Path,
        setup: &Setup,
    ) -> Result<Report, Failure> {
        let prefix = prefix.trim_end_matches('/');
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut report, mut names, mut total) = (Report::default(), Vec::new(), 0);
        let index = self.pool.index(pool, setup)?;
        index.each(prefix, None, |listed| {
            if listed.name == prefix || listed.name.starts_with(&below) {
                total += listed.size;
                names.push(listed.name);
            }
            Ok(true)
        })?;
        if names.is_empty() {
            return Err(PoolError::NoObject { name: below }.into());
        }
        drop(index);
        setup.observer.begin("copy", Some(total));
        let whole = Whole(&setup.observer);
        let settings = kiln_pool::Settings { observer: &whole, ..setup.settings() };
        for name in names {
            let inside = match name.strip_prefix(&below) {
                Some(inside) => inside,
                None => name.rsplit('/').next().unwrap_or(&name),
            };
            report.count(&name, self.get(pool, &name, &to.join(inside), &settings));
        }
        Ok(report)
    }

    fn get(
        &self,
        pool: &Pool,
        name: &str,
        path: &Path,
        settings: &kiln_pool::Settings<'_>,
    ) -> Result<Option<u64>, Failure> {
        if self.skip && path.exists() {
            return Ok(None);
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|source| Failure::Io {
            action: "create",
            path: folder.to_owned(),
            source,
        })?;
        let mut output = Output::open(&Place::File(path.to_owned()), self.force)?;
        let req = GetRequest { name, range: None };
        let report = pool.get(&req, &mut output, settings)?;
        output.finish()?;
        Ok(Some(report.bytes_written))
    }
}

/// Shows the regular files at or below a path, in order.
fn walk(path: &Path, see: &mut dyn FnMut(&Path, u64)) -> Result<(), Failure> {
    let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    let meta = path.symlink_metadata().map_err(failed)?;
    if meta.is_file() {
        see(path, meta.len());
    } else if meta.is_dir() {
        let entries = fs::read_dir(path).map_err(failed)?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<Result<_, _>>().map_err(failed)?;
        paths.sort();
        paths.iter().try_for_each(|path| walk(path, see))?;
    }
    Ok(())
}

fn show(report: &Report, setup: &Setup) -> Result<(), Failure> {
    if setup.json {
        return Stream::Stdout.json(report);
    }
    if setup.quiet {
        return Ok(());
    }
    let mut text =
        format!("{} copied, {}", count(report.copied, "file"), sizes::show(report.bytes));
    if report.skipped > 0 {
        text += &format!("; {} skipped", report.skipped);
    }
    if report.failed > 0 {
        text += &format!("; {} FAILED", report.failed);
    }
    text += &format!("\n{}\n", pace(report.bytes, report.seconds));
    Stream::Stdout.text(&text)
}
