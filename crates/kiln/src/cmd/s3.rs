//! `kiln s3`

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use kiln_gate::{AccessKey, Right};
use serde::Serialize;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::print::{Stream, date, one_line};
use crate::setup::{PoolFlags, Setup, buckets};

const EXAMPLES: &str = "\
Examples:
  kiln s3 key create admin --owner '*'           every bucket, those to come too
  kiln s3 key create backup --write backups      put, get, list and delete in one bucket
  kiln s3 key create reports --read logs --read sales
  kiln s3 key list
  kiln s3 key revoke K10123456789ABCDEF01

Keys are kept in the pool. The secret is shown once, when the key is made. A key that is revoked is
refused by all servers within two seconds.";

/// Printed at an interrupt.
pub const INTERRUPTED: &str = "kiln s3 key list shows the keys that there are";

/// Access keys of the S3 server
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct S3 {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make, list and revoke access keys
    #[command(subcommand)]
    Key(Key),
}

#[derive(Debug, Subcommand)]
enum Key {
    /// Make an access key, and print its secret
    Create(Create),
    /// List access keys, without their secrets
    List(List),
    /// Revoke an access key
    Revoke(Revoke),
}

// Arguments; the summaries are above.
#[derive(Debug, Args)]
struct Create {
    /// Description of the key, e.g. its user
    name: String,

    /// Bucket whose objects it may get and list; * for all
    #[arg(long, value_name = "BUCKET")]
    read: Vec<String>,

    /// Bucket whose objects it may put and delete, too
    #[arg(long, value_name = "BUCKET")]
    write: Vec<String>,

    /// Bucket that it may make and remove, too
    #[arg(long, value_name = "BUCKET")]
    owner: Vec<String>,

    #[command(flatten)]
    pool: PoolFlags,
}

// Arguments.
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    pool: PoolFlags,
}

// Arguments.
#[derive(Debug, Args)]
struct Revoke {
    /// Id of the key
    id: String,

    #[command(flatten)]
    pool: PoolFlags,
}

/// A key as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    name: &'a str,
    created_ms: u64,
    rights: &'a BTreeMap<String, Right>,
}

impl<'a> Shown<'a> {
    fn of(key: &'a AccessKey, secret: Option<&'a str>) -> Shown<'a> {
        let AccessKey { id, name, created_ms, rights, .. } = key;
        Shown { id, secret, name, created_ms: *created_ms, rights }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    keys: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Revoked<'a> {
    revoked: &'a str,
}

impl S3 {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        match self.action {
            Action::Key(Key::Create(create)) => create.run(setup),
            Action::Key(Key::List(list)) => list.run(setup),
            Action::Key(Key::Revoke(revoke)) => revoke.run(setup),
        }
    }
}

impl Create {
    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let mut rights = BTreeMap::new();
        let lists =
            [(self.read, Right::Read), (self.write, Right::Write), (self.owner, Right::Owner)];
        for (buckets, right) in lists {
            // A greater right comes later, and replaces a smaller one.
            rights.extend(buckets.into_iter().map(|bucket| (bucket, right)));
        }
        if rights.is_empty() {
            let problem = "a key without rights is of no use; give --read, --write or --owner, \
                           e.g. --owner '*'";
            return Err(Failure::Flag { flag: "--owner", problem: problem.into() });
        }
        let key = buckets::gate(&self.pool, setup)?.create_key(&self.name, rights)?;
        let secret = key.secret.reveal();
        if setup.json {
            Stream::Stdout.json(&Shown::of(&key, Some(secret)))?;
        } else {
            let text = format!("access key  {}\nsecret      {secret}\n", key.id);
            Stream::Stdout.text(&text)?;
        }
        Ok(Exit::Done)
    }
}

impl List {
    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let keys = buckets::gate(&self.pool, setup)?.keys()?;
        if setup.json {
            let keys = keys.iter().map(|key| Shown::of(key, None)).collect();
            Stream::Stdout.json(&Listing { keys })?;
            return Ok(Exit::Done);
        }
        let mut text = String::new();
        for key in &keys {
            let right = |(bucket, right): (&String, &Right)| {
                let right = match right {
                    Right::Read => "read",
                    Right::Write => "write",
                    Right::Owner => "owner",
                };
                format!("{right}:{bucket}")
            };
            let rights: Vec<String> = key.rights.iter().map(right).collect();
            let (made, name) = (date(key.created_ms / 1000), one_line(&key.name));
            text += &format!("{}  {made}  {name}  {}\n", key.id, rights.join(" "));
        }
        Stream::Stdout.text(&text)?;
        Ok(Exit::Done)
    }
}

impl Revoke {
    fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        buckets::gate(&self.pool, setup)?.revoke_key(&self.id)?;
        if setup.json {
            Stream::Stdout.json(&Revoked { revoked: &self.id })?;
        } else if !setup.quiet {
            Stream::Stdout.text(&format!("{}: revoked\n", self.id))?;
        }
        Ok(Exit::Done)
    }
}
