//! Colours and shapes of series: the same for a name in all pictures.

use crate::canvas::Canvas;
use crate::{Figure, Kind};

/// Colours that those who see fewer hues tell apart too (Okabe and Ito's, and Tol's muted ones).
/// Black is for bounds.
const PALETTE: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#7f7f7f", "#882255",
    "#999933", "#332288",
];

/// Names that come again in other pictures, with their place in the palette. A name that is not
/// here gets a colour that its picture does not have yet.
const KNOWN: &[(&str, usize)] = &[
    ("kiln", 1),
    ("kiln (rs)", 3),
    ("kiln-temporal", 9),
    ("klauspost", 0),
    ("klauspost-2", 5),
    ("isal", 2),
    ("isal-cauchy", 8),
    ("isal-next", 3),
    ("jerasure", 6),
    ("ceph-isa", 4),
    ("ceph-jerasure", 7),
    ("ceph-clay-isa", 4),
    ("ceph-clay-jerasure", 7),
    ("reed-solomon-simd", 9),
    ("clay-codes", 9),
    ("algorithm 1, u64", 5),
    ("algorithm 2, u64", 0),
    ("algorithm 1, vectors", 8),
    ("algorithm 2, vectors", 2),
    ("Jerasure, dumb", 6),
    ("Jerasure, smart", 7),
    ("kiln clay", 1),
    ("kiln clay gray", 4),
    ("kiln rs", 3),
    ("stock isa", 2),
    ("stock clay", 0),
    ("natural", 6),
    ("natural, one by one", 7),
    ("gray", 0),
    ("gray, again", 5),
    ("gray, one by one", 9),
    ("gray, planned", 1),
    ("natural, windows", 8),
    ("gray, windows", 4),
    ("RS, windows", 3),
    ("RS, whole chunk", 2),
    ("special 1", 7),
    ("special 2", 9),
    ("balanced", 8),
    ("planned together", 1),
    ("joint", 3),
    ("joint, spread", 3),
    ("alone: central", 6),
    ("alone: hub", 0),
    ("alone: pipeline", 2),
    ("HDFS-RS", 5),
    ("HDFS-RS, spread", 9),
    ("kiln RS", 4),
    ("kiln Clay", 1),
    ("here", 1),
    ("ParaRC-Clay, as published", 6),
    ("RS central", 7),
    ("RS pipelining", 2),
    ("Clay central", 6),
    ("Clay hub", 0),
    ("Clay, ParaRC's heuristic", 4),
    ("Clay, ParaRC's plan", 5),
    ("Butterfly central", 8),
    ("Butterfly chain", 1),
    ("Butterfly, ParaRC's heuristic", 9),
    ("Butterfly, ParaRC's plan", 9),
    ("the paper's rules", 6),
    ("sent", 0),
    ("received", 3),
    ("read", 6),
    ("disk", 0),
    ("network", 3),
    ("planned", 5),
    ("counted", 0),
    ("3 replicas", 0),
    ("RS 6+3", 1),
    ("isa 6+3", 2),
    ("RS 4+2", 3),
    ("volume rs:6+3", 4),
    ("volume rep:3", 5),
    ("isa 6+3, 16 KiB", 8),
    ("isa 6+3, 64 KiB", 9),
    ("isa 6+3, FastEC", 7),
    ("kiln rs 6+3", 13),
    ("kiln clay 6+3", 11),
    ("stock clay 6+3", 10),
    ("volume clay:6+3", 17),
    ("new image", 7),
    ("full image", 1),
    ("the paper", 6),
    ("bound", BLACK),
    ("all placements", LIGHT),
];
const BLACK: usize = 100;
const LIGHT: usize = 101;

/// How a series looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Style {
    pub name: String,
    pub colour: &'static str,
    /// Which of four shapes its marks have.
    pub shape: usize,
    /// Smaller marks behind the others.
    pub faint: bool,
}

impl Style {
    /// A line of this style, as attributes.
    pub fn stroke(&self, width: f64) -> String {
        format!("stroke=\"{}\" stroke-width=\"{width}\"", self.colour)
    }

    /// A mark, with what it says to those who point at it.
    pub fn mark(&self, canvas: &mut Canvas, (x, y): (f64, f64), said: &str) {
        let r = if self.faint { 2.0 } else { 4.0 };
        let shape = match self.shape {
            0 => return self.circle(canvas, (x, y), r, said),
            1 => [(-r, -r), (r, -r), (r, r), (-r, r)],
            2 => [(0.0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r), (0.0, -1.2 * r)],
            _ => [(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)],
        };
        let points = shape.map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).join(" ");
        let said = Canvas::escape(said);
        canvas.element(format_args!(
            "<polygon points=\"{points}\" fill=\"{}\"><title>{said}</title></polygon>",
            self.colour
        ));
    }

    /// A circle with room for a number.
    pub fn circle(&self, canvas: &mut Canvas, (x, y): (f64, f64), r: f64, said: &str) {
        let said = Canvas::escape(said);
        canvas.element(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{}\"><title>{said}</title>\
             </circle>",
            self.colour
        ));
    }
}

/// The styles of all series that a legend names, in order of first appearance.
pub fn styles(figure: &Figure) -> Vec<Style> {
    let shown = figure.panels.iter().filter(|panel| panel.kind != Kind::Cells);
    let mut names: Vec<&str> = Vec::new();
    for series in shown.flat_map(|panel| &panel.series) {
        if !names.contains(&&series.name[..]) {
            names.push(&series.name);
        }
    }
    let known: Vec<Option<usize>> = names.iter().map(|name| known(name)).collect();
    let free = |colour: &usize| !known.contains(&Some(*colour));
    let mut unused: Vec<usize> = (0..PALETTE.len()).filter(free).collect();
    if unused.is_empty() {
        unused = (0..PALETTE.len()).collect();
    }
    let mut unknown = 0..;
    let style = |(name, known): (&&str, &Option<usize>)| {
        let number = known.unwrap_or_else(|| {
            let next: usize = unknown.next().unwrap_or(0);
            // The same colours again have other shapes.
            unused[next % unused.len()] + 10 * (next / unused.len() % 4)
        });
        let colour = match number {
            BLACK => "#000000",
            LIGHT => "#b0b0b0",
            _ => PALETTE[number % PALETTE.len()],
        };
        let shape = (number % PALETTE.len() + number / PALETTE.len()) % 4;
        Style { name: (*name).to_owned(), colour, shape, faint: number == LIGHT }
    };
    names.iter().zip(&known).map(style).collect()
}

/// How the rule of this number in its panel looks.
pub fn dashes(number: usize) -> String {
    let long = [6, 2, 12][number % 3];
    format!("stroke=\"black\" stroke-width=\"1.3\" stroke-dasharray=\"{long} 3\"")
}

/// Of "klauspost (rs)" the colour of "klauspost", if there is none of its own.
fn known(name: &str) -> Option<usize> {
    let find = |name: &str| KNOWN.iter().find(|row| row.0 == name).map(|row| row.1);
    find(name).or_else(|| find(name.split(" (").next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Mark, Panel};

    #[test]
    fn a_series_has_one_style_everywhere_and_none_is_given_twice() {
        let figure = |names: &[&str]| {
            let mut panel = Panel::new(Kind::Bars, "", Axis::default());
            names.iter().for_each(|name| panel.series(name).push(Mark::new(0.0, 1.0)));
            Figure::new("", "").with(panel)
        };
        let of = |names: &[&str], name: &str| {
            styles(&figure(names)).into_iter().find(|style| style.name == name).unwrap()
        };
        assert_eq!(of(&["a", "kiln"], "kiln"), of(&["b", "c", "kiln", "d"], "kiln"));
        assert_eq!(
            of(&["klauspost (rs)"], "klauspost (rs)").colour,
            of(&["klauspost"], "klauspost").colour
        );
        let many: Vec<String> = (0..30).map(|i| format!("node {i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).chain(["kiln"]).collect();
        let found = styles(&figure(&many));
        for (at, style) in found.iter().enumerate() {
            let same = |other: &Style| (other.colour, other.shape) == (style.colour, style.shape);
            assert!(!found[..at].iter().any(same), "{style:?}");
        }
    }
}
