//! What pages have in common: tables in Markdown, medians with their quarters.

use crate::measure::Spread;
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

/// A number with so many digits, or a dash where there is none.
pub fn or_dash(number: Option<f64>, digits: usize) -> String {
    number.map_or("-".into(), |number| format!("{number:.digits$}"))
}

/// A median with its quarters, with as many digits as are asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        write!(f, "{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.p25, self.p75)
    }
}
