//! What commits say of themselves.

use std::process::Command;

use super::source::root;

const SUBJECT: usize = 72;

/// The rule is for commits after this moment, in seconds since 1970.
const SINCE: u64 = 1_795_315_686;

/// Commits that slipped through, by the beginning of their names.
const LONG: &[&str] = &[];

/// Skips, and says so, where there is no git or no history: in a package of the sources.
#[test]
fn subjects_of_commits_are_short() {
    let since = format!("--since=@{SINCE}");
    let words = ["log", "--no-merges", "--format=%h %ct %s", &since];
    let log = Command::new("git").arg("-C").arg(root()).args(words).output();
    let Some(log) = log.ok().filter(|log| log.status.success()) else {
        println!("SKIPPED: git shows no commits here");
        return;
    };
    let text = String::from_utf8_lossy(&log.stdout);
    let long = text.lines().filter(|line| {
        let mut words = line.splitn(3, ' ');
        if words.next().is_some_and(|name| LONG.iter().any(|long| name.starts_with(long))) {
            return false;
        }
        let time: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        time > SINCE && words.next().is_some_and(|subject| subject.chars().count() > SUBJECT)
    });
    let long: Vec<&str> = long.collect();
    assert!(
        long.is_empty(),
        "subjects of more than {SUBJECT} characters; move the why into the body:\n{}",
        long.join("\n")
    );
}
