//! What `lab/ceph` measured inside a Ceph cluster.

use super::{Figures, add, groups, list, number, quarters, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let subtitle = format!("a cluster of {} OSDs on one machine", report["osds"]);
    let of_ten = |row: &&Value| row["k"] == 10;
    let recovery = || list(report, "recovery").iter();
    let (ten, others): (Vec<&Value>, Vec<&Value>) = recovery().partition(of_ten);
    let bytes = |rows: &[&Value]| {
        let series = [("disk", "disk_per_lost"), ("network", "network_per_lost")];
        losses(rows, "bytes for a byte", series)
    };
    let reads = recovery().filter(|row| {
        let one = list(row, "lost").len() == 1 && list(row, "away").is_empty();
        one && word(row, "code").contains("kiln clay") && row["stripe_unit_kib"] == 1024
    });
    let figures = [
        ("recovery", "Recovery inside Ceph, 10+4: bytes for each byte lost", bytes(&ten)),
        (
            "recovery-others",
            "Recovery inside Ceph, other codes: bytes for each byte lost",
            bytes(&others),
        ),
        (
            "reads",
            "Reads of the object store for a recovery, stripe_unit 1 MiB",
            losses(
                &reads.collect::<Vec<_>>(),
                "reads",
                [("planned", "planned_reads"), ("counted", "reads")],
            ),
        ),
        ("encode", "Encoding through Ceph's plugin interface, 10+4", encode(report)),
        ("whole", "CPU of all OSDs", whole(report)),
    ];
    let some = figures.into_iter().filter(|(_, _, panels)| !panels.is_empty());
    let figure = |panels| Figure { panels, subtitle: subtitle.clone(), ..Figure::default() };
    some.map(|(name, title, panels)| {
        (name.into(), Figure { title: title.into(), ..figure(panels) })
    })
    .collect()
}

/// A panel for each size of code, a row for each loss.
fn losses(rows: &[&Value], unit: &str, series: [(&str, &str); 2]) -> Vec<Panel> {
    let of_size = |row: &Value| format!("{}+{}", row["k"], row["m"]);
    let numbers = |row: &Value, key: &str| {
        let all: Vec<String> = list(row, key).iter().map(Value::to_string).collect();
        all.join(" and ")
    };
    let panel = |(title, rows): (String, Vec<&Value>)| {
        let mut panel = Panel::new(Kind::Dots, title, Axis::new(unit));
        for row in rows {
            let lost = match &numbers(row, "away")[..] {
                "" => numbers(row, "lost"),
                away => format!("{}, {away} unavailable", numbers(row, "lost")),
            };
            let name = format!("{}, {} KiB: {lost}", word(row, "code"), row["stripe_unit_kib"]);
            for (series, key) in series {
                add(&mut panel, series, &name, Mark::new(0.0, number(&row[key])));
            }
        }
        panel
    };
    groups(rows.iter().copied(), of_size).into_iter().map(panel).collect()
}

/// CPU seconds by stripe unit.
fn encode(report: &Value) -> Vec<Panel> {
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("CPU seconds a GiB"));
    let wide = |row: &&Value| row["k"] == 10 && row["stripe_unit_kib"].as_u64() >= Some(64);
    for row in list(report, "computing").iter().filter(wide) {
        let unit = format!("{} KiB", row["stripe_unit_kib"]);
        add(&mut panel, word(row, "code"), &unit, quarters(&row["encode_received_cpu_s_per_gib"]));
    }
    if panel.series.is_empty() { Vec::new() } else { vec![panel] }
}

/// A panel for each size of code, its works as rows.
fn whole(report: &Value) -> Vec<Panel> {
    let size = |row: &Value| format!("{}+{}, {} KiB", row["k"], row["m"], row["stripe_unit_kib"]);
    let panel = |(title, rows): (String, Vec<&Value>)| {
        let mut panel = Panel::new(Kind::Bars, title, Axis::new("CPU seconds a GiB"));
        for (work, words) in [
            ("write", "write"),
            ("read", "read"),
            ("degraded", "degraded read"),
            ("recovery", "recovery, a GiB of chunk"),
        ] {
            for row in &rows {
                let seen = quarters(&row[format!("{work}_cpu_s_per_gib")]);
                add(&mut panel, word(row, "code"), words, seen);
            }
        }
        panel
    };
    groups(list(report, "whole"), size).into_iter().map(panel).collect()
}
