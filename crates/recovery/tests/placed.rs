//! Placed repairs over agents: real sockets on the loopback interface, real shards.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use kiln_code::Codec;
use kiln_files::{EncodeRequest, encode};
use kiln_net::{
    AgentSetup, NetError, Network, Result, Serving, proto::assignment::Geometry, serve,
};
use kiln_plan::STRATEGIES;
use kiln_recovery::{Helper, PlacedRepair, RepairWatcher, Repaired};
use kiln_store::{Backend, MemoryBackend, ShardReader};
use kiln_stripe::{Node, Settings, Silent, StreamSource};
use kiln_testkit::{FaultyBackend, pattern};
use tokio::runtime::Runtime;

fn name(index: usize) -> String {
    format!("object.{index:02}.kiln")
}

/// Returns whether two shards hold the same; the header of a streamed object does not know its
/// size.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a[4096..] == b[4096..]
}

/// One agent a shard, and a spare one.
struct Cluster {
    runtime: Runtime,
    network: Network,
    codec: Codec,
    disks: Vec<(MemoryBackend, FaultyBackend)>,
    agents: Mutex<Vec<Option<Serving>>>,
    helpers: Vec<Helper>,
    geometry: Geometry,
    shards: Vec<Vec<u8>>,
}

impl Cluster {
    fn new(spec: &str, bytes: usize, sub_chunk: u32) -> Cluster {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let n = codec.shape().n();
        let builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = { builder }.worker_threads(1).enable_all().build().unwrap();
        let disks: Vec<_> = (0..=n)
            .map(|_| {
                let memory = MemoryBackend::new();
                (memory.clone(), FaultyBackend::new(Arc::new(memory)))
            })
            .collect();
        let nodes: Vec<Node> = disks[..n]
            .iter()
            .enumerate()
            .map(|(i, (memory, _))| Node::new(format!("n{i}"), Arc::new(memory.clone())))
            .collect();
        let request = EncodeRequest {
            codec: &codec,
            object: "object",
            run: [9; 16],
            sub_chunk: Some(sub_chunk),
            replace: false,
        };
        let data = pattern(bytes);
        let mut source = StreamSource::new(&data[..]);
        encode(&request, &mut source, &nodes, &Settings::new(&Silent)).unwrap();
        let shards = (0..n).map(|i| disks[i].0.bytes(&name(i)).unwrap()).collect();
        let geometry = geometry(&disks[0].0, bytes as u64);
        let (mut agents, mut helpers) = (Vec::new(), Vec::new());
        for (i, (_, disk)) in disks.iter().enumerate() {
            let setup = AgentSetup::plain(&format!("n{i}"), Arc::new(disk.clone()));
            let agent = runtime.block_on(serve(setup, "127.0.0.1:0")).unwrap();
            let address = format!("kiln+plain://{}/n{i}", agent.address());
            let shards = if i < n { vec![(i, name(i))] } else { Vec::new() };
            helpers.push(Helper { address, shards });
            agents.push(Some(agent));
        }
        let (network, agents) = (Network::new(None, 1).unwrap(), Mutex::new(agents));
        Cluster { runtime, network, codec, disks, agents, helpers, geometry, shards }
    }

    fn n(&self) -> usize {
        self.shards.len()
    }

    fn recovery<'a>(&'a self, lost: &[usize], strategy: &'a str) -> PlacedRepair<'a> {
        let target =
            |&index: &usize| (index, self.n(), format!(".{}.part", name(index)), name(index));
        let mut nodes = self.helpers.clone();
        lost.iter().for_each(|&index| nodes[index].shards.clear());
        PlacedRepair {
            codec: &self.codec,
            geometry: self.geometry.clone(),
            nodes,
            targets: lost.iter().map(target).collect(),
            strategy,
            first: None,
            prices: None,
            copies: false,
            in_place: true,
            slice: 512,
            windows: 8,
            rate: 0,
            seed: 1,
            moves: 300_000,
        }
    }

    fn run(&self, repair: &PlacedRepair<'_>) -> Result<Repaired> {
        // A number of its own, as coordinators draw one: what is late of an earlier repair is of no
        // task that there is.
        static TASKS: AtomicU8 = AtomicU8::new(3);
        let task = [TASKS.fetch_add(1, Ordering::Relaxed); 16];
        Ok(repair.run(&self.network, task, &Nothing)?)
    }

    /// Returns whether the spare has exactly these shards, byte for byte.
    fn spare_has(&self, lost: &[usize]) {
        let spare = &self.disks[self.n()].0;
        let names: Vec<String> = lost.iter().map(|&index| name(index)).collect();
        assert_eq!(spare.list().unwrap(), names);
        for &index in lost {
            assert!(same(&spare.bytes(&name(index)).unwrap(), &self.shards[index]), "{index}");
        }
    }

    fn stop(&self, agent: usize) {
        drop(self.agents.lock().unwrap()[agent].take());
    }
}

fn geometry(disk: &MemoryBackend, size: u64) -> Geometry {
    let reader = ShardReader::open(disk, &name(0)).unwrap();
    Geometry::of(reader.info(), size, reader.digests().unwrap())
}

struct Nothing;

impl RepairWatcher for Nothing {
    fn kept(&self, _bytes: u64, _total: u64) {}

    fn replanned(&self, _why: &str) {}
}

#[test]
fn what_leaves_is_copied_from_agent_to_agent_and_rebuilt_where_it_is_corrupt() {
    let cluster = Cluster::new("clay:4+2", 300_001, 1200);
    let mut moving = cluster.recovery(&[3], "hub");
    moving.copies = true;
    moving.nodes[3].shards.clone_from(&cluster.helpers[3].shards);
    let done = cluster.run(&moving).unwrap();
    cluster.spare_has(&[3]);
    assert_eq!((done.strategy, &done.helpers[..]), ("copied", &[3][..]));
    let layout = cluster.geometry.shard(0).layout().unwrap();
    let chunk: u64 = (0..layout.stripes()).map(|stripe| layout.chunk_len(stripe) as u64).sum();
    for (node, amounts) in &done.nodes {
        let (sent, got) = (if *node == 3 { chunk } else { 0 }, if *node == 6 { chunk } else { 0 });
        assert_eq!((amounts.sent, amounts.read, amounts.received), (sent, sent, got), "{node}");
    }
    // Its checksums say that a byte is another: then the others are asked.
    cluster.disks[6].0.remove(&name(3)).unwrap();
    let mut bytes = cluster.disks[3].0.bytes(&name(3)).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    cluster.disks[3].0.put(&name(3), bytes);
    let done = cluster.run(&moving).unwrap();
    cluster.spare_has(&[3]);
    assert_eq!((done.strategy, &done.corrupt[..]), ("hub", &[3][..]));
}

#[test]
fn every_strategy_rebuilds_the_same_bytes_with_the_traffic_of_its_plan() {
    for (spec, lost) in [
        ("rs:4+2", vec![1]),
        ("clay:4+2", vec![5]),
        ("clay:4+2", vec![0, 3]),
        ("clay:3+3,d=4", vec![2]),
        ("butterfly:4+2", vec![1]),
        ("rdp:4+2", vec![0]),
        ("lrc:4+2+2", vec![0]),
        ("lrc:4+2+2", vec![0, 1]),
    ] {
        // Several stripes, the last one short; slices that do not divide a sub-chunk.
        let cluster = Cluster::new(spec, 300_001, 1200);
        let layout = cluster.geometry.shard(0).layout().unwrap();
        assert!(layout.stripes() > 2 && layout.sub_len(layout.stripes() - 1) < 1200);
        let sub_bytes: u64 = (0..layout.stripes()).map(|s| layout.sub_len(s) as u64).sum();
        // Searches over such DAGs take long, and their plans are of the same kind.
        for row in STRATEGIES.iter().filter(|row| !row.searches) {
            println!("{spec} by {}", row.name);
            let recovery = cluster.recovery(&lost, row.name);
            let done = cluster.run(&recovery).unwrap();
            cluster.spare_has(&lost);
            assert!(done.given_up.is_empty(), "{:?}", done.given_up);
            for (node, planned) in done.planned.nodes().iter().enumerate() {
                let amounts = done.nodes.get(&node).copied().unwrap_or_default();
                let sent = planned.sent as u64 * sub_bytes;
                let received = planned.received as u64 * sub_bytes;
                assert_eq!((amounts.sent, amounts.received), (sent, received), "node {node}");
                assert_eq!(amounts.read, planned.read as u64 * sub_bytes, "node {node}");
            }
            lost.iter()
                .for_each(|&index| cluster.disks[cluster.n()].0.remove(&name(index)).unwrap());
        }
    }
}

#[test]
fn a_spare_that_is_full_or_gone_is_told_and_nothing_is_put_in_place() {
    let cluster = Cluster::new("rs:4+2", 300_000, 1024);
    let spare = cluster.n();
    cluster.disks[spare].1.limit_space(20_000);
    let error = cluster.run(&cluster.recovery(&[1], "central")).unwrap_err();
    assert!(error.to_string().contains("space"), "{error}");
    assert!(cluster.disks[spare].0.bytes(&name(1)).is_none());
    cluster.disks[spare].1.heal();
    cluster.stop(spare);
    let error = cluster.run(&cluster.recovery(&[1], "central")).unwrap_err();
    assert!(matches!(error, NetError::Io { .. }), "{error}");
}

#[test]
fn a_wrong_digest_keeps_the_result_from_its_place() {
    let cluster = Cluster::new("rs:4+2", 100_000, 1024);
    let mut recovery = cluster.recovery(&[1], "central");
    recovery.geometry.digests[1][3] ^= 1;
    let error = cluster.run(&recovery).unwrap_err();
    assert!(error.to_string().contains("digest"), "{error}");
    assert!(cluster.disks[cluster.n()].0.bytes(&name(1)).is_none());
}

#[test]
fn a_limit_of_the_rate_is_kept_to() {
    let cluster = Cluster::new("rs:4+2", 400_000, 1024);
    let recovery = PlacedRepair { rate: 400_000, ..cluster.recovery(&[1], "central") };
    let start = std::time::Instant::now();
    cluster.run(&recovery).unwrap();
    // The spare receives four chunks for one: 400 kB at 400 kB/s, of which the first second's
    // worth may come at once. Only the lower limit is certain on a busy machine.
    assert!(start.elapsed().as_millis() > 300, "{:?}", start.elapsed());
    cluster.spare_has(&[1]);
    drop(cluster.runtime);
}
