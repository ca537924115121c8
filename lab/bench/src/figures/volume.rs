//! What volumes cost, which `lab/volume` measured.

use super::{Figures, add, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// Panels with their keys of the report's headline, and what a row is called.
const PANELS: [(&str, &[(&str, &str)]); 2] = [
    (
        "bytes for a byte of clients",
        &[
            ("write_bytes_per_byte_uniform", "written to devices, uniform"),
            ("write_bytes_per_byte_zipf", "written to devices, zipf"),
            ("read_bytes_per_byte_write", "read from devices, uniform"),
            ("read_amplification_4k", "read from devices by a read"),
            ("net_bytes_per_byte_write", "through links of agents, uniform"),
        ],
    ),
    (
        "ratios",
        &[
            ("first_write_over_overwrite", "latency, first write over overwrite"),
            ("q1_latency_over_rep", "latency at depth 1, over rep:3"),
            ("iops_over_rep_uniform", "rate at depth 32, over rep:3, uniform"),
            ("iops_over_rep_zipf", "rate at depth 32, over rep:3, zipf"),
            ("sealed_over_clay", "rate of sequential writes over kiln put"),
            ("recovery_bytes_over_planned", "bytes of a recovery over planned"),
            ("recovery_client_keeps", "rate beside a recovery over alone"),
        ],
    ),
];

pub(super) fn figures(report: &Value) -> Figures {
    let about = &report["machine"];
    let (cpu, commit) = (word(about, "cpu"), word(about, "commit"));
    let subtitle = format!("{cpu}, commit {commit}; clay:6+3, 10 loop devices; medians of rounds");
    let panel = |(title, rows): &(&str, &[(&str, &str)])| {
        let mut panel = Panel::new(Kind::Dots, *title, Axis::new(""));
        for (key, name) in *rows {
            let measured = Mark::new(0.0, number(&report["headline"][*key]));
            add(&mut panel, "measured", name, measured);
            add(&mut panel, "bar", name, Mark::new(0.0, number(&report["bars"][*key])));
        }
        panel
    };
    let figure = Figure {
        panels: PANELS.iter().map(panel).collect(),
        ..Figure::new("What a volume costs", &subtitle[..])
    };
    vec![(String::new(), figure)]
}
