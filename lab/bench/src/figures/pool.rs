//! What pools cost: operations by number of nodes, small files beside `cp`.

use super::{Figures, add, groups, list, machine, number, word};
use crate::measure::Spread;
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let mut figure = Figure::new("What pools cost", machine(report));
    let title = "File operations and locks of a 4 KiB object";
    let mut panel = Panel::new(Kind::Bars, title, Axis::new("operations"));
    for cost in list(report, "pools") {
        for what in ["put", "get"] {
            let place = format!("{} nodes", cost["nodes"]);
            add(&mut panel, what, &place, Mark::new(0.0, number(&cost[what])));
        }
    }
    figure.panels.push(panel);
    let small = &report["small"];
    if !small.is_null() {
        let title = format!("{} files of 1 to 20 KiB", small["files"]);
        let mut panel = Panel::new(Kind::Bars, title, Axis::new("seconds"));
        let rows = [("put", "kiln cp, in"), ("get", "kiln cp, out"), ("cp", "cp -r and sync")];
        for (member, name) in rows {
            let spread = &small[member];
            let (low, high) = (number(&spread["min"]), number(&spread["max"]));
            let mark = Mark::new(0.0, number(&spread["median"])).spread(low, high);
            add(&mut panel, name, "seconds", mark);
        }
        figure.panels.push(panel);
        figure.note = "Seconds: median, least and most of rounds.".into();
    }
    vec![(String::new(), figure)]
}

/// Listing, status and planning of pools of many tiny objects.
pub(super) fn many(report: &Value) -> Figures {
    let about = &report["about"];
    let subtitle = format!("{}, commit {}", word(about, "cpu"), word(about, "commit"));
    let mut figure = Figure::new("Pools of many tiny objects", subtitle);
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("seconds"));
    for (objects, rounds) in groups(list(report, "many"), |row| row["objects"].to_string()) {
        for (key, what) in [
            ("scan_s", "index made anew"),
            ("status_s", "status"),
            ("plan_s", "plan of a lost disk"),
            ("list_s", "list"),
        ] {
            let times: Vec<f64> = rounds.iter().map(|row| number(&row[key])).collect();
            let spread = Spread::of(&times);
            let mark = Mark::new(0.0, spread.median).spread(spread.min, spread.max);
            add(&mut panel, &format!("{objects} objects"), what, mark);
        }
    }
    figure.panels.push(panel);
    figure.note = "Median, least and most of rounds.".into();
    vec![(String::new(), figure)]
}
