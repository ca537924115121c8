//! Pictures as data: a [`Figure`] says what is shown, [`Figure::svg`] draws it.
//!
//! All pictures of kiln are drawn here, so that they look alike: a series has one colour and one
//! mark in all panels and pictures, axes with the same label have the same scale, text that does
//! not fit is wrapped. Nothing is read and no other library is needed; the same figure always
//! gives the same text.
//!
//! ```
//! use kiln_figure::{Axis, Figure, Kind, Mark, Panel};
//! let mut panel = Panel::new(Kind::Bars, "encode", Axis::new("GB/s"));
//! panel.categories = vec!["rs 10+4".into(), "clay 10+4".into()];
//! panel.series("kiln").extend([Mark::new(0.0, 84.5), Mark::new(1.0, 61.27)]);
//! let figure = Figure::new("Speed in cache", "one core").with(panel);
//! let svg = figure.svg();
//! assert!(svg.starts_with("<svg") && svg.contains("clay 10+4") && svg.contains("61.3"));
//! // The same from JSON: whatever is left out has its default.
//! let json = r#"{"title": "t", "panels": [{"kind": "xy", "value": {"label": "s", "log": true},
//!     "series": [{"name": "a", "marks": [{"at": 1, "value": 10}]}]}]}"#;
//! let figure: Figure = serde_json::from_str(json)?;
//! assert!(figure.svg().contains(">a</text>"));
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod canvas;
mod scale;
mod style;
mod panel;
mod layout;

use serde::{Deserialize, Serialize};

/// A picture: panels under one title and one legend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figure {
    /// What is shown.
    pub title: String,
    /// Where the numbers come from: machine, commit, or that they are counted.
    pub subtitle: String,
    /// Panels side by side; 0 is 1.
    pub columns: usize,
    /// From left to right, then down.
    pub panels: Vec<Panel>,
    /// What else one must know, below.
    pub note: String,
}

/// How the marks of a panel are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A horizontal bar for each mark, from zero, with its value; `at` is the row.
    #[default]
    Bars,
    /// A dot for each mark on a line from left to right; `at` is the row.
    Dots,
    /// Marks in a plane: `at` to the right (with categories: the number of one), `value` up.
    Xy,
    /// A row of cells for each series, darker for larger values; `at` is the column.
    Cells,
    /// Parts of a line, from `spread.0` to `spread.1`; `at` is the row.
    Spans,
}

/// One system of axes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// What this panel shows.
    pub title: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The axis of values.
    pub value: Axis,
    /// The axis of `at`, where that is a number (`Xy` without categories).
    pub at: Axis,
    /// Names of whole numbers `at`, from 0.
    pub categories: Vec<String>,
    /// What is compared.
    pub series: Vec<Series>,
    /// Lines at values: bars to reach, bounds. They are named in the legend.
    pub rules: Vec<Rule>,
    /// Lines between two points (`at`, `value`) of a drawn graph; `true`: a thick one. A panel
    /// with edges has no axes, and its marks have their `text` inside.
    pub edges: Vec<([f64; 2], [f64; 2], bool)>,
}

/// An axis; those of one figure with the same label have the same scale.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// Whether the scale is logarithmic.
    pub log: bool,
}

/// Marks of one name, which has the same colour everywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// The numbers.
    pub marks: Vec<Mark>,
    /// `Xy`: whether a line goes from mark to mark.
    pub join: bool,
}

/// One number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mark {
    /// Its place.
    pub at: f64,
    /// The number.
    pub value: f64,
    /// How far repetitions are apart: least and most, or quarters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<(f64, f64)>,
    /// What the value cannot be below, as a black line across its bar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Words inside the mark, where there are edges.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A line at a value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it stands for.
    pub name: String,
    /// Where it is.
    pub value: f64,
}

impl Figure {
    /// A figure without panels.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Figure {
        Figure { title: title.into(), subtitle: subtitle.into(), ..Figure::default() }
    }

    /// The same with one more panel.
    #[must_use]
    pub fn with(mut self, panel: Panel) -> Figure {
        self.panels.push(panel);
        self
    }

    /// The same with some panels side by side.
    #[must_use]
    pub fn side_by_side(self, columns: usize) -> Figure {
        Figure { columns, ..self }
    }

    /// The figure as SVG, 1000 units wide and as high as it must be.
    pub fn svg(&self) -> String {
        layout::draw(self)
    }
}

impl Panel {
    /// A panel without marks; `value` is the axis of values.
    pub fn new(kind: Kind, title: impl Into<String>, value: Axis) -> Panel {
        Panel { kind, title: title.into(), value, ..Panel::default() }
    }

    /// The marks of a series, which is made if there is none of this name.
    pub fn series(&mut self, name: &str) -> &mut Vec<Mark> {
        let at = self.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.into(), ..Series::default() });
            self.series.len() - 1
        });
        &mut self.series[at].marks
    }

    /// The number of a category, which is made if there is none of this name.
    pub fn category(&mut self, name: &str) -> f64 {
        let at = self.categories.iter().position(|known| known == name).unwrap_or_else(|| {
            self.categories.push(name.into());
            self.categories.len() - 1
        });
        at as f64
    }

    /// The same with lines from mark to mark in every series.
    #[must_use]
    pub fn joined(mut self) -> Panel {
        self.series.iter_mut().for_each(|series| series.join = true);
        self
    }
}

impl Axis {
    /// A linear axis from zero.
    pub fn new(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { log: true, ..Axis::new(label) }
    }
}

impl Mark {
    /// A number at a place.
    pub fn new(at: f64, value: f64) -> Mark {
        Mark { at, value, ..Mark::default() }
    }

    /// The same with how far repetitions are apart.
    #[must_use]
    pub fn spread(self, low: f64, high: f64) -> Mark {
        Mark { spread: Some((low, high)), ..self }
    }
}
