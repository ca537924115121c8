//! A chunk in each order, one line a lost chunk, with what its helpers read.

use kiln_code::order::{Layers, Order};
use kiln_figure::{Axis, Figure, Kind, Mark, Panel};

/// The picture of all orders.
pub fn draw(code: &str, layers: &Layers, orders: &[Order]) -> Figure {
    let title = format!("{code}: what each helper reads of its chunk, by lost chunk");
    let mut figure = Figure::new(title, "counted").side_by_side(2);
    for order in orders {
        let runs = order.runs(layers);
        let title = format!("{}: {} runs", order.name(), runs.iter().sum::<usize>());
        let mut panel = Panel::new(Kind::Spans, title, Axis::new("position in the chunk"));
        for (chunk, count) in runs.iter().enumerate() {
            panel.categories.push(format!("{chunk}: {count}"));
            let span = |run: std::ops::Range<usize>| {
                Mark::new(chunk as f64, 0.0).spread(run.start as f64, run.end as f64)
            };
            panel.series("read").extend(order.reads(layers, &[chunk]).into_iter().map(span));
        }
        figure.panels.push(panel);
    }
    figure
}
