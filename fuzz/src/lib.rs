//! Parsers of untrusted bytes, as functions of bytes that must never panic.
//!
//! A target is a file in `targets/` and a row of [`TARGETS`]. Ordinary tests (`tests/short.rs`) run
//! each over what it begins with, over what is kept in `corpus/`, and over some thousand mutations
//! of both; `make fuzz` does so guided by coverage, for as long as one likes. An input that once
//! failed is kept as `corpus/TARGET/what-it-was`.
#![forbid(unsafe_code)]

pub mod mutate;
mod targets {
    pub mod assignment;
    pub mod changes;
    pub mod device;
    pub mod gate;
    pub mod interface;
    pub mod link;
    pub mod nbd;
    pub mod pack;
    pub mod pool;
    pub mod set;
    pub mod shard;
    pub mod spec;
    pub mod volume;
    pub mod wire;
}

use std::path::PathBuf;

/// Something to fuzz.
#[derive(Debug)]
pub struct Target {
    /// Its name, which is also its file's and its corpus's.
    pub name: &'static str,
    /// Takes any bytes; a panic is a finding.
    pub run: fn(&[u8]),
    /// Inputs that get far, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($name:ident)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            run: targets::$name::run,
            seeds: targets::$name::seeds,
        }),*];
    };
}

targets!(assignment changes device gate interface link nbd pack pool set shard spec volume wire);

impl Target {
    /// Seeds and kept inputs, with names.
    /// Errors: the corpus cannot be read.
    pub fn inputs(&self) -> std::io::Result<Vec<(String, Vec<u8>)>> {
        let seeds = (self.seeds)().into_iter().enumerate();
        let mut inputs: Vec<_> = seeds.map(|(at, bytes)| (format!("seed {at}"), bytes)).collect();
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(self.name);
        if folder.exists() {
            let mut paths = Vec::new();
            for entry in std::fs::read_dir(folder)? {
                paths.push(entry?.path());
            }
            paths.sort();
            for path in paths {
                inputs.push((path.display().to_string(), std::fs::read(path)?));
            }
        }
        Ok(inputs)
    }
}
