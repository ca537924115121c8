//! File operations of one put and of one get, in pools of few and of many nodes.

use super::count::Counting;
use super::{Options, failed};
use crate::BenchError;
use kiln_pool::{GetRequest, NodeConfig, Policy, Pool, PoolConfig, PutRequest};
use kiln_store::{Backend, StoreError};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The code of the pools.
pub const CODE: &str = "clay:10+4";
/// Nodes of the pools.
const NODES: [usize; 2] = [14, 100];
/// Bytes of an object.
pub const SIZE: usize = 4 << 10;

/// Operations of one object, in a pool of so many nodes: file operations and locks of all nodes.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Nodes of the pool.
    pub nodes: usize,
    /// Objects that it is the mean of.
    pub objects: usize,
    /// Of a put, on average.
    pub put: f64,
    /// Of the put with the most.
    pub put_most: u64,
    /// Of a get, on average.
    pub get: f64,
    /// Of the get with the most.
    pub get_most: u64,
}

/// Counts in all pools.
pub fn count(options: &Options<'_>) -> Result<Vec<Cost>, BenchError> {
    let objects = if options.tiny { 5 } else { 200 };
    NODES.into_iter().map(|nodes| cost(nodes, objects).map_err(failed)).collect()
}

fn cost(nodes: usize, objects: usize) -> Result<Cost, PoolError> {
    let mut config = PoolConfig::new([1; 16], "bench", Policy::for_code(CODE)?);
    let mut disks = BTreeMap::new();
    for at in 0..nodes {
        let id = format!("n{at:03}");
        config.node.push(NodeConfig::new(&id, &format!("memory://{id}")));
        disks.insert(id, Counting::new());
    }
    let open = |node: &NodeConfig| -> Result<Arc<dyn Backend>, StoreError> {
        Ok(Arc::new(disks[&node.id].clone()))
    };
    let pool = Pool::create(config, &open)?;
    // That each node is the one that it should be is looked at once by a process.
    assert!(pool.away().is_empty());
    let settings = Settings { threads: 1, ..Settings::new(&Silent) };
    let all = || disks.values().map(Counting::operations).sum::<u64>();
    let counted = |work: &mut dyn FnMut() -> Result<(), PoolError>| {
        let before = all();
        work().map(|()| all() - before)
    };
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 % 251) as u8).collect();
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for object in 0..objects {
        let name = format!("object-{object}");
        let mut run = [2; 16];
        run[..8].copy_from_slice(&(object as u64).to_be_bytes());
        let put = PutRequest { name: &name, run, now_ms: 0, replace: false };
        puts.push(counted(&mut || {
            pool.put(&put, &mut StreamSource::new(&bytes[..]), &settings).map(drop)
        })?);
        let get = GetRequest { name: &name, range: None };
        gets.push(counted(&mut || pool.get(&get, &mut Vec::new(), &settings).map(drop))?);
    }
    let mean = |counts: &[u64]| counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
    let most = |counts: &[u64]| counts.iter().copied().max().unwrap_or(0);
    Ok(Cost {
        nodes,
        objects,
        put: mean(&puts),
        put_most: most(&puts),
        get: mean(&gets),
        get_most: most(&gets),
    })
}
