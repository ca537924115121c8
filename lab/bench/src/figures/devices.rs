//! Disk-read time of repairs on emulated disks: by size of chunks, and by lost chunk.

use super::{Figures, add, groups, list, machine, number, size, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// Sizes of chunks of the pictures by lost chunk (the paper's figures 10 and 11), or else the first
/// that there is; of other Gray codes (figure 12).
const CHUNKS: [u64; 3] = [2 << 20, 16 << 20, 256 << 20];
const OTHER_CODES: u64 = 32 << 20;

pub(super) fn figures(report: &Value) -> Figures {
    let mut figures = Figures::new();
    let rows = list(report, "sections").iter().flat_map(|section| list(&section["json"], "rows"));
    let rows = rows.filter(|row| !list(row, "seconds").is_empty());
    for (device, rows) in groups(rows, |row| word(row, "device").to_owned()) {
        let of = |experiment: &str| -> Vec<&Value> {
            let rows = rows.iter().copied();
            rows.filter(|row| word(row, "experiment") == experiment).collect()
        };
        let figure = |what: &str, panels: Vec<Panel>| {
            let title = format!("{device}: disk-read time of repairs {what}");
            let columns = panels.len();
            Figure { panels, ..Figure::new(title, machine(report)).side_by_side(columns) }
        };
        let sizes = of("7");
        figures.push((format!("{device}-sizes"), figure("by size of chunks", by_size(&sizes))));
        let mut chunks = CHUNKS.to_vec();
        if !sizes.iter().any(|row| CHUNKS.contains(&chunk(row))) {
            chunks = sizes.first().map(|row| chunk(row)).into_iter().collect();
        }
        let panels = chunks.iter().filter_map(|chunk| by_lost(&sizes, *chunk)).collect();
        figures.push((format!("{device}-lost"), figure("by lost chunk", panels)));
        let (codes, mut three) = (of("3"), of("4"));
        // Ways that the paper does not have are in the other pictures.
        let more =
            |row: &&Value| ["windows", "one by one"].iter().any(|w| word(row, "way").ends_with(w));
        three.retain(|row| !more(row));
        let first = three.first().map_or(0, |row| chunk(row));
        let panels = [by_lost(&codes, OTHER_CODES), by_lost(&three, first)];
        let panels: Vec<Panel> = panels.into_iter().flatten().collect();
        if !panels.is_empty() {
            let what = "by lost chunk: other Gray codes, and 9+3";
            figures.push((format!("{device}-orders"), figure(what, panels)));
        }
    }
    figures
}

fn chunk(row: &Value) -> u64 {
    row["chunk"].as_u64().unwrap_or(0)
}

fn code(row: &Value) -> String {
    format!("{}+{}", row["k"], row["m"])
}

/// The sum over all lost chunks.
fn by_size(rows: &[&Value]) -> Vec<Panel> {
    let title = rows.first().map_or(String::new(), |row| code(row));
    let mut panel = Panel::new(Kind::Xy, title, Axis::log("seconds, all lost chunks"));
    panel.at.label = "chunk".into();
    for row in rows {
        let times = list(row, "repetitions").iter().map(number);
        let (low, high) = times.fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
        let mark = Mark::new(0.0, number(&row["overall"])).spread(low, high);
        add(&mut panel, word(row, "way"), &size(chunk(row)), mark);
    }
    vec![panel.joined()]
}

/// Every lost chunk, of one size.
fn by_lost(rows: &[&Value], wanted: u64) -> Option<Panel> {
    let mut rows = rows.iter().filter(|row| chunk(row) == wanted).peekable();
    let title = format!("{}, chunks of {}", code(rows.peek()?), size(wanted));
    let mut panel = Panel::new(Kind::Xy, title, Axis::log("seconds of disk reads"));
    panel.at.label = "lost chunk".into();
    for row in rows {
        for (index, seconds) in list(row, "seconds").iter().enumerate() {
            let mark = Mark::new(0.0, number(seconds));
            add(&mut panel, word(row, "way"), &index.to_string(), mark);
        }
    }
    Some(panel.joined())
}
