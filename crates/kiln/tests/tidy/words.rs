//! Home-made words that gave way to the field's own (docs/reference/glossary.md) do not come back.

use super::for_each_rust;

/// Words that no identifier has in it any more, and what is said instead.
const RETIRED: &[(&str, &str)] = &[
    ("aloof", "non_helpers: survivors that a repair does not read"),
    ("atom", "expr: a subexpression that accumulators share"),
    ("defeat", "FinalFailure"),
    ("guest", "IncomingConnection"),
    ("knock", "a credit request"),
    ("ledger", "RepairStatistics"),
    ("mend", "heal or repair"),
    ("mended", "healed or repaired"),
    ("menu", "candidates: candidate plans"),
    ("mishap", "ScheduledFault"),
    ("parcel", "fragment"),
    ("rotten", "corrupt"),
    ("shelf", "PlanCache; FetchQueue in agents"),
    ("slip", "FragmentHeader"),
    ("stranger", "foreign"),
    ("tally", "statistics, or TrafficTable"),
    ("team", "AggregatorGroup"),
    ("thin", "under_replicated"),
    ("trouble", "failure"),
    ("wish", "effect"),
];

/// Where a word stays, as (path, word): names that users or other programs know.
const KEPT: &[(&str, &str)] = &[("crates/kiln/src/cmd/plan/recover.rs", "menu")];

/// The words of the identifiers in a line of code, in lower case.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut was_lower) = (Vec::new(), String::new(), false);
    for letter in line.chars().chain([' ']) {
        let begins = !letter.is_ascii_alphabetic() || (letter.is_ascii_uppercase() && was_lower);
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_ascii_alphabetic() {
            word.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase();
    }
    words
}

#[test]
fn retired_words_do_not_come_back() {
    for_each_rust(|source, complaints| {
        for (number, line) in source.code.lines().enumerate() {
            for word in words(line) {
                let word = if word.ends_with("ss") { &word } else { word.trim_end_matches('s') };
                let row = RETIRED.iter().find(|(retired, _)| *retired == word);
                let Some((retired, instead)) = row else { continue };
                if !KEPT.contains(&(source.path.as_str(), *retired)) {
                    complaints.at(source, number, &format!("{retired:?}: say {instead}"));
                }
            }
        }
    });
}

#[test]
fn identifiers_are_cut_into_words() {
    let found = words("let was_thin = Team::new(MENU_MAX);");
    assert_eq!(found, ["let", "was", "thin", "team", "new", "menu", "max"]);
}
