//! `kiln ls`

use std::io::{self, BufWriter, Write};

use clap::Args;
use kiln_folders::{ATTRIBUTES, is_attributes};
use kiln_pool::Listed;
use kiln_stripe::{Observer, PoolError};

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::print::{date, one_line};
use crate::setup::{PoolFlags, Setup};
use crate::sizes;
use crate::transfer::is_internal;

const EXAMPLES: &str = "\
Examples:
  kiln ls
  kiln ls photos/2024/ -l
  kiln ls --json | jq -r '.objects[] | select(.size > 1e9) | .name'";

/// List the objects of a pool
///
/// In order of name; output streams, so pools with millions of objects need no memory for it. What
/// volumes and the S3 server's buckets are made of is left out, unless PREFIX begins with
/// .volumes/ or .s3/. Exit code 2 means that so
/// many nodes are unavailable that there may be objects which only they know.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Ls {
    /// Only objects whose names begin with this
    #[arg(default_value = "")]
    prefix: String,

    /// Also size, when it was put (UTC), version and code
    #[arg(short, long)]
    long: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Ls {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
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
        index.each(&self.prefix, None, |listed| {
            if hidden(&listed.name) {
                return Ok(true);
            }
            let line = match setup.json {
                true => {
                    let comma = if std::mem::take(&mut first) { "" } else { "," };
                    let json = serde_json::to_string(&listed);
                    let json = json.map_err(|error| closed(error.into()))?;
                    format!("{comma}\n{json}")
                }
                false => self.line(&listed),
            };
            out.write_all(line.as_bytes()).map_err(closed)?;
            Ok(true)
        })?;
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
}

impl Ls {
    fn line(&self, listed: &Listed) -> String {
        // A name is shown on one line whatever is in it.
        let name = one_line(&listed.name);
        if !self.long {
            return format!("{name}\n");
        }
        let code = listed.code.split(',').next().unwrap_or_default();
        let size = sizes::show(listed.size);
        let put = date(listed.created_ms / 1000);
        format!("{size:>12}  {put}  {:>3}  {code:<12}  {name}\n", listed.version)
    }
}
