//! Sessions: commands with what they print, which have to be true. Those in the folder `sessions`
//! are tests alone; so are the tutorial and the page for operators beside being read.
//!
//! A command is indented and begins with `$ `, its next lines with `> `; below it stands what it
//! prints. Text that was elided as `...` may be anything. In `sessions` each part under a `## `
//! runs in an empty folder of its own, by bash with `helpers.sh`; output and errors stand together,
//! and a line `[3]` is an exit code that is not 0. With KILN_SESSIONS=write these files are written
//! anew, where they do not fit.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::rig::{Rig, program};

const TUTORIAL: &str = include_str!("../../../../docs/guide/tutorial.md");
const OPERATORS: &str = include_str!("../../../../docs/operate/operators.md");

/// Lines of a page: text, and commands with what they print.
enum Part {
    Text(String),
    Step { command: String, output: String },
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in page.lines() {
        if let Some(command) = line.strip_prefix("    $ ") {
            parts.push(Part::Step { command: command.to_owned(), output: String::new() });
            continue;
        }
        match (parts.last_mut(), line.strip_prefix("    ")) {
            (Some(Part::Step { command, output }), Some(rest)) => match rest.strip_prefix("> ") {
                Some(more) if output.is_empty() => *command += &format!("\n{more}"),
                _ => *output += &format!("{rest}\n"),
            },
            _ => parts.push(Part::Text(line.to_owned())),
        }
    }
    parts
}

/// Returns whether the pieces between the `...` come in this order and leave nothing over.
fn fits(wanted: &str, said: &str) -> bool {
    let mut pieces = wanted.split("...");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    for (at, piece) in pieces.iter().enumerate() {
        let last = at + 1 == pieces.len();
        let found = if last {
            rest.ends_with(piece).then(|| rest.len() - piece.len())
        } else {
            rest.find(piece)
        };
        let Some(found) = found else { return false };
        rest = &rest[found + piece.len()..];
    }
    rest.is_empty()
}

/// Runs commands one after the other by a shell in an empty folder; gives what each prints.
fn run(shell: &[&str], begin: &str, commands: &[&str], exits: bool) -> Vec<String> {
    let (rig, bin) = (Rig::new(), Rig::new());
    symlink(program().get_program(), bin.path("kiln")).unwrap();
    let old = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([bin.path("")].into_iter().chain(env::split_paths(&old))).unwrap();
    let steps = commands.iter().map(|command| format!("{command}\nprintf '\\036%d\\n' $?\n"));
    let script = format!("{begin}\n{}", steps.collect::<String>());
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", &script]).current_dir(rig.path("")).env("PATH", path);
    command.env("LC_ALL", "C.UTF-8").env_remove("KILN_POOL").stdin(Stdio::null());
    // The reads must not depend on how busy the machine is.
    command.env("KILN_HEDGE", "off");
    let output = command.output().unwrap().stdout;
    let output = String::from_utf8_lossy(&output);
    let here = rig.path("").canonicalize().unwrap();
    let here = here.to_str().unwrap().trim_end_matches('/');
    let (mut said, mut printed) = (Vec::new(), None);
    for piece in output.split('\u{1e}') {
        let (code, next) = piece.split_once('\n').unwrap_or((piece, ""));
        match printed.replace(if printed.is_none() { piece } else { next }) {
            None => {}
            Some(text) => {
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                let code = if exits && code != "0" { format!("[{code}]\n") } else { String::new() };
                said.push(format!("{}{end}{code}", text.replace(here, "...")));
            }
        }
    }
    said.resize(commands.len(), "the shell ended before this\n".to_owned());
    said
}

/// Compares the steps of a page with what they print; gives those that differ.
fn differing(parts: &mut [Part], run: impl Fn(&[&str]) -> Vec<String>) -> Vec<String> {
    let steps = parts.iter_mut().filter_map(|part| match part {
        Part::Step { command, output } => Some((command.as_str(), output)),
        Part::Text(_) => None,
    });
    let (commands, outputs): (Vec<&str>, Vec<&mut String>) = steps.unzip();
    let mut wrong = Vec::new();
    for ((command, wanted), said) in commands.iter().zip(outputs).zip(run(&commands)) {
        if !fits(wanted, &said) {
            wrong.push(format!("$ {command}\n{said}the page says\n{wanted}"));
            *wanted = said;
        }
    }
    wrong
}

#[test]
fn the_tutorial_is_true() {
    check(TUTORIAL);
}

#[test]
fn what_operators_read_is_true() {
    check(OPERATORS);
}

fn check(page: &str) {
    let mut parts = parts(page);
    let steps = parts.iter().filter(|part| matches!(part, Part::Step { .. })).count();
    assert!(steps > 10, "where are the commands of the page?");
    let wrong = differing(&mut parts, |commands| run(&["sh"], "", commands, false));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a file of sessions, each in a folder of its own.
fn session(name: &str) {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/sessions"));
    let file = folder.join(name).with_extension("txt");
    let begin = format!(". {}\nexec 2>&1", folder.join("helpers.sh").display());
    let mut parts = parts(&fs::read_to_string(&file).unwrap());
    let heading = |part: &Part| matches!(part, Part::Text(line) if line.starts_with("## "));
    let bounds = parts.iter().enumerate().filter(|(_, part)| heading(part)).map(|(at, _)| at);
    let mut bounds: Vec<usize> = bounds.collect();
    bounds.push(parts.len());
    let run = |commands: &[&str]| run(&["bash"], &begin, commands, true);
    let part = |ends: &[usize]| differing(&mut parts[ends[0]..ends[1]], run);
    let wrong: Vec<String> = bounds.windows(2).flat_map(part).collect();
    if env::var_os("KILN_SESSIONS").is_some_and(|what| what == "write") {
        let indent = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect();
        let text = parts.iter().map(|part| match part {
            Part::Text(line) => format!("{line}\n"),
            Part::Step { command, output } => {
                let output: String = indent(output);
                format!("    $ {}\n{output}", command.replace('\n', "\n    > "))
            }
        });
        return fs::write(file, text.collect::<String>()).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One test for each file.
macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            session(stringify!($name));
        })*
    };
}

sessions!(agent_pools agents caretaker commands copies damage encrypted kills plans);
sessions!(pool_kills pools reads recode sealed shards upgrades usage versions);
