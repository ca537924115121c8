//! Scales, their ticks, and numbers as people read them.

use crate::{Axis, Kind, Panel};

/// Values from `low` to `high` on a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    log: bool,
}

impl Scale {
    /// The scale of an axis that has these values.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let values = values.filter(|v| v.is_finite() && (*v > 0.0 || !axis.log));
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = if low > high { (1.0, 2.0) } else { (low, high) };
        if axis.log {
            // Down and up to 1, 2 or 5 times a power of ten.
            let floor = nice(low * 1.001, |digit, factor| digit <= factor);
            let ceiling = nice(high * 0.999, |digit, factor| digit < factor);
            let up = if ceiling > floor { ceiling } else { floor * 10.0 };
            return Scale { low: floor, high: up, log: true };
        }
        let low = low.min(0.0);
        let step = step(high - low, 6.0);
        let high = (high / step - 1e-9).ceil().max(low / step + 1.0) * step;
        Scale { low: (low / step + 1e-9).floor() * step, high, log: false }
    }

    /// Where a value is, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.max(self.low).ln() } else { value };
        (place(value) - place(self.low)) / (place(self.high) - place(self.low))
    }

    /// Values to name, at most about `most` of them.
    pub fn ticks(&self, most: f64) -> Vec<f64> {
        if !self.log {
            let step = step(self.high - self.low, most);
            let (first, last) = ((self.low / step).ceil(), (self.high / step + 1e-9).floor());
            return (first as i64..=last as i64).map(|at| at as f64 * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = if decades * 3.0 <= most { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / most).ceil().max(1.0) as i32;
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = powers
            .filter(|power| power % every == 0)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        all.filter(|v| (self.low * 0.999..=self.high * 1.001).contains(v)).collect()
    }
}

/// 1, 2, 5 or 10 times the power of ten below a value: the last that is not above it, or the first
/// that is not below it, as `before` says.
fn nice(value: f64, before: fn(f64, f64) -> bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0];
    let known = digits.iter().filter(|digit| before(**digit, value / power)).count();
    let at = if before(1.0, 1.0) { known.saturating_sub(1) } else { known.min(3) };
    power * digits[at]
}

/// A step of 1, 2 or 5 times a power of ten, of which at most about `most` fit in a range.
fn step(range: f64, most: f64) -> f64 {
    let least = if range > 0.0 { range / most } else { 0.1 };
    nice(least, |digit, factor| digit < factor - 1e-9)
}

/// The scale of an axis over all panels of a figure that have an axis of this label and kind.
pub fn of_values(panels: &[Panel], axis: &Axis) -> Scale {
    let mine = panels.iter().filter(|panel| panel.value == *axis);
    Scale::of(axis, mine.flat_map(values))
}

/// The same for the axis of `at`.
pub fn of_places(panels: &[Panel], axis: &Axis) -> Scale {
    let mine = panels.iter().filter(|panel| panel.at == *axis && panel.kind == Kind::Xy);
    let marks = mine.flat_map(|panel| panel.series.iter().flat_map(|series| &series.marks));
    Scale::of(axis, marks.map(|mark| mark.at))
}

fn values(panel: &Panel) -> impl Iterator<Item = f64> {
    let marks = panel.series.iter().flat_map(|series| &series.marks);
    let spans = panel.kind == Kind::Spans;
    let of_marks = marks.flat_map(move |mark| {
        let (low, high) = mark.spread.map_or((None, None), |(low, high)| (Some(low), Some(high)));
        [(!spans).then_some(mark.value), low, high, mark.bound].into_iter().flatten()
    });
    of_marks.chain(panel.rules.iter().map(|rule| rule.value))
}

/// A number with about three digits.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        small => (1 - small.log10().floor() as i32).clamp(2, 9) as usize,
    };
    let text = plain(format!("{value:.digits$}"));
    let Some(cut) = text.len().checked_sub(3).filter(|_| value.abs() >= 10_000.0) else {
        return text;
    };
    format!("{},{}", &text[..cut], &text[cut..])
}

/// Without zeros after the point.
fn plain(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let scale = |axis: Axis, values: &[f64]| Scale::of(&axis, values.iter().copied());
        let linear = scale(Axis::new(""), &[3.0, 87.0]);
        assert_eq!((linear.low, linear.high), (0.0, 100.0));
        assert_eq!(linear.ticks(6.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear.share(25.0), 0.25);
        let log = scale(Axis::log(""), &[0.03, 7.0]);
        assert!((log.low - 0.02).abs() < 1e-12 && (log.high - 10.0).abs() < 1e-12, "{log:?}");
        assert_eq!(log.ticks(9.0).len(), 9, "0.02, 0.05, 0.1 ... 10");
        assert_eq!(scale(Axis::log(""), &[1.0, 1e6]).ticks(4.0).len(), 4);
        let none = scale(Axis::new(""), &[]);
        assert!(none.low < none.high);
        assert!(scale(Axis::new(""), &[5.0, 5.0]).high >= 5.0);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.0123, 0.5, 2.0, 61.27, 84.5, 1234.4, 98765.4].map(number);
        assert_eq!(shown, ["0", "0.012", "0.5", "2", "61.3", "84.5", "1234", "98,765"]);
    }
}
