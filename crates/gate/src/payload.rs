//! The payload of a request: its framing undone, and verified before its end is reported.
//!
//! Bytes pass on as they come, so that memory stays bounded; a reader that gets to the end knows
//! that length, signatures and checksums are right, and may make what it wrote visible. Any other
//! end is an error.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_stripe::Budget;
use sha2::{Digest as _, Sha256};

use crate::digest::{self, Digests, Kind, Sums};
use crate::error::{Code, GateError, Result};
use crate::{request::Request, signature::Signer};

/// Most bytes of a line between chunks.
const MAX_LINE: usize = 4096;
/// Digits of a signature.
const SIGNATURE: usize = 64;
/// Least bytes of a chunk that is not the last one.
const MIN_CHUNK: u64 = 8192;
const SMALL_CHUNK: &str = "Only the last chunk is allowed to have a size less than 8192 bytes";
/// Most lines behind the last chunk.
const MAX_TRAILERS: usize = 16;
/// Least bytes that a client sends in some time while others wait for memory.
const LEAST: u64 = 1 << 20;
const MAX_WAIT: Duration = Duration::from_secs(60);
const UNENDED: &str = "a chunk does not end where it should";
const OTHER_LENGTH: &str =
    "You did not provide the number of bytes specified by the Content-Length HTTP header";
/// Said where there are several checksums.
pub(crate) const SEVERAL: &str =
    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
/// Most bytes of an object, or a part, that is put at once.
const MAX_PUT: u64 = 5 << 30;

/// The payload, as the head of its request announces it.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Bytes, without framing.
    length: u64,
    /// It comes in chunks of the protocol.
    chunked: bool,
    signed_chunks: bool,
    /// SHA-256 of all of it in hex.
    sha256: Option<String>,
    md5: Option<Vec<u8>>,
    /// The checksum that the client named, and its value, unless that follows the payload.
    checksum: Option<(Kind, Option<Vec<u8>>)>,
    /// The checksum follows the payload.
    trailed: bool,
}

impl Announced {
    /// Announces so many bytes, and no more about them.
    pub(crate) fn plain(length: u64) -> Announced {
        Announced { length, ..Announced::default() }
    }

    /// Reads what the head says; `claim` is the claim about the payload that was signed.
    /// Errors: a length that is missing or too large, digests that are none.
    pub(crate) fn of(req: &Request, claim: &str) -> Result<Announced> {
        let wrong = |code, why: &str| GateError::new(code, why.to_owned());
        let chunked = claim.starts_with("STREAMING-");
        let known = [
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        ];
        if chunked && !known.contains(&claim) {
            return Err(wrong(Code::NotImplemented, "x-amz-content-sha256: unknown streaming"));
        }
        let plain = !chunked && claim != "UNSIGNED-PAYLOAD";
        if plain && digest::unhex(claim).is_none_or(|bytes| bytes.len() != 32) {
            return Err(wrong(Code::InvalidRequest, "x-amz-content-sha256: it is no SHA-256"));
        }
        let length = match chunked {
            true => req.header("x-amz-decoded-content-length"),
            false => req.header("content-length"),
        };
        let length: u64 = match length.map(str::parse) {
            Some(Ok(length)) => length,
            Some(Err(_)) => return Err(wrong(Code::MissingContentLength, "length: no number")),
            None => return Err(wrong(Code::MissingContentLength, "length: it is not there")),
        };
        if length > MAX_PUT {
            return Err(wrong(Code::EntityTooLarge, "length: it is more than 5 GiB; use parts"));
        }
        let md5 = req.header("content-md5").map(|text| {
            let bytes = digest::from_base64(text).filter(|bytes| bytes.len() == 16);
            let invalid = || wrong(Code::InvalidDigest, "Content-MD5: it is invalid");
            bytes.ok_or_else(|| invalid().with("Content-MD5", text))
        });
        Ok(Announced {
            length,
            chunked,
            signed_chunks: chunked && claim.contains("HMAC"),
            sha256: plain.then(|| claim.to_ascii_lowercase()),
            md5: md5.transpose()?,
            ..Announced::default()
        })
    }

    /// Adds the checksum that the request names of its payload.
    /// Errors: [`Code::InvalidRequest`]: several, unknown ones, or a value that is none.
    pub(crate) fn with_checksum(self, req: &Request) -> Result<Announced> {
        let checksum = named_checksum(req)?;
        let trailed = matches!(checksum, Some((_, None)));
        Ok(Announced { checksum, trailed, ..self })
    }

    /// Returns the algorithm of the checksum that the client named.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.checksum.as_ref().map(|(kind, _)| *kind)
    }
}

/// Begins the name of a header with a checksum.
const PREFIX: &str = "x-amz-checksum-";

/// The checksum of the payload that a request names.
fn named_checksum(req: &Request) -> Result<Option<(Kind, Option<Vec<u8>>)>> {
    let words = req.headers.keys().filter_map(|name| name.as_str().strip_prefix(PREFIX));
    let mut words = words.filter(|word| !matches!(*word, "algorithm" | "mode" | "type"));
    let mut found = None;
    if let Some(word) = words.next() {
        if words.next().is_some() {
            return Code::InvalidRequest.err(SEVERAL);
        }
        let kind = Kind::parse(word).ok_or_else(|| {
            let why = "The algorithm type you specified in x-amz-checksum- header is invalid.";
            Code::InvalidRequest.error(why)
        })?;
        let bytes = req.header(&kind.header()).and_then(digest::from_base64);
        let bytes = bytes.filter(|bytes| bytes.len() == kind.bytes()).ok_or_else(|| {
            let why = format!("Value for {} header is invalid.", kind.header());
            Code::InvalidRequest.error(why)
        })?;
        found = Some((kind, Some(bytes)));
    }
    if let Some(trailer) = req.header("x-amz-trailer") {
        let kind = Kind::of_header(&trailer.trim().to_ascii_lowercase());
        let unknown = || Code::InvalidRequest.error("x-amz-trailer: it is no checksum");
        if found.replace((kind.ok_or_else(unknown)?, None)).is_some() {
            return Code::InvalidRequest.err(SEVERAL);
        }
    }
    let asked = req.header("x-amz-sdk-checksum-algorithm").and_then(Kind::parse);
    match (asked, &found) {
        (Some(asked), Some((kind, _))) if asked != *kind => {
            Code::InvalidRequest.err("Value for x-amz-sdk-checksum-algorithm header is invalid.")
        }
        _ => Ok(found),
    }
}

/// A payload that is read.
pub(crate) struct Payload<'a> {
    raw: &'a mut (dyn BufRead + Send),
    announced: Announced,
    signer: Option<Signer>,
    digests: Digests,
    got: u64,
    /// The chunk that is being read.
    chunk: Option<Chunk>,
    /// Number and bytes of the last chunk that began.
    last: Option<(u64, u64)>,
    ended: bool,
    failed: Option<GateError>,
    /// Memory that others may wait for meanwhile.
    budget: Option<Arc<Budget>>,
    pace: Pace,
}

/// Pace at which a client sends: it holds memory while it does.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// Adds what was read in some time; returns whether it is too little.
    fn is_slow(&mut self, bytes: u64, waited: Duration) -> bool {
        (self.bytes, self.waited) = (self.bytes + bytes, self.waited + waited);
        if self.bytes >= LEAST {
            *self = Pace::default();
        }
        self.waited > MAX_WAIT
    }
}

/// A chunk of the protocol.
struct Chunk {
    left: u64,
    signature: String,
    sha256: Sha256,
}

impl<'a> Payload<'a> {
    /// Reads a payload; `signer` checks the signatures of its chunks, and `kind` is the checksum
    /// that is made where the client named none.
    pub(crate) fn new(
        raw: &'a mut (dyn BufRead + Send),
        announced: Announced,
        signer: Option<Signer>,
        kind: Option<Kind>,
    ) -> Payload<'a> {
        let digests = Digests::new(announced.sha256.is_some(), announced.kind().or(kind));
        let signer = signer.filter(|_| announced.signed_chunks);
        let (chunk, failed, budget, pace) = (None, None, None, Pace::default());
        let (got, last, ended) = (0, None, false);
        Payload { raw, announced, signer, digests, got, chunk, last, ended, failed, budget, pace }
    }

    /// Ends it where its client is slow and others wait for the memory that it holds.
    pub(crate) fn hurry(&mut self, budget: &Arc<Budget>) {
        self.digests.lag(budget);
        self.budget = Some(Arc::clone(budget));
    }

    /// Returns the algorithm of the checksum that the client named.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.announced.kind()
    }

    /// Makes a checksum for the record where the client named another one.
    pub(crate) fn keep(&mut self, kind: Kind) {
        self.digests.keep(kind);
    }

    /// Returns how many bytes it has.
    pub(crate) fn length(&self) -> u64 {
        self.announced.length
    }

    /// Returns the error by which it ended before its end.
    pub(crate) fn failure(&self) -> Option<GateError> {
        self.failed.clone()
    }

    /// Returns the sums of what was verified, after the end.
    pub(crate) fn verified(&mut self) -> &Sums {
        self.digests.sums()
    }

    fn next(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.ended || buf.is_empty() {
            return Ok(0);
        }
        if !self.announced.chunked {
            return match self.announced.length - self.got {
                0 => self.finish().map(|()| 0),
                left => self.data(buf, left),
            };
        }
        if self.chunk.is_none() {
            let chunk = self.chunk_head()?;
            if chunk.left == 0 {
                self.check_chunk(chunk)?;
                if self.got != self.announced.length {
                    return Code::IncompleteBody.err(OTHER_LENGTH);
                }
                self.trailers()?;
                return self.finish().map(|()| 0);
            }
            if let Some((number, size @ ..MIN_CHUNK)) = self.last {
                return Err(Code::InvalidChunkSizeError
                    .error(SMALL_CHUNK)
                    .with("Chunk", number)
                    .with("BadChunkSize", size));
            }
            self.last = Some((self.last.map_or(1, |(number, _)| number + 1), chunk.left));
            if chunk.left > self.announced.length - self.got {
                // One that is cut short is the first error of the two.
                let _ = io::copy(&mut (&mut *self.raw).take(chunk.left), &mut io::sink());
                return match self.line()?.is_empty() {
                    true => Code::IncompleteBody.err(OTHER_LENGTH),
                    false => Err(incomplete(UNENDED)),
                };
            }
            self.chunk = Some(chunk);
        }
        let left = self.chunk.as_ref().map_or(0, |chunk| chunk.left);
        let got = self.data(buf, left)?;
        if let Some(mut chunk) = self.chunk.take() {
            chunk.left -= got as u64;
            if self.signer.is_some() {
                chunk.sha256.update(&buf[..got]);
            }
            if chunk.left > 0 {
                self.chunk = Some(chunk);
            } else {
                self.check_chunk(chunk)?;
                if !self.line()?.is_empty() {
                    return Err(incomplete(UNENDED));
                }
            }
        }
        Ok(got)
    }

    /// Reads bytes of the payload itself.
    fn data(&mut self, buf: &mut [u8], most: u64) -> Result<usize> {
        let most = buf.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let begun = Instant::now();
        let got =
            self.raw.read(&mut buf[..most]).map_err(|error| incomplete(&error.to_string()))?;
        if got == 0 {
            return Err(incomplete("it ends before its length"));
        }
        let is_slow = self.pace.is_slow(got as u64, begun.elapsed());
        if is_slow && self.budget.as_ref().is_some_and(|budget| budget.is_waited_for()) {
            return Code::RequestTimeout.err("payload: it is slow, and others wait for its memory");
        }
        self.digests.update(&buf[..got]);
        self.got += got as u64;
        Ok(got)
    }

    /// Reads a line without its end.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let mut raw = (&mut *self.raw).take(MAX_LINE as u64);
        raw.read_until(b'\n', &mut line).map_err(|error| incomplete(&error.to_string()))?;
        let text = line.strip_suffix(b"\r\n").filter(|text| !text.contains(&b'\r'));
        let text = text.ok_or_else(|| incomplete("a line of its framing is cut off"))?;
        String::from_utf8(text.to_vec()).map_err(|_| incomplete("a line of its framing is no text"))
    }

    fn chunk_head(&mut self) -> Result<Chunk> {
        let line = self.line()?;
        let (size, rest) = line.split_once(';').unwrap_or((&line, ""));
        let size = Some(size.trim()).filter(|size| (1..=16).contains(&size.len()));
        let left = size.and_then(|size| u64::from_str_radix(size, 16).ok());
        let left = left.ok_or_else(|| incomplete("a chunk has no length"))?;
        let signature = rest.trim().strip_prefix("chunk-signature=").unwrap_or("").to_owned();
        if self.signer.is_some() && signature.len() != SIGNATURE {
            return Err(incomplete("a chunk has no signature"));
        }
        Ok(Chunk { left, signature, sha256: Sha256::new() })
    }

    fn check_chunk(&mut self, chunk: Chunk) -> Result<()> {
        match &mut self.signer {
            Some(signer) => signer.check_chunk(&chunk.sha256.finalize(), &chunk.signature),
            None => Ok(()),
        }
    }

    /// Reads the lines behind the last chunk.
    fn trailers(&mut self) -> Result<()> {
        let (mut lines, mut signature) = (String::new(), None);
        for _ in 0..MAX_TRAILERS {
            // Some clients leave out the empty line at the end.
            let line = match self.raw.fill_buf().map(<[u8]>::is_empty) {
                Ok(true) if !self.announced.trailed => String::new(),
                _ => self.line()?,
            };
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if name == "x-amz-trailer-signature" && value.len() == SIGNATURE {
                signature = Some(value.to_owned());
                continue;
            }
            if self.signer.is_some() && !lines.is_empty() {
                return Err(incomplete("the lines behind it are not signed"));
            }
            lines += &format!("{name}:{value}\n");
            match &mut self.announced.checksum {
                Some((kind, expected)) if name == kind.header() && self.announced.trailed => {
                    let bytes = digest::from_base64(value);
                    let bytes = bytes.filter(|bytes| bytes.len() == kind.bytes());
                    *expected = Some(bytes.ok_or_else(|| {
                        let why = format!("Value for {name} trailing header is invalid.");
                        Code::InvalidRequest.error(why)
                    })?);
                }
                _ => {
                    return Code::MalformedTrailerError
                        .err(format!("trailer: {name:?} is not what x-amz-trailer names"));
                }
            }
        }
        if matches!(self.announced.checksum, Some((_, None))) {
            return Code::MalformedTrailerError
                .err("trailer: the checksum that x-amz-trailer names is missing");
        }
        match (&self.signer, signature) {
            (Some(signer), Some(signature)) => signer.check_trailer(&lines, &signature),
            (Some(_), None) if !lines.is_empty() => {
                Code::SignatureDoesNotMatch.err("the lines behind the payload are not signed")
            }
            _ => Ok(()),
        }
    }

    /// Checks all that was announced.
    fn finish(&mut self) -> Result<()> {
        if self.got != self.announced.length {
            return Err(incomplete("it has another length than was announced"));
        }
        let sums = self.digests.sums();
        if let Some(md5) = self.announced.md5.as_ref().filter(|md5| md5[..] != sums.md5()) {
            let why = "The Content-MD5 you specified did not match what we received.";
            return Err(Code::BadDigest
                .error(why)
                .with("CalculatedDigest", digest::to_base64(&sums.md5()))
                .with("ExpectedDigest", digest::hex(md5)));
        }
        if sums.signed() != self.announced.sha256 {
            let other = |sum: &Option<String>| sum.clone().unwrap_or_default();
            return Err(other_sha256(&other(&self.announced.sha256), &other(&sums.signed())));
        }
        if let Some((kind, expected)) = &self.announced.checksum {
            let expected = expected.as_ref().map(|expected| digest::to_base64(expected));
            if expected.is_none() || sums.named().map(|sum| sum.value) != expected {
                return Code::BadDigest.err(unmatched(*kind));
            }
        }
        self.ended = true;
        Ok(())
    }
}

/// Says that a checksum is another one.
pub(crate) fn unmatched(kind: Kind) -> String {
    format!("The {} you specified did not match the calculated checksum.", kind.name())
}

/// Says that the SHA-256 of a payload is not the one that was signed.
pub(crate) fn other_sha256(signed: &str, found: &str) -> GateError {
    Code::XAmzContentSHA256Mismatch
        .error("payload: its SHA-256 is another")
        .with("ClientComputedContentSHA256", signed)
        .with("S3ComputedContentSHA256", found)
}

fn incomplete(why: &str) -> GateError {
    Code::IncompleteBody.error(format!("payload: {why}"))
}

impl Read for Payload<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.next(buf).map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;

    const SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    const TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
    const UNSIGNED: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

    fn announced(claim: &str, length: usize, headers: &[(&str, &str)]) -> Result<Announced> {
        let length = length.to_string();
        let lengths =
            ["x-amz-decoded-content-length", "content-length"].map(|name| (name, &length[..]));
        let req = request("PUT", "/b/k", &[&lengths[..], headers].concat());
        Announced::of(&req, claim)?.with_checksum(&req)
    }

    fn read(mut raw: &[u8], announced: Announced, signer: Option<Signer>) -> Result<Vec<u8>> {
        let mut payload = Payload::new(&mut raw, announced, signer, None);
        let mut bytes = Vec::new();
        match payload.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(_) => Err(payload.failure().unwrap()),
        }
    }

    /// The published examples: 65 KiB of `a` in chunks of 64 KiB and 1 KiB.
    fn example(signatures: [&str; 3], end: &str) -> Vec<u8> {
        let mut raw = Vec::new();
        for (size, signature) in [65536, 1024, 0].into_iter().zip(signatures) {
            raw.extend(format!("{size:x};chunk-signature={signature}\r\n").bytes());
            raw.extend(std::iter::repeat_n(b'a', size));
            raw.extend(if size > 0 { &b"\r\n"[..] } else { b"" });
        }
        raw.extend(end.bytes());
        raw
    }

    #[test]
    fn the_published_example_of_signed_chunks_holds() {
        let seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        let raw = example(
            [
                "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
            ],
            "\r\n",
        );
        let all =
            |raw: &[u8]| read(raw, announced(SIGNED, 66_560, &[])?, Some(Signer::example(seed)));
        assert_eq!(all(&raw).unwrap(), vec![b'a'; 66_560]);
        for at in [10, 90, 66_000, raw.len() - 10] {
            let mut other = raw.clone();
            other[at] ^= 1;
            assert!(all(&other).is_err(), "{at}");
        }
        for cut in [0, 50, 500, 66_000, raw.len() - 40] {
            assert!(all(&raw[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn the_published_example_of_a_signed_trailer_holds() {
        let seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
        let signature = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
        let all = |sum: &str, signature: &str| {
            let end = format!(
                "x-amz-checksum-crc32c:{sum}\r\nx-amz-trailer-signature:{signature}\r\n\r\n"
            );
            let raw = example(
                [
                    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
                ],
                &end,
            );
            let trailer = [("x-amz-trailer", "x-amz-checksum-crc32c")];
            let announced = announced(TRAILER, 66_560, &trailer)?;
            read(&raw, announced, Some(Signer::example(seed)))
        };
        assert_eq!(all("sOO8/Q==", signature).unwrap().len(), 66_560);
        assert!(all("sOO9/Q==", signature).is_err());
        assert!(all("sOO8/Q==", &signature.replace('d', "e")).is_err());
    }

    #[test]
    fn a_slow_client_is_cut_off_where_others_wait() {
        let mut pace = Pace::default();
        let step = MAX_WAIT / 4;
        let slow = (0..5).map(|_| pace.is_slow(1000, step));
        assert!(slow.eq([false, false, false, false, true]));
        assert!(!pace.is_slow(LEAST, step), "it has made up for it");
        assert!((0..100).all(|_| !pace.is_slow(LEAST / 4, step)), "a mebibyte a minute is enough");
    }

    #[test]
    fn unsigned_trailers_are_verified() {
        let trailer = [("x-amz-trailer", "x-amz-checksum-crc32")];
        let all = |raw: &str| read(raw.as_bytes(), announced(UNSIGNED, 9, &trailer)?, None);
        let good = "9\r\n123456789\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n";
        assert_eq!(all(good).unwrap(), b"123456789");
        let code = |raw: &str| all(raw).unwrap_err().code;
        let small = good.replace("9\r\n12345", "5\r\n12345\r\n4\r\n");
        assert_eq!(code(&small), Code::InvalidChunkSizeError);
        assert_eq!(code(&good.replace("y/Q5", "y/Q6")), Code::BadDigest);
        assert_eq!(code("9\r\n123456789\r\n0\r\n\r\n"), Code::MalformedTrailerError);
        assert_eq!(code(&good.replace("crc32:", "crc32c:")), Code::MalformedTrailerError);
        assert_eq!(code("5\r\n12345\r\n0\r\n\r\n"), Code::IncompleteBody);
        assert_eq!(code("ff\r\n12345\r\n0\r\n\r\n"), Code::IncompleteBody);
        assert_eq!(code("5\r\n123456\r\n0\r\n\r\n"), Code::IncompleteBody);
        assert_eq!(code("-5\r\n"), Code::IncompleteBody);
        assert_eq!(code(&"f".repeat(10_000)), Code::IncompleteBody);
    }

    #[test]
    fn digests_of_plain_payloads_are_verified() {
        let sha = digest::sha256_hex(b"abc");
        let md5 = digest::to_base64(&digest::md5(b"abc"));
        let all = |claim: &str, headers: &[(&str, &str)], raw: &[u8]| {
            read(raw, announced(claim, 3, headers)?, None)
        };
        let good = [("content-md5", md5.as_str()), ("x-amz-checksum-crc32c", "Nks/tw==")];
        assert_eq!(all(&sha, &good, b"abc").unwrap(), b"abc");
        let code = |end: Result<Vec<u8>>| end.unwrap_err().code;
        assert_eq!(code(all(&sha, &[], b"abd")), Code::XAmzContentSHA256Mismatch);
        assert_eq!(code(all("UNSIGNED-PAYLOAD", &good, b"abd")), Code::BadDigest);
        assert_eq!(code(all("UNSIGNED-PAYLOAD", &good[1..], b"abd")), Code::BadDigest);
        assert_eq!(code(all("UNSIGNED-PAYLOAD", &[], b"ab")), Code::IncompleteBody);
        assert_eq!(code(all("abc", &[], b"abc")), Code::InvalidRequest);
        assert_eq!(code(all("STREAMING-x", &[], b"abc")), Code::NotImplemented);
        assert_eq!(code(all(&sha, &[("content-md5", "x")], b"abc")), Code::InvalidDigest);
    }
}
