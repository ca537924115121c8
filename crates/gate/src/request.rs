//! A request as its head tells it: place, query, headers.

use http::{HeaderMap, Method};

use crate::error::{Code, Result};

/// Said of a number that no part can have.
pub(crate) const NO_PART: &str = "Part number must be an integer between 1 and 10000, inclusive.";

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method of HTTP.
    pub method: Method,
    /// Path, decoded.
    pub path: String,
    /// Words of the query in the order of the request, decoded.
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
}

impl Request {
    /// Reads the head of a request.
    /// Errors: [`Code::InvalidArgument`]: what is encoded in it is no text.
    pub(crate) fn new(head: &http::request::Parts) -> Result<Request> {
        let wrong = || Code::InvalidArgument.error("URI: it is no text when decoded");
        let path = decoded(head.uri.path(), false).ok_or_else(wrong)?;
        let query = pairs(head.uri.query().unwrap_or("")).ok_or_else(wrong)?;
        let (method, mut headers) = (head.method.clone(), head.headers.clone());
        if !headers.contains_key("host")
            && let Some(host) = head.uri.authority()
            && let Ok(host) = host.as_str().parse()
        {
            headers.insert("host", host);
        }
        Ok(Request { method, path, query, headers })
    }

    /// Returns bucket and key; each may be empty.
    pub(crate) fn place(&self) -> (&str, &str) {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        path.split_once('/').unwrap_or((path, ""))
    }

    /// Returns the value of a word of the query.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(word, _)| word == name).map(|(_, value)| value.as_str())
    }

    /// Returns a header that is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
    }

    /// Returns a word of the query that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u32>> {
        let Some(text) = self.word(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let why = match name {
                "partNumber" => NO_PART.to_owned(),
                _ if text.starts_with('-') => {
                    format!("Argument {text} must be an integer between 0 and 2147483647")
                }
                _ => format!("Provided {text} not an integer or within integer range"),
            };
            Code::InvalidArgument.error(why)
        })
    }
}

/// Reads the words of a query, decoded.
pub(crate) fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let words = query.split('&').filter(|word| !word.is_empty());
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        Some((decoded(name, true)?, decoded(value, true)?))
    };
    words.map(pair).collect()
}

/// Decodes what is percent-encoded; in a query `+` is a blank.
pub(crate) fn decoded(text: &str, query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? * 16 + digit(rest.next()?)?) as u8,
            b'+' if query => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Encodes text as signatures and listings want it; `/` stays where it is to be kept.
pub(crate) fn encoded(text: &str, keep_slash: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if keep_slash => out.push('/'),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request {
        let mut builder = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        Request::new(&builder.body(()).unwrap().into_parts().0).unwrap()
    }

    #[test]
    fn text_is_encoded_and_decoded() {
        let text = "a b+c/ü%~*'";
        assert_eq!(encoded(text, false), "a%20b%2Bc%2F%C3%BC%25~%2A%27");
        assert_eq!(decoded(&encoded(text, true), false).as_deref(), Some(text));
        assert_eq!(decoded("a+b", true).as_deref(), Some("a b"));
        for broken in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(broken, false), None);
        }
    }
}
