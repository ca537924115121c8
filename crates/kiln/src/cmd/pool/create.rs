//! `kiln pool create`

use std::path::PathBuf;

use clap::Args;
use kiln_pool::{Policy, Pool, PoolConfig};

use super::{check_domains, node};
use crate::exit::{Exit, Failure};
use crate::print::{Stream, count};
use crate::setup::{PoolFlags, Setup, create_node, fresh_run};

// Arguments; the summary is in `pool.rs`.
#[derive(Debug, Args)]
pub struct Create {
    /// File to describe the pool
    #[arg(value_name = "FILE", default_value = "pool.toml")]
    file: PathBuf,

    /// The code of large objects; small ones get copies or Reed-Solomon of the same k+m
    #[arg(short, long, value_name = "SPEC")]
    code: String,

    /// A node: PLACE[,id=ID][,domain=DOMAIN][,weight=NUMBER]; once for each
    #[arg(long, value_name = "NODE", required = true)]
    node: Vec<String>,

    /// A name for people [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Create {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.name.unwrap_or(stem);
        let mut config = PoolConfig::new(fresh_run(), &name, Policy::for_code(&self.code)?);
        for (at, text) in self.node.iter().enumerate() {
            config.node.push(node(text, &format!("n{at:02}"))?);
        }
        config.check()?;
        check_domains(&config)?;
        let flags = PoolFlags { pool: Some(self.file.clone()) };
        if self.file.exists() {
            return Err(Failure::Exists { path: self.file });
        }
        // First the description: without it nobody could tell what half-made nodes belong to.
        flags.write(&config)?;
        if let Err(error) = Pool::create(config.clone(), &|node| create_node(setup, node)) {
            // Nodes that were taken stay so; they hold nothing yet.
            let _ = std::fs::remove_file(&self.file);
            return Err(error.into());
        }
        if setup.json {
            Stream::Stdout.json(&config)?;
        } else if !setup.quiet {
            let mut text = format!(
                "pool {name}: {}, described in {}\n",
                count(config.node.len() as u64, "node"),
                self.file.display()
            );
            for class in &config.policy.class {
                let code = if class.is_inline() {
                    format!("{} copies beside the manifest", config.policy.manifest_copies)
                } else {
                    class.code.clone()
                };
                text += &match class.below {
                    Some(below) => format!("  below {}: {code}\n", crate::sizes::show(below)),
                    None => format!("  larger: {code}\n"),
                };
            }
            Stream::Stdout.text(&text)?;
        }
        Ok(Exit::Done)
    }
}
