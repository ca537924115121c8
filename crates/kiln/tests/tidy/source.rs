//! The repository's files, as the rules need them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no sources of ours.
const SKIPPED: &[&str] = &[".git", "target", "out", "vectors", "corpus", "__pycache__"];
/// Texts that people write. Everything else is data.
const TEXTS: &[&str] = &["rs", "md", "toml", "py", "sh", "yml", "yaml", "c", "h", "cc"];
/// Texts without an extension.
const NAMES: &[&str] = &["Makefile", "miri", "run", "setup", "slow", "step", "toolchain"];

/// One source file.
pub struct Source {
    /// Path from the root of the repository, with '/'.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Rust only: the text with comments and the insides of strings blanked, newlines kept.
    pub code: String,
    /// Rust only: for each line, whether it is compiled for tests alone.
    pub test_lines: Vec<bool>,
}

impl Source {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads all sources, sorted by path.
pub fn all() -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&root(), "", &mut paths);
    paths.sort();
    let mut sources: Vec<Source> = paths.into_iter().map(read).collect();
    mark_test_files(&mut sources);
    sources
}

fn collect(folder: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), paths);
        } else if kind.is_file() {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            if TEXTS.contains(&extension) || NAMES.contains(&name.as_str()) {
                paths.push(path);
            }
        }
    }
}

fn read(path: String) -> Source {
    let text = fs::read_to_string(root().join(&path)).unwrap();
    let code = if path.ends_with(".rs") { blank(&text) } else { String::new() };
    let test = path.contains("/tests/") || path.starts_with("crates/testkit/");
    let mut test_lines = vec![test; text.lines().count()];
    mark_test_modules(&code, &mut test_lines);
    Source { path, text, code, test_lines }
}

/// Whether an attribute lets its item be compiled for tests alone, those of other crates included.
fn is_test_gate(line: &str) -> bool {
    line.trim() == "#[cfg(test)]" || line.trim().starts_with("#[cfg(any(test, feature = ")
}

/// Marks `#[cfg(test)]` items with a body.
fn mark_test_modules(code: &str, test_lines: &mut [bool]) {
    let lines: Vec<&str> = code.lines().collect();
    for start in 0..lines.len() {
        if !is_test_gate(lines[start]) {
            continue;
        }
        let end = body_end(&lines, start + 1).unwrap_or(start + 1);
        let end = end.min(test_lines.len() - 1);
        test_lines[start..=end].fill(true);
    }
}

/// Marks the files of `#[cfg(test)] mod name;`, and all below them.
fn mark_test_files(sources: &mut [Source]) {
    let mut stems = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let lines: Vec<&str> = source.code.lines().collect();
        let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        let base = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        for pair in lines.windows(2).filter(|pair| is_test_gate(pair[0])) {
            let words: Vec<&str> = pair[1].trim().trim_end_matches(';').split(' ').collect();
            if let Some(at) = words.iter().position(|word| *word == "mod")
                && pair[1].trim().ends_with(';')
            {
                stems.insert(format!("{base}/{}", words[at + 1]));
            }
        }
    }
    for source in sources {
        let stem = source.path.trim_end_matches(".rs");
        if stems.iter().any(|s| stem == s || stem.starts_with(&format!("{s}/"))) {
            source.test_lines.fill(true);
        }
    }
}

/// The last line of the braced body that starts at or after line `start`; `None` when a semicolon
/// comes first, as in a declaration.
pub fn body_end(lines: &[&str], start: usize) -> Option<usize> {
    let mut depth = 0i32;
    let mut brackets = 0i32;
    for (number, line) in lines.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                '{' => depth += 1,
                '}' => depth -= 1,
                ';' if depth == 0 && brackets == 0 => return None,
                _ => continue,
            }
            if c == '}' && depth == 0 {
                return Some(number);
            }
        }
    }
    None
}

/// Blanks comments, strings and character literals; newlines and everything else stay in place.
pub fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skip_literal(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// The insides of string literals, each with the line that it begins on, counted from 0.
pub fn literals(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 0);
    while at < chars.len() {
        let end = skip_literal(&chars, at).max(at + 1);
        let whole: String = chars[at..end].iter().collect();
        if end > at + 1 && whole.starts_with(['"', 'r']) {
            let inside = whole.trim_start_matches('r').trim_matches('#');
            let inside = inside.strip_prefix('"').unwrap_or(inside);
            found.push((line, inside.strip_suffix('"').unwrap_or(inside).to_owned()));
        }
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    found
}

/// Where the comment or literal that starts at `at` ends; `at` when none starts there.
fn skip_literal(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let in_word = at > 0 && word(chars[at - 1]);
    match chars[at] {
        '/' if next(1) == '/' => find(chars, at, "\n").saturating_sub(1).max(at),
        '/' if next(1) == '*' => find(chars, at + 2, "*/"),
        '"' => string_end(chars, at),
        'r' if !in_word && (next(1) == '"' || (next(1) == '#' && matches!(next(2), '"' | '#'))) => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            find(chars, at + hashes + 2, &format!("\"{}", "#".repeat(hashes)))
        }
        '\'' if next(1) == '\\' => find(chars, at + 3, "'"),
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The position just after the next `end` at or after `from`.
fn find(chars: &[char], from: usize, end: &str) -> usize {
    let end: Vec<char> = end.chars().collect();
    (from..chars.len())
        .find(|&at| chars[at..].starts_with(&end))
        .map_or(chars.len(), |at| at + end.len())
}
