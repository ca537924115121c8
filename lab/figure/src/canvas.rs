//! SVG elements, and how wide text is.

use std::fmt::Write;

/// Where a text ends up: after, around or before its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Elements that were drawn. Numbers have one digit after the point, which nobody sees the end of.
#[derive(Debug, Default)]
pub struct Canvas(String);

impl Canvas {
    /// Adds one element as it stands. Writing to a string does not fail.
    pub fn element(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }

    /// Text as it stands between tags.
    pub fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }

    pub fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        if text.is_empty() {
            return;
        }
        let text = Canvas::escape(text);
        self.element(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\"{anchor}{style}>{text}</text>"
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
        self.element(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
        ));
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), style: &str) {
        self.element(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" {style}/>",
            width.max(0.5)
        ));
    }

    /// The whole picture.
    pub fn finish(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            self.0
        )
    }
}

/// How wide a text is, at most about: by the widths of Helvetica's letters, and an eighth more,
/// since other fonts may stand in for it.
pub fn width(text: &str, size: f64) -> f64 {
    let em = |letter: char| match letter {
        'i' | 'j' | 'l' | '\'' | '|' => 0.24,
        ' ' | 'f' | 't' | 'I' | '.' | ',' | ':' | ';' | '!' | '/' | '(' | ')' | 'r' | '-' => 0.33,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
        'A'..='Z' | '+' | '=' | '<' | '>' => 0.7,
        _ => 0.56,
    };
    text.chars().map(em).sum::<f64>() * size * 1.125
}

/// A text in lines that are no wider than `room`, broken between words where that is possible.
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = lines.last().map_or(0.0, |line| width(line, size));
        if last > 0.0 && last + width(word.trim_end(), size) > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}
