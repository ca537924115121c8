//! Pictures of reports, from their JSON alone: whoever has the data can draw them again, with
//! `kiln-bench draw FILE.json...`. Benches draw theirs the same way, after they wrote the data.

mod agent;
mod ceph;
mod core;
mod devices;
mod gray;
mod clay;
mod hdfs;
mod neon;
mod online;
mod order;
mod plan;
mod pool;
mod repair;
mod s3;
mod volume;
mod xor;

use crate::BenchError;
use crate::machine::Machine;
use crate::parts::put;
use kiln_figure::{Figure, Mark, Panel};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Figures with what their names say after that of the report.
type Figures = Vec<(String, Figure)>;

/// One kind of report: the member that only it has, and its pictures.
struct Row {
    member: &'static str,
    figures: fn(&Value) -> Figures,
}

/// A bench adds its file and its row.
static REPORTS: &[Row] = &[
    Row { member: "cells", figures: core::figures },
    Row { member: "points", figures: xor::figures },
    Row { member: "counts", figures: order::figures },
    Row { member: "sections", figures: devices::figures },
    Row { member: "recoveries", figures: plan::figures },
    Row { member: "many", figures: pool::many },
    Row { member: "rounds", figures: agent::figures },
    Row { member: "averages", figures: plan::averages },
    Row { member: "pools", figures: pool::figures },
    Row { member: "osds", figures: ceph::figures },
    Row { member: "rows", figures: repair::figures },
    Row { member: "volumes", figures: volume::figures },
    Row { member: "exhibits", figures: online::figures },
    Row { member: "losses", figures: clay::figures },
    Row { member: "hdfs", figures: hdfs::figures },
    Row { member: "weighed", figures: s3::figures },
    Row { member: "emulator", figures: neon::figures },
    // A figure as it stands.
    Row {
        member: "panels",
        figures: |report| Figure::deserialize(report).map_or(Vec::new(), |f| vec![("".into(), f)]),
    },
];

/// The pictures of a report with the names of their files; none if it is of no known kind. `name`
/// is that of its file, without an ending.
pub fn pictures(name: &str, report: &Value) -> Figures {
    let name = name.strip_prefix("bench-").unwrap_or(name);
    let row = REPORTS.iter().find(|row| report.get(row.member).is_some());
    let named = |(end, figure): (String, Figure)| match &end[..] {
        "" => (format!("{name}.svg"), figure),
        _ => (format!("{name}-{end}.svg"), figure),
    };
    row.map_or(Vec::new(), |row| (row.figures)(report)).into_iter().map(named).collect()
}

/// Lines of Markdown that show all pictures of a report.
pub fn links(name: &str, report: &impl serde::Serialize) -> String {
    let report = serde_json::to_value(report).unwrap_or_default();
    let link = |(file, figure): (String, Figure)| format!("\n![{}]({file})\n", figure.title);
    pictures(name, &report).into_iter().map(link).collect()
}

/// Writes a report as NAME.json, its page, if it has one, as NAME.md and its pictures into a
/// folder.
///
/// # Errors
/// The folder cannot be written.
pub fn write(
    folder: &Path,
    name: &str,
    report: &impl serde::Serialize,
    page: Option<&str>,
) -> Result<(), BenchError> {
    put(
        folder,
        &format!("{name}.json"),
        &(serde_json::to_string(report).unwrap_or_default() + "\n"),
    )?;
    if let Some(page) = page {
        put(folder, &format!("{name}.md"), page)?;
    }
    draw(&folder.join(format!("{name}.json")), folder).map(|_| ())
}

/// Draws the pictures of a report from its file into a folder; returns their names.
///
/// # Errors
/// The file cannot be read, or has no pictures; the folder cannot be written.
pub fn draw(file: &Path, folder: &Path) -> Result<Vec<String>, BenchError> {
    let failed = |reason: String| BenchError::Report {
        path: file.to_path_buf(),
        source: std::io::Error::other(reason),
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut names = Vec::new();
    for (name, figure) in pictures(&name, &report) {
        put(folder, &name, &figure.svg())?;
        names.push(name);
    }
    let known: Vec<&str> = REPORTS.iter().map(|row| row.member).collect();
    match names.is_empty() && !REPORTS.iter().any(|row| report.get(row.member).is_some()) {
        true => Err(failed(format!("no report that has pictures: none of {}", known.join(", ")))),
        false => Ok(names),
    }
}

/// Draws reports beside themselves, or into a folder.
///
/// # Errors
/// Those of [`draw`].
pub fn run(files: &[PathBuf], out: Option<&Path>) -> Result<(), BenchError> {
    for file in files {
        let beside = file.parent().unwrap_or(Path::new("."));
        for name in draw(file, out.unwrap_or(beside))? {
            println!("{name}");
        }
    }
    Ok(())
}

/// The members of a list; nothing where there is none.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn pair(value: &Value) -> (f64, f64) {
    (number(&value[0]), number(&value[1]))
}

/// Where the numbers of a report were measured.
fn machine(report: &Value) -> String {
    Machine::deserialize(&report["machine"]).map_or(String::new(), |machine| machine.line())
}

/// Rows that have the same key, in order of first appearance.
fn groups<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    key: impl Fn(&Value) -> String,
) -> Vec<(String, Vec<&'a Value>)> {
    let mut all: Vec<(String, Vec<&Value>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rows)) => rows.push(row),
            None => all.push((key, vec![row])),
        }
    }
    all
}

/// Adds a mark to the series and category of these names; numbers that are missing are not drawn.
fn add(panel: &mut Panel, series: &str, category: &str, mark: Mark) {
    if mark.value.is_finite() {
        let at = panel.category(category);
        panel.series(series).push(Mark { at, ..mark });
    }
}

/// A median with its quarters, as reports have them, in parts of `unit`.
fn median(spread: &Value, unit: f64) -> Mark {
    let part = |key: &str| number(&spread[key]) / unit;
    Mark::new(0.0, part("median")).spread(part("p25"), part("p75"))
}

/// A median with its quarters from a list of three.
fn quarters(three: &Value) -> Mark {
    Mark::new(0.0, number(&three[1])).spread(number(&three[0]), number(&three[2]))
}

/// `64 B`, `1 KiB`, `2 MiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        b if b < 1 << 20 || !b.is_multiple_of(1 << 20) => format!("{} KiB", b >> 10),
        b => format!("{} MiB", b >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// All strings that members of these names have, wherever they are.
    fn strings<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
        match value {
            Value::Array(all) => all.iter().for_each(|value| strings(value, keys, found)),
            Value::Object(members) => members.iter().for_each(|(key, value)| {
                found.extend(value.as_str().filter(|_| keys.contains(&&key[..])));
                strings(value, keys, found);
            }),
            _ => {}
        }
    }

    /// What the program itself draws: `kiln plan --orders --picture`.
    const NOT_OF_REPORTS: &[&str] = &["order-10-4.svg"];

    /// The colours of a legend: each name after the mark of its series.
    fn legend(svg: &str) -> Vec<(&str, &str)> {
        let entry = |(mark, text): (&'_ str, &'_ str)| {
            let marks = ["<rect", "<circle", "<polygon"];
            marks.iter().any(|tag| mark.starts_with(tag)) && text.contains("font-size=\"12\">")
        };
        let pairs = svg.lines().zip(svg.lines().skip(1)).filter(|pair| entry(*pair));
        let words = pairs.filter_map(|(mark, text)| {
            let colour = mark.split("fill=\"").nth(1)?.split('"').next()?;
            Some((text.split_once('>')?.1.strip_suffix("</text>")?, colour))
        });
        words.collect()
    }

    /// All pictures of the committed data, with the reports that they are of.
    fn committed() -> Vec<(String, Value, Figures)> {
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let json = path.extension().is_some_and(|ending| ending == "json");
            let name = path.file_stem()?.to_str()?.to_owned();
            let report = serde_json::from_slice(&std::fs::read(&path).ok().filter(|_| json)?);
            let report: Value = report.unwrap();
            let pictures = pictures(&name, &report);
            Some((name, report, pictures))
        };
        std::fs::read_dir(results()).unwrap().filter_map(read).collect()
    }

    fn results() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../results")
    }

    /// Whoever has the committed data has the pictures: every report is drawn, nobody that was
    /// measured is missing, and a picture is seen at one look.
    #[test]
    fn committed_reports_are_drawn_whole() {
        let reports = committed();
        assert!(reports.iter().map(|(.., pictures)| pictures.len()).sum::<usize>() > 20);
        for (file, mut report, pictures) in reports {
            assert!(!pictures.is_empty(), "{file}");
            // Pictures that a report has as data have labels of axes, which name nobody.
            report.as_object_mut().unwrap().remove("exhibits");
            let mut all = String::new();
            for (name, figure) in pictures {
                let svg = figure.svg();
                let shown = |series: &&str| svg.contains(&format!(">{series}</text>"));
                let series = figure.panels.iter().flat_map(|panel| &panel.series);
                let missing: Vec<&str> = series.map(|series| &series.name[..]).collect();
                let missing: Vec<_> = missing.into_iter().filter(|name| !shown(name)).collect();
                assert!(missing.is_empty(), "{name}: {missing:?}");
                let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
                let height: u32 = height.unwrap().parse().unwrap();
                assert!((100..=1080).contains(&height), "{name} is {height} high");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
                all += &svg;
            }
            let mut measured = Vec::new();
            strings(&report, &["engine", "who", "label"], &mut measured);
            measured.retain(|who| !who.starts_with("ceiling"));
            for who in measured {
                assert!(all.contains(who), "{file}: {who} is in no picture");
            }
        }
    }

    #[test]
    fn a_name_has_one_colour_in_all_committed_pictures() {
        let mut colours = BTreeMap::new();
        for (name, figure) in committed().into_iter().flat_map(|(.., pictures)| pictures) {
            let series = || figure.panels.iter().flat_map(|panel| &panel.series);
            let svg = figure.svg();
            let of_series = |name: &str| series().any(|series| series.name == name);
            for (series, colour) in legend(&svg).into_iter().filter(|(s, _)| of_series(s)) {
                let known = colours.entry(series.to_owned()).or_insert(colour.to_owned());
                assert_eq!(known, colour, "{series} has another colour in {name}");
            }
        }
        assert!(colours.len() > 30, "{colours:?}");
    }

    #[test]
    fn committed_pictures_are_those_of_the_committed_data() {
        let drawn = committed().into_iter().flat_map(|(.., pictures)| pictures);
        let drawn: BTreeMap<_, _> = drawn.map(|(name, figure)| (name, figure.svg())).collect();
        for entry in std::fs::read_dir(results()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".svg") && !NOT_OF_REPORTS.contains(&name) {
                let same = drawn.get(name) == Some(&std::fs::read_to_string(&path).unwrap());
                assert!(same, "{name} is not what the data says: run `make pages`");
            }
        }
    }

    #[test]
    fn a_figure_is_drawn_as_it_stands_and_anything_else_is_said() -> Result<(), BenchError> {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("mine.json");
            std::fs::write(&path, text).unwrap();
            path
        };
        let figure = r#"{"title": "mine", "panels": [{"series": [{"name": "a"}]}]}"#;
        assert_eq!(draw(&file(figure), folder.path())?, ["mine.svg"]);
        let error = draw(&file("{}"), folder.path()).unwrap_err().to_string();
        assert!(error.contains("mine.json") && error.contains("recoveries"), "{error}");
        Ok(())
    }
}
