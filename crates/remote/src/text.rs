//! Options of places, plain paths, encoding of URLs, errors.

use kiln_store::{Location, Operation, Result, StoreError};
use std::{io, time::Duration};

/// Longest silence of a server that can be asked for, in seconds.
const MAX_PATIENCE: u64 = 600;

/// Shows the options behind the `?` of a place, one after the other, to what knows them.
/// Errors: [`StoreError::BadPlace`]: an option without a value, or what `set` says.
pub fn options(
    location: &Location<'_>,
    query: &str,
    mut set: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<()> {
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let end = match value {
            "" => Err(format!("{name:?} has no value; write {name}=VALUE")),
            _ => set(name, value),
        };
        end.map_err(|why| location.bad(&why))?;
    }
    Ok(())
}

/// Returns the patience with a server, by the option `timeout`.
pub fn patience(value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|at| (1..=MAX_PATIENCE).contains(at));
    let why = || format!("timeout={value}: give 1 to {MAX_PATIENCE} seconds");
    Ok(Duration::from_secs(seconds.ok_or_else(why)?))
}

/// Returns whether a path has only parts of a-z, A-Z, 0-9, '-', '_', '.' and the bytes of `also`,
/// with single slashes between them.
pub fn is_plain_path(path: &str, also: &[u8]) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || also.contains(&byte);
    let good = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(plain);
    path.split('/').all(good)
}

pub fn io_error(op: Operation, place: &str, name: &str, source: io::Error) -> StoreError {
    StoreError::Io { op, place: place.to_owned(), name: name.to_owned(), source }
}

/// A path or value as URLs have it: what is not plain, nor among `also`, as %XX.
pub fn encoded(text: &str, also: &[u8]) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also.contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_shown_and_what_is_wrong_is_said() {
        let location = Location::of("s3://b".as_ref());
        let mut seen = Vec::new();
        let mut note = |name: &str, value: &str| {
            seen.push(format!("{name}:{value}"));
            if name == "x" { Err("it is no option".to_owned()) } else { Ok(()) }
        };
        options(&location, "a=1&&b=2=3&", &mut note).unwrap();
        assert!(options(&location, "a", &mut note).unwrap_err().is_usage());
        let error = options(&location, "x=1", &mut note).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("it is no option"), "{error}");
        assert_eq!(seen, ["a:1", "b:2=3", "x:1"]);
        assert_eq!(patience("600"), Ok(Duration::from_secs(600)));
        assert!(["0", "601", "-1", "x", "1.5"].iter().all(|wrong| patience(wrong).is_err()));
    }

    #[test]
    fn what_is_not_plain_is_encoded() {
        assert_eq!(encoded("a b/ü,~", b"/"), "a%20b/%C3%BC%2C~");
        assert_eq!(encoded("a/b,c", b""), "a%2Fb%2Cc");
    }
}
