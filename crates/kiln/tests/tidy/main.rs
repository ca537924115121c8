//! The house rules that a machine can check. Exceptions may only become fewer.

mod commits;
mod links;
mod order;
mod prose;
mod source;
mod words;

use std::collections::BTreeSet;

use source::{Source, all, body_end};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;

/// Functions longer than the limit, as (path, name). Shorten one, then remove its row; a row that
/// is no longer needed fails too, so that the list cannot outlive its reasons.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// Where unsafe code may live: the kernels, the ring of reads (whose buffers only its caller can
/// vouch for), the door to other libraries in the bench with their drivers behind it, and later the
/// bindings.
const UNSAFE_HOMES: &[&str] =
    &["crates/gf/", "crates/uring/", "bindings/", "lab/bench/src/peer.rs", "lab/peers/"];

/// Crates that deny unsafe code but for the one file among `UNSAFE_HOMES`.
const UNSAFE_DENIED: &[&str] = &["lab/bench/src/main.rs"];

/// Collects what is wrong, so that one run shows everything.
#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    fn at(&mut self, source: &Source, line: usize, what: &str) {
        self.0.push(format!("{}:{}: {what}", source.path, line + 1));
    }

    fn settle(self) {
        let count = self.0.len();
        assert!(count == 0, "{count} house rules broken:\n{}", self.0.join("\n"));
    }
}

fn for_each_rust(mut check: impl FnMut(&Source, &mut Complaints)) {
    let mut complaints = Complaints::default();
    for source in all().iter().filter(|source| source.is_rust()) {
        check(source, &mut complaints);
    }
    complaints.settle();
}

#[test]
fn files_and_lines_are_short() {
    let mut complaints = Complaints::default();
    for source in &all() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES && source.path != "LICENSE" {
            complaints.at(source, lines, &format!("{lines} lines, the limit is {FILE_LINES}"));
        }
        for (number, line) in source.text.lines().enumerate() {
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                complaints.at(source, number, "what a merge left behind");
            }
            // Prose, tables and links in Markdown may not be breakable.
            if line.chars().count() > COLUMNS && !source.path.ends_with(".md") {
                complaints.at(source, number, &format!("longer than {COLUMNS} columns"));
            }
        }
    }
    complaints.settle();
}

#[test]
fn functions_are_short() {
    let mut used = BTreeSet::new();
    for_each_rust(|source, complaints| {
        let lines: Vec<&str> = source.code.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else { continue };
            let Some(end) = body_end(&lines, start) else { continue };
            let length = end - start + 1;
            if length <= FUNCTION_LINES {
                continue;
            }
            let known = |row: &&(&str, &str)| row.0 == source.path && row.1 == name;
            if let Some(row) = LONG_FUNCTIONS.iter().find(known) {
                used.insert(*row);
            } else {
                let what = format!("fn {name} has {length} lines, the limit is {FUNCTION_LINES}");
                complaints.at(source, start, &what);
            }
        }
    });
    let unused: Vec<_> = LONG_FUNCTIONS.iter().filter(|row| !used.contains(*row)).collect();
    assert!(unused.is_empty(), "no longer needed in LONG_FUNCTIONS: {unused:?}");
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "fn")?;
    let name = words.get(at + 1)?;
    let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Whether `word` occurs as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// Reasons and `# Safety` sections are clippy's (`undocumented_unsafe_blocks`,
/// `missing_safety_doc`).
#[test]
fn unsafe_lives_only_in_its_homes() {
    for_each_rust(|source, complaints| {
        let home = UNSAFE_HOMES.iter().any(|home| source.path.starts_with(home));
        for (number, line) in source.code.lines().enumerate().filter(|_| !home) {
            if has_word(line, "unsafe") && !source.test_lines[number] {
                complaints.at(source, number, "unsafe outside of its homes");
            }
        }
    });
}

#[test]
fn every_other_crate_forbids_unsafe() {
    for_each_rust(|source, complaints| {
        let root = ["src/lib.rs", "src/main.rs"].iter().any(|root| source.path.ends_with(root));
        let home = UNSAFE_HOMES.iter().any(|home| source.path.starts_with(home));
        let level = if UNSAFE_DENIED.contains(&&*source.path) { "deny" } else { "forbid" };
        let wanted = format!("#![{level}(unsafe_code)]");
        if root && !home && !source.code.contains(&wanted) {
            complaints.at(source, 0, &format!("the crate must say {wanted}"));
        }
    });
}

#[test]
fn unwrap_outside_tests_gives_its_reason() {
    for_each_rust(|source, complaints| {
        let texts: Vec<&str> = source.text.lines().collect();
        for (number, line) in source.code.lines().enumerate() {
            let unwraps = line.contains(".unwrap()") || line.contains(".expect(");
            if unwraps && !source.test_lines[number] && !commented(&texts, number) {
                complaints.at(source, number, "unwrap or expect without a comment with the reason");
            }
        }
    });
}

/// Whether a comment stands on the line or directly above it.
fn commented(texts: &[&str], number: usize) -> bool {
    let above = number.checked_sub(1).is_some_and(|at| texts[at].trim_start().starts_with("// "));
    above || texts[number].contains("// ")
}

#[test]
fn names_follow_the_house() {
    let words = ["fn get_", "mod utils;", "mod util;", "mod utils {", "mod util {", "#[ignore"];
    for_each_rust(|source, complaints| {
        for (number, line) in source.code.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(*word)) {
                complaints.at(source, number, &format!("{word} must not stay"));
            }
        }
    });
}

#[test]
fn no_path_of_one_machine() {
    let everywhere = ["home", "root"].map(|name| format!("/{name}/"));
    let outside_tests = format!("/{}/", "tmp");
    let mut complaints = Complaints::default();
    for source in &all() {
        for (number, line) in source.text.lines().enumerate() {
            let machine = everywhere.iter().any(|path| line.contains(path))
                || (line.contains(&outside_tests) && !source.test_lines[number]);
            if machine {
                complaints.at(source, number, "a path of one machine");
            }
        }
    }
    complaints.settle();
}

#[test]
fn dependencies_are_explained_and_lints_shared() {
    let sources = all();
    let file = |path: &str| {
        let found = sources.iter().find(|source| source.path == path);
        found.unwrap_or_else(|| panic!("{path} is missing"))
    };
    let explained = &file("docs/internals/dependencies.md").text;
    let (_, section) = file("Cargo.toml").text.split_once("[workspace.dependencies]\n").unwrap();
    let section = section.split("\n[").next().unwrap();
    let mut complaints = Complaints::default();
    for line in section.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
        let name = line.split([' ', '.', '=']).next().unwrap();
        if !name.starts_with("kiln-") && !has_word(explained, name) {
            complaints.0.push(format!("docs/internals/dependencies.md lacks {name}"));
        }
    }
    let manifest = |source: &&Source| {
        source.path.starts_with("crates/") && source.path.ends_with("/Cargo.toml")
    };
    for source in sources.iter().filter(manifest) {
        if !source.text.contains("[lints]\nworkspace = true") {
            complaints.at(source, 0, "must take the lints of the workspace");
        }
    }
    complaints.settle();
}

#[test]
fn the_scanner_itself_works() {
    let code =
        source::blank("let a = \"{ // }\"; // {\nlet b = '{'; r#\"unsafe {\"#; 'x: loop {}\n");
    assert!(!code.contains("unsafe") && !code.contains('"'));
    assert_eq!(code.matches('{').count(), 1, "{code}");
    assert_eq!(code.lines().count(), 2);
    assert_eq!(function_name("pub(crate) const fn name<T>(x: T) {").as_deref(), Some("name"));
    assert_eq!(function_name("type F = fn(u8) -> u8;"), None);
    assert!(has_word("x unsafe {", "unsafe") && !has_word("unsafe_code", "unsafe"));
    let lines = ["fn f(", "    a: [u8; 3],", ") -> u8 {", "    g();", "}"];
    assert_eq!(body_end(&lines, 0), Some(4));
    assert_eq!(body_end(&["fn f() -> u8;", "{}"], 0), None);
}
