//! `kiln key`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kiln_net::{ClusterKey, agent::PeerRole};
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::{args::help, setup::Setup};

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

/// The key that was made, or one of a list.
#[derive(Serialize)]
struct Issued {
    file: String,
    role: String,
    ends: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<bool>,
}

impl Key {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let key = setup.key()?;
        if let Some(id) = &self.revoke {
            key.revoke(id)?;
        }
        if let (Some(role), Some(output)) = (self.role, &self.output) {
            return issue(&key, role, self.days, output, setup);
        }
        let listed = key.issued()?.into_iter().map(|key| {
            let (id, revoked) = (Some(key.id), Some(key.revoked));
            Issued { file: key.file, role: key.role, ends: key.ends, id, revoked }
        });
        let listed: Vec<Issued> = listed.filter(|key| self.list || key.id == self.revoke).collect();
        let line = |Issued { file, role, ends, id, revoked }: &Issued| {
            let end = if *revoked == Some(true) { "revoked" } else { "ends" };
            let id = id.as_deref().unwrap_or_default();
            format!("{id}  {role:13}  {end:7} {ends}  {file}\n")
        };
        let text = || listed.iter().map(line).collect();
        if self.list { setup.answer(&listed, text) } else { setup.report(&listed, text) }
    }
}

fn issue(
    key: &ClusterKey,
    role: PeerRole,
    days: u32,
    output: &Path,
    setup: &Setup,
) -> Result<Exit> {
    let time = Duration::from_secs(u64::from(days) * 86_400);
    let ends = key.issue(output, role, time)?;
    let (file, role) = (output.display().to_string(), role.to_string());
    let text = format!("{file} is a key of the role {role}; it expires on {ends}\n");
    setup.report(&Issued { file, role, ends, id: None, revoked: None }, || text)
}
