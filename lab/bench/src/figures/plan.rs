//! Figure 5 of ParaRC, the traffic of one repair, recoveries against their bounds.

use super::{Figures, add, list, machine, number, pair, word};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel, Rule};
use serde_json::Value;

const COUNTED: &str = "counted from plans";

pub(super) fn figures(report: &Value) -> Figures {
    let mut figures = Figures::new();
    for small in list(report, "small").iter().filter(|small| !list(small, "all").is_empty()) {
        let family = word(small, "code").split(':').next().unwrap_or_default();
        figures.push((format!("frontier-{family}"), frontier(small)));
    }
    if !list(report, "traffic").is_empty() {
        figures.push(("traffic".into(), traffic(list(report, "traffic"))));
    }
    let recoveries = recoveries(list(report, "recoveries"));
    let title = "Recovery of a lost machine: busiest link over what no plan can beat";
    let subtitle = format!("{COUNTED}; {}", machine(report));
    figures.push(("recovery".into(), Figure::new(title, subtitle).with(recoveries)));
    figures
}

/// All placements of a small repair, with what the strategies find.
fn frontier(small: &Value) -> Figure {
    let title =
        format!("{}, block 0 of 256 MiB: maximum load against traffic", word(small, "code"));
    let mut panel = Panel::new(Kind::Xy, "", Axis::new("repair bandwidth, MiB"));
    panel.at = Axis::new("maximum repair load, MiB");
    let mark = |point: &Value| Mark::new(pair(point).0, pair(point).1);
    panel.series("all placements").extend(list(small, "all").iter().map(mark));
    panel.series("bound").extend(list(small, "bound").iter().map(mark));
    for series in panel.series.iter_mut().filter(|series| series.name == "bound") {
        series.join = true;
    }
    for found in list(small, "found") {
        let (load, all) = (number(&found["load_mib"]), number(&found["bandwidth_mib"]));
        let name = format!("{} ({load:.0}, {all:.0})", word(found, "name"));
        panel.series(&name).push(Mark::new(load, all));
    }
    Figure::new(title, COUNTED).with(panel)
}

fn traffic(nodes: &[Value]) -> Figure {
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("MiB"));
    for node in nodes {
        for what in ["sent", "received", "read"] {
            let mark = Mark::new(0.0, number(&node[format!("{what}_mib")]));
            add(&mut panel, what, word(node, "node"), mark);
        }
    }
    let title = "clay:10+4, block 0 of 256 MiB lost: what each node does (hub)";
    Figure::new(title, COUNTED).with(panel)
}

/// Makespans over their bounds: planned together, and alone by each strategy.
fn recoveries(rows: &[Value]) -> Panel {
    let mut panel = Panel::new(Kind::Dots, "", Axis::log("times the bound"));
    for row in rows {
        let to = match row["new"].as_u64() {
            Some(0) => "survivors".to_owned(),
            _ => format!("{} new", row["new"]),
        };
        let (code, stripes) = (word(row, "code"), &row["stripes"]);
        let name = format!("{code}, {stripes} stripes, {} to {to}", row["survivors"]);
        let over = |makespan: &Value| Mark::new(0.0, number(makespan) / number(&row["bound_mib"]));
        add(&mut panel, "planned together", &name, over(&row["makespan_mib"]));
        for alone in list(row, "alone_mib") {
            let strategy = format!("alone: {}", alone[0].as_str().unwrap_or_default());
            add(&mut panel, &strategy, &name, over(&alone[1]));
        }
    }
    panel.rules = vec![Rule { name: "bound".into(), value: 1.0 }];
    panel
}

/// What repairs of several losses read on average (Clay paper, Fig. 17).
pub(super) fn averages(report: &Value) -> Figures {
    let mut panel = Panel::new(Kind::Dots, "", Axis::new("chunks read"));
    for row in list(report, "averages") {
        let lost = match &row["failures"] {
            one if *one == 1 => "1 lost".to_owned(),
            several => format!("{several} lost"),
        };
        let name = format!("{}, {lost}", word(row, "code"));
        add(&mut panel, "kiln", &name, Mark::new(0.0, number(&row["mean_chunks"])));
        add(&mut panel, "the paper's rules", &name, Mark::new(0.0, number(&row["paper"])));
    }
    let title = "Chunks that a repair reads, mean over all patterns of losses";
    vec![(String::new(), Figure::new(title, "counted").with(panel))]
}
