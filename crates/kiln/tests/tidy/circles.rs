//! Sibling modules use each other in one direction, so that each can be read after those it uses.

use std::collections::BTreeSet;
use std::env;

use super::Complaints;
use super::modules;
use super::source::{Source, all, blank};

/// Sibling modules that use each other all the same, as (level, members, why). Cut one, then remove
/// or shorten its row: a row that is not exactly what is found fails, too.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    ("lab/bench/src", &["cases", "report"], "to be cut: a case reports, a report names its setup"),
    (
        "crates/store/src",
        &["backends", "error"],
        "an error names the capability that a place lacks, which is where places are described",
    ),
    (
        "crates/store/src/backends",
        &["file", "memory", "place"],
        "a table and its rows: it names them, they are of its type",
    ),
];

#[test]
fn siblings_use_each_other_in_one_direction() {
    let mut unused: BTreeSet<_> = CIRCLES.iter().collect();
    let mut complaints = Complaints::default();
    for circle in modules::circles(&all()) {
        println!("circle: {}: {}", circle.level, circle.members.join(" "));
        let known = |row: &&(&str, &[&str], &str)| row.0 == circle.level && circle.members == row.1;
        if !CIRCLES.iter().find(known).is_some_and(|row| unused.remove(row)) {
            let (members, arrows) = (circle.members.join(", "), circle.arrows.join("\n    "));
            let what = format!("{}: {members} use each other:\n    {arrows}", circle.level);
            complaints.0.push(what);
        }
    }
    complaints.0.extend(unused.iter().map(|row| format!("no longer so in CIRCLES: {row:?}")));
    // Another state of the repository is only looked at.
    if env::var_os("KILN_TIDY_ROOT").is_none() {
        complaints.settle();
    }
}

#[test]
fn circles_are_found_through_re_exports() {
    let found = |texts: &[(&str, &str)]| {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("crates/x/src/{path}.rs"),
            text: (*text).to_owned(),
            code: blank(text),
            test_lines: text.lines().map(|line| line.contains("only in tests")).collect(),
        };
        let circles = modules::circles(&texts.iter().map(source).collect::<Vec<_>>());
        circles.iter().map(|circle| circle.members.join(" ")).collect::<Vec<_>>()
    };
    let root = ("lib", "mod a; mod b; mod c; pub use a::One; pub use b::two as second;");
    let a = ("a", "mod inner; pub struct One; use super::b;");
    let b = ("b", "pub fn two() -> crate::One { crate::c::C }");
    let c = ("c", "use crate::{a, b::{self, two}}; pub(in crate::a) struct C;");
    assert_eq!(found(&[root, a, b, c]), ["a b c"]);
    // The same arrow from below, by another name, and of no weight in a string or a test.
    let a = ("a", "mod inner; pub struct One;");
    let inner = ("a/inner", "use super::super::second;");
    assert_eq!(found(&[root, a, ("b", "use crate::One;"), inner]), ["a b"]);
    let inner = ("a/inner", "use crate::b; // only in tests\nconst A: &str = \"crate::b\";");
    assert_eq!(found(&[root, a, ("b", "use crate::One;"), inner]), Vec::<String>::new());
}
