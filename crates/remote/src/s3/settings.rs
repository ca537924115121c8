//! Credentials, region and endpoint, from where all tools of S3 have them: variables first, then
//! the two files in `~/.aws`.

use crate::s3::place::Place;
use rusty_s3::Credentials;
use std::{env, fs, path::PathBuf};

/// Longest of these files that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Default region of AWS.
const REGION: &str = "us-east-1";

/// Access to the server of a place.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub credentials: Credentials,
    pub region: String,
    /// `None`: AWS.
    pub endpoint: Option<String>,
}

/// As [`access`], with credentials that the caller has; what else is set stands in the place.
pub(crate) fn with_credentials(place: &Place, credentials: Credentials) -> Access {
    let region = place.region.clone().unwrap_or_else(|| REGION.to_owned());
    Access { credentials, region, endpoint: place.endpoint.clone() }
}

/// Settings: variables and the text of the files.
struct Sources<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    credentials: String,
    config: String,
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A file of the user's, if it is there and can be read.
fn file(override_by: &str, name: &str) -> String {
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".aws").join(name));
    let Some(path) = variable(override_by).map(PathBuf::from).or_else(home) else {
        return String::new();
    };
    match fs::metadata(&path) {
        Ok(found) if found.len() <= MAX_FILE => fs::read_to_string(&path).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Finds out how to talk to a place's server.
/// Errors: the missing part and where it may stand.
pub(crate) fn access(place: &Place) -> Result<Access, String> {
    access_by(
        place,
        &Sources {
            variable: &variable,
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
        },
    )
}

fn access_by(place: &Place, sources: &Sources<'_>) -> Result<Access, String> {
    let set = sources.variable;
    let profile = place.profile.clone().or_else(|| set("AWS_PROFILE"));
    let named = profile.as_deref().unwrap_or("default");
    let in_config = if named == "default" { named.to_owned() } else { format!("profile {named}") };
    let kept = |field: &str| {
        value(&sources.credentials, named, field)
            .or_else(|| value(&sources.config, &in_config, field))
    };
    // A profile that is asked for by the place itself is not overruled.
    let free = place.profile.is_none();
    let of = |name: &str, field: &str| {
        let first = if free { set(name) } else { None };
        first.or_else(|| kept(field))
    };
    let key = if free { set("AWS_ACCESS_KEY_ID") } else { None };
    let (key, secret, token) = match key {
        Some(key) => (Some(key), set("AWS_SECRET_ACCESS_KEY"), set("AWS_SESSION_TOKEN")),
        None => {
            (kept("aws_access_key_id"), kept("aws_secret_access_key"), kept("aws_session_token"))
        }
    };
    let (Some(key), Some(secret)) = (key, secret) else {
        return Err(format!(
            "there are no credentials for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
             write aws_access_key_id and aws_secret_access_key under [{named}] in \
             ~/.aws/credentials"
        ));
    };
    let credentials = match token {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    };
    let region = place
        .region
        .clone()
        .or_else(|| of("AWS_REGION", "region"))
        .or_else(|| set("AWS_DEFAULT_REGION"));
    let endpoint = place
        .endpoint
        .clone()
        .or_else(|| of("AWS_ENDPOINT_URL_S3", "endpoint_url"))
        .or_else(|| set("AWS_ENDPOINT_URL"));
    Ok(Access { credentials, region: region.unwrap_or_else(|| REGION.to_owned()), endpoint })
}

/// The value of a field in a section of a file such as `~/.aws/credentials`.
fn value(text: &str, section: &str, field: &str) -> Option<String> {
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == field
            && !value.trim().is_empty()
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_store::Location;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=a=/+\n\
        # [other]\n[other]\naws_access_key_id=B\naws_secret_access_key=b\naws_session_token=t\n";
    const CONFIG: &str = "[default]\nregion = r1\n[profile other]\nregion=r2\n\
        endpoint_url = http://other:1\n";

    fn access(text: &str, variables: &[(&str, &str)]) -> Result<Access, String> {
        let place = Place::of(&Location::of(text.as_ref())).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let (credentials, config) = (CREDENTIALS.to_owned(), CONFIG.to_owned());
        access_by(&place, &Sources { variable: &variable, credentials, config })
    }

    #[test]
    fn variables_go_before_files_and_the_place_before_both() {
        let found = access("s3://abc", &[]).unwrap();
        assert_eq!((found.credentials.key(), found.credentials.secret()), ("A", "a=/+"));
        assert_eq!((&found.region[..], found.endpoint), ("r1", None));
        let found = access("s3://abc", &[("AWS_PROFILE", "other")]).unwrap();
        assert_eq!((found.credentials.key(), found.credentials.token()), ("B", Some("t")));
        assert_eq!(found.endpoint.as_deref(), Some("http://other:1"));
        let keys = [("AWS_ACCESS_KEY_ID", "C"), ("AWS_SECRET_ACCESS_KEY", "c")];
        assert_eq!(access("s3://abc", &keys).unwrap().credentials.key(), "C");
        assert_eq!(access("s3://abc?profile=other", &keys).unwrap().credentials.key(), "B");
        let more = [("AWS_REGION", "r3"), ("AWS_ENDPOINT_URL", "http://x")];
        let found = access("s3://abc?region=r4", &more).unwrap();
        assert_eq!((&found.region[..], found.endpoint.as_deref()), ("r4", Some("http://x")));
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = access("s3://abc?profile=nobody", &[]).unwrap_err();
        assert!(error.contains("[nobody]") && error.contains("AWS_ACCESS_KEY_ID"), "{error}");
        // A key without its secret is not mixed with another's.
        assert!(access("s3://abc", &[("AWS_ACCESS_KEY_ID", "C")]).is_err());
    }
}
