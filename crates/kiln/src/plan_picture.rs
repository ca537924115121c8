//! A placed plan: what every node sends, receives and reads, and its DAG where that is small.

use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
use kiln_plan::Plan;

/// DAGs with more vertices are not drawn: nobody could read them.
const DRAWN_MAX: usize = 160;

/// The picture of a plan whose sub-chunks have so many bytes; `names` of its nodes, where the
/// cluster's own are not those that people know.
pub fn of_plan(plan: &Plan, bytes: u64, names: Option<&[String]>) -> Figure {
    let costs = plan.costs();
    let mib = |count: usize| count as f64 * bytes as f64 / f64::from(1 << 20);
    let mut panel = Panel::new(Kind::Bars, "", Axis::new("MiB"));
    let nodes = plan.problem().cluster().nodes();
    for (number, (node, cost)) in nodes.iter().zip(costs.nodes()).enumerate() {
        if cost.load() + cost.read + cost.computed == 0 {
            continue;
        }
        let name = names.and_then(|names| names.get(number)).unwrap_or(&node.name);
        let at = panel.category(name);
        for (what, count) in [("sent", cost.sent), ("received", cost.received), ("read", cost.read)]
        {
            panel.series(what).push(Mark::new(at, mib(count)));
        }
    }
    let (load, all) = (mib(costs.max_load()), mib(costs.bandwidth()));
    let title = format!("{}: maximum load {load:.1} MiB, bandwidth {all:.1} MiB", plan.strategy());
    let mut figure = Figure::new(title, "counted from the plan").with(panel);
    if plan.dag().vertices() <= DRAWN_MAX {
        figure.panels.push(graph(plan));
        figure.note = format!(
            "A vertex has the colour and the number of its node; thick edges go over the network \
             ({} sub-chunks travel).",
            costs.bandwidth()
        );
    }
    figure
}

/// The DAG from left to right, by the longest way from what is read (ParaRC, figure 4).
fn graph(plan: &Plan) -> Panel {
    let mut sources: Vec<Vec<u32>> = vec![Vec::new(); plan.dag().vertices()];
    for step in plan.dag().steps() {
        for (row, vertex) in step.vertices().enumerate() {
            let terms = step.matrix.row(row).iter().zip(step.sources);
            sources[vertex] = terms.filter(|(c, _)| **c != 0).map(|(_, &source)| source).collect();
        }
    }
    let mut place: Vec<[f64; 2]> = Vec::new();
    let mut rows = Vec::new();
    for sources in &sources {
        let before = sources.iter().map(|&source| place[source as usize][0] as usize + 1);
        let column = before.max().unwrap_or(0);
        rows.resize(rows.len().max(column + 1), 0.0);
        place.push([column as f64, rows[column]]);
        rows[column] += 1.0;
    }
    let node = |vertex: usize| plan.node_of(vertex as u32).unwrap_or(0);
    let mut panel = Panel::new(Kind::Xy, "", Axis::new("row"));
    for (vertex, sources) in sources.iter().enumerate() {
        for &source in sources {
            let far = node(source as usize) != node(vertex);
            panel.edges.push((place[source as usize], place[vertex], far));
        }
        let text = node(vertex).to_string();
        let mark = Mark { text, ..Mark::new(place[vertex][0], place[vertex][1]) };
        panel.series(&format!("node {}", node(vertex))).push(mark);
    }
    panel
}
