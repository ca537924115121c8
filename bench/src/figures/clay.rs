//! The Clay paper's evaluation inside a Ceph cluster, which `bench/clay` measured.

use super::{Figures, add, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// What is drawn of a loss: title, member of the row, unit.
const PARTS: [(&str, &str, &str); 3] = [
    ("Bytes that OSDs sent", "network", "bytes for a byte lost"),
    ("Bytes that devices of helpers read", "disk", "bytes for a byte lost"),
    ("Time", "seconds_per_mib", "seconds for a MiB lost"),
];

/// Of clients that write or read beside a repair.
const BESIDE: [(&str, &str); 2] = [("write", "Clients that write"), ("read", "Clients that read")];

pub(super) fn figures(report: &Value) -> Figures {
    let machine = &report["machine"];
    let subtitle = format!(
        "Ceph {}, {} OSDs on one machine with links of {}; {}, commit {}",
        word(report, "ceph"),
        report["sizes"]["osds"],
        word(&report["sizes"], "rate"),
        word(machine, "cpu"),
        word(machine, "commit"),
    );
    let mut losses = Figure::new("An OSD is lost in Ceph: Clay beside RS", &subtitle[..]);
    losses.panels = PARTS.into_iter().map(|part| panel(report, part)).collect();
    losses.note = "W1: objects and stripes of about 64 MiB. W2: objects of 1 to 64 MiB in stripes \
                   of about 1 MiB."
        .into();
    let mut beside = Figure::new("Clients beside the repair of an OSD in Ceph", subtitle);
    beside.panels = BESIDE.into_iter().filter_map(|work| clients(report, work)).collect();
    let mut figures = vec![(String::new(), losses)];
    if !beside.panels.is_empty() {
        figures.push(("clients".into(), beside));
    }
    figures
}

/// Marks for each round: its number for each byte that was lost.
fn panel(report: &Value, (title, key, unit): (&str, &str, &str)) -> Panel {
    let mut panel = Panel::new(Kind::Bars, title, Axis::new(unit));
    for row in list(report, "losses").iter().filter(|row| row["clients"] == "") {
        let groups = row["groups"].as_u64().unwrap_or_default();
        let mut name = format!("{} {}", word(row, "code"), word(row, "workload"));
        if groups > 1 {
            name += &format!(", {groups} groups");
        }
        if row["shard"] != 1 {
            name += ", a parity";
        }
        add(&mut panel, word(row, "plugin"), &name, Mark::new(0.0, number(&row[key])));
    }
    panel
}

fn clients(report: &Value, (work, title): (&str, &str)) -> Option<Panel> {
    let mut panel = Panel::new(Kind::Bars, title, Axis::new("MiB a second"));
    for row in list(report, "losses").iter().filter(|row| row["clients"] == work) {
        for (key, name) in [("alone", "nothing lost"), ("beside", "beside a repair")] {
            let name = format!("{} {name}", word(row, "code"));
            add(&mut panel, word(row, "plugin"), &name, Mark::new(0.0, number(&row[key])));
        }
    }
    (!list(report, "losses").iter().all(|row| row["clients"] != work)).then_some(panel)
}
