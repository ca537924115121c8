//! What pools cost: operations by number of nodes, small files beside `cp`.

use super::{Figures, add, list, machine, number};
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
