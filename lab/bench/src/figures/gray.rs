//! G-Clay's evaluation inside a Ceph cluster, which `lab/clay` measured: natural order and
//! Gray's, by lost chunk.

use super::{Figures, add, groups, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let machine = &report["machine"];
    let subtitle = format!(
        "Ceph {}, {} OSDs on one machine, on emulated disks of 150 reads a second; {}, commit {}",
        word(report, "ceph"),
        report["sizes"]["osds"],
        word(machine, "cpu"),
        word(machine, "commit"),
    );
    let figure = |title: &str, key: &str, axis: fn() -> Axis| {
        let panels: Vec<Panel> =
            by_code(report).map(|(name, rows)| panel(name, &rows, key, axis())).collect();
        let columns = panels.len();
        Figure { panels, ..Figure::new(title, &subtitle[..]).side_by_side(columns) }
    };
    vec![
        (
            String::new(),
            figure("An OSD is lost in Ceph: natural order and Gray's", "seconds_per_mib", || {
                Axis::new("seconds for a MiB lost")
            }),
        ),
        (
            "reads".into(),
            figure("Reads of a helper for a stripe", "reads_each", || Axis::log("reads")),
        ),
    ]
}

/// Losses on slow disks, by code.
fn by_code(report: &Value) -> impl Iterator<Item = (String, Vec<&Value>)> {
    let rows = list(report, "losses").iter().filter(|row| row["disk_is"] == "seek");
    let name = |row: &Value| format!("{}, chunks of {}", word(row, "code"), word(row, "workload"));
    groups(rows, name).into_iter()
}

fn panel(name: String, rows: &[&Value], key: &str, axis: Axis) -> Panel {
    let mut panel = Panel::new(Kind::Xy, name, axis);
    panel.at.label = "lost chunk".into();
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row["shard"].as_u64());
    for row in rows {
        let shard = row["shard"].to_string();
        add(&mut panel, word(row, "plugin"), &shard, Mark::new(0.0, number(&row[key])));
    }
    panel.joined()
}
