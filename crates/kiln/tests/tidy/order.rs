//! Modules of one level stand in their `lib.rs` or mod file from what is used to what uses, so that
//! a crate can be read from the top: an import of a sibling that is declared below is an error. So
//! there are no circles, either.

use super::Complaints;
use super::modules;
use super::source::{Source, all, blank};

#[test]
fn modules_stand_from_the_used_to_the_using() {
    let mut complaints = Complaints::default();
    for modules::Against { level, user, used, reason } in modules::against(&all()) {
        complaints
            .0
            .push(format!("{level}: {user} uses {used}, which is declared below it: {reason}"));
    }
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
