//! Lists of chunk indices as people write them: `3`, `0,3,7`, `0-2,9`.

use std::{collections::BTreeSet, str::FromStr};

/// No code has more chunks, so no list needs to be longer.
const MAX_INDEX: usize = 255;

/// A list of indices as a flag's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices(pub Vec<usize>);

impl FromStr for Indices {
    type Err = String;

    fn from_str(text: &str) -> Result<Indices, String> {
        parse(text).map(Indices)
    }
}

/// Parses a list of indices; sorted, without repetitions. The error says what would be right.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut indices = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            None => (index(part)?, index(part)?),
            Some((first, last)) => (index(first)?, index(last)?),
        };
        if first > last {
            return Err(format!("'{part}' runs backwards: write {last}-{first}"));
        }
        indices.extend(first..=last);
    }
    Ok(indices.into_iter().collect())
}

fn index(text: &str) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(index) if index <= MAX_INDEX => Ok(index),
        Ok(index) => Err(format!("there is no shard {index}: indices end at {MAX_INDEX}")),
        Err(_) => Err(format!("'{text}' is not a list of shard indices: write e.g. 3 or 0,4-6")),
    }
}

/// Prints indices as ranges: `0-2,9`; `none` when there are none.
pub fn show(indices: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &index in indices {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => parts.push((index, index)),
        }
    }
    if parts.is_empty() {
        return "none".into();
    }
    let words: Vec<String> = parts
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    words.join(",")
}

/// `shard 3`, `shards 0,4-6`, `no shard`.
pub fn named(indices: &[usize]) -> String {
    match indices {
        [] => "no shard".into(),
        [index] => format!("shard {index}"),
        _ => format!("shards {}", show(indices)),
    }
}
