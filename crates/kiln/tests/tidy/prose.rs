//! Plain English in pages, doc comments and messages: subjects for sentences, words of the field.
//!
//! Present ones are counted, and may only become fewer: lower a ceiling when you can.

use super::has_word;
use super::source::{Source, all, literals};

/// Clauses without a subject that may not open a sentence: name the subject instead.
const OPENERS: &[&str] =
    &["What", "Where", "Who", "Whoever", "Whose", "How", "Whether", "Which", "That of", "Those of"];

/// Home-made phrases, and what the field says.
const RETIRED: &[(&str, &str)] = &[
    ("are told", "log, print or report"),
    ("at it", "the component that runs"),
    ("be had", "readable, recoverable, available"),
    ("bear", "tolerate"),
    ("bears", "tolerates"),
    ("believed", "trusted, valid, accepted"),
    ("belongs into", "must not be entered in, is part of"),
    ("is none", "invalid, absent"),
    ("is told", "log, print or report"),
    ("made up for", "rebuild, restore redundancy"),
    ("makes up for", "rebuild, restore redundancy"),
    ("nobody", "the component: no client, no agent"),
    ("somebody", "the component: a client, an operator"),
    ("stranger", "stale or foreign"),
    ("that one", "the component"),
    ("whoever", "the component: clients, holders of the key"),
];

/// Lines of doc comments that open with a clause, of all crates together.
const DOC_OPENERS: usize = 17;
/// Sentences of pages that do.
const PAGE_OPENERS: usize = 3;
/// Messages, help and other string literals that do.
const TEXT_OPENERS: usize = 9;
/// Retired phrases in pages, comments and literals.
const RETIRED_PHRASES: usize = 249;

/// Results are the laboratory's; the history of changes and licences are as they are.
fn checked(source: &Source) -> bool {
    !["lab/", "crates/kiln/tests/tidy/"].iter().any(|folder| source.path.starts_with(folder))
}

/// Returns whether a text opens with one of the clauses, in upper or lower case.
fn opens(text: &str) -> bool {
    let text = text.trim_start_matches(['*', '-', '>', ' ', '(']);
    OPENERS.iter().any(|opener| {
        let begun =
            text.get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener));
        begun && text[opener.len()..].starts_with([' ', ','])
    })
}

/// The text of a doc comment's line.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "))
}

/// Paragraphs of a page as (first line, text), without fences, indented blocks and headings.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut fenced) = (vec![(0, String::new())], false);
    for (number, line) in page.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let apart = fence || fenced || line.trim().is_empty() || line.starts_with(['#', '|']);
        if apart || line.starts_with("    ") || line.starts_with(['*', '-']) {
            found.push((number, String::new()));
        }
        if !apart && !line.starts_with("    ") {
            let (_, text) = found.last_mut().unwrap();
            *text += line.trim();
            *text += " ";
        }
    }
    found
}

/// Sentences of a paragraph that are no questions and open with a clause.
fn headless(text: &str) -> usize {
    let ends = text.match_indices(['.', '?', ':']).map(|(at, _)| at + 1);
    let (mut from, mut count) = (0, 0);
    for end in ends.filter(|end| text[*end..].starts_with(' ')).chain([text.len()]) {
        let sentence = text[from..end].trim();
        let capital = sentence.trim_start_matches(['*', '-', '>', ' ', '(']);
        let capital = capital.starts_with(char::is_uppercase);
        count += usize::from(capital && opens(sentence) && !sentence.ends_with('?'));
        from = end;
    }
    count
}

/// Fails when more than `ceiling` was found, with the places that were.
fn at_most(ceiling: usize, found: &[String]) {
    println!("{} of at most {ceiling}", found.len());
    assert!(
        found.len() <= ceiling,
        "{} where there may be {ceiling}; among these are the new ones:\n{}",
        found.len(),
        found.join("\n")
    );
}

fn places(source: &Source, number: usize, text: &str) -> String {
    format!("{}:{}: {}", source.path, number + 1, text.trim().chars().take(80).collect::<String>())
}

#[test]
fn doc_comments_open_with_a_subject_or_a_verb() {
    let mut found = Vec::new();
    for source in all().iter().filter(|source| source.is_rust() && checked(source)) {
        for (number, line) in source.text.lines().enumerate() {
            if doc(line).is_some_and(|text| text.starts_with(char::is_uppercase) && opens(text)) {
                found.push(places(source, number, line));
            }
        }
    }
    at_most(DOC_OPENERS, &found);
}

#[test]
fn sentences_of_pages_have_subjects() {
    let mut found = Vec::new();
    for source in all().iter().filter(|source| source.path.ends_with(".md") && checked(source)) {
        for (number, text) in paragraphs(&source.text) {
            for _ in 0..headless(&text) {
                found.push(places(source, number, &text));
            }
        }
    }
    at_most(PAGE_OPENERS, &found);
}

#[test]
fn messages_have_subjects() {
    let mut found = Vec::new();
    for source in all().iter().filter(|source| source.is_rust() && checked(source)) {
        for (number, text) in literals(&source.text) {
            if opens(&text) && !text.trim().ends_with('?') && !source.test_lines[number] {
                found.push(places(source, number, &text));
            }
        }
    }
    at_most(TEXT_OPENERS, &found);
}

#[test]
fn retired_phrases_do_not_come_back() {
    let mut found = Vec::new();
    for source in all().iter().filter(|source| checked(source)) {
        let mut texts: Vec<(usize, String)> = Vec::new();
        if source.path.ends_with(".md") {
            texts.extend(source.text.lines().map(str::to_owned).enumerate());
        } else if source.is_rust() {
            let comments = source.text.lines().enumerate().filter_map(|(number, line)| {
                Some((number, line.trim_start().strip_prefix("//")?.to_owned()))
            });
            let product = |(number, _): &(usize, String)| !source.test_lines[*number];
            texts.extend(comments.chain(literals(&source.text)).filter(product));
        }
        for (number, text) in texts {
            let text = text.to_lowercase().replace("there is none", "");
            for (phrase, instead) in RETIRED.iter().filter(|(phrase, _)| has_word(&text, phrase)) {
                found.push(format!("{}: {phrase:?}: {instead}", places(source, number, &text)));
            }
        }
    }
    at_most(RETIRED_PHRASES, &found);
}

#[test]
fn clauses_are_told_from_questions_and_subjects() {
    assert!(opens("What is lost") && opens("whoever reads") && opens("Those of a pool"));
    assert!(!opens("Whatever") && !opens("That is so") && !opens("A node that"));
    assert_eq!(headless("A disk died. What now? What is lost is rebuilt: Who reads it waits. "), 2);
    let page = "# What it does\n\nWhere\nit is.\n\n    What\n* How it is\n```\nWhat\n```\n";
    let found: Vec<usize> = paragraphs(page).iter().map(|(_, text)| headless(text)).collect();
    assert_eq!(found.iter().sum::<usize>(), 2);
    let code = "f(\"what\", r#\"a \"b\" c\"#); // \"not\"\n'\"'; \"two\\\nlines\"";
    let texts: Vec<_> = literals(code).into_iter().collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[1], (0, "a \"b\" c".to_owned()));
}
