//! Links of pages lead to files of the repository, and to headings that these have.

use std::path::{Component, Path, PathBuf};

use super::Complaints;
use super::source::{all, root};

/// Targets of the links in a line, without those to other hosts.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|target| {
        !target.contains("://") && !target.contains(' ') && !target.starts_with("mailto:")
    })
}

/// The anchor that a heading gets, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut whole, part| {
        match part {
            Component::ParentDir => _ = whole.pop(),
            Component::CurDir => {}
            part => whole.push(part),
        }
        whole
    })
}

/// Lines of a page outside fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced
    })
}

#[test]
fn links_of_pages_lead_somewhere() {
    let sources = all();
    let pages = || sources.iter().filter(|source| source.path.ends_with(".md"));
    let mut complaints = Complaints::default();
    for source in pages().filter(|source| !source.path.starts_with("lab/")) {
        let folder = Path::new(&source.path).parent().unwrap();
        for (number, line) in prose(&source.text) {
            for target in targets(line).filter(|_| !line.starts_with("    ")) {
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let to = if path.is_empty() {
                    source.path.clone().into()
                } else {
                    plain(&folder.join(path))
                };
                if !root().join(&to).exists() {
                    complaints.at(source, number, &format!("{target}: there is no such file"));
                    continue;
                }
                let page = pages().find(|page| Path::new(&page.path) == to);
                let known = |page: &super::source::Source| {
                    prose(&page.text)
                        .any(|(_, line)| line.starts_with('#') && anchor(line) == heading)
                };
                if !heading.is_empty() && !page.is_none_or(known) {
                    complaints.at(source, number, &format!("{target}: there is no such heading"));
                }
            }
        }
    }
    complaints.settle();
}

#[test]
fn headings_become_anchors() {
    assert_eq!(anchor("## Wire, versions 1 to 5"), "wire-versions-1-to-5");
    assert_eq!(anchor("### `POOL.toml`: a b"), "pooltoml-a-b");
    assert_eq!(plain(Path::new("docs/guide/../../README.md")), Path::new("README.md"));
    assert_eq!(targets("[a](b.md#c) and [d](https://e.org)").collect::<Vec<_>>(), ["b.md#c"]);
}
