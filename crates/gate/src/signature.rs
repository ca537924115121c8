//! Signatures of requests: AWS Signature Version 4, in headers, in URLs, and of chunks.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::digest::{hex, sha256_hex, unhex};
use crate::error::{Code, GateError, Result};
use crate::request::{Request, encoded};
use crate::{times, version2};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// SHA-256 of nothing.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The key of all of AWS's published examples.
#[cfg(any(test, feature = "hostile"))]
pub(crate) const EXAMPLE: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// Seconds that the clocks of client and server may differ.
const MAX_SKEW: u64 = 15 * 60;
const PAYLOADS: &str = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, \
    STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, \
    STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, \
    STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.";
/// Most seconds that a presigned URL is good for.
const MAX_EXPIRES: i64 = 7 * 86_400;

/// The signature that a request carries, before it is verified.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// Id of the access key.
    pub key_id: String,
    /// Date, region and service of the signing key.
    scope: String,
    /// Names of the headers that are signed, lower-case and in order.
    signed: Vec<String>,
    signature: String,
    /// Time of the request, as it is written there.
    time: String,
    /// Seconds that a presigned URL is good for; `None`: it is in headers.
    expires: Option<u64>,
    /// The claim about the payload.
    pub payload: String,
    /// It is one of version 2.
    old: bool,
}

fn malformed(why: &str) -> GateError {
    let why = format!("The authorization header is malformed; {why}");
    Code::AuthorizationHeaderMalformed.error(why)
}

fn unsupported() -> GateError {
    let why = "The authorization mechanism you have provided is not supported. Please use \
               AWS4-HMAC-SHA256.";
    Code::InvalidRequest.error(why)
}

/// The time of a request, as signatures have it.
fn time_of(req: &Request) -> Result<String> {
    let time = req.header("x-amz-date").or(req.header("date")).unwrap_or_default();
    match (times::parse_basic(time), times::parse_http(time)) {
        (None, Some(seconds)) => Ok(times::basic(seconds)),
        (None, None) => {
            Code::AccessDenied.err("AWS authentication requires a valid Date or x-amz-date header.")
        }
        _ => Ok(time.to_owned()),
    }
}

impl Claim {
    /// Reads the signature of a request, which may be of version 2 where that is permitted, and is
    /// for `only` this region; `None`: it carries none.
    /// Errors: it is malformed, or of another algorithm or region.
    pub(crate) fn of(req: &Request, version2: bool, only: Option<&str>) -> Result<Option<Claim>> {
        let (header, claim) = (req.header("authorization"), Claim::of_version2(req)?);
        match (header, claim) {
            (_, Some(claim)) if version2 => Ok(Some(claim)),
            (_, Some(_)) => Err(unsupported()),
            (Some(header), _) => Claim::of_header(req, header, only).map(Some),
            _ if req.word("X-Amz-Algorithm").or(req.word("X-Amz-Signature")).is_some() => {
                Claim::of_query(req, only).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn of_version2(req: &Request) -> Result<Option<Claim>> {
        let header = req.headers.get("authorization").map(|header| header.to_str().unwrap_or(""));
        let (key_id, signature, time, expires) = match (header, req.word("AWSAccessKeyId")) {
            (Some(header), _) => {
                let Some(words) = header.strip_prefix("AWS ") else { return Ok(None) };
                let (id, signature) = words.split_once(':').unwrap_or((words, ""));
                (id, signature, time_of(req)?, None)
            }
            (None, Some(id)) => {
                // It expires at a time, not some time after another.
                let expires = req.word("Expires").and_then(|seconds| seconds.parse().ok());
                let signature = req.word("Signature").unwrap_or_default();
                (id, signature, times::basic(0), Some(expires.unwrap_or(0)))
            }
            (None, None) => return Ok(None),
        };
        let (key_id, signature) = (key_id.to_owned(), signature.to_owned());
        let (payload, old, scope) = ("UNSIGNED-PAYLOAD".to_owned(), true, String::new());
        let claim = Claim { key_id, scope, signed: vec![], signature, time, expires, payload, old };
        Ok(Some(claim))
    }

    fn of_header(req: &Request, header: &str, only: Option<&str>) -> Result<Claim> {
        let words = header.strip_prefix(ALGORITHM).filter(|words| words.starts_with([' ', ',']));
        let words = words.ok_or_else(|| {
            let (why, value) = match header.split_once(' ') {
                Some((kind, _)) => ("Unsupported Authorization Type", kind),
                None => {
                    let why = "Authorization header is invalid -- one and only one ' ' (space) \
                               required.";
                    (why, header)
                }
            };
            Code::InvalidArgument.error(why).argument("Authorization", value)
        })?;
        let words: Vec<&str> =
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.len() != 3 {
            return Err(malformed(
                "the authorization header requires three components: Credential, \
                                  SignedHeaders, and Signature.",
            ));
        }
        if let Some(word) = words.iter().find(|word| !word.contains('=')) {
            let why = format!("the authorization component \"{word}\" is malformed.");
            return Err(malformed(&why));
        }
        let field = |name: &str| {
            let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.ok_or_else(|| malformed(&format!("missing {name}.")))
        };
        let time = time_of(req)?;
        let payload = req
            .header("x-amz-content-sha256")
            .ok_or_else(|| Code::InvalidRequest.error("x-amz-content-sha256: it is not there"))?;
        let is_sha256 = unhex(payload).is_some_and(|bytes| bytes.len() == 32);
        if !is_sha256 && !payload.starts_with("STREAMING-") && payload != "UNSIGNED-PAYLOAD" {
            return Err(Code::InvalidArgument
                .error(PAYLOADS)
                .argument("x-amz-content-sha256", payload));
        }
        let signed = field("SignedHeaders")?;
        Claim {
            signed: signed.split(';').map(str::to_owned).collect(),
            signature: field("Signature")?.to_owned(),
            payload: payload.to_owned(),
            time,
            ..Claim::default()
        }
        .with_credential(field("Credential")?, only, malformed)
    }

    fn of_query(req: &Request, only: Option<&str>) -> Result<Claim> {
        let wrong = |why: &str| Code::AuthorizationQueryParametersError.error(why);
        let missing = "Query-string authentication version 4 requires the X-Amz-Algorithm, \
                       X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and \
                       X-Amz-Expires parameters.";
        let word = |name: &str| req.word(name).ok_or_else(|| wrong(missing));
        let more = match word("X-Amz-Algorithm")? {
            ALGORITHM => None,
            "AWS4-ECDSA-P256-SHA256" => Some(""),
            _ => Some(" and AWS4-ECDSA-P256-SHA256"),
        };
        if let Some(more) = more {
            return Err(wrong(&format!("X-Amz-Algorithm only supports \"{ALGORITHM}{more}\"")));
        }
        let expires = match word("X-Amz-Expires")?.parse::<i64>() {
            Ok(..=0) => return Err(wrong("X-Amz-Expires must be non-negative")),
            Ok(seconds @ 1..=MAX_EXPIRES) => seconds as u64,
            Ok(_) => {
                return Err(wrong(
                    "X-Amz-Expires must be less than a week (in seconds); that is, \
                                  the given X-Amz-Expires must be less than 604800 seconds",
                ));
            }
            Err(_) => return Err(wrong("X-Amz-Expires should be a number")),
        };
        let payload = req.word("X-Amz-Content-Sha256").or(req.header("x-amz-content-sha256"));
        Claim {
            signed: word("X-Amz-SignedHeaders")?.split(';').map(str::to_owned).collect(),
            signature: word("X-Amz-Signature")?.to_owned(),
            payload: payload.unwrap_or("UNSIGNED-PAYLOAD").to_owned(),
            time: word("X-Amz-Date")?.to_owned(),
            expires: Some(expires),
            ..Claim::default()
        }
        .with_credential(word("X-Amz-Credential")?, only, |why| {
            match why.starts_with("Invalid") {
                true => wrong(why),
                false => wrong(&format!("Error parsing the X-Amz-Credential parameter; {why}")),
            }
        })
    }

    fn with_credential(
        self,
        credential: &str,
        only: Option<&str>,
        wrong: impl Fn(&str) -> GateError,
    ) -> Result<Claim> {
        // Ids of keys have no slashes.
        let words: Vec<&str> = credential.split('/').collect();
        let [key_id, date, region, service, terminal] = words[..] else {
            return Err(wrong(
                "the Credential is mal-formed; expecting \
                 \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            ));
        };
        let (day, is_day) = (
            self.time.get(..8).unwrap_or_default(),
            times::parse_basic(&format!("{date}T000000Z")),
        );
        if let Some(only) = only.filter(|only| *only != region) {
            let why = format!("the region \"{region}\" is wrong; expecting \"{only}\"");
            return Err(wrong(&why).with("Region", only));
        }
        let why = match (service, terminal) {
            ("s3", "aws4_request") if is_day.is_none() => format!(
                "incorrect date format \"{date}\". This date in the credential must be in the \
                 format \"yyyyMMdd\"."
            ),
            ("s3", "aws4_request") if day == date => {
                let scope = format!("{date}/{region}/{service}/{terminal}");
                return Ok(Claim { key_id: key_id.to_owned(), scope, ..self });
            }
            ("s3", "aws4_request") => format!(
                "Invalid credential date \"{date}\". This date is not the same as X-Amz-Date: \
                 \"{day}\"."
            ),
            ("s3", _) => {
                format!("incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\".")
            }
            _ => format!("incorrect service \"{service}\". This endpoint belongs to \"s3\"."),
        };
        Err(wrong(&why))
    }

    /// Checks the signature with the secret of its key, and the time.
    /// Errors: [`Code::SignatureDoesNotMatch`], [`Code::RequestTimeTooSkewed`];
    /// [`Code::AccessDenied`] for a URL that has expired, or headers that should be signed and are
    /// not.
    pub(crate) fn verify(&self, req: &Request, secret: &str, now: u64) -> Result<Signer> {
        let denied = |why: &str| Code::AccessDenied.error(why);
        let time = times::parse_basic(&self.time);
        let time = time.ok_or_else(|| denied("the time of the request cannot be read"))?;
        match self.expires {
            Some(expires) if now > time.saturating_add(expires) => {
                return Err(denied("Request has expired.")
                    .with("X-Amz-Expires", expires)
                    .with("Expires", times::iso((time + expires) * 1000))
                    .with("ServerTime", times::iso(now * 1000)));
            }
            Some(_) if time > now + MAX_SKEW => return Err(denied("the URL is not good yet")),
            None if now.abs_diff(time) > MAX_SKEW => {
                return Code::RequestTimeTooSkewed
                    .err("the clocks of client and server differ by more than 15 minutes");
            }
            _ => {}
        }
        if self.old {
            return match version2::is_signed(req, secret, &self.signature) {
                true => Ok(Signer::new(secret, &self.scope, &self.time)),
                false => Err(other_signature()),
            };
        }
        if !self.signed.iter().any(|name| name == "host") {
            return Err(denied("the header host is not signed"));
        }
        let unsigned = req.headers.keys().map(http::HeaderName::as_str).filter(|name| {
            let free = self.expires.is_some() && *name == "x-amz-content-sha256";
            name.starts_with("x-amz-") && !free && !self.signed.iter().any(|has| has == name)
        });
        let mut unsigned: Vec<&str> = unsigned.collect();
        if !unsigned.is_empty() {
            unsigned.sort_unstable();
            let why = "There were headers present in the request which were not signed";
            return Err(denied(why).with("HeadersNotSigned", unsigned.join(", ")));
        }
        let signer = Signer::new(secret, &self.scope, &self.time);
        let text = self.canonical(req);
        let to_sign = format!("{ALGORITHM}\n{}\n{}\n{}", self.time, self.scope, sha256_hex(&text));
        signer.check(&to_sign, &self.signature)?;
        Ok(Signer { last: self.signature.clone(), ..signer })
    }

    /// The request in the form that is signed.
    fn canonical(&self, req: &Request) -> Vec<u8> {
        let mut query: Vec<(String, String)> = req
            .query
            .iter()
            .filter(|(name, _)| self.expires.is_none() || name != "X-Amz-Signature")
            .map(|(name, value)| (encoded(name, false), encoded(value, false)))
            .collect();
        query.sort();
        let query: Vec<String> =
            query.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (path, query) = (encoded(&req.path, true), query.join("&"));
        let mut text = format!("{}\n{path}\n{query}\n", req.method).into_bytes();
        for name in &self.signed {
            text.extend(name.bytes());
            text.push(b':');
            for (at, value) in req.headers.get_all(name.as_str()).iter().enumerate() {
                text.extend(if at > 0 { &b","[..] } else { b"" });
                let words = value.as_bytes().split(|byte| *byte == b' ');
                let words = words.filter(|word| !word.is_empty());
                text.extend(words.collect::<Vec<_>>().join(&b' '));
            }
            text.push(b'\n');
        }
        text.extend(format!("\n{}\n{}", self.signed.join(";"), self.payload).bytes());
        text
    }
}

fn other_signature() -> GateError {
    let why = "the signature is not the one of this request and the key's secret";
    Code::SignatureDoesNotMatch.error(why)
}

/// Signs with the key of a day; each chunk's signature depends on the one before.
#[derive(Clone)]
pub(crate) struct Signer {
    key: Vec<u8>,
    scope: String,
    time: String,
    last: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

fn mac(key: &[u8], text: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key of HMAC");
    mac.update(text);
    mac
}

impl Signer {
    fn new(secret: &str, scope: &str, time: &str) -> Signer {
        let mut key = format!("AWS4{secret}").into_bytes();
        for word in scope.split('/') {
            key = mac(&key, word.as_bytes()).finalize().into_bytes().to_vec();
        }
        Signer { key, scope: scope.to_owned(), time: time.to_owned(), last: String::new() }
    }

    /// Compares in a time that does not depend on where the two differ.
    fn check(&self, text: &str, signature: &str) -> Result<()> {
        let given = unhex(signature).unwrap_or_default();
        mac(&self.key, text.as_bytes()).verify_slice(&given).map_err(|_| other_signature())
    }

    /// Checks the signature of a chunk, of which this is the SHA-256.
    pub(crate) fn check_chunk(&mut self, sha256: &[u8], signature: &str) -> Result<()> {
        let text = format!(
            "{ALGORITHM}-PAYLOAD\n{}\n{}\n{}\n{EMPTY}\n{}",
            self.time,
            self.scope,
            self.last,
            hex(sha256)
        );
        self.check(&text, signature)?;
        signature.clone_into(&mut self.last);
        Ok(())
    }

    /// Checks the signature of the lines behind the last chunk.
    pub(crate) fn check_trailer(&self, lines: &str, signature: &str) -> Result<()> {
        let text = format!(
            "{ALGORITHM}-TRAILER\n{}\n{}\n{}\n{}",
            self.time,
            self.scope,
            self.last,
            sha256_hex(lines.as_bytes())
        );
        self.check(&text, signature)
    }

    #[cfg(any(test, feature = "hostile"))]
    pub(crate) fn example(last: &str) -> Signer {
        let scope = "20130524/us-east-1/s3/aws4_request";
        let signer = Signer::new(EXAMPLE, scope, "20130524T000000Z");
        Signer { last: last.to_owned(), ..signer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;

    const NOW: u64 = 1_369_353_600;

    fn signed(line: &str, names: &str, signature: &str, more: &[(&str, &str)]) -> Request {
        let (method, uri) = line.split_once(' ').unwrap();
        let header = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={names},Signature={signature}"
        );
        let mut headers = vec![
            ("authorization", header.as_str()),
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-date", "20130524T000000Z"),
        ];
        headers.extend(more);
        request(method, uri, &headers)
    }

    fn check(req: &Request, now: u64) -> Result<Signer> {
        let claim = Claim::of(req, false, None)?.unwrap();
        assert_eq!(claim.key_id, "AKIAIOSFODNN7EXAMPLE");
        claim.verify(req, EXAMPLE, now)
    }

    #[test]
    fn published_examples_of_headers_hold() {
        let plain = "host;x-amz-content-sha256;x-amz-date";
        let empty = ("x-amz-content-sha256", EMPTY);
        let sha = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let put = [
            ("x-amz-content-sha256", sha),
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let examples = [
            signed(
                "GET /test.txt",
                "host;range;x-amz-content-sha256;x-amz-date",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
                &[empty, ("range", "bytes=0-9")],
            ),
            signed(
                "PUT /test%24file.text",
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
                &put,
            ),
            signed(
                "GET /?lifecycle",
                plain,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
                &[empty],
            ),
            signed(
                "GET /?max-keys=2&prefix=J",
                plain,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
                &[empty],
            ),
        ];
        for req in &examples {
            check(req, NOW + 60).unwrap();
            let late = check(req, NOW + 16 * 60).unwrap_err();
            assert_eq!(late.code, Code::RequestTimeTooSkewed);
            let mut other = req.clone();
            other.path.push('x');
            assert_eq!(check(&other, NOW).unwrap_err().code, Code::SignatureDoesNotMatch);
            let mut more = req.clone();
            more.headers.insert("x-amz-acl", "public-read".parse().unwrap());
            assert_eq!(check(&more, NOW).unwrap_err().code, Code::AccessDenied);
        }
    }

    #[test]
    fn the_published_example_of_a_presigned_url_holds() {
        let uri = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
            &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
            &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        let req = request("GET", uri, &[("host", "examplebucket.s3.amazonaws.com")]);
        check(&req, NOW + 86_400).unwrap();
        assert_eq!(check(&req, NOW + 86_401).unwrap_err().code, Code::AccessDenied);
        let put = Request { method: http::Method::PUT, ..req };
        assert_eq!(check(&put, NOW).unwrap_err().code, Code::SignatureDoesNotMatch);
    }

    #[test]
    fn malformed_claims_are_errors() {
        for header in [
            "",
            "AWS AKIA:sig",
            "AWS4-HMAC-SHA256",
            "AWS4-HMAC-SHA256 Credential=a,SignedHeaders=host,Signature=00",
            "AWS4-HMAC-SHA256 Credential=a/20130525/r/s3/aws4_request,SignedHeaders=h,Signature=0",
            "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request,Signature=00",
        ] {
            let headers = [
                ("authorization", header),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-content-sha256", EMPTY),
            ];
            assert!(Claim::of(&request("GET", "/", &headers), false, None).is_err(), "{header}");
        }
        assert!(Claim::of(&request("GET", "/", &[]), false, None).unwrap().is_none());
        assert!(Claim::of(&request("GET", "/?X-Amz-Signature=1", &[]), false, None).is_err());
    }
}
