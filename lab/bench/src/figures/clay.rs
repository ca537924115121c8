//! The Clay paper's evaluation inside a Ceph cluster, which `lab/clay` measured.

use super::{Figures, add, gray, list, number, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use serde_json::Value;

/// What is drawn of a loss: title, member of the row, unit.
type Part = (&'static str, &'static str, &'static str);

const BYTES: [Part; 2] = [
    ("Bytes that OSDs sent", "network", "bytes for a byte lost"),
    ("Bytes that devices of helpers read", "disk", "bytes for a byte lost"),
];
const TIME: Part = ("Time of the repair", "seconds_per_mib", "seconds for a MiB lost");

/// Of clients that write or read beside a repair.
const BESIDE: [(&str, &str); 2] = [("write", "Clients that write"), ("read", "Clients that read")];

pub(super) fn figures(report: &Value) -> Figures {
    if word(report, "bench") == "clay-orders" {
        return gray::figures(report);
    }
    let machine = &report["machine"];
    let subtitle = format!(
        "Ceph {}, {} OSDs on one machine with links of {}; {}, commit {}",
        word(report, "ceph"),
        report["sizes"]["osds"],
        word(&report["sizes"], "rate"),
        word(machine, "cpu"),
        word(machine, "commit"),
    );
    let mut bytes = Figure::new("An OSD is lost in Ceph: Clay beside RS", &subtitle[..]);
    bytes.panels = BYTES.into_iter().map(|part| panel(report, part)).collect();
    bytes.note = "W1: objects and stripes of about 64 MiB. W2: objects of 1 to 64 MiB in stripes \
                  of about 1 MiB."
        .into();
    let mut many = Figure::new("OSDs are lost in Ceph: many placement groups", &subtitle[..]);
    many.panels = BYTES.into_iter().map(|part| groups(report, part)).collect();
    many.note = "C4 to C6: 10+4 with 11, 12 and 13 helpers; two OSDs are lost at once.".into();
    let mut time = Figure::new("An OSD is lost in Ceph: time, and clients beside it", subtitle);
    time.panels = vec![panel(report, TIME)];
    time.panels.extend(BESIDE.into_iter().filter_map(|work| clients(report, work)));
    let all = [(String::new(), bytes), ("time".into(), time), ("groups".into(), many)];
    let drawn = |figure: &Figure| figure.panels.iter().any(|panel| !panel.series.is_empty());
    all.into_iter().filter(|(_, figure)| drawn(figure)).collect()
}

/// A number of losses in pools of one placement group.
fn panel(report: &Value, (title, key, unit): Part) -> Panel {
    let mut panel = Panel::new(Kind::Bars, title, Axis::new(unit));
    let drawn = |row: &&Value| row["clients"] == "" && row["groups"] == 1;
    for row in list(report, "losses").iter().filter(drawn) {
        let mut name = format!("{} {}", word(row, "code"), word(row, "workload"));
        if row["shard"] != 1 {
            name += ", a parity";
        }
        add(&mut panel, word(row, "plugin"), &name, Mark::new(0.0, number(&row[key])));
    }
    panel
}

/// A number of losses in pools of several placement groups.
fn groups(report: &Value, (title, key, unit): Part) -> Panel {
    let mut panel = Panel::new(Kind::Bars, title, Axis::new(unit));
    for row in list(report, "losses").iter().filter(|row| row["groups"] != 1) {
        let mut name = word(row, "code").to_owned();
        if row["losses"] != 1 {
            name += ", two OSDs";
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
