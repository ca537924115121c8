//! `kiln encode`

use std::path::{Path, PathBuf};
use std::{fs::Metadata, io};

use clap::Args;
use kiln_code::Codec;
use kiln_files::EncodeRequest;
use kiln_files::raw::{RawRequest, encode_raw};
use kiln_stripe::{EncodeReport, Observer, ShardPlace, Source, StreamSource};
use minijinja::context;
use uuid::Uuid;

use crate::archive::{CHANGED, Packed};
use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::print::fields;
use crate::setup::{self, Folders, Format, Setup, as_private_as, kept::note_time, local};

/// Cut a file or folder into shards, some of which may be lost later
///
/// The code (-c) says how many data and parity shards there are: rs:10+4 makes 14, any 10 of which
/// give the file back. `kiln codes` lists the codes. Shards carry checksums and say what they
/// are, so nothing else has to be kept.
#[derive(Debug, Args)]
#[command(after_help = help("encode"))]
pub struct Encode {
    /// File or folder to encode; - reads standard input
    input: PathBuf,
    /// Encode a file as an archive, as folders are: its mode and time are kept
    #[arg(long)]
    archive: bool,
    /// The code, e.g. clay:10+4 or rs:4+2, or a Ceph profile string
    #[arg(short, long, value_name = "SPEC")]
    code: String,
    /// Folder for all shards; or give -o once per shard, e.g. one per disk. Created when absent
    #[arg(short, long, value_name = "DIR", required = true)]
    output: Vec<PathBuf>,
    /// Bytes of a sub-chunk, the unit of checksums and partial reads [default: by the code]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "chunk")]
    sub_chunk: Option<u64>,
    /// Bytes of a chunk, what one stripe puts on one shard [default: by the code]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    chunk: Option<u64>,
    /// Format of the shards
    #[arg(long, value_enum, default_value = "kiln")]
    format: Format,
    /// Name of the object in the shards [default: the file's name, or stdin]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace shards of the same name
    #[arg(long)]
    force: bool,
}

impl Encode {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let codec = setup::codec(&self.code)?;
        let name = self.object()?;
        let n = codec.shape().n();
        if self.output.len() != 1 && self.output.len() != n {
            let problem = format!(
                "given {} times; {} needs one folder for all shards, or {n}, one per shard",
                self.output.len(),
                codec.spec()
            );
            return Err(Failure::Flag { flag: "--output", problem });
        }
        let folders = Folders::to_write(setup, "--output", &self.output)?;
        let sub_chunk = setup::sub_chunk(codec.shape().alpha, self.sub_chunk, self.chunk)?;
        self.refuse_inside()?;
        let mut packed = self.archived()?.map(|path| self.pack(&path)).transpose()?;
        let is_packed = packed.is_some() || self.format == Format::Raw;
        let mut input: Box<dyn Source + '_> = match &mut packed {
            Some(packed) => Box::new(StreamSource::new(packed)),
            None => source(&self.input)?,
        };
        // A file that changes while it is read is refused.
        let found = (!is_packed).then(|| self.input.metadata().ok()).flatten();
        let outcome = self.encode(&codec, &name, sub_chunk, &mut *input, &folders, setup);
        drop(input);
        setup.observer.finish();
        let mut report = outcome?;
        if let Some(time) = found.filter(Metadata::is_file).and_then(|found| found.modified().ok())
        {
            let path = |shard: &ShardPlace| Path::new(&shard.node).join(&shard.name);
            note_time(report.shards.iter().map(path), time);
        }
        report.seconds = setup.seconds();
        let notes = packed.map(|packed| packed.notes()).unwrap_or_default();
        let (changed, left_out): (Vec<String>, Vec<String>) =
            notes.into_iter().partition(|note| note.ends_with(CHANGED));
        changed.iter().for_each(|what| setup.observer.warn(what));
        let end = if changed.is_empty() { Exit::Done } else { Exit::Io };
        for what in &left_out {
            setup.observer.warn(&format!("left out: {what}"));
        }
        let shown = fields! {
            #[serde(flatten)]
            report: &report,
            // Entries of a folder that are not in it.
            left_out: left_out,
            changed: changed,
        };
        setup.tell("encode", &shown, context! {}).map(|_| end)
    }

    /// Returns the folder to encode as an archive.
    fn archived(&self) -> Result<Option<PathBuf>> {
        if self.input == Path::new("-") {
            return Ok(None);
        }
        let input = local(&self.input)?;
        as_private_as(input);
        Ok((self.archive || input.is_dir()).then(|| input.to_owned()))
    }

    /// Shards that are written into the folder that is read would be packed again without end.
    fn refuse_inside(&self) -> Result<()> {
        let Some(input) = self.archived()?.and_then(|input| input.canonicalize().ok()) else {
            return Ok(());
        };
        for output in self.output.iter().filter_map(|output| local(output).ok()) {
            // As far as there is something: the rest is made below it.
            let there = output.ancestors().find_map(|path| match path.as_os_str().is_empty() {
                true => Path::new(".").canonicalize().ok(),
                false => path.canonicalize().ok(),
            });
            if there.is_some_and(|there| there.starts_with(&input)) {
                let problem = format!("{} lies in the folder that is encoded", output.display());
                return Err(Failure::Flag { flag: "--output", problem });
            }
        }
        Ok(())
    }

    fn pack(&self, path: &Path) -> Result<Packed> {
        let failed = |source| Failure::Io { action: "pack", path: path.to_owned(), source };
        // `photos/..` is a folder too, and has a name.
        let whole = path.canonicalize().map_err(failed)?;
        let root = whole.file_name().map_or_else(|| "root".into(), PathBuf::from);
        Packed::new(path, &root).map_err(failed)
    }

    fn encode(
        &self,
        codec: &Codec,
        object: &str,
        sub_chunk: Option<u32>,
        source: &mut dyn Source,
        folders: &Folders,
        setup: &Setup,
    ) -> Result<EncodeReport> {
        let (nodes, settings) = (folders.nodes(), setup.settings());
        let replace = self.force;
        let report = match self.format {
            Format::Kiln => {
                let run = *Uuid::new_v4().as_bytes();
                let request = EncodeRequest { codec, object, run, sub_chunk, replace };
                kiln_files::encode(&request, source, nodes, &settings)?
            }
            Format::Raw => {
                let alpha = codec.shape().alpha as u64;
                let chunk = sub_chunk.map(|bytes| u64::from(bytes) * alpha);
                let object = Some(object);
                let request = RawRequest { codec, object, chunk, size: None, replace };
                encode_raw(&request, source, nodes, &settings)?
            }
        };
        Ok(report)
    }

    /// The object's name: it becomes part of file names, so it must be a plain one.
    fn object(&self) -> Result<String> {
        let name = match (&self.name, self.input == Path::new("-")) {
            (Some(name), _) => name.clone(),
            (None, true) => "stdin".to_owned(),
            (None, false) => {
                let input = self.input.canonicalize().unwrap_or_else(|_| self.input.clone());
                // The last word of a link's own name counts, not of what it names.
                let name = self.input.file_name().or(input.file_name()).unwrap_or_default();
                let Some(name) = name.to_str() else {
                    let problem = format!(
                        "{} cannot name an object, since it is not UTF-8; choose a name by --name \
                         (names inside of folders may have any bytes)",
                        self.input.display()
                    );
                    return Err(Failure::Flag { flag: "--name", problem });
                };
                let archived = self.archive || local(&self.input).is_ok_and(Path::is_dir);
                if archived { format!("{name}.tar") } else { name.to_owned() }
            }
        };
        let plain = !name.is_empty()
            && name.len() <= 200
            && !name.starts_with('.')
            && !name.contains(|c: char| c == '/' || c.is_control());
        match plain {
            true => Ok(name),
            false => {
                let problem = format!(
                    "'{name}' cannot name an object: it must have 1 to 200 bytes, no '/' and no \
                     '.' at the start; choose another by --name"
                );
                Err(Failure::Flag { flag: "--name", problem })
            }
        }
    }
}

/// Opens the input.
fn source(input: &Path) -> Result<Box<dyn Source>> {
    if input == Path::new("-") {
        return Ok(Box::new(StreamSource::new(io::stdin())));
    }
    setup::input(local(input)?)
}
