//! Tables in Markdown, for all pages.

use std::fmt;

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
