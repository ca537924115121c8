//! Modules of one level stand in their `lib.rs` or mod file from what is used to what uses, so that
//! a crate can be read from the top: an import of a sibling that is declared below is an error. So
//! there are no circles, either.

use super::Complaints;
use super::modules;
use super::source::{Source, all, blank};

/// Imports against the order all the same, as (level, user, used, why). Cut one, then remove its
/// row.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    ("crates/pool/src", "members", "repair", "to be cut: a change of members looks at the status"),
    (
        "crates/pool/src",
        "layout",
        "map",
        "to be cut: a manifest knows the id of the key that seals it",
    ),
    ("lab/bench/src", "cases", "report", "to be cut: a report names the setup of its case"),
];

#[test]
fn modules_stand_from_the_used_to_the_using() {
    let mut unused = EXCEPTIONS.to_vec();
    let mut complaints = Complaints::default();
    for arrow in modules::against(&all()) {
        let known = unused.iter().position(|(level, user, used, _)| {
            (*level, *user, *used) == (&*arrow.level, &*arrow.user, &*arrow.used)
        });
        let modules::Against { level, user, used, reason } = arrow;
        match known {
            Some(row) => _ = unused.remove(row),
            None => complaints
                .0
                .push(format!("{level}: {user} uses {used}, which is declared below it: {reason}")),
        }
    }
    unused.iter().for_each(|row| println!("no longer so in EXCEPTIONS: {row:?}"));
    complaints.settle();
}

#[test]
fn the_order_is_seen_through_re_exports() {
    let found = |texts: &[(&str, &str)]| {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("crates/x/src/{path}.rs"),
            text: (*text).to_owned(),
            code: blank(text),
            test_lines: text.lines().map(|line| line.contains("only in tests")).collect(),
        };
        let found = modules::against(&texts.iter().map(source).collect::<Vec<_>>());
        found.iter().map(|arrow| format!("{} {}", arrow.user, arrow.used)).collect::<Vec<_>>()
    };
    let root = ("lib", "mod a; mod b; mod c; pub use a::One; pub use b::two as second;");
    let a = ("a", "mod inner; pub struct One; use super::b;");
    let b = ("b", "pub fn two() -> crate::One { crate::c::C }");
    let c = ("c", "use crate::{a, b::{self, two}}; pub(in crate::a) struct C;");
    assert_eq!(found(&[root, a, b, c]), ["a b", "b c"]);
    // The same arrow from below, by another name, and of no weight in a string or a test.
    let a = ("a", "mod inner; pub struct One;");
    let inner = ("a/inner", "use super::super::second;");
    assert_eq!(found(&[root, a, ("b", "use crate::One;"), inner]), ["a b"]);
    let inner = ("a/inner", "use crate::b; // only in tests\nconst A: &str = \"crate::b\";");
    assert_eq!(found(&[root, a, ("b", "use crate::One;"), inner]), Vec::<String>::new());
}
