//! Coding speed: for each family and operation a picture, for each footprint a panel, every engine
//! against what the memory allows.

use super::{Figures, add, groups, list, machine, median, number, word};
use kiln_figure::{Axis, Figure, Kind, Panel, Rule};
use serde_json::Value;

pub(super) fn figures(report: &Value) -> Figures {
    let name = |cell: &Value| format!("{} {}", word(&cell["job"], "family"), operation(cell));
    let mut figures = Figures::new();
    for (name, cells) in groups(list(report, "cells"), name) {
        let title = format!("{name}: speed against the memory's ceiling");
        let mut figure = Figure::new(title, machine(report)).side_by_side(2);
        for (footprint, cells) in groups(cells, |cell| word(cell, "footprint").to_owned()) {
            figure.panels.push(panel(&footprint, &cells));
        }
        figure.note = "100% is the best rate of a loop that only moves the same bytes, or else of \
                       the fastest engine. Median and quarters of interleaved rounds."
            .into();
        figures.push((name.replace(' ', "-"), figure));
    }
    figures
}

/// For all m "decode m" is one operation.
fn operation(cell: &Value) -> String {
    let operation = word(&cell["job"], "operation");
    match operation == format!("decode {}", cell["job"]["m"]) {
        true => "decode m".into(),
        false => operation.into(),
    }
}

fn panel(footprint: &str, cells: &[&Value]) -> Panel {
    let mut panel = Panel::new(Kind::Xy, footprint, Axis::new("% of the ceiling"));
    for cell in cells {
        let (job, rates) = (&cell["job"], list(cell, "rates"));
        let best = |of: &str| {
            let rates = rates.iter().filter(|rate| word(rate, "engine").starts_with(of));
            rates.map(|rate| number(&rate["rate"]["median"])).max_by(f64::total_cmp)
        };
        let ceiling = best("ceiling:xor").or_else(|| best("")).unwrap_or(f64::NAN);
        for rate in rates.iter().filter(|rate| !word(rate, "engine").starts_with("ceiling")) {
            // An engine that has another family's code takes part with that.
            let family = word(rate, "code").split(' ').next().unwrap_or_default();
            let name = match family == word(job, "family") {
                true => word(rate, "engine").to_owned(),
                false => format!("{} ({family})", word(rate, "engine")),
            };
            let code = format!("{}+{}", job["k"], job["m"]);
            add(&mut panel, &name, &code, median(&rate["rate"], ceiling / 100.0));
        }
    }
    panel.rules = vec![Rule { name: "the memory's ceiling".into(), value: 100.0 }];
    panel.joined()
}
