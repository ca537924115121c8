//! Disk-read time of repairs on emulated disks: by size of chunks, and by lost chunk.

use super::{Figures, add, groups, list, machine, number, size, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// The size of chunks of the second picture, or else the first that there is.
const CHUNK: u64 = 2 << 20;

pub(super) fn figures(report: &Value) -> Figures {
    let mut figures = Figures::new();
    let rows = list(report, "sections").iter().flat_map(|section| list(&section["json"], "rows"));
    let rows = rows.filter(|row| word(row, "experiment") == "7");
    for (device, rows) in groups(rows, |row| word(row, "device").to_owned()) {
        let chunk = |row: &Value| row["chunk"].as_u64().unwrap_or(0);
        let code = rows.first().map_or(String::new(), |row| format!("{}+{}", row["k"], row["m"]));
        let mut sizes = Panel::new(Kind::Xy, "", Axis::log("seconds, all lost chunks"));
        let mut lost = Panel::new(Kind::Xy, "", Axis::log("seconds of disk reads"));
        (sizes.at.label, lost.at.label) = ("chunk".into(), "lost chunk".into());
        let first = rows.first().map_or(0, |row| chunk(row));
        let one = rows.iter().map(|row| chunk(row)).find(|size| *size == CHUNK).unwrap_or(first);
        for row in rows {
            let times = list(row, "repetitions").iter().map(number);
            let (low, high) = times.fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
            let mark = Mark::new(0.0, number(&row["overall"])).spread(low, high);
            add(&mut sizes, word(row, "way"), &size(chunk(row)), mark);
            for (index, seconds) in list(row, "seconds").iter().enumerate() {
                if chunk(row) == one {
                    let mark = Mark::new(0.0, number(seconds));
                    add(&mut lost, word(row, "way"), &index.to_string(), mark);
                }
            }
        }
        let title = format!("{device}, {code}: disk-read time of repairs");
        let figure = |what: String, panel: Panel| {
            Figure::new(format!("{title} {what}"), machine(report)).with(panel.joined())
        };
        figures.push((format!("{device}-sizes"), figure("by size of chunks".into(), sizes)));
        let what = format!("by lost chunk, chunks of {}", size(one));
        figures.push((format!("{device}-lost"), figure(what, lost)));
    }
    figures
}
