//! Instructions for a byte on aarch64, which `lab/neon` counted under emulation.

use super::{Figures, add, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let subtitle = format!(
        "counted, not timed; {}; commit {}",
        word(report, "emulator"),
        word(report, "commit")
    );
    let (xors, coded) = ("Codes of XORs", "Reed-Solomon and Clay");
    let panels = [coded, xors].map(|title| {
        let mut panel = Panel::new(Kind::Bars, title, Axis::new("instructions a byte"));
        for row in list(report, "cases") {
            let case = word(row, "case");
            if (case.contains(" rs:") || case.contains(" clay:")) != (title == coded) {
                continue;
            }
            for (who, count) in row["instructions"].as_object().into_iter().flatten() {
                add(&mut panel, who, case, Mark::new(0.0, number(count)));
            }
        }
        panel
    });
    let mut figure = Figure::new("Instructions on aarch64", subtitle);
    figure.panels = panels.into_iter().filter(|panel| !panel.series.is_empty()).collect();
    figure.note =
        "For each byte of data of an encode, for each rebuilt one of a repair or decode. \
        An instruction is not a cycle, and nothing waits for memory."
            .into();
    vec![(String::new(), figure)]
}
