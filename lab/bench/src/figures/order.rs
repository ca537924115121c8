//! Runs by lost chunk in each order: Tables III and IV of the G-Clay paper.

use super::{Figures, add, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let mut figure = Figure::new("Reads of a helper for a stripe, by lost chunk", "counted");
    for table in [&report["counts"]["table_3"], &report["counts"]["table_4"]] {
        let title = format!("Clay {}", word(table, "code"));
        let mut panel = Panel::new(Kind::Cells, title, Axis::log("reads"));
        panel.at = Axis::new("lost chunk");
        for column in list(table, "columns") {
            let runs = column[1].as_array().map_or(&[][..], Vec::as_slice);
            let sum: f64 = runs.iter().map(number).sum();
            let name = format!("{} (sum {sum})", column[0].as_str().unwrap_or_default());
            for (lost, runs) in runs.iter().enumerate() {
                add(&mut panel, &name, &lost.to_string(), Mark::new(0.0, number(runs)));
            }
        }
        figure.panels.push(panel);
    }
    vec![(String::new(), figure)]
}
