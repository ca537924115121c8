//! Names of files whose bytes are not UTF-8, as names in a pool, which are.
//!
//! A byte that belongs to no character becomes one of the private use area, U+EF80 to U+EFFF, as in
//! the encoding OPTU-8. These characters themselves become their bytes, written so: each name of a
//! file has one name in the pool, and comes back from it the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The character of byte 0, had it one.
const BASE: u32 = 0xef00;

/// The byte that a character stands for.
fn byte_of(character: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(character).wrapping_sub(BASE)).ok()?;
    (!byte.is_ascii()).then_some(byte)
}

/// The name in a pool of a file's name, or of a link's target.
pub fn to_pool(name: &OsStr) -> String {
    let mut pool = String::new();
    let raw = |byte: &u8| char::from_u32(BASE + u32::from(*byte));
    for part in name.as_bytes().utf8_chunks() {
        for character in part.valid().chars() {
            match byte_of(character) {
                Some(_) => {
                    let bytes = character.encode_utf8(&mut [0; 4]).to_owned();
                    pool.extend(bytes.as_bytes().iter().filter_map(raw));
                }
                None => pool.push(character),
            }
        }
        pool.extend(part.invalid().iter().filter_map(raw));
    }
    pool
}

/// The name of a file, or the target of a link, of a name in a pool; `None`: no file has this one.
pub fn to_file(pool: &str) -> Option<OsString> {
    if !pool.chars().any(|character| byte_of(character).is_some()) {
        return Some(pool.into());
    }
    let mut name = Vec::with_capacity(pool.len());
    for character in pool.chars() {
        match byte_of(character) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let name = OsString::from_vec(name);
    // Bytes written so that are a character together are another name's.
    (to_pool(&name) == pool).then_some(name)
}

/// A path below a folder, of a name that [`to_file`] has seen.
pub fn path_of(inside: &str) -> PathBuf {
    to_file(inside).unwrap_or_else(|| inside.into()).into()
}
