//! Answers of servers, and the meaning of refusals for users.

use crate::io_error;
use kiln_store::{Operation, StoreError};
use std::io;

/// An answer, without what was read into the caller's buffer.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub status: u16,
    pub tag: Option<String>,
    pub length: Option<u64>,
    pub range: Option<String>,
    pub modified: Option<String>,
    /// The body, where it is text.
    pub text: String,
    /// An earlier try of the same request may have done its work.
    pub tried: bool,
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the server's code of the error.
    pub(crate) fn code(&self) -> &str {
        between(&self.text, "<Code>", "</Code>")
    }

    /// Returns whether another try may succeed: the server is overloaded, or had a fault of its
    /// own.
    pub(crate) fn is_passing(&self) -> bool {
        let conflict = ["ConditionalRequestConflict", "OperationAborted"].contains(&self.code());
        match self.status {
            408 | 429 | 500 | 502 | 503 | 504 => true,
            409 => conflict,
            400 => self.code() == "RequestTimeout",
            _ => false,
        }
    }

    /// The bucket is not there.
    pub(crate) fn lacks_bucket(&self) -> bool {
        self.code() == "NoSuchBucket"
    }

    /// The error that a refusal is, for a file (or with an empty name the place).
    pub(crate) fn error(&self, op: Operation, place: &str, name: &str) -> StoreError {
        let (kind, why) = self.why();
        io_error(op, place, name, io::Error::new(kind, why))
    }

    fn why(&self) -> (io::ErrorKind, String) {
        use io::ErrorKind::{AlreadyExists, NotFound, Other, PermissionDenied, ResourceBusy};
        let said = between(&self.text, "<Message>", "</Message>");
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let code = self.code();
        match (self.status, code) {
            (_, "NoSuchBucket") => (
                Other,
                "there is no such bucket at this endpoint; create it, or look at its \
                         name, the region and the endpoint"
                    .into(),
            ),
            (
                _,
                "SignatureDoesNotMatch" | "InvalidAccessKeyId" | "InvalidToken" | "ExpiredToken",
            ) => (
                PermissionDenied,
                format!(
                    "the server does not accept the credentials: {code}; look at \
                     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or \
                     ~/.aws/credentials"
                ),
            ),
            (_, "RequestTimeTooSkewed") => (
                PermissionDenied,
                "this machine's clock differs from the server's by minutes; \
                                    set it"
                    .into(),
            ),
            (401 | 403, _) => (
                PermissionDenied,
                format!(
                    "the server denies access{said}: {code}; these credentials need the rights to \
                 list, get, put and delete there (and a right clock: {code} is also said where \
                 that is minutes off)"
                ),
            ),
            (404, _) => (NotFound, format!("there is no such object{said}")),
            // Of a conditional write: what is there is not what was expected.
            (409 | 412, _) => (AlreadyExists, format!("another one is there{said}")),
            (301 | 307 | 400, "PermanentRedirect" | "AuthorizationHeaderMalformed") => (
                Other,
                format!("the bucket is in another region{said}; set AWS_REGION or ?region="),
            ),
            (408 | 429 | 500..=599, _) => (
                ResourceBusy,
                format!(
                    "the server answers {} {code}{said}, and did so until the time was over",
                    self.status
                ),
            ),
            _ => (Other, format!("the server answers {} {code}{said}", self.status)),
        }
    }
}

/// The first text between two marks; empty where there is none. At most 300 bytes.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let found = text.split_once(begin).and_then(|(_, rest)| Some(rest.split_once(end)?.0));
    let found = found.unwrap_or("");
    found.get(..found.len().min(300)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, code: &str) -> Reply {
        let text = format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
        Reply { status, text, ..Reply::default() }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let error = |status, code| reply(status, code).error(Operation::Open, "s3://b", "a");
        assert!(error(404, "NoSuchKey").is_not_found());
        assert!(!error(404, "NoSuchBucket").is_not_found());
        assert!(error(404, "NoSuchBucket").to_string().contains("create it"));
        assert!(error(403, "InvalidAccessKeyId").to_string().contains("~/.aws/credentials"));
        assert!(error(412, "PreconditionFailed").is_exists());
        assert!(error(503, "SlowDown").is_retryable());
        assert!(reply(503, "SlowDown").is_passing() && !reply(403, "AccessDenied").is_passing());
        assert!(reply(409, "OperationAborted").is_passing() && !reply(409, "x").is_passing());
        assert_eq!(between("<Code>", "<Code>", "</Code>"), "");
    }
}
