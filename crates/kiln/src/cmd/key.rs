//! `kiln key`

use std::path::{Path, PathBuf};
use std::{sync::Arc, time::Duration};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kiln_net::agent::{PeerRole, Rights};
use kiln_net::{ClusterKey, IssuedKey};

use crate::exit::{Exit, Result};
use crate::{args::help, print::fields, setup::Setup};

/// Issue a key for one role that ends after some days; list and revoke such keys
///
/// The cluster's key permits everything and issues others. An issued key is enough for its role,
/// and agents refuse what is beyond it.
#[derive(Debug, Args)]
#[command(after_help = help("key"))]
pub struct Key {
    /// Role of its holder
    #[arg(long, value_parser = roles(), required_unless_present_any = ["list", "revoke"])]
    role: Option<PeerRole>,
    /// Only for objects whose names begin with this, as photos/; for readers and writers
    #[arg(long, value_name = "PREFIX", requires = "role")]
    prefix: Option<String>,
    /// Days after which it ends
    #[arg(long, value_name = "N", default_value_t = 90,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// File for it, which must not exist
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["list", "revoke"])]
    output: Option<PathBuf>,
    /// List the keys that were issued with this cluster key's file
    #[arg(long, conflicts_with_all = ["role", "output", "revoke"])]
    list: bool,
    /// Revoke the issued key of this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["role", "output"])]
    revoke: Option<String>,
}

/// Roles by their names.
fn roles() -> impl TypedValueParser<Value = PeerRole> {
    let named = |name: String| PeerRole::ALL.into_iter().find(|role| role.name() == name);
    let parser = PossibleValuesParser::new(PeerRole::ALL.map(PeerRole::name));
    parser.try_map(move |name| named(name).ok_or("no role"))
}

impl Key {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let key = setup.key()?;
        if let Some(id) = &self.revoke {
            key.revoke(id)?;
        }
        if let (Some(role), Some(output)) = (self.role, &self.output) {
            let rights = Rights { role, prefix: self.prefix.map(Arc::from) };
            return issue(&key, &rights, self.days, output, setup);
        }
        let mut keys = key.issued()?;
        keys.retain(|key| self.list || self.revoke.as_ref() == Some(&key.id));
        let line = |IssuedKey { id, role, prefix, ends, file, revoked }: &IssuedKey| {
            let of = prefix.iter().map(|prefix| format!("  for {prefix:?}")).collect::<String>();
            let end = if *revoked { "revoked" } else { "ends" };
            format!("{id}  {role:13}  {end:7} {ends}  {file}{of}\n")
        };
        let text = || keys.iter().map(line).collect();
        let listed = keys.iter().map(|IssuedKey { id, role, prefix, ends, file, revoked }| {
            fields! {
                file: file, role: role, prefix or none: prefix, ends: ends, id: id,
                revoked: revoked,
            }
        });
        let listed: Vec<_> = listed.collect();
        if self.list { setup.answer(&listed, text) } else { setup.report(&listed, text) }
    }
}

fn issue(
    key: &ClusterKey,
    rights: &Rights,
    days: u32,
    output: &Path,
    setup: &Setup,
) -> Result<Exit> {
    let time = Duration::from_secs(u64::from(days) * 86_400);
    let ends = key.issue(output, rights.clone(), time)?;
    let (file, role) = (output.display().to_string(), rights.role.to_string());
    let text = format!("{file} is a key of the role {rights}; it expires on {ends}\n");
    let prefix = rights.prefix.as_deref();
    let report = fields! { file: file, role: role, prefix or none: prefix, ends: ends };
    setup.report(&report, || text)
}
