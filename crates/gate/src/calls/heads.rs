//! Headers of objects: those that are kept, those that ask, those that answer.

use std::{collections::BTreeMap, ops::Range};

use crate::error::{Code, Result};
use crate::record::{Checksum, ObjectRecord};
use crate::{
    calls::locks::with_lock, multipart::check_number, object::Conditions, reply::Reply,
    request::Request, times,
};

/// Headers that are kept with an object and given back.
const KEPT: [&str; 7] = [
    "cache-control", "content-disposition", "content-encoding", "content-language", "content-type",
    "expires", REDIRECT,
];
/// Keeps the place that a website sends its visitors to.
pub(super) const REDIRECT: &str = "x-amz-website-redirect-location";
/// Most bytes of a user's metadata.
const MAX_META: usize = 2048;
/// Most bytes of one of the headers that are kept.
const MAX_HEADER: usize = 4096;
/// Begins the name of a header of a user's metadata.
const META: &str = "x-amz-meta-";

/// Returns the headers and the metadata of an object that a request makes.
pub(super) fn kept(req: &Request) -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)> {
    let (mut headers, mut meta, mut bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
    let text = |name: &str| {
        req.header(name)
            .ok_or_else(|| Code::InvalidArgument.error(format!("{name}: it is no UTF-8")))
    };
    for name in req.headers.keys().map(http::HeaderName::as_str) {
        if let Some(own) = name.strip_prefix(META) {
            let values = req.headers.get_all(name).iter();
            let values: Vec<&str> =
                values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok()).collect();
            let value = match values.len() {
                0 => text(name)?.to_owned(),
                _ => values.join(","),
            };
            bytes += own.len() + value.len();
            meta.insert(own.to_owned(), value);
        } else if KEPT.contains(&name) {
            let mut value = text(name)?.to_owned();
            if name == "content-encoding" {
                // The framing of the payload is no part of the object.
                let words = value.split(',').map(str::trim);
                value = words.filter(|word| *word != "aws-chunked").collect::<Vec<_>>().join(",");
            }
            let is_place = |begin: &&str| value.starts_with(begin);
            if name == REDIRECT && !["/", "http://", "https://"].iter().any(is_place) {
                return Code::InvalidRedirectLocation.err(format!("{name}: it is no place"));
            }
            if value.len() > MAX_HEADER {
                return Code::InvalidArgument.err(format!("{name}: too long"));
            }
            if !value.is_empty() {
                headers.insert(name.to_owned(), value);
            }
        }
    }
    if bytes > MAX_META {
        return Code::MetadataTooLarge.err("metadata: it has more than 2048 bytes");
    }
    Ok((headers, meta))
}

/// Demands on size and time: S3 has them for directory buckets. One who deletes by them must not
/// find that they were ignored.
const UNKNOWN: [&str; 2] = ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"];

/// Returns the demands of a change on what is there.
pub(super) fn conditions(req: &Request) -> Result<Conditions> {
    let known = !UNKNOWN.iter().any(|name| req.headers.contains_key(*name));
    let if_none = match req.header("if-none-match") {
        None if known => false,
        Some("*") if known && !req.headers.contains_key("if-match") => true,
        _ => {
            return Code::NotImplemented
                .err("A header you provided implies functionality that is not implemented.");
        }
    };
    let if_match = req.header("if-match").map(|etag| bare(etag).to_owned());
    Ok(Conditions { if_match, if_none })
}

/// An entity tag without quotes.
fn bare(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/").trim_matches('"')
}

/// Returns whether one of a list of entity tags is the object's.
fn has(list: &str, record: &ObjectRecord) -> bool {
    list.split(',').any(|etag| bare(etag) == "*" || bare(etag) == record.etag)
}

/// Begins the names of the headers that ask for a state of the source of a copy.
pub(super) const COPY: &str = "x-amz-copy-source-";

/// Checks what a read asks for in headers that begin so; `true`: the client has this state of the
/// object already.
pub(super) fn is_known(req: &Request, begin: &str, record: &ObjectRecord) -> Result<bool> {
    let header = |name: &str| req.header(&format!("{begin}{name}"));
    let failed =
        |name: &str| Code::PreconditionFailed.err(format!("{begin}{name}: the object is another"));
    let seconds = record.modified_ms / 1000;
    let time = |name: &str| header(name).and_then(times::parse_http);
    match (header("if-match"), time("if-unmodified-since")) {
        (Some(list), _) if !has(list, record) => return failed("if-match"),
        (None, Some(time)) if seconds > time => return failed("if-unmodified-since"),
        _ => {}
    }
    Ok(match (header("if-none-match"), time("if-modified-since")) {
        (Some(list), _) => has(list, record),
        (None, Some(time)) => seconds <= time,
        _ => false,
    })
}

/// The part of an object that a read asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub range: Range<u64>,
    /// It is a part of the object only.
    pub partial: bool,
}

/// Returns the range that a header names; `None`: it is no range, and is ignored.
/// Errors: [`Code::InvalidRange`]: nothing of the object lies in it.
pub(super) fn range_of(header: Option<&str>, size: u64) -> Result<Option<Range<u64>>> {
    let Some(spec) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return Ok(None);
    };
    let Some((first, last)) = spec.split_once('-') else { return Ok(None) };
    let range = match (first, last) {
        ("", last) => match number(last) {
            // The end of an object without bytes is the whole of it.
            Some(1..) if size == 0 => return Ok(None),
            Some(last) => size.saturating_sub(last)..size,
            None => return Ok(None),
        },
        (first, "") => match number(first) {
            Some(first) => first..size,
            None => return Ok(None),
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => first..size.min(last.saturating_add(1)),
            _ => return Ok(None),
        },
    };
    match range.is_empty() {
        true => Code::InvalidRange.err("Range: nothing of the object is in it"),
        false => Ok(Some(range)),
    }
}

/// Returns the number of the part that a read asks for.
pub(super) fn part_number(req: &Request) -> Result<Option<u32>> {
    let number = req.number("partNumber")?;
    if number.is_some() && req.headers.contains_key("range") {
        return Code::InvalidRequest
            .err("Cannot specify both Range header and partNumber query parameter");
    }
    number.map(check_number).transpose()?;
    Ok(number)
}

/// Returns the first and the last byte that a header of a copy names.
pub(super) fn first_last(header: Option<&str>) -> Option<(u64, u64)> {
    let (first, last) = header?.strip_prefix("bytes=")?.split_once('-')?;
    let range = (number(first)?, number(last)?);
    (range.0 <= range.1).then_some(range)
}

/// A number of digits only.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Returns the bytes of an object that a read asks for.
pub(super) fn wanted(req: &Request, record: &ObjectRecord) -> Result<Wanted> {
    if let Some(number) = part_number(req)? {
        let mut start = 0;
        for part in &record.parts {
            if part.number.max(1) == number {
                return Ok(Wanted { range: start..start + part.size, partial: true });
            }
            start += part.size;
        }
        return match number {
            1 => Ok(Wanted { range: 0..record.size, partial: record.size > 0 }),
            _ => Code::InvalidPartNumber.err("partNumber: there is none"),
        };
    }
    Ok(match range_of(req.header("range"), record.size)? {
        Some(range) => Wanted { range, partial: true },
        None => Wanted { range: 0..record.size, partial: false },
    })
}

/// Adds a checksum's headers to an answer.
pub(super) fn with_checksum(reply: Reply, checksum: Option<&Checksum>) -> Reply {
    match checksum {
        Some(checksum) => {
            let name = format!("x-amz-checksum-{}", checksum.kind.to_ascii_lowercase());
            reply.with(&name, &checksum.value).with("x-amz-checksum-type", checksum.of_type())
        }
        None => reply,
    }
}

/// Begins the answer to a read.
pub(super) fn answer(req: &Request, record: &ObjectRecord, wanted: &Wanted) -> Reply {
    let mut reply = Reply::new(if wanted.partial { 206 } else { 200 })
        .with("accept-ranges", "bytes")
        .with("etag", format!("\"{}\"", record.etag))
        .with("last-modified", times::http(record.modified_ms))
        .with("x-amz-storage-class", "STANDARD");
    if !record.headers.contains_key("content-type") && req.word("response-content-type").is_none() {
        let folder = req.path.ends_with('/');
        let kind = if folder { "application/x-directory" } else { "binary/octet-stream" };
        reply = reply.with("content-type", kind);
    }
    for name in KEPT {
        let asked = req.word(&format!("response-{name}")).map(str::to_owned);
        if let Some(value) = asked.or_else(|| record.headers.get(name).cloned()) {
            reply = reply.with(name, value);
        }
    }
    if !record.tags.is_empty() {
        reply = reply.with("x-amz-tagging-count", record.tags.len().to_string());
    }
    for (name, value) in &record.meta {
        reply = reply.with(&format!("{META}{name}"), value);
    }
    if wanted.partial {
        let (first, last) = (wanted.range.start, wanted.range.end.saturating_sub(1));
        reply = reply.with("content-range", format!("bytes {first}-{last}/{}", record.size));
    }
    if req.number("partNumber").is_ok_and(|number| number.is_some()) && record.upload.is_some() {
        reply = reply.with("x-amz-mp-parts-count", record.parts.len().to_string());
    }
    reply = with_lock(reply, record);
    let asked = req.header("x-amz-checksum-mode") == Some("ENABLED");
    with_checksum(reply, record.checksum.as_ref().filter(|_| asked && !wanted.partial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;

    #[test]
    fn conditions_that_the_server_lacks_are_refused() {
        let of = |headers: &[_]| conditions(&request("DELETE", "/b/k", headers));
        assert_eq!(of(&[("if-match", "\"e\"")]).unwrap().if_match.as_deref(), Some("e"));
        for name in UNKNOWN {
            let error = of(&[("if-match", "*"), (name, "3")]).unwrap_err();
            assert_eq!(error.code, Code::NotImplemented, "{name}");
        }
    }

    #[test]
    fn ranges_are_those_of_http() {
        let of = |header| range_of(Some(header), 10);
        assert_eq!(of("bytes=0-3").unwrap(), Some(0..4));
        assert_eq!(of("bytes=4-").unwrap(), Some(4..10));
        assert_eq!(of("bytes=4-100").unwrap(), Some(4..10));
        assert_eq!(of("bytes=-3").unwrap(), Some(7..10));
        assert_eq!(of("bytes=-30").unwrap(), Some(0..10));
        assert_eq!(of("bytes=9-18446744073709551615").unwrap(), Some(9..10));
        let ignored = "bytes=3-1|bytes= 3-4|bytes=+3-4|bytes=a-b|lines=1-2|bytes=1-2,4-5|bytes=|-";
        for ignored in ignored.split('|') {
            assert_eq!(of(ignored).unwrap(), None, "{ignored}");
        }
        for none in ["bytes=10-", "bytes=10-20", "bytes=-0"] {
            assert_eq!(of(none).unwrap_err().code, Code::InvalidRange, "{none}");
        }
        assert_eq!(range_of(None, 10).unwrap(), None);
        assert_eq!(range_of(Some("bytes=-1"), 0).unwrap(), None);
        assert_eq!(first_last(Some("bytes=0-3")), Some((0, 3)));
        for bad in ["bytes=3-1", "bytes=1-", "bytes=-1", "0-3", "bytes=0-3,5-6"] {
            assert_eq!(first_last(Some(bad)), None, "{bad}");
        }
    }
}
