//! Signatures of AWS Signature Version 2, which old clients make: HMAC-SHA1 of a request's head.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::digest::from_base64;
use crate::request::{Request, encoded};

/// Words of a query that are signed, in order; so are those that begin with `response-`.
const SIGNED: &str = " accelerate acl analytics cors delete inventory lifecycle location logging \
    metrics notification object-lock partNumber policy replication requestPayment restore tagging \
    torrent uploadId uploads versionId versioning versions ";

/// The request in the form that is signed.
fn canonical(req: &Request) -> String {
    let header = |name: &str| req.header(name).unwrap_or_default().trim();
    // A time that is checked: in headers no word of the query is.
    let date = match (req.headers.contains_key("authorization"), req.header("x-amz-date")) {
        (false, _) => req.word("Expires").unwrap_or_default(),
        (true, Some(_)) => "",
        (true, None) => header("date"),
    };
    let (md5, kind) = (header("content-md5"), header("content-type"));
    let mut text = format!("{}\n{md5}\n{kind}\n{date}\n", req.method);
    let names = req.headers.keys().map(http::HeaderName::as_str);
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("x-amz-")).collect();
    names.sort_unstable();
    for name in names {
        let values = req.headers.get_all(name).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<String> = values.map(|value| value.trim().to_owned()).collect();
        text += &format!("{name}:{}\n", values.join(","));
    }
    text += &encoded(&req.path, true);
    // A bucket ends with a slash, also where the path does not.
    text += if req.path.matches('/').count() < 2 && req.path.len() > 1 { "/" } else { "" };
    let is_signed =
        |word: &str| SIGNED.contains(&format!(" {word} ")) || word.starts_with("response-");
    let mut words: Vec<_> = req.query.iter().filter(|(word, _)| is_signed(word)).collect();
    words.sort();
    for (at, (word, value)) in words.into_iter().enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text += word;
        text += if value.is_empty() { "" } else { "=" };
        text += value;
    }
    text
}

/// Returns whether a signature is that of a request and a secret.
pub(crate) fn is_signed(req: &Request, secret: &str, signature: &str) -> bool {
    let mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes());
    // HMAC takes keys of any length.
    let mut mac = mac.expect("any length is a key of HMAC");
    mac.update(canonical(req).as_bytes());
    mac.verify_slice(&from_base64(signature).unwrap_or_default()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;

    /// The key of the published examples.
    const EXAMPLE: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    #[test]
    fn published_examples_hold() {
        let headers = |date| [("authorization", "AWS"), ("date", date)];
        let mut put = headers("Tue, 27 Mar 2007 21:15:45 +0000").to_vec();
        put.push(("content-type", "image/jpeg"));
        let (get, acl) = ("Tue, 27 Mar 2007 19:36:42 +0000", "Tue, 27 Mar 2007 19:44:46 +0000");
        let (puppy, older) = ("/awsexamplebucket1/photos/puppy.jpg", "/johnsmith/photos/puppy.jpg");
        let expires = format!("{older}?Expires=1175139620&AWSAccessKeyId=AKIA");
        for (req, signature) in [
            (request("GET", puppy, &headers(get)), "qgk2+6Sv9/oM7G3qLEjTH1a1l1g="),
            (request("PUT", puppy, &put), "iqRzw+ileNPu1fhspnRs8nOjjIA="),
            (request("GET", "/johnsmith/?acl", &headers(acl)), "c2WLPFtWHVgbEmeEG93a4cG37dM="),
            (request("GET", &expires, &[]), "NpgCjnDzrM+WFzoENXmpNDUsSn8="),
        ] {
            assert!(is_signed(&req, EXAMPLE, signature), "{}", canonical(&req));
            assert!(!is_signed(&req, EXAMPLE, "") && !is_signed(&req, "other", signature));
        }
        // With a fresh date beside it a URL is no longer the one that was signed.
        let again = request("GET", &expires, &headers(get));
        assert!(!is_signed(&again, EXAMPLE, "NpgCjnDzrM+WFzoENXmpNDUsSn8="));
    }
}
