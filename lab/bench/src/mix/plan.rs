//! Plans of `kiln-bench mix`.

use crate::BenchError;
use serde::Deserialize;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Nobody has more of a kind; more would take memory and threads for nothing.
const COUNT_MAX: usize = 1024;
const FILES_MAX: u64 = 1 << 20;
const BYTES_MAX: u64 = 64 << 20;

/// What processes do, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seconds of work; with 0 files are made and that is all.
    pub seconds: f64,
    pub seed: u64,
    /// Where each request is logged.
    pub log: Option<PathBuf>,
    pub processes: Vec<Process>,
}

/// One kind of process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub name: String,
    pub count: usize,
    /// The share of requests about names; of the others the share that reads, and of these and of
    /// writes the share that is anywhere instead of after the last one.
    pub names: f64,
    pub read: f64,
    pub random: f64,
    /// Of a request of data: a multiple of 4096.
    pub bytes: u64,
    pub files: u64,
    /// Of each file: a multiple of `bytes`.
    pub file_bytes: u64,
    /// Microseconds from one request to the next; 0: as soon as one is answered.
    pub every_us: u64,
}

impl Process {
    /// The pace.
    pub fn every(&self) -> Duration {
        Duration::from_micros(self.every_us)
    }

    fn problem(&self) -> Option<&'static str> {
        let shares = [self.names, self.read, self.random];
        let named = self.name.chars().all(|letter| letter.is_ascii_alphanumeric());
        if self.name.is_empty() || !named {
            Some("a name has letters and digits")
        } else if !(1..=COUNT_MAX).contains(&self.count) {
            Some("count is 1 to 1024")
        } else if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
            Some("names, read and random are shares: 0 to 1")
        } else if self.bytes == 0 || !self.bytes.is_multiple_of(4096) || self.bytes > BYTES_MAX {
            Some("bytes is a multiple of 4096, at most 67108864")
        } else if self.file_bytes == 0 || !self.file_bytes.is_multiple_of(self.bytes) {
            Some("file_bytes is a multiple of bytes")
        } else if !(1..=FILES_MAX).contains(&self.files)
            || self.files.checked_mul(self.file_bytes).is_none()
        {
            Some("files is 1 to 1048576")
        } else {
            None
        }
    }
}

impl Plan {
    /// Reads a plan from its file.
    ///
    /// # Errors
    /// It cannot be read, or is no plan.
    pub fn open(path: &Path) -> Result<Plan, BenchError> {
        let failed = |source| BenchError::Report { path: path.to_path_buf(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Plan::parse(&text).map_err(|reason| failed(Error::other(reason)))
    }

    /// Reads a plan.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let plan: Plan = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !(0.0..1e6).contains(&plan.seconds) {
            return Err("seconds is 0 to 1000000".into());
        }
        let problem = plan.processes.iter().find_map(|one| Some((one, one.problem()?)));
        match problem {
            Some((process, problem)) => Err(format!("process {:?}: {problem}", process.name)),
            None => Ok(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plan_is_refused_with_the_reason() {
        let process = |key: &str, value: &str| {
            let mut found = serde_json::json!({
                "name": "a", "count": 1, "names": 0.5, "read": 0.5, "random": 1.0, "bytes": 4096,
                "files": 1, "file_bytes": 8192, "every_us": 0});
            found[key] = serde_json::from_str(value).unwrap();
            format!(r#"{{"seconds": 1.0, "seed": 1, "log": null, "processes": [{found}]}}"#)
        };
        assert!(Plan::parse(&process("count", "2")).is_ok());
        for (key, value, reason) in [
            ("name", "\"../a\"", "letters"),
            ("count", "0", "1024"),
            ("names", "1.5", "shares"),
            ("bytes", "100", "4096"),
            ("bytes", "0", "4096"),
            ("file_bytes", "5000", "multiple"),
            ("files", "99999999", "1048576"),
            ("more", "1", "unknown field"),
        ] {
            let error = Plan::parse(&process(key, value)).unwrap_err();
            assert!(error.contains(reason), "{key}: {error}");
        }
        assert!(Plan::parse("{}").is_err());
        let long = process("count", "1").replace("1.0, \"seed\"", "1e9, \"seed\"");
        assert!(Plan::parse(&long).unwrap_err().contains("seconds"));
    }
}
