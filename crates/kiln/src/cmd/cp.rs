//! `kiln cp`

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_pool::{
    FileSource, GetRequest, Observer, Pool, PoolError, PutRequest, Settings, Source, in_parallel,
};
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
/// Most files that are copied together, and most bytes of them; a larger one is copied alone. Small
/// ones wait for disks most of the time: together they wait once. All of them are open meanwhile,
/// and many systems allow 1,024.
const TOGETHER: usize = 768;
const TOGETHER_BYTES: u64 = 16 << 20;

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

/// A file, or an object, that is to be copied.
struct Item {
    /// The object's name.
    name: String,
    /// The file.
    path: PathBuf,
    bytes: u64,
    /// The file's name is UTF-8, as those of objects are.
    named: bool,
}

impl Item {
    /// A file below `from` that becomes an object below `prefix`.
    fn of_file(from: &Path, prefix: &str, path: PathBuf, bytes: u64) -> Item {
        let inside = path.strip_prefix(from).unwrap_or(&path);
        let Some(inside) = inside.to_str() else {
            return Item { name: path.display().to_string(), path, bytes, named: false };
        };
        let parts = [prefix, inside].into_iter().filter(|part| !part.is_empty());
        let mut name = parts.collect::<Vec<_>>().join("/");
        if name.is_empty() {
            name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        Item { name, path, bytes, named: true }
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
        let (mut report, mut items) = (Report::default(), Vec::new());
        walk(from, &mut |path, bytes| {
            items.push(Item::of_file(from, prefix, path.to_owned(), bytes));
        })?;
        setup.observer.begin("copy", Some(items.iter().map(|item| item.bytes).sum()));
        let whole = Whole(&setup.observer);
        let settings = Settings { observer: &whole, ..setup.settings() };
        for items in together(&items) {
            self.put_together(pool, items, &settings, &mut report);
        }
        Ok(report)
    }

    fn put_together(
        &self,
        pool: &Pool,
        items: &[Item],
        settings: &Settings<'_>,
        report: &mut Report,
    ) {
        let opened = at_once(items, |item| self.source(pool, item, settings));
        let (mut ends, mut sources) = (Vec::with_capacity(items.len()), Vec::new());
        for (at, source) in opened.into_iter().enumerate() {
            ends.push(match source {
                Ok(Some(source)) => {
                    sources.push((at, source));
                    None
                }
                Ok(None) => Some(Ok(None)),
                Err(failure) => Some(Err(failure)),
            });
        }
        let put = |at: usize| {
            let (name, replace) = (&items[at].name[..], self.force);
            PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace }
        };
        let puts = sources.iter_mut().map(|(at, source)| (put(*at), source as &mut dyn Source));
        let mut all_failed = None;
        match pool.put_all(puts.collect(), settings) {
            Ok(done) => {
                for ((at, _), end) in sources.iter().zip(done) {
                    ends[*at] = Some(end.map(|put| Some(put.size)).map_err(Failure::from));
                }
            }
            Err(error) => all_failed = Some(Failure::from(error)),
        }
        for (item, end) in items.iter().zip(ends) {
            match (end, &all_failed) {
                (Some(end), _) => report.count(&item.name, end),
                (None, Some(failure)) => report.fail(&item.name, failure),
                (None, None) => {}
            }
        }
    }

    /// Opens a file that is to be put; `None` when it is left out.
    fn source(
        &self,
        pool: &Pool,
        item: &Item,
        settings: &Settings<'_>,
    ) -> Result<Option<FileSource>, Failure> {
        let path = &item.path;
        if !item.named {
            let problem = "its name is not UTF-8".to_owned();
            return Err(Failure::NotUsable { path: path.clone(), problem });
        }
        let failed = |source| Failure::Io { action: "open", path: path.clone(), source };
        let source = FileSource::open(path).map_err(failed)?;
        if self.skip {
            match pool.manifest(&item.name) {
                Ok(manifest) => {
                    settings.observer.advance(manifest.size);
                    return Ok(None);
                }
                Err(PoolError::NoObject { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(source))
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
        let (mut report, mut items) = (Report::default(), Vec::new());
        let index = self.pool.index(pool, setup)?;
        index.each(prefix, None, |listed| {
            if listed.name == prefix || listed.name.starts_with(&below) {
                let last = || listed.name.rsplit('/').next().unwrap_or(&listed.name);
                let path = to.join(listed.name.strip_prefix(&below).unwrap_or_else(last));
                items.push(Item { path, bytes: listed.size, name: listed.name, named: true });
            }
            Ok(true)
        })?;
        if items.is_empty() {
            return Err(PoolError::NoObject { name: below }.into());
        }
        drop(index);
        setup.observer.begin("copy", Some(items.iter().map(|item| item.bytes).sum()));
        let whole = Whole(&setup.observer);
        let settings = Settings { observer: &whole, ..setup.settings() };
        for items in together(&items) {
            let alone = items.len() == 1;
            let settings = Settings {
                threads: if alone { settings.threads } else { 1 },
                memory: settings.memory / items.len() as u64,
                ..settings
            };
            let ends = at_once(items, |item| self.get(pool, &item.name, &item.path, &settings));
            for (item, end) in items.iter().zip(ends) {
                report.count(&item.name, end);
            }
        }
        Ok(report)
    }

    fn get(
        &self,
        pool: &Pool,
        name: &str,
        path: &Path,
        settings: &Settings<'_>,
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

/// Items that are copied together, in order.
fn together(items: &[Item]) -> impl Iterator<Item = &[Item]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |item: &&Item| {
            bytes += item.bytes;
            bytes <= TOGETHER_BYTES
        };
        let count = rest.iter().take(TOGETHER).take_while(fits).count().max(1);
        let (now, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(now)
    })
}

/// Does something for each item, many at a time; results come in their order.
fn at_once<R: Send>(items: &[Item], body: impl Fn(&Item) -> R + Sync) -> Vec<R> {
    let done = in_parallel(None, items.iter().collect(), |_, item| Ok::<_, Infallible>(body(item)));
    done.unwrap_or_else(|never| match never {})
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
