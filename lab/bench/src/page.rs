//! Reports as data. Pictures and tables are made of it, by `lab/figures` and `lab/rig/tables.py`.

use crate::BenchError;
use crate::parts::put;
use serde::Serialize;
use std::path::Path;

/// Writes a report as NAME.json into a folder.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, name: &str, report: &impl Serialize) -> Result<(), BenchError> {
    let json = serde_json::to_string(report).unwrap_or_default() + "\n";
    put(folder, &format!("{name}.json"), &json)
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
    write(folder.path(), name, report).unwrap();
    let mut python = std::process::Command::new("python3");
    python.args(["-m", "lab.figures"]).arg(folder.path().join(format!("{name}.json")));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let told = python.current_dir(root).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap()
}
