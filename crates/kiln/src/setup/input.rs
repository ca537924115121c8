//! Files of this machine as input.

use crate::exit::{Failure, Result};
use kiln_stripe::{FileSource, Source, StreamSource};
use std::io::{self, Cursor, Read};
use std::{fs::File, path::Path};

/// Opens a file; what says that it has no bytes is read, since files of /proc say so and have some.
pub fn input(path: &Path) -> Result<Box<dyn Source>> {
    let failed = |source: io::Error| Failure::Io { action: "open", path: path.to_owned(), source };
    let meta = path.metadata().map_err(failed)?;
    if meta.is_file() && meta.len() > 0 {
        return Ok(Box::new(FileSource::open(path).map_err(failed)?));
    }
    let mut file = File::open(path).map_err(failed)?;
    if !meta.is_file() {
        return Ok(Box::new(StreamSource::new(file)));
    }
    let mut first = [0];
    match file.read(&mut first).map_err(failed)? {
        0 => Ok(Box::new(FileSource::open(path).map_err(failed)?)),
        _ => Ok(Box::new(StreamSource::new(Cursor::new(first).chain(file)))),
    }
}
