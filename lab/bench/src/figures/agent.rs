//! An agent beside a bare TLS copy, which `lab/agent.py` measured.

use super::{Figures, add, list, number, word};
use crate::measure::Spread;
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("GB/s, one core"));
    for (key, row, series) in [
        ("copy", "thrown away", "TLS copy"),
        ("kept", "into a file", "TLS copy"),
        ("read", "read from a file", "agent"),
        ("write", "into a file", "agent"),
    ] {
        let rates: Vec<f64> = list(report, "rounds").iter().map(|r| number(&r[key])).collect();
        let spread = Spread::of(&rates);
        let mark = Mark::new(0.0, spread.median).spread(spread.min, spread.max);
        add(&mut panel, series, row, mark);
    }
    let about = &report["about"];
    let subtitle = format!(
        "{}, Linux {}, commit {}, files on {}",
        word(about, "cpu"),
        word(about, "kernel"),
        word(about, "commit"),
        word(about, "files")
    );
    let mut figure = Figure::new("An agent over the loopback interface", subtitle).with(panel);
    figure.note = "Median, least and most of all rounds.".into();
    vec![(String::new(), figure)]
}
