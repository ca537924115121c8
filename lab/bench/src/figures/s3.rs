//! Pools and files in buckets, which `lab/s3` measured: requests and bytes of repairs, faults.

use super::{Figures, add, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let machine = &report["machine"];
    let subtitle = format!(
        "{} in 14 buckets; {}; counted by a proxy; commit {}",
        word(report, "code"),
        word(machine, "server"),
        word(machine, "commit"),
    );
    let mut gets = Panel::new(
        Kind::Xy,
        "GETs of a repair of one stripe, all that it asks for",
        Axis::new("GETs"),
    );
    gets.at = Axis::new("lost chunk");
    for (order, rows) in report["orders"].as_object().into_iter().flatten() {
        for row in rows.as_array().into_iter().flatten() {
            let mark = Mark::new(number(&row["lost"]), number(&row["gets"]));
            gets.series(order).push(mark);
        }
    }
    let mut down = Panel::new(Kind::Bars, "Downloaded by a repair", Axis::new("bytes a lost byte"));
    for row in list(report, "weighed") {
        let category = format!("chunk {} lost", row["lost"]);
        let ratio = number(&row["down"]) / number(&row["lost_bytes"]);
        add(&mut down, "all that was downloaded", &category, Mark::new(0.0, ratio));
    }
    let mut faults = Panel::new(Kind::Bars, "Faults that were injected", Axis::new("faults"));
    for (kind, count) in report["faults"]["by_kind"].as_object().into_iter().flatten() {
        add(&mut faults, "injected", kind, Mark::new(0.0, number(count)));
    }
    let mut figure = Figure::new("Repairs and faults in buckets", subtitle);
    figure.panels = vec![gets, down, faults];
    vec![(String::new(), figure)]
}
