//! Repairs over shaped links, which `lab/repair` measured.

use super::{Figures, add, groups, list, number, pair, word};
use crate::measure::Spread;
use kiln_figure::{Axis, Figure, Kind, Mark, Panel, Rule};
use serde_json::Value;

/// Kinds of rows with the title of their pictures.
const KINDS: [(&str, &str); 6] = [
    ("degraded", "Degraded read"),
    ("window", "Degraded read by window"),
    ("chunk", "Degraded read by size of a chunk"),
    ("encode", "Encode"),
    ("recovery", "Full-node recovery"),
    ("read", "Degraded read by a client"),
];
const NOTE: &str = "Median, least and most of the rounds. Thick line: the load bound, the largest \
                    load by the link's rate.";
/// What a repair takes beside time: member of a row, title, its unit, what of it a mark is.
const COSTS: [(&str, &str, &str, f64); 3] = [
    ("cpu_seconds", "processor time of the agents", "CPU seconds", 1.0),
    ("bytes_read", "read by the agents", "MiB read", MIB),
    ("network_bytes", "sent by all hosts, headers and all", "MiB sent", MIB),
];
/// Seconds of a recovery that are shown over time: who is slower goes on as he began.
const SHOWN: f64 = 60.0;
const MIB: f64 = (1 << 20) as f64;

/// Rounds of one cell.
type Cell<'a> = (String, Vec<&'a Value>);

pub(super) fn figures(report: &Value) -> Figures {
    let figure = |title: String, rows: &[&Value]| Figure::new(title, conditions(report, rows));
    let mut figures = Figures::new();
    for (kind, title) in KINDS {
        let rows = list(report, "rows").iter().filter(|row| row["kind"] == kind);
        let cells = groups(rows, |row| {
            let (place, name) = names(row);
            format!("{} {} {place} {name}", word(row, "to"), row["chunk_mib"])
        });
        if cells.is_empty() {
            continue;
        }
        let chunk = &cells[0].1[0]["chunk_mib"];
        let title = match cells.iter().all(|(_, rows)| rows[0]["chunk_mib"] == *chunk) {
            true => format!("{title}, chunks of {chunk} MiB"),
            false => title.into(),
        };
        let all: Vec<&Value> = cells.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
        let mut seconds = figure(format!("{title}: seconds"), &all);
        seconds.panels = panels(kind, &cells);
        seconds.columns = seconds.panels.len().min(2);
        seconds.note = NOTE.into();
        figures.push((kind.into(), seconds));
        if ["degraded", "recovery"].contains(&kind) {
            let named = |what: &str, rows: &[&Value]| figure(format!("{title}: {what}"), rows);
            figures.extend(more(kind, &cells, &named));
        }
    }
    if let Some(row) = list(report, "rows").iter().find(|row| !list(row, "limited").is_empty()) {
        let title = "A limited recovery, and a client that reads beside it".into();
        figures.push(("limited".into(), figure(title, &[row]).with(limited(row))));
    }
    figures
}

/// Where rows were measured, each place once: what a row says of that goes before what the report
/// says.
fn conditions(report: &Value, rows: &[&Value]) -> String {
    let place = |row: &&Value| {
        let said = |key: &str| match word(row, key) {
            "" => word(&report["about"], key).to_owned(),
            own => own.to_owned(),
        };
        let [cpu, kernel, commit, rate] = ["cpu", "kernel", "commit", "rate"].map(said);
        format!("{cpu}, Linux {kernel}, commit {commit}; links of {rate}")
    };
    let mut places: Vec<String> = rows.iter().map(place).collect();
    places.sort();
    places.dedup();
    places.join("; ")
}

/// What it costs beside time, by host, and over time: where it was counted.
fn more(kind: &str, cells: &[Cell<'_>], figure: &dyn Fn(&str, &[&Value]) -> Figure) -> Figures {
    let mut figures = Figures::new();
    let all: Vec<&Value> = cells.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    let has = |key: &str| cells.iter().any(|(_, rows)| !rows[0][key].is_null());
    if has("cpu_seconds") {
        let mut costs = figure("what it takes", &all);
        costs.panels = COSTS.iter().map(|cost| taken(*cost, cells)).collect();
        costs.note = "Medians of the rounds.".into();
        figures.push((format!("{kind}-cost"), costs.side_by_side(3)));
    }
    // The widest code stands for all, in the first round of each of its cells.
    let wide = |row: &&Value| word(row, "code").ends_with(":12+4");
    let mut first: Vec<&Value> = cells.iter().map(|(_, rows)| rows[0]).filter(wide).collect();
    let chunk = first.first().map(|row| row["chunk_mib"].clone()).unwrap_or_default();
    first.retain(|row| row["chunk_mib"] == chunk);
    if first.iter().any(|row| !list(row, "interface").is_empty()) {
        let mut nodes = figure("bytes by host, 12+4", &first);
        for (side, title) in ["sent, MiB", "received, MiB"].into_iter().enumerate() {
            nodes.panels.push(hosts(title, side, &first));
        }
        figures.push((format!("{kind}-nodes"), nodes));
    }
    first.retain(|row| !list(row, "timeline").is_empty());
    if !first.is_empty() {
        let mut time = figure("what all hosts receive, over time, 12+4", &first);
        let parts = groups(first, |row| goes(row).into());
        time.panels = parts.iter().map(|(to, rows)| timelines(to, rows)).collect();
        time.note = format!("The first round, up to {SHOWN} s.");
        figures.push((format!("{kind}-time"), time.side_by_side(2)));
    }
    figures
}

/// Where the bar of a row stands and what it is called.
fn names(row: &Value) -> (String, String) {
    let (label, code) = (word(row, "label").to_owned(), word(row, "code"));
    let size = code.split(':').next_back().unwrap_or_default().to_owned();
    let place = match word(row, "kind") {
        "window" => format!("{size}, {} KiB", row["window_kib"]),
        "recovery" => format!("{size}, {} MiB", row["chunk_mib"]),
        "read" => code.into(),
        _ => size,
    };
    (place, label)
}

/// Seconds: of recoveries by where they go, of chunks by their size, each on a scale of its own.
fn panels(kind: &str, cells: &[Cell<'_>]) -> Vec<Panel> {
    let part = |row: &Value| match kind {
        "recovery" => goes(row).into(),
        "chunk" => format!("{} MiB", row["chunk_mib"]),
        _ => String::new(),
    };
    let parts = groups(cells.iter().map(|(_, rows)| rows[0]), part);
    let panel = |(title, _): &(String, Vec<&Value>)| {
        let label = if title.is_empty() { "seconds".into() } else { format!("seconds, {title}") };
        let mut panel = Panel::new(Kind::Bars, &title[..], Axis::new(label));
        for (_, rows) in cells.iter().filter(|(_, rows)| part(rows[0]) == *title) {
            let (place, name) = names(rows[0]);
            add(&mut panel, &name, &place, seconds(rows));
        }
        panel
    };
    parts.iter().map(panel).collect()
}

fn seconds(rows: &[&Value]) -> Mark {
    let times = rows.iter().map(|row| number(&row["seconds"]));
    // A row may be the mean of several runs of which only the ends are known.
    let ends = rows.iter().flat_map(|row| [&row["least"], &row["most"]]);
    let all = times.clone().chain(ends.filter_map(Value::as_f64));
    let (low, high) = all.fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
    let mut mark = Mark::new(0.0, median(times)).spread(low, high);
    mark.bound = rows.first().and_then(|row| row["bound_seconds"].as_f64());
    mark
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    Spread::of(&numbers.collect::<Vec<f64>>()).median
}

/// One of [`COSTS`] in all cells.
fn taken((key, title, unit, part): (&str, &str, &str, f64), cells: &[Cell<'_>]) -> Panel {
    let mut panel = Panel::new(Kind::Bars, title, Axis::new(unit));
    for (_, rows) in cells {
        let (mut place, name) = names(rows[0]);
        if word(rows[0], "to") == "spread" {
            place += ", spread";
        }
        let mark = Mark::new(0.0, median(rows.iter().map(|row| number(&row[key]) / part)));
        add(&mut panel, &name, &place, mark);
    }
    panel
}

/// Bytes through the interface of each host.
fn hosts(title: &str, side: usize, rows: &[&Value]) -> Panel {
    let mut panel = Panel::new(Kind::Cells, title, Axis::new("MiB"));
    panel.at = Axis::new("host");
    for row in rows {
        let to = if word(row, "to") == "spread" { ", spread" } else { "" };
        let name = format!("{}{to}", word(row, "label"));
        for (host, bytes) in list(row, "interface").iter().enumerate() {
            let mark = Mark::new(0.0, number(&bytes[side]) / MIB);
            add(&mut panel, &name, &host.to_string(), mark);
        }
    }
    panel
}

/// Where a recovery puts what it rebuilds.
fn goes(row: &Value) -> &'static str {
    if word(row, "to") == "spread" { "spread over the nodes left" } else { "to one node" }
}

/// What all hosts together receive.
fn timelines(to: &str, rows: &[&Value]) -> Panel {
    let mut panel = Panel::new(Kind::Xy, to, Axis::new("MB/s"));
    panel.at = Axis::new(format!("seconds, {to}"));
    for row in rows {
        let mut last = 0.0;
        for look in list(row, "timeline") {
            let (at, got) = pair(look);
            if at <= SHOWN {
                let rate = got / f64::max(at - last, 1e-3) / 1e6;
                panel.series(word(row, "label")).push(Mark::new(at, rate));
            }
            last = at;
        }
    }
    panel.joined()
}

/// What the busiest host received in the second before each moment, and a client's reads beside.
fn limited(row: &Value) -> Panel {
    let mut panel = Panel::new(Kind::Xy, word(row, "label"), Axis::new("MB/s"));
    panel.at = Axis::new("seconds");
    let mut sums = vec![(0.0, 0.0)];
    for look in list(row, "limited") {
        let ((at, got), before) = (pair(look), sums.last().map_or(0.0, |sum: &(f64, f64)| sum.1));
        let since = sums.iter().rev().find(|sum| sum.0 <= at - 1.0).copied().unwrap_or_default();
        sums.push((at, before + got));
        let rate = (before + got - since.1) / f64::max(at - since.0, 1.0) / 1e6;
        panel.series("the busiest host").push(Mark::new(at, rate));
    }
    let end = sums.last().map_or(0.0, |sum| sum.0);
    panel.series.iter_mut().for_each(|series| series.join = true);
    for read in list(row, "reads").iter().filter(|read| number(&read[0]) < end) {
        let middle = (number(&read[0]) + number(&read[1]).min(end)) / 2.0;
        panel.series("a read of the client").push(Mark::new(middle, number(&read[2]) / 1e6));
    }
    let rule = |name: &str, key: &str| Rule { name: name.into(), value: number(&row[key]) / 1e6 };
    panel.rules = vec![rule("the limit", "limit"), rule("the client alone", "client_alone")];
    panel
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_that_was_measured_elsewhere_says_so_in_its_picture() {
        let row = |kind: &str| {
            json!({
                "kind": kind, "label": "Clay hub", "code": "clay:4+2",
                "chunk_mib": 1, "seconds": 2.0
            })
        };
        let mut old = row("window");
        old["rate"] = json!("100mbit");
        old["cpu"] = json!("another");
        let about = json!({"cpu": "a CPU", "kernel": "6", "commit": "abc", "rate": "200mbit"});
        let report = json!({"about": about, "rows": [row("degraded"), old]});
        let said = |kind: &str| {
            conditions(
                &report,
                &[list(&report, "rows").iter().find(|row| row["kind"] == kind).unwrap()],
            )
        };
        assert_eq!(said("degraded"), "a CPU, Linux 6, commit abc; links of 200mbit");
        assert_eq!(said("window"), "another, Linux 6, commit abc; links of 100mbit");
        assert_eq!(figures(&report).len(), 2);
    }
}
