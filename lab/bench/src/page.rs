//! Reports as data, and tables in Markdown for their pages. Pictures are made of the data, by
//! `lab/figures`.

use crate::BenchError;
use crate::parts::put;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// Writes a report as NAME.json and its page, if it has one, as NAME.md into a folder.
///
/// # Errors
/// The folder cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    report: &impl Serialize,
    page: Option<&str>,
) -> Result<(), BenchError> {
    let json = serde_json::to_string(report).unwrap_or_default() + "\n";
    put(folder, &format!("{name}.json"), &json)?;
    page.map_or(Ok(()), |page| put(folder, &format!("{name}.md"), page))
}

/// `64 B`, `1 KiB`, `2 MiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        b if b < 1 << 20 || !b.is_multiple_of(1 << 20) => format!("{} KiB", b >> 10),
        b => format!("{} MiB", b >> 20),
    }
}

/// Draws a report; gives the names of its pictures, a line each.
#[cfg(test)]
pub fn drawn(name: &str, report: &impl Serialize) -> String {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), name, report, None).unwrap();
    let mut python = std::process::Command::new("python3");
    python.args(["-m", "lab.figures"]).arg(folder.path().join(format!("{name}.json")));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let told = python.current_dir(root).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap()
}

/// A table after an empty line, from its head and its rows, in which the cells are parted:
/// `code | GB/s`. Without rows there is none.
pub fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let rows: String = rows.into_iter().map(|row| format!("| {row} |\n")).collect();
    let line = "---|".repeat(head.split(" | ").count());
    if rows.is_empty() { rows } else { format!("\n| {head} |\n|{line}\n{rows}") }
}

/// The cells of a row.
pub fn cells<T: fmt::Display>(cells: impl IntoIterator<Item = T>) -> String {
    cells.into_iter().map(|cell| cell.to_string()).collect::<Vec<_>>().join(" | ")
}
