//! All objects below some folders: what verify, decode and repair do with `--all`.

use std::path::{Path, PathBuf};
use std::{cell::Cell, collections::BTreeSet};

use kiln_files::object_names;
use kiln_store::ReadMode;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::print::{Stream, count, error_line, fields};
use crate::setup::{Folders, Setup, local};

/// One object, and where its shards are.
pub struct Group {
    /// The folder below those that were named; empty for these themselves.
    pub below: PathBuf,
    pub object: String,
    /// The same folder below each of those that were named.
    pub folders: Folders,
    /// When work on it began, in seconds.
    pub begun: Cell<f64>,
}

/// Bare chunks do not say which objects they are of.
pub fn refuse_raw(raw: bool) -> Result<()> {
    match raw {
        true => {
            let problem = "bare chunks have no object names; name one object".to_owned();
            Err(Failure::Flag { flag: "--all", problem })
        }
        false => Ok(()),
    }
}

/// The objects that have shards in the places or, where these are folders of this machine, anywhere
/// below them; in order. Where several folders are given, those of one name below them belong
/// together. Symbolic links are not followed.
/// Errors: a folder that cannot be read; no shards at all.
pub fn groups(setup: &Setup, roots: &[PathBuf], mode: ReadMode) -> Result<Vec<Group>> {
    let mut folders = BTreeSet::from([PathBuf::new()]);
    for root in roots.iter().filter_map(|root| local(root).ok()).filter(|root| root.exists()) {
        walk(root, Path::new(""), &mut folders)?;
    }
    let mut groups = Vec::new();
    for below in folders {
        let paths: Vec<PathBuf> = match below.as_os_str().is_empty() {
            true => roots.to_vec(),
            false => {
                let roots = roots.iter().filter_map(|root| local(root).ok());
                roots.map(|root| root.join(&below)).collect()
            }
        };
        let open = || Folders::to_read(setup, &paths, mode);
        for object in object_names(open()?.nodes())? {
            let (below, folders) = (below.clone(), open()?);
            groups.push(Group { below, object, folders, begun: Cell::new(0.0) });
        }
    }
    match groups.is_empty() {
        true => {
            let places: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
            let places = format!("{} and below", places.join(", "));
            Err(kiln_stripe::PoolError::NotFound { object: None, places }.into())
        }
        false => Ok(groups),
    }
}

fn walk(root: &Path, below: &Path, folders: &mut BTreeSet<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    let failed = |source| Failure::Io { action: "read", path: folder.clone(), source };
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            let below = below.join(entry.file_name());
            walk(root, &below, folders)?;
            folders.insert(below);
        }
    }
    Ok(())
}

/// Does something with each object; one that fails keeps none of the others from it. The exit code
/// is the worst of all.
pub fn each<R: Serialize>(
    groups: &[Group],
    setup: &Setup,
    mut body: impl FnMut(&Group) -> Result<(Exit, String, R), Failure>,
) -> Result<Exit> {
    let (mut rows, mut worst, mut bad) = (Vec::new(), Exit::Done, 0);
    for group in groups {
        group.begun.set(setup.seconds());
        let outcome = body(group);
        setup.observer.finish();
        let (exit, report, error) = match outcome {
            Ok((exit, text, report)) => {
                if !setup.json && !setup.quiet {
                    Stream::Stdout.text(&format!("{}{text}", place(group)))?;
                }
                (exit, Some(report), None)
            }
            Err(failure) => {
                let error = failure.to_string();
                error_line(&format!("{}{}: {error}", place(group), group.object));
                (failure.exit(), None, Some(error))
            }
        };
        bad += u64::from(exit != Exit::Done);
        worst = if rank(exit) > rank(worst) { exit } else { worst };
        let (below, object) = (group.below.display().to_string(), group.object.clone());
        if setup.json {
            let object = report.is_none().then_some(object);
            rows.push(fields! {
                below: below,
                // A report names it itself.
                object or none: object,
                exit: exit as u8,
                #[serde(flatten)]
                report: report,
                error or none: error,
            });
        }
    }
    setup.report(&fields! { objects: rows, seconds: setup.seconds() }, || {
        let all = count(groups.len() as u64, "object");
        match bad {
            0 => format!("{all}; nothing is wrong\n"),
            bad => format!("{all}; {bad} NOT as they should be\n"),
        }
    })?;
    Ok(worst)
}

fn place(group: &Group) -> String {
    match group.below.as_os_str().is_empty() {
        true => String::new(),
        false => format!("{}/", group.below.display()),
    }
}

/// Ranks exit codes by gravity, among those of many objects.
fn rank(exit: Exit) -> usize {
    let order = [
        Exit::Done,
        Exit::Damaged,
        Exit::Usage,
        Exit::Refused,
        Exit::NotFound,
        Exit::NotPermitted,
        Exit::WrongKey,
        Exit::Io,
        Exit::Partial,
        Exit::NotRecoverable,
    ];
    order.iter().position(|known| *known == exit).unwrap_or(order.len())
}
