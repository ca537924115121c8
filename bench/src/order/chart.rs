//! A picture: runs by lost chunk in each order, on a logarithmic scale, for some codes.

use super::tables::{Counts, Table};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 230.0;
const LEFT: f64 = 50.0;
/// Colours that differ in lightness too.
const COLOURS: [&str; 6] = ["#7f7f7f", "#1f77b4", "#ff7f0e", "#2ca02c", "#c5b0d5", "#d62728"];

/// Draws Tables III and IV.
pub(super) fn draw(counts: &Counts) -> String {
    let tables = [&counts.table_3, &counts.table_4];
    let height = PANEL * tables.len() as f64 + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, table) in tables.into_iter().enumerate() {
        // Writing to a string does not fail.
        let _ = panel(&mut svg, table, index as f64 * PANEL);
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, table: &Table, top: f64) -> std::fmt::Result {
    let most = table.columns.iter().flat_map(|(_, runs)| runs).max().copied().unwrap_or(1);
    let chunks = table.columns.first().map_or(1, |(_, runs)| runs.len());
    let (base, high) = (top + PANEL - 20.0, PANEL - 90.0);
    let scale = |runs: usize| high * (1.0 + (runs as f64).log2()) / (1.0 + (most as f64).log2());
    writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-size=\"14\">Clay {}: reads of a helper by lost chunk \
         (counted, logarithmic)</text>",
        top + 24.0,
        table.code
    )?;
    let slot = (WIDTH - LEFT - 10.0) / chunks as f64;
    let bar = slot * 0.85 / table.columns.len() as f64;
    for (column, (name, runs)) in table.columns.iter().enumerate() {
        let colour = COLOURS[column % COLOURS.len()];
        let x = LEFT + 145.0 * column as f64;
        let sum: usize = runs.iter().sum();
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{:.0}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{name}: {sum}</text>",
            top + 34.0,
            x + 14.0,
            top + 43.0
        )?;
        for (chunk, &count) in runs.iter().enumerate() {
            let (x, h) = (LEFT + chunk as f64 * slot + column as f64 * bar, scale(count));
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{h:.1}\" \
                 fill=\"{colour}\"><title>{name}, chunk {chunk}: {count}</title></rect>",
                base - h
            )?;
        }
    }
    for chunk in 0..chunks {
        let x = LEFT + (chunk as f64 + 0.4) * slot;
        writeln!(svg, "<text x=\"{x:.0}\" y=\"{:.0}\">{chunk}</text>", base + 14.0)?;
    }
    let mut mark = 1;
    while mark <= most {
        let y = base - scale(mark);
        writeln!(svg, "<text x=\"10\" y=\"{y:.0}\" fill=\"#666\">{mark}</text>")?;
        mark *= 4;
    }
    Ok(())
}
