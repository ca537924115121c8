//! A picture: one panel a group of cells, one line a code, every engine a dot against the ceiling.

use super::{label, labels, title};
use crate::cell::Cell;
use crate::machine::Machine;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 250.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 56.0;
/// Colours that differ in lightness too, for those who see fewer hues.
const COLOURS: &[&str] = &[
    "#d62728", "#1f77b4", "#7fb2dc", "#2ca02c", "#98df8a", "#8c564b", "#9467bd", "#c5b0d5",
    "#ff7f0e", "#17becf", "#7f7f7f", "#bcbd22",
];

/// The best traffic-only rate of a cell: what the memory allows.
fn ceiling(cell: &Cell) -> Option<f64> {
    let bounds = cell.rates.iter().filter(|rate| rate.engine.starts_with("ceiling:xor"));
    bounds.map(|rate| rate.rate.median).max_by(f64::total_cmp)
}

/// The scale of a cell: its ceiling, or the fastest engine where no ceiling was measured.
fn scale(cell: &Cell) -> f64 {
    let fastest = cell.rates.iter().map(|rate| rate.rate.median).fold(f64::MIN_POSITIVE, f64::max);
    ceiling(cell).unwrap_or(fastest).max(f64::MIN_POSITIVE)
}

/// Draws all groups below each other.
pub(super) fn draw(groups: &[Vec<&Cell>], machine: &Machine) -> String {
    let mut body = String::new();
    let mut top = 34.0;
    for group in groups {
        // Writing to a string does not fail.
        let _ = panel(&mut body, group, top);
        let names = labels(group).iter().filter(|name| !name.starts_with("ceiling")).count();
        top += HEAD + LINE * group.len().max(names) as f64 + 24.0;
    }
    let caption =
        escape(&format!("{}, kernel {}, {}", machine.cpu, machine.kernel, machine.commit));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">Speed against the memory's ceiling: {caption}\
         </text>\n{body}</svg>\n"
    )
}

fn panel(out: &mut String, group: &[&Cell], top: f64) -> std::fmt::Result {
    let Some(first) = group.first() else { return Ok(()) };
    let span = WIDTH - LEFT - RIGHT;
    let x = |share: f64| LEFT + span * share.min(1.25) / 1.25;
    let bottom = top + HEAD + LINE * group.len() as f64 - 10.0;
    let bold = "font-weight=\"bold\"";
    writeln!(
        out,
        "<text x=\"10\" y=\"{:.0}\" {bold}>{}</text>",
        top + 16.0,
        escape(&title(first))
    )?;
    for percent in [0, 25, 50, 75, 100, 125] {
        let at = x(f64::from(percent) / 100.0);
        let colour = if percent == 100 { "#444" } else { "#ddd" };
        writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.0}\" y2=\"{bottom:.0}\" \
            stroke=\"{colour}\"/>",
            top + 38.0
        )?;
        writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#666\">\
            {percent}%</text>",
            top + 33.0
        )?;
    }
    let names: Vec<String> =
        labels(group).into_iter().filter(|name| !name.starts_with("ceiling")).collect();
    for (i, name) in names.iter().enumerate() {
        let (y, colour) = (top + HEAD + LINE * i as f64, COLOURS[i % COLOURS.len()]);
        let at = WIDTH - RIGHT + 30.0;
        writeln!(
            out,
            "<circle cx=\"{at}\" cy=\"{:.0}\" r=\"5\" fill=\"{colour}\"/>\
            <text x=\"{}\" y=\"{y:.0}\">{}</text>",
            y - 4.0,
            at + 12.0,
            escape(name)
        )?;
    }
    for (row, cell) in group.iter().enumerate() {
        let y = top + HEAD + LINE * row as f64;
        let code = cell.job.code();
        writeln!(out, "<text x=\"10\" y=\"{y:.0}\">{}</text>", escape(&code))?;
        // kiln last, on top of the others.
        for (i, name) in names.iter().enumerate().rev() {
            let Some(rate) = cell.rates.iter().find(|rate| label(cell, rate) == *name) else {
                continue;
            };
            let (at, colour) = (x(rate.rate.median / scale(cell)), COLOURS[i % COLOURS.len()]);
            writeln!(
                out,
                "<circle cx=\"{at:.1}\" cy=\"{:.0}\" r=\"5\" fill=\"{colour}\">\
                <title>{}: {:.1} GB/s</title></circle>",
                y - 4.0,
                escape(name),
                rate.rate.median
            )?;
        }
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
