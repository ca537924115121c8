//! The figures of the paper on XOR schedules: bandwidth over the size of packets, a panel a code.

use super::{Figures, add, groups, list, machine, median, number, size, word};
use kiln_figure::{Axis, Figure, Kind, Panel};
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
