//! `kiln s3`

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use kiln_gate::{AccessKey, Right};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, buckets};
use crate::{args::help, print::fields};

/// Access keys and buckets of the S3 server
#[derive(Debug, Args)]
#[command(after_help = help("s3"))]
pub struct S3 {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make, list and revoke access keys
    #[command(subcommand)]
    Key(Key),
    /// List buckets, and open them to everybody's reads
    #[command(subcommand)]
    Bucket(Bucket),
    /// Expire objects by the lifecycles of buckets, and remove data of puts that were cut short a
    /// day ago or longer, as servers do each hour
    Sweep(List),
}

#[derive(Debug, Subcommand)]
enum Bucket {
    /// List buckets
    List(List),
    /// Let everybody get the objects of a bucket, without a key
    Public(Public),
}

// Arguments; the summary is above.
#[derive(Debug, Args)]
struct Public {
    /// Name of the bucket
    bucket: String,
    /// Let everybody list its objects, too
    #[arg(long)]
    list: bool,
    /// Let nobody read it without a key again
    #[arg(long, conflicts_with = "list")]
    off: bool,
    #[command(flatten)]
    pool: PoolFlags,
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
    /// It may make buckets of any name, and owns those that it made
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    pool: PoolFlags,
}

#[derive(Debug, Args)]
struct Revoke {
    /// Id of the key
    id: String,
    #[command(flatten)]
    pool: PoolFlags,
}

/// A key as it is shown.
fn shown(key: &AccessKey, secret: Option<&str>) -> impl Serialize {
    fields! {
        id: key.id.clone(),
        secret or none: secret.map(str::to_owned),
        name: key.name.clone(),
        created_ms: key.created_ms,
        rights: key.rights.clone(),
        create or none: key.create.then_some(true),
    }
}

impl S3 {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        match self.action {
            Action::Key(Key::Create(create)) => create.run(setup),
            Action::Key(Key::List(list)) => list.run(setup),
            Action::Key(Key::Revoke(revoke)) => revoke.run(setup),
            Action::Bucket(Bucket::List(list)) => list.buckets(setup),
            Action::Sweep(sweep) => sweep.sweep(setup),
            Action::Bucket(Bucket::Public(public)) => public.run(setup),
        }
    }
}

impl Public {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let Public { bucket, list, off, pool } = self;
        buckets::gate(&pool, setup)?.set_public(&bucket, !off, list)?;
        let readers = if off { "keys" } else { "everybody" };
        let access = fields! { bucket: &bucket, public: !off };
        setup.report(&access, || format!("{bucket}: readable by {readers}\n"))
    }
}

impl Create {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let mut rights = BTreeMap::new();
        let lists =
            [(self.read, Right::Read), (self.write, Right::Write), (self.owner, Right::Owner)];
        for (buckets, right) in lists {
            // A greater right comes later, and replaces a smaller one.
            rights.extend(buckets.into_iter().map(|bucket| (bucket, right)));
        }
        if rights.is_empty() && !self.create {
            let problem = "a key without rights is of no use; give --read, --write, --owner or \
                           --create, e.g. --owner '*'";
            return Err(Failure::Flag { flag: "--owner", problem: problem.into() });
        }
        let key = AccessKey { create: self.create, ..AccessKey::fresh(&self.name, rights) };
        let key = buckets::gate(&self.pool, setup)?.create_key(key)?;
        let secret = key.secret.reveal();
        let text = format!("access key  {}\nsecret      {secret}\n", key.id);
        setup.answer(&shown(&key, Some(secret)), || text)
    }
}

impl List {
    fn run(self, setup: &Setup) -> Result<Exit> {
        let keys = buckets::gate(&self.pool, setup)?.keys()?;
        let keys: Vec<_> = keys.iter().map(|key| shown(key, None)).collect();
        setup.show("access keys", &fields! { keys: keys }, context! {})
    }

    fn sweep(self, setup: &Setup) -> Result<Exit> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (gate, now_ms) = (buckets::gate(&self.pool, setup)?, now.as_millis() as u64);
        let (expired, removed) = (gate.expire(now_ms)?, gate.sweep(now_ms)?);
        setup.show("s3 sweep", &fields! { expired: expired, removed: removed }, context! {})
    }

    fn buckets(self, setup: &Setup) -> Result<Exit> {
        let buckets = buckets::gate(&self.pool, setup)?.buckets()?;
        setup.show("buckets", &fields! { buckets: buckets }, context! {})
    }
}

impl Revoke {
    fn run(self, setup: &Setup) -> Result<Exit> {
        buckets::gate(&self.pool, setup)?.revoke_key(&self.id)?;
        setup.report(&fields! { revoked: &self.id }, || format!("{}: revoked\n", self.id))
    }
}
