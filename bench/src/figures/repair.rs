//! Repairs over shaped links, which `bench/repair` measured.

use super::{Figures, add, groups, list, number, pair, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel, Rule};
use serde_json::Value;

/// Kinds of rows with the title of their pictures.
const KINDS: [(&str, &str); 6] = [
    ("degraded", "Degraded read"),
    ("window", "Windows"),
    ("chunk", "Chunk sizes"),
    ("encode", "Encode"),
    ("recovery", "Full-node recovery"),
    ("read", "Degraded read by a client"),
];

pub(super) fn figures(report: &Value) -> Figures {
    let about = &report["about"];
    let words = |key: &str| word(about, key).to_owned();
    let (cpu, kernel, commit, rate) =
        (words("cpu"), words("kernel"), words("commit"), words("rate"));
    let subtitle = format!("{cpu}, Linux {kernel}, commit {commit}; links of {rate}");
    let figure = |title: String| Figure::new(title, &subtitle[..]);
    let mut figures = Figures::new();
    for (kind, title) in KINDS {
        let rows = list(report, "rows").iter().filter(|row| row["kind"] == kind);
        let cells = groups(rows, |row| format!("{} {}", names(row).0, names(row).1));
        let Some((_, last)) = cells.last() else { continue };
        let mut seconds = figure(format!("{title}: seconds")).with(bars(&cells));
        seconds.note = "Mean, least and most of repetitions. Thick line: the load bound, the \
                        largest load by the link's rate."
            .into();
        figures.push((kind.into(), seconds));
        let lasts = || cells.iter().filter_map(|(_, rows)| rows.last().copied());
        let counted = lasts().any(|row| !list(row, "interface").is_empty());
        if counted && ["degraded", "recovery"].contains(&kind) {
            let size = |row: &Value| names(row).0;
            let of_last = lasts().filter(|row| last.iter().any(|last| size(last) == size(row)));
            let of_last: Vec<&Value> = of_last.collect();
            let mut nodes = figure(format!("{title}: bytes by host"));
            for (side, title) in ["sent, MiB", "received, MiB"].into_iter().enumerate() {
                nodes.panels.push(hosts(title, side, &of_last));
            }
            figures.push((format!("{kind}-nodes"), nodes));
        }
        let sampled: Vec<&Value> =
            lasts().filter(|row| !list(row, "timeline").is_empty()).collect();
        if !sampled.is_empty() {
            let mut time = figure(format!("{title}: what all hosts receive, over time"));
            time.panels = sampled.into_iter().map(timeline).collect();
            figures.push((format!("{kind}-time"), time.side_by_side(2)));
        }
    }
    if let Some(row) = list(report, "rows").iter().find(|row| !list(row, "limited").is_empty()) {
        let title = "A limited recovery, and a client that reads beside it".into();
        figures.push(("limited".into(), figure(title).with(limited(row))));
    }
    figures
}

/// Where the bar of a row stands and what it is called.
fn names(row: &Value) -> (String, String) {
    let (label, code) = (word(row, "label").to_owned(), word(row, "code"));
    let size = code.split(':').next_back().unwrap_or_default().to_owned();
    match word(row, "kind") {
        "window" => (label, format!("{} KiB", row["window_kib"])),
        "chunk" => (label, format!("{} MiB", row["chunk_mib"])),
        "recovery" => (format!("{size}, {} MiB", row["chunk_mib"]), label),
        "read" => (code.into(), label),
        _ => (size, label),
    }
}

fn bars(cells: &[(String, Vec<&Value>)]) -> Panel {
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("seconds"));
    for (_, rows) in cells {
        let times = rows.iter().map(|row| number(&row["seconds"]));
        // A row may be the mean of several runs of which only the ends are known.
        let ends = rows.iter().flat_map(|row| [&row["least"], &row["most"]]);
        let all = times.clone().chain(ends.filter_map(Value::as_f64));
        let (low, high) = all.fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
        let mut mark = Mark::new(0.0, times.sum::<f64>() / rows.len() as f64).spread(low, high);
        mark.bound = rows.first().and_then(|row| row["bound_seconds"].as_f64());
        let (place, name) = rows.first().map(|row| names(row)).unwrap_or_default();
        add(&mut panel, &name, &place, mark);
    }
    panel
}

/// Bytes through the interface of each host.
fn hosts(title: &str, side: usize, rows: &[&Value]) -> Panel {
    let mut panel = Panel::new(Kind::Cells, title, Axis::new("MiB"));
    panel.at = Axis::new("host");
    for row in rows {
        for (host, bytes) in list(row, "interface").iter().enumerate() {
            let mark = Mark::new(0.0, number(&bytes[side]) / f64::from(1 << 20));
            add(&mut panel, word(row, "label"), &host.to_string(), mark);
        }
    }
    panel
}

fn timeline(row: &Value) -> Panel {
    let title = format!("{}: {:.1} s", word(row, "label"), number(&row["seconds"]));
    let mut panel = Panel::new(Kind::Xy, title, Axis::new("MB/s"));
    panel.at = Axis::new("seconds");
    let mut last = 0.0;
    for look in list(row, "timeline") {
        let (at, got) = (number(&look[0]), look[1].as_array().map_or(&[][..], Vec::as_slice));
        let rate = got.iter().map(number).sum::<f64>() / f64::max(at - last, 1e-3) / 1e6;
        panel.series("all hosts").push(Mark::new(at, rate));
        last = at;
    }
    panel.joined()
}

/// What the busiest host received in the second before each moment, and a client's reads beside.
fn limited(row: &Value) -> Panel {
    let mut panel = Panel::new(Kind::Xy, "", Axis::new("MB/s"));
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
