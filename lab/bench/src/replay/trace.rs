//! Traces of requests to a block device or to files, in the format of `docs/reference/formats.md`.

use crate::BenchError;
use serde_json::Value;
use std::io::{BufRead, BufReader, Error};
use std::path::Path;

/// Nobody records longer ones; more would take memory for nothing.
const REQUESTS_MAX: usize = 1 << 24;
/// Of one request.
const BYTES_MAX: u32 = 64 << 20;
const HEAD: &str = "# kiln-trace 1";
const COLUMNS: &str = "issue_us,op,offset,bytes,took_us,job";

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Trim,
    /// About names, in a trace of processes on files; it has no bytes.
    Names,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was asked for, since the trace began.
    pub issue_us: u64,
    pub operation: Operation,
    pub offset: u64,
    pub bytes: u32,
    /// Until it was answered.
    pub took_us: u64,
    /// The number of the process that asked.
    pub job: u32,
}

impl Request {
    /// Where it ends; parsing has made sure that there is such a place.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// Requests in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What the trace says of itself.
    pub about: Value,
    pub requests: Vec<Request>,
}

impl Trace {
    /// Requests that were under way together at most, or 1.
    pub fn depth(&self) -> u64 {
        self.about["depth"].as_u64().unwrap_or(1).max(1)
    }

    /// Reads a trace from its file.
    ///
    /// # Errors
    /// It cannot be read, or is no trace.
    pub fn open(path: &Path) -> Result<Trace, BenchError> {
        let failed = |source| BenchError::Report { path: path.to_path_buf(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        Trace::read(BufReader::new(file)).map_err(|reason| failed(Error::other(reason)))
    }

    /// Reads a trace; what is wrong comes with its line.
    pub fn read(mut from: impl BufRead) -> Result<Trace, String> {
        let mut head = || -> Result<String, String> {
            let mut line = String::new();
            // A line that never ends is no reason to take memory.
            let mut part = std::io::Read::take(&mut from, 1 << 16);
            part.read_line(&mut line).map_err(|error| error.to_string())?;
            Ok(line.trim_end().to_owned())
        };
        let (first, about, columns) = (head()?, head()?, head()?);
        if first != HEAD || columns != COLUMNS {
            return Err(format!("no trace: it must begin with {HEAD:?}, and have {COLUMNS:?}"));
        }
        let about = about.strip_prefix("# ").unwrap_or_default();
        let about = serde_json::from_str(about).map_err(|error| format!("line 2: {error}"))?;
        let mut requests = Vec::new();
        let mut line = String::new();
        for number in 4.. {
            line.clear();
            let mut part = std::io::Read::take(&mut from, 1 << 10);
            if part.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                break;
            }
            let request = request(line.trim_end());
            requests.push(request.ok_or_else(|| format!("line {number}: {:?}", line.trim_end()))?);
            if requests.len() > REQUESTS_MAX {
                return Err(format!("more than {REQUESTS_MAX} requests"));
            }
        }
        Ok(Trace { about, requests })
    }
}

/// A request from its line.
fn request(line: &str) -> Option<Request> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    let issue_us = next()?.parse().ok()?;
    let operation = match next()? {
        "r" => Operation::Read,
        "w" => Operation::Write,
        "t" => Operation::Trim,
        "m" => Operation::Names,
        _ => return None,
    };
    let offset: u64 = next()?.parse().ok()?;
    let least = u32::from(operation != Operation::Names);
    let bytes: u32 = next()?.parse().ok().filter(|bytes| (least..=BYTES_MAX).contains(bytes))?;
    offset.checked_add(u64::from(bytes))?;
    let (took_us, job) = (next()?.parse().ok()?, next()?.parse().ok()?);
    next().is_none().then_some(Request { issue_us, operation, offset, bytes, took_us, job })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A trace with these requests.
    pub fn text(rows: &str) -> String {
        format!("{HEAD}\n# {{\"depth\": 2, \"cell\": \"a\"}}\n{COLUMNS}\n{rows}")
    }

    #[test]
    fn a_trace_is_read_and_what_is_wrong_is_said_with_its_line() {
        let trace = Trace::read(text("0,w,4096,512,10,0\n5,r,0,1024,20,1\n").as_bytes()).unwrap();
        assert_eq!((trace.depth(), trace.requests.len()), (2, 2));
        let first = trace.requests[0];
        assert_eq!((first.operation, first.end(), first.took_us), (Operation::Write, 4608, 10));
        for wrong in [
            "0,x,0,1,0,0", "0,w,0,0,0,0", "0,w,0,99999999,0,0", "0,w,18446744073709551615,1,0,0",
            "0,w,0,1,0", "0,w,0,1,0,0,0", "-1,w,0,1,0,0", "",
        ] {
            let error = Trace::read(text(&format!("0,r,0,1,1,0\n{wrong}\n")).as_bytes());
            assert!(error.clone().unwrap_err().starts_with("line 5"), "{wrong}: {error:?}");
        }
        assert!(Trace::read("something else\n".as_bytes()).unwrap_err().contains(HEAD));
        assert!(Trace::read(format!("{HEAD}\n# no\n{COLUMNS}\n").as_bytes()).is_err());
    }
}
