//! `order=FILE` in a code spec: the file's list of layers, packed into the spec itself, so that
//! shards need no file afterwards.

use crate::exit::{Failure, Result};
use kiln_code::{CodeSpec, Codec, Order, order::ORDERS};
use std::path::{Path, PathBuf};

/// More is no list of layers: the most there can be, with room for comments.
const FILE_MAX: u64 = 1 << 20;

/// Returns the spec with an order in place of the file that it names.
/// Errors: the file cannot be read, or lists no order of this code that a shard can carry.
pub fn resolve(spec: &str) -> Result<String> {
    let is_order = |piece: &&str| piece.trim_start().starts_with("order=");
    let Some(piece) = spec.split(',').find(is_order).filter(|_| spec.starts_with("clay:")) else {
        return Ok(spec.to_owned());
    };
    let value = piece.trim().trim_start_matches("order=");
    let name = value.split(':').next().unwrap_or_default();
    let is_known = ORDERS.iter().any(|kind| kind.name == name);
    // Another unknown word is left to the parser, whose error lists what is known.
    if is_known || !(value.contains(std::path::MAIN_SEPARATOR) || Path::new(value).exists()) {
        return Ok(spec.to_owned());
    }
    let path = PathBuf::from(value);
    let list = read(&path)?;
    let others: Vec<&str> = spec.split(',').filter(|other| other != &piece).collect();
    let plain: CodeSpec = others.join(",").parse()?;
    let codec = Codec::new(&plain)?;
    let layers = codec.layers().ok_or_else(|| not_usable(&path, "this code has no layers"))?;
    let order =
        Order::from_list(layers, list).map_err(|error| not_usable(&path, &error.to_string()))?;
    Ok(format!("{},order={}", others.join(","), order.name()))
}

fn not_usable(path: &Path, problem: &str) -> Failure {
    Failure::Flag { flag: "order", problem: format!("{}: {problem}", path.display()) }
}

/// Numbers with anything but digits between them; `#` begins a comment.
fn read(path: &Path) -> Result<Vec<u32>> {
    let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_MAX {
        return Err(not_usable(path, "too long for a list of layers"));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(|line| line.split([' ', '\t', ',', ';', '[', ']']));
    words
        .filter(|word| !word.is_empty())
        .map(|word| {
            let bad = |_| not_usable(path, &format!("'{word}' is not the number of a layer"));
            word.parse().map_err(bad)
        })
        .collect()
}
