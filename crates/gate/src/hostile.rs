//! Parsers of what clients send, for the fuzzer.

use std::io::Read as _;

use crate::payload::{Announced, Payload};
use crate::signature::{Claim, Signer};
use crate::{cors, digest::Kind, lifecycle, policy, request::Request, xml};

/// Reads a request as text: method and URI, a header a line, and behind an empty line its payload.
pub fn read(input: &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let payload = input.get(end + 2..).unwrap_or_default();
    let mut lines = input[..end].split(|byte| *byte == b'\n');
    let mut first = lines.next().unwrap_or_default().splitn(2, |byte| *byte == b' ');
    let (method, uri) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let mut builder = http::Request::builder().method(method).uri(uri);
    for line in lines {
        let mut words = line.splitn(2, |byte| *byte == b':');
        builder =
            builder.header(words.next().unwrap_or_default(), words.next().unwrap_or_default());
    }
    let head = builder.body(()).ok().map(|request| request.into_parts().0);
    if let Some(Ok(req)) = head.as_ref().map(Request::new) {
        for version2 in [false, true] {
            if let Ok(Some(claim)) = Claim::of(&req, version2, None) {
                let _ = claim.verify(&req, "secret", 1 << 30);
            }
        }
        crate::calls::read_head(&req);
        for signer in [None, Some(Signer::example(""))] {
            body(&req, payload, signer);
        }
    }
    if let Ok(text) = std::str::from_utf8(payload) {
        for root in ["CompleteMultipartUpload", "Delete", "Tagging"] {
            let _ = xml::parse(payload, root).map(|document| document.to_text());
        }
        let _ = (lifecycle::parse(text), cors::check(text), policy::check(text, "b"));
        policy::permits(text, "b", Some("k"));
    }
}

/// A payload that is read to its end has the length that was announced.
fn body(req: &Request, mut raw: &[u8], signer: Option<Signer>) {
    let claim = req.header("x-amz-content-sha256").unwrap_or("UNSIGNED-PAYLOAD");
    let announced = Announced::of(req, claim).and_then(|announced| announced.with_checksum(req));
    let Ok(announced) = announced else { return };
    let (mut payload, mut bytes) =
        (Payload::new(&mut raw, announced, signer, Some(Kind::Crc32)), Vec::new());
    if payload.read_to_end(&mut bytes).is_ok() {
        assert_eq!(bytes.len() as u64, payload.length());
    }
}
