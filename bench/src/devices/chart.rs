//! A picture of series over the same places.

use std::fmt::Write;

const COLOURS: &[&str] =
    &["#7f7f7f", "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf"];
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;

/// One line of a chart.
pub struct Series {
    /// What it is.
    pub name: String,
    /// A value for each place.
    pub values: Vec<f64>,
}

/// Draws series on a logarithmic scale.
pub fn draw(title: &str, places: &[String], unit: &str, series: &[Series]) -> String {
    let values = series.iter().flat_map(|s| &s.values).copied().filter(|v| *v > 0.0);
    let (least, most) = values.fold((f64::MAX, f64::MIN_POSITIVE), |m, v| (m.0.min(v), m.1.max(v)));
    let (low, high) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let x = |at: usize| LEFT + (WIDTH - LEFT - RIGHT) * (at as f64 + 0.5) / places.len() as f64;
    let y = |v: f64| {
        let share = (v.max(10f64.powf(low)).log10() - low) / (high - low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"14\">{title}</text>\n\
         <text x=\"10\" y=\"40\">{unit}</text>\n"
    );
    // Writing to a string does not fail.
    for power in low as i32..=high as i32 {
        let at = y(10f64.powi(power));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            10f64.powi(power)
        );
    }
    for (at, place) in places.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{place}</text>",
            x(at),
            HEIGHT - BOTTOM + 18.0
        );
    }
    for (number, line) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> = (line.values.iter().enumerate())
            .map(|(at, v)| format!("{:.1},{:.1}", x(at), y(*v)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            WIDTH - RIGHT + 12.0,
            TOP + 18.0 * number as f64 + 10.0,
            line.name
        );
    }
    out + "</svg>\n"
}
