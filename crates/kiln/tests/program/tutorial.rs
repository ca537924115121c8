//! The commands of the tutorial, and of the page for operators, do what these say.
//! Text that their author elided as `...` may be anything.

use std::env;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::rig::{Rig, program};

const TUTORIAL: &str = include_str!("../../../../docs/guide/tutorial.md");
const OPERATORS: &str = include_str!("../../../../docs/operate/operators.md");

/// Commands with what they print, from lines that are indented; `$ ` begins a command.
fn steps(page: &str) -> Vec<(&str, String)> {
    let mut steps: Vec<(&str, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (line.strip_prefix("    $ "), line.strip_prefix("    ")) {
            (Some(command), _) => steps.push((command, String::new())),
            (None, Some(output)) if inside => {
                let (_, said) = steps.last_mut().expect("a command comes first");
                *said += &format!("{output}\n");
            }
            _ => {}
        }
        inside = line.starts_with("    $ ") || (inside && line.starts_with("    "));
    }
    steps
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

#[test]
fn the_tutorial_is_true() {
    check(TUTORIAL);
}

#[test]
fn what_operators_read_is_true() {
    check(OPERATORS);
}

fn check(page: &str) {
    let rig = Rig::new();
    symlink(program().get_program(), rig.path("kiln")).unwrap();
    let old = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([rig.path("")].into_iter().chain(env::split_paths(&old))).unwrap();
    let steps = steps(page);
    assert!(steps.len() > 10, "where are the commands of the page?");
    let script: String =
        steps.iter().map(|(command, _)| format!("{command}\necho '=='\n")).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(rig.path("")).env("PATH", path).env_remove("KILN_POOL");
    let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let said: Vec<&str> = output.split("==\n").collect();
    for ((command, wanted), said) in steps.iter().zip(said) {
        assert!(fits(wanted, said), "$ {command}\n{said}\nthe page says\n{wanted}");
    }
}
