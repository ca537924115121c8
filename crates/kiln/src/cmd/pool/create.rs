//! `kiln pool create`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use kiln_net::{Address, ClusterKey};
use kiln_pool::{NodeConfig, Policy, Pool, PoolConfig};
use kiln_store::Absent;
use kiln_stripe::Observer;
use minijinja::context;

use super::{domains, node};
use crate::exit::{Exit, Failure, Result};
use crate::names;
use crate::setup::{KeyFile, PoolFlags, Setup, fresh_run};

#[derive(Debug, Args)]
pub struct Create {
    /// File to describe the pool
    #[arg(value_name = "FILE", default_value = names::POOL)]
    file: PathBuf,
    /// The code of large objects; small ones get copies or Reed-Solomon of the same k+m [default:
    /// by the number of domains, as the README's table has it]
    #[arg(short, long, value_name = "SPEC")]
    code: Option<String>,
    /// A node: PLACE[,id=ID][,domain=DOMAIN][,weight=NUMBER]; once for each. Without a failure
    /// domain the nodes of one host or disk are one, if the code finds enough of these
    #[allow(rustdoc::broken_intra_doc_links)] // brackets of syntax, in what --help prints
    #[arg(long, value_name = "NODE", required = true)]
    node: Vec<String>,
    /// A name for people [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Seal all that the pool knows with a key of its own, so that nothing can be forged by those
    /// who only have its nodes; makes the key if it is not there
    #[arg(long)]
    sealed: bool,
    /// The file of that key [default: $KILN_POOL_KEY, else beside FILE, as its name with
    /// .seal.key]
    #[arg(long, value_name = "FILE")]
    pool_key: Option<PathBuf>,
    /// Encrypt all data with a key for each object, which a key of the pool wraps; makes the pool's
    /// key if it is not there. Names, sizes and times stay in clear
    #[arg(long)]
    encrypted: bool,
    /// The file of that key [default: $KILN_DATA_KEY, else beside FILE, as its name with .data.key]
    #[arg(long, value_name = "FILE")]
    data_key: Option<PathBuf>,
    /// Wait for agents that do not answer yet [default: 600 when this makes the key, else 0]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

/// Copying a new key to the agents takes an operator's time.
const COPY_KEY: u64 = 600;
/// Interval of looking for agents.
const LOOK: Duration = Duration::from_millis(500);

impl Create {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.name.unwrap_or(stem);
        let nodes = (self.node.iter().enumerate())
            .map(|(at, text)| node(text, &format!("n{at:02}")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut config = domains::with_domains(nodes, |node: Vec<NodeConfig>| {
            let code = self.code.as_deref().unwrap_or_else(|| code_for(domains::distinct(&node)));
            Ok(PoolConfig { node, ..PoolConfig::new(fresh_run(), &name, Policy::for_code(code)?) })
        })?;
        config.check()?;
        domains::check_domains(&config, "--node")?;
        let (pool, pool_key, data_key) = (Some(self.file.clone()), self.pool_key, self.data_key);
        let flags = PoolFlags { pool, pool_key, data_key };
        if self.file.exists() {
            return Err(Failure::InTheWay { path: self.file });
        }
        if self.sealed || flags.pool_key.is_some() {
            make_pool_key(&flags.seal_key(), SEAL_KEY, setup)?;
            config.keys = flags.seal_key().keys()?;
            config.sealed = config.keys.ids().into_iter().take(1).collect();
        }
        if self.encrypted || flags.data_key.is_some() {
            make_pool_key(&flags.data_key(), DATA_KEY, setup)?;
            config.data_keys = flags.data_key().keys()?;
            config.encrypt()?;
        }
        let made = make_key(&config, setup)?;
        // Before anything is written to any node: are all of them places that can be nodes?
        for node in &config.node {
            setup.open_node(node, Absent::CreateWhenWritten)?;
        }
        let wait = self.wait.unwrap_or(if made { COPY_KEY } else { 0 });
        wait_for_agents(&config, Duration::from_secs(wait), setup)?;
        // The description comes first: without it there is no telling to which pool half-created
        // nodes belong.
        flags.write(&config)?;
        if let Err(error) =
            Pool::create(config.clone(), &|node| setup.open_node(node, Absent::Create))
        {
            let _ = std::fs::remove_file(&self.file);
            return Err(error.into());
        }
        let (path, notes) = (self.file.display().to_string(), domains::notes_of_shared(&config)?);
        setup.tell("pool description", &config, context! { path, notes })
    }
}

/// Returns the code of a pool for which none was named, by the README's table.
fn code_for(domains: usize) -> &'static str {
    match domains {
        ..=3 => "rep:2",
        4..=5 => "clay:2+2",
        6..=9 => "clay:4+2",
        10..=13 => "clay:6+3",
        14..=19 => "clay:10+4",
        20.. => "clay:16+4",
    }
}

/// The two keys that a pool may have.
pub(super) const SEAL_KEY: &str = "the key of the pool: every client needs this key, nodes must \
     not have it. Back it up off the pool: without it no manifest verifies";
const DATA_KEY: &str = "the data key of the pool: every client that reads or writes objects needs \
     this key, nodes and coordinators do not. Back it up off the pool: without it no object can be \
     read, ever";

/// Makes a key of a pool unless its file is there; whether it did.
pub(super) fn make_pool_key(file: &KeyFile, about: &str, setup: &Setup) -> Result<bool> {
    let made = file.make()?;
    if made {
        setup.observer.warn(&format!("made {}, {about}", file.path.display()));
    }
    Ok(made)
}

/// Makes the cluster's key where agents need one and the file that `--key` names is not there.
fn make_key(config: &PoolConfig, setup: &Setup) -> Result<bool> {
    let needs = |address: Address| !address.plain;
    let needed = config.node.iter().filter_map(|node| node.url.parse().ok()).any(needs);
    let Some(path) = setup.key_path().filter(|path| needed && !path.exists()) else {
        return Ok(false);
    };
    ClusterKey::create(path)?;
    let file = path.display();
    setup.observer.warn(&format!(
        "made {file}, the cluster's key: copy it to every machine and keep it secret, and start \
         the agents there: kiln agent --dir DIR --key {file}"
    ));
    Ok(true)
}

/// Waits until all agents answer. Those that do not by then are for the caller to fail at.
fn wait_for_agents(config: &PoolConfig, most: Duration, setup: &Setup) -> Result<()> {
    let until = Instant::now() + most;
    let mut told = 0;
    loop {
        let mut missing = Vec::new();
        for node in config.node.iter().filter(|node| Address::is_meant(&node.url)) {
            if let Err(error) =
                setup.open_node(node, Absent::Create).and_then(|store| store.open("-"))
            {
                // An agent that answers "no such file" is running.
                missing.extend((!error.is_not_found()).then(|| node.url.clone()));
            }
        }
        if missing.is_empty() || Instant::now() >= until {
            return Ok(());
        }
        if missing.len() != told {
            told = missing.len();
            let left = until.saturating_duration_since(Instant::now()).as_secs();
            let names = missing.join(", ");
            setup.observer.warn(&format!(
                "waits up to {left} s for {names}; stop it if you like, and run it again later"
            ));
        }
        std::thread::sleep(LOOK);
    }
}

#[test]
fn without_a_code_the_table_of_the_readme_decides() {
    let rows = include_str!("../../../../../README.md").lines().filter_map(|line| {
        let (first, rest) = line.strip_prefix("| ")?.split_once(' ')?;
        Some((first.parse::<usize>().ok()?, rest.split('`').nth(1)?))
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 6);
    for pair in rows.windows(2) {
        assert_eq!((code_for(pair[0].0), code_for(pair[1].0 - 1)), (pair[0].1, pair[0].1));
    }
    assert_eq!(code_for(usize::MAX), rows[5].1);
}
