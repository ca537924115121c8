//! Places as users write them: `s3://bucket/prefix?endpoint=http://host:9000&region=eu-west-1`.

use crate::{is_plain_path, options, patience};
use kiln_store::{Location, Result};
use std::time::Duration;

/// Longest prefix in bytes: with the longest file name a key stays within the 1024 of S3.
const MAX_PREFIX: usize = 700;
/// Patience with a silent server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A place, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// As it was written.
    pub text: String,
    pub bucket: String,
    /// Empty, or with a slash at its end.
    pub prefix: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub profile: Option<String>,
    /// Silence of the server after which a request is tried again.
    pub patience: Duration,
}

impl Place {
    pub(crate) fn of(location: &Location<'_>) -> Result<Place> {
        let text = location.rest.to_str().ok_or_else(|| location.bad("it is not UTF-8"))?;
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
            return Err(location.bad(
                "the name of a bucket has 3 to 63 characters of a-z, 0-9, '-' and '.', as in \
                 s3://my-bucket/disk0",
            ));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if prefix.len() > MAX_PREFIX || !(prefix.is_empty() || is_plain_path(prefix, b"")) {
            return Err(location.bad(
                "a prefix has at most 700 characters of a-z, A-Z, 0-9, '-', '_', '.', with single \
                 '/' between its parts",
            ));
        }
        let mut place = Place {
            text: location.text.display().to_string(),
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            endpoint: None,
            region: None,
            profile: None,
            patience: PATIENCE,
        };
        options(location, query, |name, value| place.set(name, value))?;
        Ok(place)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let text = || Some(value.to_owned());
        match name {
            "endpoint" => self.endpoint = text(),
            "region" => self.region = text(),
            "profile" => self.profile = text(),
            "timeout" => self.patience = patience(value)?,
            _ => {
                let known = "endpoint, region, profile, timeout";
                return Err(format!("{name:?} is no option of s3:// places; known: {known}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place> {
        Place::of(&Location::of(text.as_ref()))
    }

    #[test]
    fn places_are_taken_apart() {
        let found = place("s3://a-b.c/x/y?endpoint=http://h:9000&region=r&timeout=5").unwrap();
        assert_eq!((&found.bucket[..], &found.prefix[..]), ("a-b.c", "x/y/"));
        assert_eq!(found.endpoint.as_deref(), Some("http://h:9000"));
        assert_eq!(found.region.as_deref(), Some("r"));
        assert_eq!(found.patience, Duration::from_secs(5));
        assert_eq!(place("s3://abc/").unwrap().prefix, "");
        assert_eq!(place("s3://abc").unwrap().patience, PATIENCE);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = format!("s3://abc/{}", "x".repeat(701));
        for wrong in [
            "s3://", "s3://ab", "s3://a_b", "s3://Abc", "s3:///x", "s3://abc//x", "s3://abc/..",
            "s3://abc/x//y", "s3://abc/a b", "s3://abc?endpoint", "s3://abc?endpoint=",
            "s3://abc?secret=x", "s3://abc?timeout=0", "s3://abc?timeout=x", &long,
        ] {
            assert!(place(wrong).unwrap_err().is_usage(), "{wrong}");
        }
    }
}
