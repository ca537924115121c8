//! Many files at once between folders and pools: the engine of `cp`, `sync` and `mv`.
//!
//! Both sides are looked at first, as [`LocalTree`] and [`PoolTree`]; what follows acts on these.
//! Failures of entries are collected, and nothing is removed unless both were seen whole.

pub mod raw_names;
pub mod attributes;
pub mod local_tree;
pub mod records;
pub mod pool_tree;
pub mod get;
pub mod put;
pub mod duplicate;

use std::{convert::Infallible, iter, path::Path};

use kiln_folders::{first_in, is_attributes};
use kiln_pool::{Index, Pool};
use kiln_stripe::{Observer, PoolError, in_parallel};
use minijinja::context;
use serde::Serialize;

use self::local_tree::{LocalTree, joined};
use self::{pool_tree::PoolTree, raw_names::to_pool};
use crate::exit::{Exit, Failure, Result};
use crate::print::one_line;
use crate::setup::kept::not_kept;
use crate::setup::{Setup, fresh_run, now_ms, open_together};

/// Failures listed one by one; the rest is counted.
const MAX_TOLD: usize = 50;
/// Most files that are copied together, and most bytes of them; a larger one is copied alone. Small
/// ones wait for disks most of the time: together they wait once. All of them are open meanwhile,
/// and many systems allow 1,024; where fewer are allowed, fewer are copied together.
const TOGETHER: usize = 768;
const TOGETHER_BYTES: u64 = 16 << 20;

/// Report of a copy, or (dry run) of what it would do.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    copied: u64,
    bytes: u64,
    pub skipped: u64,
    pub removed: u64,
    pub failed: u64,
    failures: Vec<String>,
    left_out: Vec<String>,
    /// Steps of `kiln sync` and their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    pub seconds: f64,
    /// There may be objects that are not listed.
    #[serde(skip)]
    incomplete: bool,
}

impl Report {
    /// Of nothing yet.
    pub fn new(dry_run: bool) -> Report {
        Report { dry_run, ..Report::default() }
    }

    /// Counts what became of one file or object: copied bytes, or nothing when it was left out.
    fn count(&mut self, name: &str, outcome: Result<Option<u64>>) {
        match outcome {
            Ok(Some(bytes)) => {
                self.copied += 1;
                self.bytes += bytes;
            }
            Ok(None) => self.skipped += 1,
            Err(failure) => self.fail(name, &failure),
        }
    }

    /// Counts a copy that a run that is not dry would make.
    pub fn would_copy(&mut self, bytes: u64) {
        self.copied += 1;
        self.bytes += bytes;
    }

    /// Records a failure of one entry.
    pub fn fail(&mut self, name: &str, failure: &Failure) {
        self.failed += 1;
        if self.failures.len() < MAX_TOLD {
            self.failures.push(format!("{}: {failure}", one_line(name)));
        }
    }

    /// Records a step and its reason.
    pub fn step(&mut self, what: &str, name: &str, why: &str) {
        let would = if self.dry_run { "would " } else { "" };
        self.steps.push(format!("{would}{what} {}: {why}", one_line(name)));
    }

    /// Takes over what could not be looked at on this machine.
    pub fn add_local(&mut self, tree: &mut LocalTree) {
        self.left_out.append(&mut tree.left_out);
        for (name, failure) in tree.failures.drain(..) {
            self.fail(&name, &failure);
        }
    }

    /// Takes over what could not be looked at in the pool.
    pub fn add_pool(&mut self, tree: &mut PoolTree) {
        self.incomplete |= !tree.sees_all;
        for (folder, failure) in tree.failures.drain(..) {
            self.fail(&format!("attributes of {folder}/"), &failure);
        }
    }

    /// Returns whether all was seen and done so far.
    pub fn is_whole(&self) -> bool {
        self.failed == 0 && !self.incomplete
    }

    /// Prints warnings and the sum; returns the exit code.
    pub fn end(mut self, setup: &Setup) -> Result<Exit> {
        setup.observer.finish();
        self.seconds = setup.seconds();
        self.failures.iter().for_each(|failure| setup.observer.warn(failure));
        self.left_out.iter().for_each(|what| setup.observer.warn(&format!("left out: {what}")));
        if self.incomplete {
            setup.observer.warn(
                "listing may be incomplete: more nodes are down than the manifest quorum \
                 tolerates; nothing was removed",
            );
        }
        not_kept().iter().for_each(|what| setup.observer.warn(what));
        setup.tell("copy", &self, context! {})?;
        Ok(match (self.failed, self.incomplete) {
            (0, false) => Exit::Done,
            (0, true) => Exit::NotRecoverable,
            _ => Exit::Io,
        })
    }

    /// Prints failures alone; returns the exit code.
    pub fn end_quietly(self, setup: &Setup) -> Result<Exit> {
        self.failures.iter().for_each(|failure| setup.observer.warn(failure));
        Ok(if self.failed > 0 { Exit::Io } else { Exit::Done })
    }
}

/// Copying between a pool and this machine.
pub struct Transfer<'a> {
    pub pool: &'a Pool,
    pub index: &'a Index,
    pub setup: &'a Setup,
    /// Replace what is there.
    pub force: bool,
    /// Leave what is there.
    pub skip: bool,
}

impl Transfer<'_> {
    /// Returns whether objects have names in this folder.
    pub fn is_folder(&self, name: &str) -> Result<bool> {
        Ok(first_in(self.index, name)?.is_some())
    }

    /// Removes objects; those that are gone already count, too.
    pub fn remove<'n>(&self, names: impl IntoIterator<Item = &'n String>, report: &mut Report) {
        let names: Vec<&String> = names.into_iter().collect();
        for names in names.chunks(TOGETHER) {
            let each: Vec<_> = names.iter().map(|name| (&name[..], fresh_run(), None)).collect();
            match self.pool.writer().remove_all(&each, now_ms(), &self.setup.settings()) {
                Ok(ends) => {
                    for (name, end) in names.iter().zip(ends) {
                        match end {
                            Ok(()) | Err(PoolError::NoObject { .. }) => {}
                            Err(error) => report.fail(name, &error.into()),
                        }
                    }
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    names.iter().for_each(|name| report.fail(name, &failure));
                }
            }
        }
    }
}

/// Returns whether an object is one that volumes, or the buckets of the S3 server, are made of.
pub fn is_internal(name: &str) -> bool {
    [kiln_volume::OBJECTS, kiln_gate::OBJECTS].iter().any(|own| name.starts_with(own))
}

/// Refuses names that are kiln's own: those of volumes, of buckets and of attributes.
/// Errors: [`Failure::Reserved`].
pub fn refuse_reserved(name: &str) -> Result<()> {
    let own = name.trim_start_matches('/');
    let reserved = is_internal(own) || is_internal(&format!("{own}/"));
    match reserved || is_attributes(own) {
        true => Err(Failure::Reserved { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// The name of a file that is copied to a place of the pool, by the conventions of `cp`: into it
/// where it is a folder, or is written as one.
pub fn name_of_file(transfer: &Transfer<'_>, path: &Path, to: &str) -> Result<String> {
    let folder = to.trim_end_matches('/');
    if to.is_empty() || to.ends_with('/') || transfer.is_folder(folder)? {
        let Some(word) = path.file_name() else {
            let problem = "it has no name; give the object's name".to_owned();
            return Err(Failure::NotUsable { path: path.to_owned(), problem });
        };
        return Ok(joined(folder, &to_pool(word)));
    }
    Ok(to.to_owned())
}

/// Items that are copied together, in order.
fn together<T>(items: &[T], bytes_of: impl Fn(&T) -> u64) -> impl Iterator<Item = &[T]> {
    let (mut rest, most) = (items, open_together(TOGETHER));
    iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |item: &&T| {
            bytes += bytes_of(item);
            bytes <= TOGETHER_BYTES
        };
        let count = rest.iter().take(most).take_while(fits).count().max(1);
        let (now, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(now)
    })
}

/// Does something for each item, many at a time; results come in their order.
pub fn at_once<T: Sync, R: Send>(items: &[T], body: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let done = in_parallel(None, items.iter().collect(), |_, item| Ok::<_, Infallible>(body(item)));
    done.unwrap_or_else(|never| match never {})
}
