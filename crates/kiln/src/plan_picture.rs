//! A placed plan as SVG: bytes that every node sends, receives and reads.

use kiln_plan::Plan;
use std::fmt::Write;

/// Widths of the columns of names and of bars, and the height of a bar.
const NAMES: usize = 160;
const BARS: usize = 480;
const BAR: usize = 12;
const KINDS: [(&str, &str); 3] =
    [("sent", "#0072b2"), ("received", "#e69f00"), ("read", "#009e73")];

/// Draws the costs of a plan whose sub-chunks have so many bytes; `names` replace those of the
/// cluster's nodes.
pub fn of_plan(plan: &Plan, bytes: u64, names: Option<&[String]>) -> String {
    let costs = plan.costs();
    let mib = |count: usize| count as f64 * bytes as f64 / f64::from(1 << 20);
    let nodes = plan.problem().cluster().nodes();
    let rows: Vec<(&str, [usize; 3])> = (nodes.iter().zip(costs.nodes()).enumerate())
        .filter(|(_, (_, cost))| cost.load() + cost.read + cost.computed > 0)
        .map(|(number, (node, cost))| {
            let name = names.and_then(|names| names.get(number)).unwrap_or(&node.name);
            (name.as_str(), [cost.sent, cost.received, cost.read])
        })
        .collect();
    let most = rows.iter().flat_map(|(_, counts)| counts).max().copied().unwrap_or(1).max(1);
    let (load, all) = (mib(costs.max_load()), mib(costs.bandwidth()));
    let height = 48 + rows.len() * (KINDS.len() * BAR + 8);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\"><text x=\"8\" y=\"16\">{}: maximum load \
         {load:.1} MiB, bandwidth {all:.1} MiB</text>\n",
        NAMES + BARS + 100,
        plan.strategy()
    );
    for (at, (kind, colour)) in KINDS.into_iter().enumerate() {
        let x = NAMES + at * 100;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"24\" width=\"{BAR}\" height=\"{BAR}\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"34\">{kind}</text>",
            x + 18
        );
    }
    for (row, (name, counts)) in rows.into_iter().enumerate() {
        let top = 44 + row * (KINDS.len() * BAR + 8);
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{name}</text>", top + 2 * BAR);
        for (at, (count, (_, colour))) in counts.into_iter().zip(KINDS).enumerate() {
            let (y, width) = (top + at * BAR, BARS * count / most);
            let _ = writeln!(
                svg,
                "<rect x=\"{NAMES}\" y=\"{y}\" width=\"{width}\" height=\"{}\" \
                 fill=\"{colour}\"/><text x=\"{}\" y=\"{}\" font-size=\"10\">{:.1}</text>",
                BAR - 1,
                NAMES + width + 4,
                y + BAR - 2,
                mib(count)
            );
        }
    }
    svg + "</svg>\n"
}
