//! One panel: its axes and its marks.

use crate::canvas::{Anchor, Canvas, width, wrap};
use crate::scale::{Scale, number, of_places, of_values};
use crate::style::{Style, dashes};
use crate::{Figure, Kind, Mark, Panel, Series};

/// The height of a line of text.
pub const LINE: f64 = 15.0;
const SMALL: f64 = 12.0;
/// A bar, a row of cells, what is drawn of a plane.
const BAR: f64 = 14.0;
const CELL: f64 = 22.0;
const PLANE: f64 = 220.0;
const GREY: &str = " fill=\"#555\"";
const GRID: &str = "stroke=\"#ddd\"";

/// A panel with all that its place depends on.
pub struct Drawing<'a> {
    panel: &'a Panel,
    styles: &'a [Style],
    width: f64,
    /// Of values, and of `at` in a plane.
    values: Scale,
    places: Scale,
    title: Vec<String>,
    /// Names on the left, wrapped, with the heights of their rows.
    rows: Vec<(Vec<String>, f64)>,
    /// Room for names or for ticks on the left.
    left: f64,
}

impl<'a> Drawing<'a> {
    pub fn new(figure: &Figure, panel: &'a Panel, styles: &'a [Style], width: f64) -> Self {
        let values = of_values(&figure.panels, &panel.value);
        let names = names(panel);
        // Panels above each other begin at the same place.
        let all = figure.panels.iter().flat_map(self::names);
        let widest = all.map(|name| self::width(name, SMALL)).fold(0.0, f64::max);
        let left = match panel.kind {
            Kind::Xy if !panel.edges.is_empty() => 0.0,
            Kind::Xy => {
                let ticks = values.ticks(6.0).into_iter();
                ticks.map(|tick| self::width(&number(tick), SMALL)).fold(0.0, f64::max) + 8.0
            }
            _ => widest.min(width * 0.42) + 10.0,
        };
        let row = |(row, name): (usize, &&str)| {
            let name = wrap(name, SMALL, left - 8.0);
            let text = name.len() as f64 * LINE;
            let here = |mark: &&Mark| mark.at == row as f64;
            let marks = panel.series.iter().flat_map(|series| &series.marks).filter(here);
            let height = match panel.kind {
                Kind::Bars => text.max(marks.count() as f64 * BAR) + 8.0,
                Kind::Cells => text.max(CELL),
                _ => text + 2.0,
            };
            (name, height)
        };
        Drawing {
            panel,
            styles,
            width,
            values,
            places: of_places(&figure.panels, &panel.at),
            title: wrap(&panel.title, 13.0, width),
            rows: names.iter().enumerate().map(row).collect(),
            left,
        }
    }

    pub fn height(&self) -> f64 {
        let axis = |label: &str| if label.is_empty() { LINE } else { 2.0 * LINE };
        self.head()
            + self.inner()
            + match self.panel.kind {
                Kind::Xy if !self.panel.edges.is_empty() => 0.0,
                Kind::Xy => axis(&self.panel.at.label),
                Kind::Cells => 0.0,
                _ => axis(&self.panel.value.label),
            }
    }

    /// What stands above the marks.
    fn head(&self) -> f64 {
        let title = if self.panel.title.is_empty() { 0.0 } else { 18.0 * self.title.len() as f64 };
        let label =
            matches!(self.panel.kind, Kind::Xy | Kind::Cells) && self.panel.edges.is_empty();
        title + if label { LINE + 6.0 } else { 2.0 }
    }

    /// The marks.
    fn inner(&self) -> f64 {
        match self.panel.kind {
            Kind::Xy if self.panel.edges.is_empty() => PLANE,
            Kind::Xy => 20.0 * (self.values.high + 1.0),
            _ => self.rows.iter().map(|row| row.1).sum(),
        }
    }

    pub fn draw(&self, canvas: &mut Canvas, x: f64, y: f64) {
        for (at, line) in self.title.iter().enumerate() {
            let place = (x, y + 13.0 + 18.0 * at as f64);
            canvas.text(place, 13.0, Anchor::Start, " font-weight=\"bold\"", line);
        }
        let (top, left) = (y + self.head(), x + self.left);
        let pad = if self.panel.kind == Kind::Bars { 52.0 } else { 10.0 };
        let right = x + self.width - pad;
        let bottom = top + self.inner();
        let area = Area { left, right, top, bottom };
        match self.panel.kind {
            Kind::Xy if !self.panel.edges.is_empty() => self.graph(canvas, area),
            Kind::Xy => self.plane(canvas, area),
            Kind::Cells => self.cells(canvas, area),
            _ => self.lying(canvas, area),
        }
    }

    fn style(&self, series: &Series) -> Style {
        let find = self.styles.iter().find(|style| style.name == series.name);
        find.cloned().unwrap_or_default()
    }

    /// Names of rows; returns where each begins and how high it is.
    fn names(&self, canvas: &mut Canvas, area: Area) -> Vec<(f64, f64)> {
        let mut y = area.top;
        let mut places = Vec::new();
        for (name, height) in &self.rows {
            let first = y + height / 2.0 - LINE * name.len() as f64 / 2.0 + 11.5;
            for (at, line) in name.iter().enumerate() {
                let place = (area.left - 8.0, first + LINE * at as f64);
                canvas.text(place, SMALL, Anchor::End, "", line);
            }
            places.push((y, *height));
            y += height;
        }
        places
    }

    /// Rows with values from left to right: bars, dots, spans.
    fn lying(&self, canvas: &mut Canvas, area: Area) {
        let x = |value: f64| area.left + (area.right - area.left) * self.values.share(value);
        for tick in self.values.ticks((area.right - area.left) / 70.0) {
            canvas.line((x(tick), area.top), (x(tick), area.bottom), GRID);
            let place = (x(tick), area.bottom + 13.0);
            canvas.text(place, SMALL, Anchor::Middle, GREY, &number(tick));
        }
        let middle = ((area.left + area.right) / 2.0, area.bottom + 13.0 + LINE);
        canvas.text(middle, SMALL, Anchor::Middle, GREY, &self.panel.value.label);
        let rows = self.names(canvas, area);
        for (row, (top, height)) in rows.into_iter().enumerate() {
            let place = row as f64;
            let of = |series: &'a Series| {
                let marks = series.marks.iter().filter(move |mark| mark.at == place);
                marks.map(move |mark| (series, mark))
            };
            let marks: Vec<(&Series, &Mark)> = self.panel.series.iter().flat_map(of).collect();
            match self.panel.kind {
                Kind::Bars => self.bars(canvas, &marks, (area.left, top + 4.0), &x),
                Kind::Spans => self.spans(canvas, &marks, area, (top, height), &x),
                _ => {
                    let y = top + height / 2.0;
                    canvas.line((area.left, y), (area.right, y), "stroke=\"#eee\"");
                    // The first one last, on top of the others.
                    for (series, mark) in marks.into_iter().rev() {
                        let style = self.style(series);
                        if let Some((low, high)) = mark.spread {
                            canvas.line((x(low), y), (x(high), y), &style.stroke(1.5));
                        }
                        let said = format!("{}: {}", series.name, number(mark.value));
                        style.mark(canvas, (x(mark.value), y), &said);
                    }
                }
            }
        }
        for (number, rule) in self.panel.rules.iter().enumerate() {
            let x = x(rule.value);
            canvas.line((x, area.top), (x, area.bottom), &dashes(number));
        }
    }

    fn bars(
        &self,
        canvas: &mut Canvas,
        marks: &[(&Series, &Mark)],
        (left, top): (f64, f64),
        x: &dyn Fn(f64) -> f64,
    ) {
        for (at, (series, mark)) in marks.iter().enumerate() {
            let (y, style) = (top + BAR * at as f64, self.style(series));
            let fill = format!("fill=\"{}\"", style.colour);
            canvas.rect((left, y), (x(mark.value) - left, BAR - 2.0), &fill);
            let mut end = x(mark.value);
            if let Some((low, high)) = mark.spread {
                let y = y + BAR / 2.0 - 1.0;
                canvas.line((x(low), y), (x(high), y), "stroke=\"black\" stroke-width=\"1.3\"");
                end = end.max(x(high));
            }
            if let Some(bound) = mark.bound {
                let ends = ((x(bound), y - 1.0), (x(bound), y + BAR - 1.0));
                canvas.line(ends.0, ends.1, "stroke=\"black\" stroke-width=\"2.5\"");
                end = end.max(x(bound));
            }
            let place = (end + 5.0, y + BAR - 4.0);
            canvas.text(place, 11.0, Anchor::Start, "", &number(mark.value));
        }
    }

    fn spans(
        &self,
        canvas: &mut Canvas,
        marks: &[(&Series, &Mark)],
        area: Area,
        (top, height): (f64, f64),
        x: &dyn Fn(f64) -> f64,
    ) {
        let (y, high) = (top + 2.0, height - 4.0);
        canvas.rect((area.left, y), (area.right - area.left, high), "fill=\"#e8e8e8\"");
        let path: String = marks
            .iter()
            .filter_map(|(_, mark)| mark.spread)
            .map(|(from, to)| {
                let wide = x(to) - x(from);
                format!("M{:.2} {y:.1}h{wide:.2}v{high:.1}h-{wide:.2}z", x(from))
            })
            .collect();
        let colour = marks.first().map_or("none", |(series, _)| self.style(series).colour);
        canvas.element(format_args!("<path d=\"{path}\" fill=\"{colour}\"/>"));
    }

    /// Values upwards.
    fn plane(&self, canvas: &mut Canvas, area: Area) {
        let y = |value: f64| area.bottom - (area.bottom - area.top) * self.values.share(value);
        let wide = area.right - area.left;
        let slot = wide / self.panel.categories.len().max(1) as f64;
        let x = |at: f64| match self.panel.categories.is_empty() {
            true => area.left + wide * self.places.share(at),
            false => area.left + slot * (at + 0.5),
        };
        let label = (area.left - self.left, area.top - 8.0);
        canvas.text(label, SMALL, Anchor::Start, GREY, &self.panel.value.label);
        for tick in self.values.ticks(6.0) {
            canvas.line((area.left, y(tick)), (area.right, y(tick)), GRID);
            let place = (area.left - 6.0, y(tick) + 4.0);
            canvas.text(place, SMALL, Anchor::End, GREY, &number(tick));
        }
        self.below(canvas, area, slot, &x);
        for (number, rule) in self.panel.rules.iter().enumerate() {
            let y = y(rule.value);
            canvas.line((area.left, y), (area.right, y), &dashes(number));
        }
        let apart = self.panel.series.iter().filter(|series| !series.join).count() as f64;
        let dodge =
            if self.panel.categories.is_empty() { 0.0 } else { (slot * 0.8 / apart).min(9.0) };
        let mut place = apart / -2.0 - 0.5;
        for series in &self.panel.series {
            place += if series.join { 0.0 } else { 1.0 };
            let (style, aside) =
                (self.style(series), if series.join { 0.0 } else { dodge * place });
            let at = |mark: &Mark| (x(mark.at) + aside, y(mark.value));
            if series.join {
                let points = series.marks.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}"));
                let points: Vec<String> = points.collect();
                canvas.element(format_args!(
                    "<polyline points=\"{}\" fill=\"none\" {}/>",
                    points.join(" "),
                    style.stroke(1.8)
                ));
            }
            for mark in &series.marks {
                if let Some((low, high)) = mark.spread {
                    let ends = ((at(mark).0, y(low)), (at(mark).0, y(high)));
                    canvas.line(ends.0, ends.1, &style.stroke(1.5));
                }
                // On a line with very many marks they would hide it.
                if !series.join || series.marks.len() <= 40 {
                    let said = format!("{}: {}", series.name, number(mark.value));
                    style.mark(canvas, at(mark), &said);
                }
            }
        }
    }

    /// The axis to the right.
    fn below(&self, canvas: &mut Canvas, area: Area, slot: f64, x: &dyn Fn(f64) -> f64) {
        let names = &self.panel.categories;
        let widest = names.iter().map(|name| width(name, SMALL)).fold(1.0, f64::max) + 6.0;
        let every = (widest / slot).ceil() as usize;
        let mut name = |at: f64, text: &str| {
            let place = (x(at), area.bottom + 14.0);
            canvas.text(place, SMALL, Anchor::Middle, GREY, text);
        };
        for (at, text) in names.iter().enumerate().filter(|(at, _)| at % every == 0) {
            name(at as f64, text);
        }
        if names.is_empty() {
            let ticks = self.places.ticks((area.right - area.left) / 70.0).into_iter();
            ticks.for_each(|tick| name(tick, &number(tick)));
        }
        let middle = ((area.left + area.right) / 2.0, area.bottom + 14.0 + LINE);
        canvas.text(middle, SMALL, Anchor::Middle, GREY, &self.panel.at.label);
    }

    /// A drawn graph.
    fn graph(&self, canvas: &mut Canvas, area: Area) {
        let wide = area.right - area.left - 40.0;
        let most = self.places.high.max(1.0);
        let place = |at: f64, value: f64| {
            (area.left + 20.0 + wide * at / most, area.top + 12.0 + 20.0 * value)
        };
        for (from, to, thick) in &self.panel.edges {
            let style = match thick {
                true => "stroke=\"#555\" stroke-width=\"1.6\"",
                false => "stroke=\"#ccc\"",
            };
            canvas.line(place(from[0], from[1]), place(to[0], to[1]), style);
        }
        for series in &self.panel.series {
            let style = self.style(series);
            for mark in &series.marks {
                let (x, y) = place(mark.at, mark.value);
                style.circle(canvas, (x, y), 8.0, &series.name);
                let white = " fill=\"white\"";
                canvas.text((x, y + 3.5), 10.0, Anchor::Middle, white, &mark.text);
            }
        }
    }

    /// Series down, categories across.
    fn cells(&self, canvas: &mut Canvas, area: Area) {
        let wide = (area.right - area.left) / self.panel.categories.len().max(1) as f64;
        let label = (area.left - 8.0, area.top - 5.0);
        canvas.text(label, SMALL, Anchor::End, GREY, &self.panel.at.label);
        for (column, name) in self.panel.categories.iter().enumerate() {
            let place = (area.left + wide * (column as f64 + 0.5), area.top - 5.0);
            canvas.text(place, SMALL, Anchor::Middle, GREY, name);
        }
        let rows = self.names(canvas, area);
        for (series, (top, height)) in self.panel.series.iter().zip(rows) {
            for mark in &series.marks {
                let share = self.values.share(mark.value).clamp(0.0, 1.0);
                let left = area.left + wide * mark.at;
                let fill = format!("fill=\"#0072b2\" fill-opacity=\"{:.2}\"", 0.06 + 0.94 * share);
                canvas.rect((left + 0.5, top + 0.5), (wide - 1.0, height - 1.0), &fill);
                let colour = if share > 0.5 { " fill=\"white\"" } else { "" };
                let place = (left + wide / 2.0, top + height / 2.0 + 4.0);
                canvas.text(place, 11.0, Anchor::Middle, colour, &number(mark.value));
            }
        }
    }
}

/// What stands on the left of rows.
fn names(panel: &Panel) -> Vec<&str> {
    match panel.kind {
        Kind::Cells => panel.series.iter().map(|series| &series.name[..]).collect(),
        Kind::Xy => Vec::new(),
        _ => panel.categories.iter().map(String::as_str).collect(),
    }
}

/// Where marks are.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}
