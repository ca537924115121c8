//! `kiln inspect`

use std::path::{Path, PathBuf};

use clap::Args;
use kiln_code::Codec;
use kiln_files::{discover_any, object_names};
use kiln_store::{FileBackend, ReadMode, ShardReader, ShardState};
use kiln_stripe::{PoolError, SetReport};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{Folders, Setup, local};
use crate::{args::help, print::fields, texts};

/// Show what shards say about themselves
///
/// Reads headers and trailers only. For a check of the data use kiln verify.
#[derive(Debug, Args)]
#[command(after_help = help("inspect"))]
pub struct Inspect {
    /// Folders with shards, or single shard files
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// Only the object of this name
    #[arg(long, value_name = "NAME", alias = "name")]
    object: Option<String>,
}

impl Inspect {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let is_file = |path: &PathBuf| local(path).is_ok_and(Path::is_file);
        let (files, folders): (Vec<PathBuf>, Vec<PathBuf>) =
            self.paths.into_iter().partition(is_file);
        let objects = match folders.is_empty() {
            true => Vec::new(),
            false => objects(
                &Folders::to_read(setup, &folders, ReadMode::Cached)?,
                self.object.as_deref(),
            )?,
        };
        let files = files.iter().map(|path| file(path)).collect::<Result<Vec<_>, _>>()?;
        let (texts, files): (Vec<String>, Vec<_>) = files.into_iter().unzip();
        let texts: Vec<String> = objects.iter().map(object_text).chain(texts).collect();
        setup.answer(&fields! { objects: objects, files: files }, || texts.join("\n"))
    }
}

/// All objects of the folders, or the one asked for, with whatever is left of them.
fn objects(folders: &Folders, object: Option<&str>) -> Result<Vec<SetReport>> {
    folders.refuse_unreadable(object)?;
    let nodes = folders.nodes();
    let names = match object {
        Some(name) => vec![name.to_owned()],
        None => object_names(nodes)?,
    };
    if names.is_empty() {
        let places: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        return Err(PoolError::NotFound { object: None, places: places.join(", ") }.into());
    }
    names.iter().map(|name| Ok(discover_any(nodes, Some(name))?.report())).collect()
}

/// Header of one shard file, in words and as scripts get it.
fn file(path: &Path) -> Result<(String, impl Serialize), Failure> {
    let path = local(path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let problem = "shard files have plain names".into();
        Failure::NotUsable { path: path.to_owned(), problem }
    })?;
    let backend = FileBackend::open(folder.unwrap_or(Path::new(".")))?;
    let reader = ShardReader::open(&backend, name)?;
    let info = reader.info();
    let run = kiln_stripe::names::hex(&info.run);
    let state = match reader.state() {
        ShardState::Complete => "complete",
        ShardState::NoTrailer => "trailer missing or damaged",
        ShardState::NoHeader => "header damaged",
    };
    let report = fields! {
        file: path.display().to_string(),
        object: info.object.clone(),
        spec: info.spec.clone(),
        run: run,
        index: info.index,
        k: info.k,
        n: info.n,
        alpha: info.alpha,
        sub_chunk: info.sub_chunk,
        segment_stripes: info.segment_stripes,
        checksums: info.sums.name(),
        size: reader.size(),
        state: state,
        damage: reader.damage().map(str::to_owned),
    };
    let suffices = suffices(&info.spec, info.k);
    Ok((texts::report("shard", &report, context! { suffices }), report))
}

fn object_text(report: &SetReport) -> String {
    let damages: Vec<String> = report.damaged.iter().map(ToString::to_string).collect();
    texts::report("shards of an object", report, context! { damages })
}

/// Returns how many shards are enough; an unknown code counts as MDS.
fn suffices(spec: &str, k: u16) -> String {
    let codec = spec.parse().and_then(|spec| Codec::new(&spec));
    match codec.map(|codec| (codec.is_mds(), codec.margin(&[]))) {
        Ok((false, margin)) => format!("any {margin} may be lost"),
        _ => format!("any {k} suffice"),
    }
}
