//! The file that tells a running coordinator how much traffic repairs may make.

use std::{fs, io::Read, path::PathBuf};

use crate::exit::Result;
use kiln_recovery::RateLimits;
use kiln_stripe::Observer;
use serde::{Deserialize, Serialize};

use crate::{exit::Failure, setup::write_file, sizes};

/// Most bytes of the file.
const MOST: u64 = 4096;

/// The file, beside the pool's description.
pub struct LimitFile {
    path: PathBuf,
}

/// Its contents: sizes as people write them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total: Option<String>,
}

impl LimitFile {
    /// The file of this name.
    pub fn new(path: PathBuf) -> LimitFile {
        LimitFile { path }
    }

    /// Reads the limits; nothing when there is no file. One that cannot be read is reported and
    /// changes nothing: a typing mistake must not lift a limit.
    pub fn read(&self, observer: &dyn Observer) -> Option<RateLimits> {
        let file = fs::File::open(&self.path).ok()?;
        let mut text = String::new();
        let read = file.take(MOST).read_to_string(&mut text).map_err(|error| error.to_string());
        let limits = read.and_then(|_| parse(&text));
        limits.map_err(|why| observer.warn(&format!("{}: {why}", self.path.display()))).ok()
    }

    /// Writes limits, or removes the file when there are none.
    pub fn write(&self, limits: RateLimits) -> Result<()> {
        let failed = |source| Failure::Io { action: "write", path: self.path.clone(), source };
        if limits == RateLimits::default() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        let size = |bytes: u64| (bytes > 0).then(|| bytes.to_string());
        let text = Text { rate: size(limits.node), total: size(limits.total) };
        let text = toml::to_string(&text).map_err(|e| failed(std::io::Error::other(e)))?;
        write_file(&self.path, text.as_bytes())
    }
}

fn parse(text: &str) -> Result<RateLimits, String> {
    let text: Text = toml::from_str(text).map_err(|error| error.to_string())?;
    let bytes = |size: Option<String>| size.map_or(Ok(0), |size| sizes::parse(&size));
    Ok(RateLimits { node: bytes(text.rate)?, total: bytes(text.total)? })
}
