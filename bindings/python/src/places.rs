//! Places of a pool's nodes, opened: folders, buckets and agents, as the program has them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use kiln_net::{Address, Agents, ClusterKey, Network};
use kiln_pool::NodeConfig;
use kiln_remote::s3::Buckets;
use kiln_store::{
    Absent, BACKENDS, Backend, BackendKind, Capabilities, Capability, Opening, StoreError,
    open_place,
};

/// Threads for connections to agents.
const NETWORK_THREADS: usize = 2;

/// Opens places; connections to agents are made when the first is opened.
#[derive(Debug)]
pub struct Places {
    key: Option<PathBuf>,
    network: OnceLock<Network>,
}

impl Places {
    /// By the cluster's key in this file, or in the one that `KILN_KEY` names.
    pub fn new(key: Option<PathBuf>) -> Places {
        let key = key.or_else(|| std::env::var_os("KILN_KEY").map(PathBuf::from));
        Places { key, network: OnceLock::new() }
    }

    /// The connections to agents, if there are any.
    pub fn network(&self) -> Option<&Network> {
        self.network.get()
    }

    fn connect(&self, address: &Address) -> Result<Network, String> {
        if let Some(network) = self.network.get() {
            return Ok(network.clone());
        }
        let key = match &self.key {
            Some(path) => Some(ClusterKey::load(path).map_err(|error| error.to_string())?),
            None if address.plain => None,
            None => return Err("the cluster's key is needed: key=, or KILN_KEY".into()),
        };
        let network = Network::new(key, NETWORK_THREADS).map_err(|error| error.to_string())?;
        Ok(self.network.get_or_init(|| network).clone())
    }

    /// Opens the place of a node; it must keep what is written to it.
    ///
    /// # Errors
    /// There is no such kind of places; it cannot be opened, or cannot do what is needed.
    pub fn open(&self, node: &NodeConfig, absent: Absent) -> Result<Arc<dyn Backend>, StoreError> {
        const WHAT: &str = "a node of a pool";
        let agents = Agents(|address: &Address| self.connect(address));
        let kinds: Vec<&dyn BackendKind> = [BACKENDS, &[&Buckets, &agents]].concat();
        let opening = Opening { absent, ..Opening::default() };
        let store = open_place(&kinds, node.url.as_ref(), opening)?;
        Capabilities::require_writable(&*store, WHAT)?;
        Capabilities::of(&[Capability::Durable]).require(&*store, WHAT)?;
        Ok(store)
    }
}
