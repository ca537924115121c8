//! `kiln ls`

use std::io::{self, BufWriter, Write};

use clap::Args;
use kiln_folders::{ATTRIBUTES, is_attributes};
use kiln_pool::{Listed, Version};
use kiln_stripe::{Observer, PoolError};

use crate::args::{help, in_pool};
use crate::exit::{Exit, Result};
use crate::print::{date, one_line};
use crate::setup::{At, PoolFlags, Setup, moment};
use crate::{sizes, transfer::is_internal};

/// List the objects of a pool
///
/// In order of name; output streams, so pools with millions of objects need no memory for it. What
/// volumes and the S3 server's buckets are made of is left out, unless PREFIX begins with
/// .volumes/ or .s3/. Exit code 2 means that so
/// many nodes are unavailable that there may be objects which only they know.
#[derive(Debug, Args)]
#[command(after_help = help("ls"))]
pub struct Ls {
    /// Only objects whose names begin with this
    #[arg(default_value = "", value_parser = in_pool)]
    prefix: String,
    /// Also size, when it was put (UTC), version and code
    #[arg(short, long)]
    long: bool,
    /// List the objects of then: a day (its end) or "2026-11-28 17:04" (UTC), or 3d for 3 days ago
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<At>,
    /// All versions that are kept, the newest of each object first, and until when each was in
    /// force
    #[arg(long, conflicts_with = "at")]
    versions: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Ls {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let at = self.at.as_ref().map(|at| at.among(pool.config(), &self.prefix));
        let at = at.transpose()?;
        setup.observer.finish();
        let mut out = BufWriter::new(io::stdout().lock());
        let closed = |source| PoolError::Output { source };
        let mut first = true;
        if setup.json {
            out.write_all(b"{\"objects\":[").map_err(closed)?;
        }
        let own = |name: &str| is_internal(name) || is_attributes(name);
        let hidden = |name: &str| {
            !self.prefix.starts_with('.') && !self.prefix.contains(ATTRIBUTES) && own(name)
        };
        let mut show = |name: &str, json: &dyn Fn() -> serde_json::Result<String>, text: String| {
            let line = match setup.json {
                _ if hidden(name) => return Ok(true),
                true => {
                    let comma = if std::mem::take(&mut first) { "" } else { "," };
                    format!("{comma}\n{}", json().map_err(|error| closed(error.into()))?)
                }
                false => text,
            };
            out.write_all(line.as_bytes()).map_err(closed)?;
            Ok(true)
        };
        match self.versions || self.at.is_some() {
            true => {
                let prefix = at.map_or(&self.prefix[..], |(_, prefix)| prefix);
                for one in index.versions(prefix)?.into_values().flatten() {
                    if at.is_none_or(|(at, _)| one.was_at(at)) {
                        show(&one.name, &|| serde_json::to_string(&one), self.version(&one))?;
                    }
                }
            }
            false => index.each(&self.prefix, None, |listed| {
                show(&listed.name, &|| serde_json::to_string(&listed), self.line(&listed))
            })?,
        }
        if setup.json {
            out.write_all(b"\n]}\n").map_err(closed)?;
        }
        out.flush().map_err(closed)?;
        if pool.sees_all()? {
            return Ok(Exit::Done);
        }
        setup.observer.warn(
            "listing may be incomplete: more nodes are down than the manifest quorum tolerates",
        );
        Ok(Exit::NotRecoverable)
    }

    fn line(&self, listed: &Listed) -> String {
        let Listed { name, code, size, created_ms, version, .. } = listed;
        self.row(name, code, (*size, *created_ms, *version), None)
    }

    fn version(&self, one: &Version) -> String {
        let until = match one.until_ms {
            Some(until) => date(until / 1000),
            None => "now".to_owned(),
        };
        let until = self.versions.then(|| format!("{until:>16}"));
        self.row(&one.name, &one.code, (one.size, one.created_ms, one.version), until)
    }

    fn row(
        &self,
        name: &str,
        code: &str,
        (size, created_ms, version): (u64, u64, u64),
        until: Option<String>,
    ) -> String {
        // A name is shown on one line whatever is in it.
        let name = one_line(name);
        if !self.long && until.is_none() {
            return format!("{name}\n");
        }
        let code = code.split(',').next().unwrap_or_default();
        let (size, put) = (sizes::show(size), date(created_ms / 1000));
        let until = until.map_or_else(String::new, |until| format!("  {until}"));
        format!("{size:>12}  {put}{until}  {version:>3}  {code:<12}  {name}\n")
    }
}
