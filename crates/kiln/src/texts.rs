//! Texts in files of their own: the ends of helps, and reports as templates over what JSON shows.

use minijinja::{Environment, Error, Value, context, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::print::{
    INCOMPLETE, brief, count, date, more_losses, one_line, pace, seconds, table, wrapped,
};
use crate::{lists, sizes, times};

/// The section of a text with this name.
fn section(text: &'static str, name: &str) -> &'static str {
    let found = text.split("## ").find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    found.unwrap_or_default()
}

/// A part of `help.txt`.
pub fn help_part(name: &str) -> &'static str {
    section(include_str!("help.txt"), name).trim()
}

/// The end of a command's help: its examples and the exit codes.
pub fn help(command: &str) -> String {
    format!("{}\n\n{}", help_part(command), help_part("exit codes"))
}

/// An environment with the filters that templates use.
pub fn environment() -> Environment<'static> {
    let mut texts = Environment::new();
    texts.add_filter("size", |bytes: Option<u64>| bytes.map_or("?".to_owned(), sizes::show));
    texts.add_filter("span", times::show);
    texts.add_filter("date", date);
    texts.add_filter("losses", more_losses);
    texts.add_filter("line", |name: String| one_line(&name));
    texts.add_filter("quoted", |name: String| format!("{name:?}"));
    texts.add_filter("wrapped", |text: String, indent: &str| wrapped(&text, indent));
    texts.add_filter("named", |indices: Vec<usize>| lists::named(&indices));
    texts.add_filter("ranges", |indices: Vec<usize>| lists::show(&indices));
    texts.add_filter("count", |number: u64, one: &str| count(number, one));
    texts.add_filter("seconds", seconds);
    texts.add_filter("exactly", |seconds: f64| match seconds {
        0.1.. => format!("{seconds:.3} s"),
        1e-4.. => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{:.3} us", seconds * 1e6),
    });
    texts.add_filter("plain", |number: f64| number.to_string());
    texts.add_filter("brief", |name: String| brief(&name));
    texts.add_filter("table", |cells: String| {
        let mut rows = cells.lines().map(|line| line.split('\t'));
        let head: Vec<&str> = rows.next().into_iter().flatten().collect();
        table(&head, &rows.map(|row| row.map(str::to_owned).collect()).collect::<Vec<_>>())
    });
    texts.add_function("pace", pace);
    texts
}

/// The text of a report: the section of `reports.txt` or `plans.txt` with this name, with the
/// fields of its JSON and with `more`.
pub fn report(name: &str, report: &impl Serialize, more: Value) -> String {
    let text = || -> Result<String, Error> {
        let mut texts = environment();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
        texts.set_syntax(syntax.build()?);
        texts.add_global("INCOMPLETE", INCOMPLETE);
        let template =
            section(concat!(include_str!("reports.txt"), include_str!("plans.txt")), name);
        texts.render_named_str(name, template, context! { ..more, ..Value::from(Serde(report)) })
    };
    text().unwrap_or_else(|error| format!("{name}: {error:#}\n"))
}
