//! Output for people and scripts: lines, JSON, small tables.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use kiln_stripe::Damage;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::lists;

/// Makes a value of these fields, which JSON shows in this order; those that are `or none` only
/// where there is a value.
macro_rules! fields {
    ($($(#[$meta:meta])* $name:ident $(or $none:ident)?: $value:expr),* $(,)?) => {{
        #[allow(non_camel_case_types)]
        let fields = {
            #[derive(serde::Serialize)]
            struct Fields<$($name),*> {
                $(
                    $(#[$meta])*
                    $(#[doc = stringify!($none)]
                    #[serde(skip_serializing_if = "crate::print::is_null")])?
                    $name: $name
                ),*
            }
            Fields { $($name: $value),* }
        };
        fields
    }};
}
pub(crate) use fields;

/// Returns whether a field is `None`, or another value that JSON shows as null.
pub fn is_null(value: &impl Serialize) -> bool {
    serde_json::to_value(value).is_ok_and(|value| value.is_null())
}

/// The stream of a command's report: stderr when the data itself goes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The usual place.
    Stdout,
    /// When stdout carries the object.
    Stderr,
}

/// Standard output carries an object, so reports and errors must not.
static DATA_TO_STDOUT: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output carries an object; with `begins` it does from now on.
pub fn data_goes_to_stdout(begins: bool) -> bool {
    DATA_TO_STDOUT.fetch_or(begins, Ordering::Relaxed)
}

impl Stream {
    /// Writes a whole text.
    pub fn text(self, text: &str) -> Result<()> {
        // Names in it may have signs that a terminal obeys.
        let text = text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "?");
        let outcome = match self {
            Stream::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Stream::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        };
        outcome.map_err(|source| Failure::Io { action: "write", path: self.path(), source })
    }

    /// Writes one JSON object and a newline.
    pub fn json(self, report: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(report).map_err(|error| Failure::Io {
            action: "write",
            path: self.path(),
            source: error.into(),
        })?;
        self.text(&format!("{text}\n"))
    }

    fn path(self) -> PathBuf {
        match self {
            Stream::Stdout => "standard output".into(),
            Stream::Stderr => "standard error".into(),
        }
    }
}

/// Prints the one line that a failure deserves, and with `json` an object on standard output too,
/// unless data goes there; gives its exit code.
pub fn report(failure: &Failure, json: bool) -> Exit {
    let exit = failure.exit();
    if !failure.is_closed_pipe() {
        let error = failure.to_string();
        error_line(&error);
        if json && !data_goes_to_stdout(false) {
            let (kind, todo) = exit.kind_and_advice();
            let todo = match failure {
                Failure::Exists { .. } | Failure::Replaces { .. } => {
                    "nothing was changed; give --force to replace what is there"
                }
                _ => todo,
            };
            let told = fields! { error: error, kind: kind, exit: exit as u8, todo: todo };
            // A closed standard output cannot be reported.
            let _ = Stream::Stdout.json(&told);
        }
    }
    exit
}

/// The one line of a failure. A closed stderr cannot report anything, so errors are dropped.
pub fn error_line(message: &str) {
    let _ = writeln!(io::stderr(), "kiln: {}", flat(message));
}

pub fn warning_line(message: &str) {
    let _ = writeln!(io::stderr(), "kiln: warning: {}", flat(message));
}

/// A line of progress, for logs.
pub fn progress_line(message: &str) {
    let _ = writeln!(io::stderr(), "kiln: {message}");
}

/// Messages may quote file names and system texts; whatever they hold stays one line.
fn flat(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A name as it is shown: on one line, without signs that a terminal obeys.
pub fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Left-aligned first column, the rest right-aligned; two spaces between columns.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// Wraps words into lines of at most 78 characters behind an indent.
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 78 && line.trim() != "" {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// A short time, as 8.33 ms.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.2} us", s * 1e6),
    }
}

/// The beginning of a name that may be a long list.
pub fn brief(name: &str) -> String {
    match name.char_indices().nth(24) {
        Some((end, _)) => format!("{}..", &name[..end]),
        None => name.to_owned(),
    }
}

/// A line of reports on pools.
pub const INCOMPLETE: &str =
    "  listing MAY BE INCOMPLETE: more nodes are down than the manifest quorum tolerates\n";

/// Damaged places, a line each; many of one shard are summed up.
pub fn damages(list: &[Damage], all: u64) -> String {
    const ONE_BY_ONE: usize = 5;
    let mut groups: BTreeMap<Option<usize>, Vec<&Damage>> = BTreeMap::new();
    for damage in list {
        groups.entry(damage.index).or_default().push(damage);
    }
    let mut text = String::new();
    for (index, group) in groups {
        let (whole, stripes): (Vec<&Damage>, Vec<&Damage>) =
            group.into_iter().partition(|damage| damage.stripe.is_none());
        let few = stripes.len() <= ONE_BY_ONE || index.is_none();
        for damage in whole.iter().chain(stripes.iter().filter(|_| few)) {
            text += &format!("  {damage}\n");
        }
        let ends = (stripes.first().and_then(|d| d.stripe), stripes.last().and_then(|d| d.stripe));
        if let (false, Some(index), (Some(first), Some(last))) = (few, index, ends) {
            let count = stripes.len();
            text += &format!("  shard {index}: {count} damaged stripes, {first} to {last}\n");
        }
    }
    let untold = all.saturating_sub(list.len() as u64);
    if untold > 0 {
        text += &format!("  and {untold} more damaged places\n");
    }
    text
}

/// `1 shard`, `3 shards`.
pub fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    }
}

/// `2 more losses`: what an object survives.
pub fn more_losses(margin: i32) -> String {
    match u64::try_from(margin) {
        Err(_) | Ok(0) => "no further loss".to_owned(),
        Ok(1) => "1 more loss".to_owned(),
        Ok(margin) => format!("{margin} more losses"),
    }
}

/// Returns the damage that a read worked around, for a warning.
pub fn worked_around(lost: &[usize], damaged: u64) -> Option<String> {
    let lost = (!lost.is_empty()).then(|| format!("{} could not be used", lists::named(lost)));
    let damaged = (damaged > 0).then(|| format!("{} found", count(damaged, "damaged place")));
    let found: Vec<String> = lost.into_iter().chain(damaged).collect();
    (!found.is_empty()).then(|| found.join(" and "))
}

/// A moment in UTC, as 2024-05-31 17:04.
pub fn date(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|at| Timestamp::from_second(at).ok());
    moment.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Seconds and bytes per second, for the last line of a summary.
pub fn pace(bytes: u64, seconds: f64) -> String {
    let rate = crate::sizes::show((bytes as f64 / seconds.max(1e-9)) as u64);
    match seconds >= 0.01 && bytes > 0 {
        true => format!("{seconds:.2} s, {rate}/s"),
        false => format!("{seconds:.2} s"),
    }
}
