//! `--format raw`: bare chunks without headers, as Ceph, ISA-L and zfec have them.

use crate::exit::Result;
use clap::{Args, ValueEnum};
use kiln_code::Codec;
use kiln_files::raw::RawRequest;

use crate::{args::size, exit::Failure, setup};

/// Formats of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Self-describing shard files with checksums: NAME.03.kiln
    Kiln,
    /// Bare chunk bytes, no checksums: NAME.3; needs --code and, to decode, --size
    Raw,
}

// What must be told about bare chunks. No doc comment: clap would take it for the summary.
#[derive(Debug, Args)]
pub struct RawFlags {
    /// Format of the shards
    #[arg(long, value_enum, default_value = "kiln", hide_possible_values = false)]
    pub format: Format,
    /// With --format raw: the code, e.g. rs:10+4
    #[arg(short, long, value_name = "SPEC")]
    pub code: Option<String>,
    /// With --format raw: the size of the object in bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// With --format raw: the chunk size the object was encoded with
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub chunk: Option<u64>,
    /// Name of the object, when there are several
    #[arg(long, value_name = "NAME", alias = "name")]
    pub object: Option<String>,
}

/// Bare chunks, ready to work on.
pub struct RawSetup {
    /// Their code.
    pub codec: Codec,
    object: Option<String>,
    chunk: Option<u64>,
    size: Option<u64>,
}

impl RawFlags {
    /// `None` for kiln's own format.
    /// Errors: a flag that the format needs is missing, or one that it does not know is given.
    pub fn setup(&self) -> Result<Option<RawSetup>> {
        if self.format == Format::Kiln {
            return self.refuse_raw_flags().map(|()| None);
        }
        let Some(spec) = &self.code else {
            let problem = "raw chunks have no header: give their code with --code SPEC".into();
            return Err(Failure::Flag { flag: "--format raw", problem });
        };
        let codec = setup::codec(spec)?;
        if let Some(chunk) = self.chunk {
            setup::divided(chunk, codec.shape().alpha)?;
        }
        let object = self.object.clone();
        Ok(Some(RawSetup { codec, object, chunk: self.chunk, size: self.size }))
    }

    /// The shards know these better; silently ignoring a flag could hide a mistake.
    fn refuse_raw_flags(&self) -> Result<()> {
        let given = [
            ("--code", self.code.is_some()),
            ("--size", self.size.is_some()),
            ("--chunk", self.chunk.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                let problem =
                    "only for --format raw; kiln's own shards carry it in their headers".into();
                Err(Failure::Flag { flag, problem })
            }
        }
    }
}

impl RawSetup {
    /// As the pool wants it.
    pub fn request(&self) -> RawRequest<'_> {
        RawRequest {
            codec: &self.codec,
            object: self.object.as_deref(),
            chunk: self.chunk,
            size: self.size,
            replace: false,
        }
    }
}
