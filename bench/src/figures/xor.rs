//! The figures of the paper on XOR schedules: bandwidth over the size of packets, a panel a code.

use super::{Figures, add, groups, list, machine, median, number, size, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let mut figures = Figures::new();
    let place =
        |p: &Value| format!("{} {}", word(p, "operation").replace(' ', ""), word(p, "place"));
    for (name, points) in groups(list(report, "points"), place) {
        let operation = points.first().map_or("", |point| word(point, "operation"));
        let place = place_words(name.split(' ').next_back());
        let title = format!("{operation}, {place}: GB of data a second by the size of a packet");
        let mut figure = Figure::new(title, machine(report)).side_by_side(3);
        for (code, mut points) in groups(points, |point| word(point, "code").to_owned()) {
            points.sort_by_key(|point| point["packet"].as_u64());
            let paper = report["papers_figures"][&code].as_str();
            let title = paper.map_or(code.clone(), |paper| format!("{code} ({paper})"));
            let mut panel = Panel::new(Kind::Xy, title, Axis::new("GB/s"));
            for point in points {
                let packet = size(number(&point["packet"]) as u64);
                add(&mut panel, word(point, "who"), &packet, median(&point["rate"], 1.0));
            }
            figure.panels.push(panel.joined());
        }
        figure.note = "Median and quarters of interleaved rounds.".into();
        figures.push((name.replace(' ', "-"), figure));
    }
    figures
}

fn place_words(place: Option<&str>) -> &'static str {
    match place {
        Some("paper") => "a buffer of 20 MB",
        Some("cache") => "in cache (256 KiB)",
        Some("dram") => "from DRAM (256 MiB)",
        _ => "two blocks",
    }
}

/// Peaks alone, of a run whose other points were not kept: a panel for each place of the data.
pub(super) fn peaks(report: &Value) -> Figures {
    let operation = |point: &Value| word(point, "operation").to_owned();
    let figure = |(operation, points): (String, Vec<&Value>)| {
        let title = format!("{operation}: peak over all sizes of packets");
        let mut figure = Figure::new(title, machine(report));
        for (place, points) in groups(points, |point| word(point, "place").to_owned()) {
            let words = place_words(Some(&place));
            let mut panel = Panel::new(Kind::Dots, words, Axis::new("GB of data a second"));
            for point in points {
                let mark = Mark::new(0.0, number(&point["rate"]["median"]));
                add(&mut panel, word(point, "who"), word(point, "code"), mark);
            }
            figure.panels.push(panel);
        }
        (operation.replace(' ', ""), figure)
    };
    groups(list(report, "peaks"), operation).into_iter().map(figure).collect()
}
