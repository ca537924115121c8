//! Pictures of plans as SVG: the frontier, the traffic table, the coloured DAG.

use crate::{Bound, Plan, cost};
use std::fmt::Write;

/// Colours of nodes, repeated when there are more of them.
const COLOURS: &[&str] = &[
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7",
    "#9c755f", "#bab0ac", "#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#a6761d",
];
/// DAGs with more vertices are not drawn: nobody could read them.
const DRAWN_MAX: usize = 160;
const WIDTH: f64 = 960.0;

/// A dot of a frontier picture.
///
/// ```
/// let dot = kiln_plan::Dot { load: 4.0, bandwidth: 8.0, name: "hub".into() };
/// let svg = kiln_plan::frontier_picture("2+2", &[dot], &[(4.0, 8.0), (6.0, 6.0)], None);
/// assert!(svg.contains("hub"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Maximum load, in the unit of the picture.
    pub load: f64,
    /// All traffic.
    pub bandwidth: f64,
    /// What stands beside it; nothing for one of many.
    pub name: String,
}

/// Draws (maximum load, bandwidth) pairs as in ParaRC's figure 5. `all` are small dots without
/// names; the bound, in the same unit, is drawn as a line.
pub fn frontier_picture(
    title: &str,
    named: &[Dot],
    all: &[(f64, f64)],
    bound: Option<(Bound, f64)>,
) -> String {
    let mut body = String::new();
    let _ = panel(&mut body, title, named, all, bound);
    page(380.0, &body)
}

fn panel(
    out: &mut String,
    title: &str,
    named: &[Dot],
    all: &[(f64, f64)],
    bound: Option<(Bound, f64)>,
) -> std::fmt::Result {
    let points = || all.iter().copied().chain(named.iter().map(|dot| (dot.load, dot.bandwidth)));
    let ends = bound.map(|(bound, unit)| (bound.load() * unit, bound.central() * unit));
    let (low, high) = ends.unwrap_or((f64::MAX, 0.0));
    let left = points().map(|p| p.0).fold(low, f64::min) * 0.95;
    let right = points().map(|p| p.0).fold(high, f64::max) * 1.05;
    let bottom = points().map(|p| p.1).fold(low.max(high), f64::min) * 0.95;
    let top = points().map(|p| p.1).fold(0.0, f64::max) * 1.05;
    let x = |load: f64| 70.0 + (load - left) / (right - left).max(1e-9) * 620.0;
    let y = |bandwidth: f64| 330.0 - (bandwidth - bottom) / (top - bottom).max(1e-9) * 280.0;
    writeln!(out, "<text x=\"10\" y=\"22\" font-size=\"14\">{}</text>", escape(title))?;
    writeln!(out, "<rect x=\"70\" y=\"50\" width=\"620\" height=\"280\" class=\"box\"/>")?;
    for step in 0..=4 {
        let load = left + (right - left) * f64::from(step) / 4.0;
        let bandwidth = bottom + (top - bottom) * f64::from(step) / 4.0;
        let (at_x, at_y) = (x(load), y(bandwidth) + 4.0);
        writeln!(out, "<text x=\"{at_x:.1}\" y=\"346\" class=\"mid\">{load:.0}</text>")?;
        writeln!(out, "<text x=\"64\" y=\"{at_y:.1}\" class=\"end\">{bandwidth:.0}</text>")?;
    }
    writeln!(out, "<text x=\"380\" y=\"366\" class=\"mid\">maximum repair load</text>")?;
    writeln!(out, "<text x=\"70\" y=\"44\">repair bandwidth</text>")?;
    if let Some((bound, unit)) = bound {
        let ends = [bound.load(), bound.central()]
            .map(|received| (x(received * unit), y(bound.bandwidth(received) * unit)));
        let [(x1, y1), (x2, y2)] = ends;
        writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"bound\"/>"
        )?;
    }
    for &(load, bandwidth) in all {
        let (x, y) = (x(load), y(bandwidth));
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" fill=\"#bbb\"/>")?;
    }
    for (index, dot) in named.iter().enumerate() {
        let (x, y, colour) = (x(dot.load), y(dot.bandwidth), COLOURS[index % COLOURS.len()]);
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>")?;
        let row = 60.0 + 16.0 * index as f64;
        writeln!(out, "<circle cx=\"706\" cy=\"{:.1}\" r=\"5\" fill=\"{colour}\"/>", row - 4.0)?;
        let text = format!("{} ({:.0}, {:.0})", dot.name, dot.load, dot.bandwidth);
        writeln!(out, "<text x=\"716\" y=\"{row:.1}\">{}</text>", escape(&text))?;
    }
    Ok(())
}

/// Draws what a plan does: per node what it sends and receives, and, when it is small, its DAG with
/// a colour for every node (ParaRC, figure 4). A sub-chunk has `bytes` bytes.
///
/// ```
/// use kiln_code::Codec;
/// use kiln_plan::{Effort, Problem, plan_picture, strategy};
/// let codec = Codec::new(&"clay:2+2".parse()?)?;
/// let problem = Problem::on_own_nodes(codec.repair_dag(&[0], &[1, 2, 3])?.1)?;
/// let plan = strategy("hub")?.plan(&problem, &mut Effort::default())?;
/// assert!(plan_picture(&plan, 64 << 20).starts_with("<svg"));
/// # Ok::<(), kiln_plan::PlanError>(())
/// ```
pub fn plan_picture(plan: &Plan, bytes: u64) -> String {
    let mut body = String::new();
    let mut top = traffic(&mut body, plan, bytes).unwrap_or(0.0);
    if plan.dag().vertices() <= DRAWN_MAX {
        top = graph(&mut body, plan, top + 20.0).unwrap_or(top);
    }
    page(top + 20.0, &body)
}

/// One bar up and one down a node; returns where it ends.
fn traffic(out: &mut String, plan: &Plan, bytes: u64) -> Result<f64, std::fmt::Error> {
    let costs = plan.costs();
    let most = costs.max_load().max(1) as f64;
    let title = format!(
        "{}: maximum load {}, bandwidth {}",
        plan.strategy(),
        mebibytes(costs.max_load(), bytes),
        mebibytes(costs.bandwidth(), bytes)
    );
    writeln!(out, "<text x=\"10\" y=\"22\" font-size=\"14\">{}</text>", escape(&title))?;
    let mut y = 40.0;
    for (node, cost) in costs.nodes().iter().enumerate() {
        if cost.load() + cost.read + cost.computed == 0 {
            continue;
        }
        let name = &plan.problem().cluster().nodes()[node].name;
        let colour = COLOURS[node % COLOURS.len()];
        writeln!(
            out,
            "<text x=\"84\" y=\"{:.1}\" class=\"end\">{}</text>",
            y + 12.0,
            escape(name)
        )?;
        for (row, count, opacity) in [(0.0, cost.sent, 1.0), (8.0, cost.received, 0.5)] {
            let width = count as f64 / most * 560.0;
            writeln!(
                out,
                "<rect x=\"90\" y=\"{:.1}\" width=\"{width:.1}\" height=\"7\" fill=\"{colour}\" \
                 opacity=\"{opacity}\"/>",
                y + row
            )?;
        }
        let text = format!(
            "sent {}, received {}, read {}",
            mebibytes(cost.sent, bytes),
            mebibytes(cost.received, bytes),
            mebibytes(cost.read, bytes)
        );
        writeln!(out, "<text x=\"656\" y=\"{:.1}\">{text}</text>", y + 12.0)?;
        y += 22.0;
    }
    Ok(y)
}

/// The DAG from left to right, by the longest way from what is read.
fn graph(out: &mut String, plan: &Plan, top: f64) -> Result<f64, std::fmt::Error> {
    let edges = plan.edges();
    let mut depth = vec![0_usize; edges.vertices()];
    for v in 0..edges.vertices() {
        let sources = edges.sources(v).iter();
        depth[v] = sources.map(|&s| depth[s as usize] + 1).max().unwrap_or(0);
    }
    let columns = depth.iter().max().copied().unwrap_or(0) + 1;
    let mut rows = vec![0_usize; columns];
    let place: Vec<(f64, f64)> = depth
        .iter()
        .map(|&column| {
            rows[column] += 1;
            let x = 60.0 + (WIDTH - 120.0) * column as f64 / (columns.max(2) - 1) as f64;
            (x, top + 20.0 * rows[column] as f64)
        })
        .collect();
    for v in 0..edges.vertices() {
        for &s in edges.sources(v) {
            let ((x1, y1), (x2, y2)) = (place[s as usize], place[v]);
            let class = if plan.node(s as usize) == plan.node(v) { "near" } else { "far" };
            writeln!(
                out,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
                 class=\"{class}\"/>"
            )?;
        }
    }
    for (v, &(x, y)) in place.iter().enumerate() {
        let node = plan.node(v);
        let colour = COLOURS[node % COLOURS.len()];
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"{colour}\"/>")?;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"in\">{node}</text>", y + 3.5)?;
    }
    let mut crossings = 0;
    cost::for_each_transfer(plan, |_, _, _| crossings += 1);
    let end = top + 20.0 * (rows.iter().max().copied().unwrap_or(0) + 2) as f64;
    writeln!(
        out,
        "<text x=\"10\" y=\"{end:.1}\">A vertex has the colour and number of its node; thick edges \
         go over the network ({crossings} sub-chunks travel).</text>"
    )?;
    Ok(end)
}

fn mebibytes(sub_chunks: usize, bytes: u64) -> String {
    format!("{:.1} MiB", sub_chunks as f64 * bytes as f64 / f64::from(1 << 20))
}

fn page(height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<style>.box{{fill:none;stroke:#999}}\
         .mid{{text-anchor:middle}}.end{{text-anchor:end}}.bound{{stroke:#d62728;\
         stroke-dasharray:5 3}}.near{{stroke:#ccc}}.far{{stroke:#555;stroke-width:1.6}}\
         .in{{text-anchor:middle;fill:white;font-size:9px}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
