//! Names of files that tell of which object they are: pools name an object's files after a hash of
//! its name, and agents compare such a name with a file's.

use sha2::{Digest as _, Sha256};

/// Stands between the name of an object and the run of a version of it that is kept: no object's
/// name has an empty part.
const KEPT: &str = "//";

/// The hash in the names of an object's files: the first 128 bits of the SHA-256 of its name. Of
/// the name of a kept version it is that of the object's hash and the run. Names are not checked.
pub fn object_key(name: &str) -> [u8; 16] {
    match kept_parts(name) {
        Some((name, run)) => kept_key(&first_half(name.as_bytes()), &run),
        None => first_half(name.as_bytes()),
    }
}

/// The hash in the name of the manifest that keeps the version of this run of an object.
pub fn kept_key(object: &[u8; 16], run: &[u8; 16]) -> [u8; 16] {
    // No name has a zero byte.
    first_half(&[&b"\0kept"[..], object, run].concat())
}

fn first_half(bytes: &[u8]) -> [u8; 16] {
    let hash = Sha256::digest(bytes);
    std::array::from_fn(|at| hash[at])
}

/// The hash that a file's name begins with, a part's or another hidden file's too; `None`: it is of
/// no object.
pub fn file_key(file: &str) -> Option<[u8; 16]> {
    unhex(file.strip_prefix('.').unwrap_or(file).split('.').next()?)
}

/// The name under which the version of a run is kept of an object.
pub fn kept_name(name: &str, run: &[u8; 16]) -> String {
    format!("{name}{KEPT}{}", hex(run))
}

/// Object and run of the name of a kept version; `None` for names of objects.
pub fn kept_parts(name: &str) -> Option<(&str, [u8; 16])> {
    let (name, run) = name.rsplit_once(KEPT)?;
    Some((name, unhex(run)?))
}

/// The name of the object itself: a kept version's without its run.
pub fn object_name(name: &str) -> &str {
    kept_parts(name).map_or(name, |(name, _)| name)
}

/// Two hex digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Bytes from hex digits of either case; `None`: the text is invalid.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

/// N bytes from twice as many lower-case hex digits.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = text.len() == 2 * N && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_lower { from_hex(text)?.try_into().ok() } else { None }
}
