//! A chunk in each order, one line a lost chunk, with what its helpers read.

use std::fmt::Write;

use kiln_code::order::{Layers, Order};

/// Width of a chunk, height of a line, room for words, in pixels.
const CHUNK: f64 = 900.0;
const LINE: f64 = 14.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 120.0;
const TITLE: f64 = 34.0;

/// The picture as SVG text.
pub fn draw(code: &str, layers: &Layers, orders: &[Order]) -> String {
    let panel = TITLE + layers.chunks() as f64 * LINE;
    let (width, height) = (LEFT + CHUNK + RIGHT, TITLE + orders.len() as f64 * panel);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}: what each helper reads of its chunk, by \
         lost chunk</text>\n",
        escape(code)
    );
    for (index, order) in orders.iter().enumerate() {
        panel_of(&mut svg, TITLE + index as f64 * panel, layers, order);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel_of(svg: &mut String, top: f64, layers: &Layers, order: &Order) {
    let runs = order.runs(layers);
    let name: String = order.name().chars().take(60).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}: {} runs</text>",
        top + 22.0,
        escape(&name),
        runs.iter().sum::<usize>()
    );
    let position = CHUNK / layers.count() as f64;
    for (chunk, count) in runs.iter().enumerate() {
        let y = top + TITLE - 6.0 + chunk as f64 * LINE;
        let text = y + LINE - 4.0;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{text}\">{chunk}</text>", LEFT - 24.0);
        let bar = LINE - 4.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{CHUNK}\" height=\"{bar}\" fill=\"#e8e8e8\"/>"
        );
        let mut path = String::new();
        for run in order.reads(layers, &[chunk]) {
            let (x, w) = (LEFT + run.start as f64 * position, run.len() as f64 * position);
            let _ = write!(path, "M{x:.2} {y}h{w:.2}v{bar}h-{w:.2}z");
        }
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"#2b6cb0\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{text}\">{count}</text>", LEFT + CHUNK + 8.0);
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
