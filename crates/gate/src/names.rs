//! Names of the pool's objects that buckets are made of.
//!
//! All lie below [`OBJECTS`], which other commands neither show nor touch. A key of S3 may be any
//! text; in a name `.` and `/` are written as `.0` and `.1`, so that a key is one word of the name
//! and names stand in the order of keys.

use crate::error::{Code, Result};
use kiln_pool::layout::MAX_NAME;

/// Beginning of the names of all objects of the server.
pub const OBJECTS: &str = ".s3/";

/// Most bytes of a key as it stands in a name: the longest name, that of a part's data, must fit.
const MAX_ENCODED: usize = MAX_NAME - 72;
/// Most bytes of a key, as S3 has it.
const MAX_KEY: usize = 1024;

/// Writes a key as one word whose order is that of keys.
pub(crate) fn encode(key: &str) -> String {
    let mut word = String::with_capacity(key.len() + 8);
    for letter in key.chars() {
        match letter {
            '.' => word.push_str(".0"),
            '/' => word.push_str(".1"),
            other => word.push(other),
        }
    }
    word
}

/// Reads a key back; `None`: it was not written by [`encode`].
pub(crate) fn decode(word: &str) -> Option<String> {
    let mut key = String::with_capacity(word.len());
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        key.push(match letter {
            '.' => match letters.next()? {
                '0' => '.',
                '1' => '/',
                _ => return None,
            },
            '/' => return None,
            other => other,
        });
    }
    Some(key)
}

/// Refuses keys that no object can have.
pub(crate) fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.contains('\0') {
        return Code::InvalidArgument.err("key: it is empty or has a zero byte");
    }
    if key.len() > MAX_KEY || encode(key).len() > MAX_ENCODED {
        return Code::KeyTooLongError.err(format!(
            "key: it is longer than {MAX_KEY} bytes, or than {MAX_ENCODED} with '.' and '/' \
             counted twice"
        ));
    }
    Ok(())
}

/// Refuses names that no bucket can have.
pub(crate) fn check_bucket(name: &str) -> Result<()> {
    let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let good = (3..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| letter(byte) || matches!(byte, b'.' | b'-'))
        && bytes.first().is_some_and(letter)
        && bytes.last().is_some_and(letter)
        && !name.contains("..")
        && name.parse::<std::net::Ipv4Addr>().is_err();
    match good {
        true => Ok(()),
        false => Code::InvalidBucketName.err(
            "bucket: its name has 3 to 63 of a-z, 0-9, '-' and '.', and begins and ends with a \
             letter or digit",
        ),
    }
}

/// The object that keeps an access key.
pub(crate) fn access_key(id: &str) -> String {
    format!("{OBJECTS}key/{}", encode(id))
}

/// The object that keeps a bucket's record.
pub(crate) fn bucket(name: &str) -> String {
    format!("{OBJECTS}bucket/{}", encode(name))
}

/// Beginning of the names of all records of a bucket's objects.
pub(crate) fn records(bucket_id: &str) -> String {
    format!("{OBJECTS}o/{bucket_id}/")
}

/// The record of an object.
pub(crate) fn record(bucket_id: &str, key: &str) -> String {
    records(bucket_id) + &encode(key)
}

/// Beginning of the names of the records of earlier versions.
pub(crate) const VERSIONS: &str = ".s3/v/";

/// The record of an earlier version of an object, by a word of its history.
pub(crate) fn version(bucket_id: &str, key: &str, word: &str) -> String {
    format!("{VERSIONS}{bucket_id}/{}/{word}", encode(key))
}

/// Beginning of the names of all data of a bucket.
pub(crate) fn all_data(bucket_id: &str) -> String {
    format!("{OBJECTS}d/{bucket_id}/")
}

/// The data that a record names.
pub(crate) fn data(bucket_id: &str, key: &str, id: &str) -> String {
    format!("{}{}/{id}", all_data(bucket_id), encode(key))
}

/// Beginning of the names of all uploads of a bucket.
pub(crate) fn uploads(bucket_id: &str) -> String {
    format!("{OBJECTS}u/{bucket_id}/")
}

/// The record of an upload in parts.
pub(crate) fn upload(bucket_id: &str, key: &str, upload: &str) -> String {
    format!("{}{}/{upload}", uploads(bucket_id), encode(key))
}

/// Beginning of the names of the records of an upload's parts.
pub(crate) fn parts(bucket_id: &str, upload: &str) -> String {
    format!("{OBJECTS}p/{bucket_id}/{upload}/")
}

/// The record of a part.
pub(crate) fn part(bucket_id: &str, upload: &str, number: u32) -> String {
    format!("{}{number:05}", parts(bucket_id, upload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_is_one_word_and_comes_back_in_order() {
        let keys =
            "a|a.|a/|a//b|/|..|.|../x|a+b|a b|a-|a0|ü/日本|a/b|a.b|a\u{1}|a/.|\u{10FFFF}|%2F|a,b";
        let mut keys: Vec<&str> = keys.split('|').collect();
        for key in &keys {
            let word = encode(key);
            assert_eq!(decode(&word).as_deref(), Some(*key));
            assert!(kiln_pool::Key::of(&record("0011", key)).is_ok(), "{key:?}");
        }
        let mut words: Vec<String> = keys.iter().map(|key| encode(key)).collect();
        keys.sort_unstable();
        words.sort_unstable();
        let decoded: Vec<String> = words.iter().filter_map(|word| decode(word)).collect();
        assert_eq!(decoded, keys);
        assert_eq!(decode("a.2"), None);
        assert_eq!(decode("a."), None);
    }

    #[test]
    fn buckets_have_plain_names() {
        for good in ["abc", "a-b.c", "0123", &"x".repeat(63)] {
            assert!(check_bucket(good).is_ok(), "{good}");
        }
        for bad in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "1.2.3.4", &"x".repeat(64), "a/b"] {
            assert!(check_bucket(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_longest_key_still_fits() {
        let key = "x".repeat(MAX_ENCODED);
        assert!(check_key(&key).is_ok());
        assert!(check_key(&(key.clone() + "x")).is_err());
        let id = format!("{}-{:05}-{:08x}", "0".repeat(32), 10_000, u32::MAX);
        assert!(data(&"0".repeat(16), &key, &id).len() <= MAX_NAME);
    }
}
