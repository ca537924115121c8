//! The logs of changes that nodes keep for indices elsewhere (`.kiln-changes`): whatever is in
//! them, the list is right, since nothing did change.

use kiln_pool::{Index, Key, NodeConfig, Policy, Pool, PoolConfig, PutRequest};
use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::{PoolError, Sequence, Settings, Silent, StreamSource};
use std::sync::{Arc, OnceLock};

const LOG: &str = ".kiln-changes";
const NODES: usize = 3;

/// A pool with a few objects, and its places.
struct World {
    pool: Pool,
    places: Vec<Arc<MemoryBackend>>,
}

impl World {
    fn new() -> Result<World, PoolError> {
        let mut config = PoolConfig::new([0x5a; 16], "fuzzed", Policy::for_code("rep:2")?);
        for at in 0..NODES {
            config.node.push(NodeConfig::new(&format!("n{at}"), &format!("memory://{at}")));
        }
        let places: Vec<_> = (0..NODES).map(|_| Arc::new(MemoryBackend::new())).collect();
        let place = |node: &NodeConfig| {
            let at = node.id[1..].parse().unwrap_or(0usize);
            Ok(places[at].clone() as Arc<dyn Backend>)
        };
        let pool = Pool::create(config, &place)?.in_sequence(Sequence::new(|_| 0));
        for (at, name) in NAMES.iter().enumerate() {
            let put = PutRequest { name, run: [at as u8 + 1; 16], now_ms: 5, replace: false };
            pool.put(&put, &mut StreamSource::new(&[7; 20][..]), &Settings::new(&Silent))?;
        }
        Ok(World { pool, places })
    }

    /// Replaces all logs: the input is cut in as many pieces.
    fn logs(&self, input: &[u8]) {
        let piece = input.len().div_ceil(NODES).max(1);
        for (at, place) in self.places.iter().enumerate() {
            let start = (at * piece).min(input.len());
            place.put(LOG, input[start..(start + piece).min(input.len())].to_vec());
        }
    }

    fn names(&self, index: &Index) -> Result<Vec<String>, PoolError> {
        index.refresh(&self.pool, b"boot", &Silent)?;
        let mut names = Vec::new();
        index.each("", None, |listed| {
            names.push(listed.name);
            Ok(true)
        })?;
        Ok(names)
    }
}

const NAMES: [&str; 3] = ["a", "b/c", "d"];

pub fn run(input: &[u8]) {
    static WORLD: OnceLock<World> = OnceLock::new();
    // A target that cannot even begin, or has no list, must fail: those are its findings.
    let world = WORLD.get_or_init(|| World::new().expect("a pool in memory"));
    // See above.
    let index = Index::in_memory().expect("an index in memory");
    // Two states of the logs, one after the other: the second may go on from the first.
    let (&at, logs) = input.split_first().unwrap_or((&0, &[]));
    let (first, second) = logs.split_at(usize::from(at).min(logs.len()));
    for logs in [first, second, &[first, second].concat()] {
        world.logs(logs);
        // See above.
        assert_eq!(world.names(&index).expect("a list"), NAMES);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let key = |name: &str| Key::of(name).map_or([0; 16], |key| key.0);
    let record = |name: &str, mark: u8| [key(name), [mark; 16]].concat();
    let known = [record("a", 1), record("d", 2), record("b/c", 3)].concat();
    let unknown = record("nobody's", 4);
    vec![
        [vec![0], known.clone()].concat(),
        [vec![96], known.clone(), known.clone(), unknown.clone()].concat(),
        [vec![32], unknown, known[..40].to_vec()].concat(),
    ]
}
