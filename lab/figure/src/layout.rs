//! Title, legend, and where the panels stand.

use crate::canvas::{Anchor, Canvas, width, wrap};
use crate::panel::{Drawing, LINE};
use crate::style::{Style, dashes, styles};
use crate::{Figure, Kind};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 16.0;
/// Between panels, across and down.
const GAP: (f64, f64) = (28.0, 18.0);
const GREY: &str = " fill=\"#555\"";

/// The figure as SVG.
pub fn draw(figure: &Figure) -> String {
    let mut canvas = Canvas::default();
    let mut y = MARGIN;
    for (text, size, style) in
        [(&figure.title, 17.0, " font-weight=\"bold\""), (&figure.subtitle, 12.0, GREY)]
    {
        y = lines(&mut canvas, text, size, style, y);
    }
    let styles = styles(figure);
    y = legend(&mut canvas, figure, &styles, y + 6.0);
    let columns = figure.columns.max(1);
    let across = (WIDTH - 2.0 * MARGIN + GAP.0) / columns as f64;
    for row in figure.panels.chunks(columns) {
        let drawings: Vec<Drawing<'_>> =
            row.iter().map(|panel| Drawing::new(figure, panel, &styles, across - GAP.0)).collect();
        for (column, drawing) in drawings.iter().enumerate() {
            drawing.draw(&mut canvas, MARGIN + across * column as f64, y + GAP.1);
        }
        y += drawings.iter().map(Drawing::height).fold(0.0, f64::max) + GAP.1;
    }
    if !figure.note.is_empty() {
        y = lines(&mut canvas, &figure.note, 12.0, GREY, y + 8.0);
    }
    canvas.finish(WIDTH, y + MARGIN)
}

/// Wrapped text; returns where it ends.
fn lines(canvas: &mut Canvas, text: &str, size: f64, style: &str, mut y: f64) -> f64 {
    for line in wrap(text, size, WIDTH - 2.0 * MARGIN).iter().filter(|line| !line.is_empty()) {
        y += size + 5.0;
        canvas.text((MARGIN, y - 4.0), size, Anchor::Start, style, line);
    }
    y
}

/// Names of all series and rules, each beside its mark; returns where it ends.
fn legend(canvas: &mut Canvas, figure: &Figure, styles: &[Style], y: f64) -> f64 {
    let mut rules: Vec<(&str, String)> = Vec::new();
    for (number, rule) in figure.panels.iter().flat_map(|panel| panel.rules.iter().enumerate()) {
        if !rules.iter().any(|known| known.0 == rule.name) {
            rules.push((&rule.name, dashes(number)));
        }
    }
    let blocks = figure.panels.iter().all(|panel| matches!(panel.kind, Kind::Bars | Kind::Spans));
    let marks = styles.iter().map(|style| (&style.name[..], Ok(style)));
    let (mut x, mut y) = (MARGIN, y + LINE);
    let entries = marks.chain(rules.into_iter().map(|(name, dashes)| (name, Err(dashes))));
    let entries: Vec<_> = entries.filter(|(name, _)| !name.is_empty()).collect();
    for (name, style) in &entries {
        let wide = 40.0 + width(name, 12.0);
        if x > MARGIN && x + wide > WIDTH {
            (x, y) = (MARGIN, y + LINE + 2.0);
        }
        match style {
            Ok(style) if blocks => {
                let fill = format!("fill=\"{}\"", style.colour);
                canvas.rect((x, y - 10.0), (16.0, 11.0), &fill);
            }
            Ok(style) => style.mark(canvas, (x + 8.0, y - 4.0), ""),
            Err(dashes) => canvas.line((x, y - 4.0), (x + 16.0, y - 4.0), dashes),
        }
        canvas.text((x + 22.0, y), 12.0, Anchor::Start, "", name);
        x += wide;
    }
    if entries.is_empty() { y - LINE } else { y }
}
