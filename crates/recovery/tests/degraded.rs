//! Degraded reads of a pool over agents: helpers rebuild what is lost, the reader gets little more;
//! and recodes, of which the client has a short last stripe alone.

use std::sync::{Arc, Mutex};
use std::{io::Write, ops::Range};

use kiln_net::{AgentSetup, Network, Serving, serve};

use kiln_plan::STRATEGIES;
use kiln_pool::layout::{Body, Class};
use kiln_pool::{
    GetReport, GetRequest, Helpers, Index, NodeConfig, Policy, Pool, PoolConfig, PutRequest,
    RecodeReport, RecodeRequest,
};
use kiln_recovery::HelpingAgents;
use kiln_store::{Backend, MemoryBackend, Operation};
use kiln_stripe::{Result, Settings, Silent, StreamSource};
use kiln_testkit::{Fault, FaultAction, FaultyBackend, pattern};
use tokio::runtime::Runtime;

/// A pool whose nodes are agents, and one object.
struct Scene {
    _runtime: Runtime,
    network: Network,
    config: PoolConfig,
    disks: Vec<FaultyBackend>,
    agents: Mutex<Vec<Option<Serving>>>,
    data: Vec<u8>,
    /// Position of the node of each shard.
    homes: Vec<usize>,
}

impl Scene {
    fn new(code: &str, nodes: usize, sub_chunk: u32, bytes: usize) -> Scene {
        let builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = { builder }.worker_threads(1).enable_all().build().unwrap();
        let class = vec![Class { below: None, code: code.to_owned(), sub_chunk: Some(sub_chunk) }];
        let policy = Policy { manifest_copies: 4, missing_at_put: 0, class };
        let mut config = PoolConfig::new([5; 16], "read", policy);
        let (mut disks, mut agents) = (Vec::new(), Vec::new());
        for at in 0..nodes {
            let disk = FaultyBackend::new(Arc::new(MemoryBackend::new()));
            let mut setup = AgentSetup::plain("", Arc::new(disk.clone()));
            setup.limits.reads = kiln_pool::map::LATEST;
            let agent = runtime.block_on(serve(setup, "127.0.0.1:0")).unwrap();
            let url = format!("kiln+plain://{}", agent.address());
            config.node.push(NodeConfig::new(&format!("n{at}"), &url));
            disks.push(disk);
            agents.push(Some(agent));
        }
        let network = Network::new(None, 1).unwrap();
        let open = |node: &NodeConfig| {
            Ok(Arc::new(network.open(&node.url.parse().unwrap())) as Arc<dyn Backend>)
        };
        let pool = Pool::create(config.clone(), &open).unwrap();
        let data = pattern(bytes);
        let put = PutRequest { name: "object", run: [2; 16], now_ms: 0, replace: false };
        pool.put(&put, &mut StreamSource::new(&data[..]), &settings()).unwrap();
        let Body::Shards(placed) = pool.manifest("object").unwrap().body else { unreachable!() };
        let position = |node: &String| config.position(node).unwrap();
        let homes = placed.places.iter().map(|place| position(&place.node)).collect();
        let agents = Mutex::new(agents);
        Scene { _runtime: runtime, network, config, disks, agents, data, homes }
    }

    fn stop(&self, shard: usize) {
        drop(self.agents.lock().unwrap()[self.homes[shard]].take());
    }

    fn agents(&self) -> HelpingAgents<'_> {
        HelpingAgents::new(&self.network, &self.config, &|| [rand(); 16])
    }

    fn pool(&self) -> Pool {
        let open = |node: &NodeConfig| {
            Ok(Arc::new(self.network.open(&node.url.parse().unwrap())) as Arc<dyn Backend>)
        };
        Pool::open(self.config.clone(), &open).unwrap()
    }

    fn read(
        &self,
        helpers: &dyn Helpers,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<GetReport> {
        let req = GetRequest { name: "object", range };
        self.pool().reader().read_with(&req, Some(helpers), out, &settings())
    }

    /// Reads a range, which must be right.
    #[track_caller]
    fn right(&self, helpers: &dyn Helpers, range: Range<usize>) -> GetReport {
        let mut out = Vec::new();
        let wanted = range.start as u64..range.end as u64;
        let report = self.read(helpers, Some(wanted), &mut out).unwrap();
        assert!(out == self.data[range.start..range.end.min(self.data.len())], "{range:?}");
        report
    }
}

/// Names of tasks need only differ.
fn rand() -> u8 {
    static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn settings() -> Settings<'static> {
    Settings { threads: 2, ..Settings::new(&Silent) }
}

#[test]
fn every_strategy_streams_what_is_lost_and_little_more() {
    for (code, sub_chunk) in
        [("rs:4+2", 12_000), ("clay:4+2", 1500), ("butterfly:4+2", 1500), ("clay:3+3,d=4", 1000)]
    {
        // Several stripes, the last one short.
        let scene = Scene::new(code, 8, sub_chunk, 700_001);
        let shape = code.parse().map(|spec| kiln_code::Codec::new(&spec).unwrap().shape());
        let shape = shape.unwrap();
        let (lost, sub) = (1, sub_chunk as usize);
        let (chunk, stripe) = (sub * shape.alpha, sub * shape.alpha * shape.k);
        scene.stop(lost);
        for row in STRATEGIES.iter().filter(|row| !row.searches) {
            let helpers = scene.agents().by(row.name).unwrap();
            // The lost chunk of a stripe, and of the last one; a few bytes of it; all that is left;
            // everything.
            let end = scene.data.len();
            for range in
                [chunk..2 * chunk, stripe + chunk + 10..stripe + chunk + 20, 7..end, 0..end]
            {
                let report = scene.right(&helpers, range.clone());
                println!("{code} {} {range:?}: {report:?}", row.name);
                assert!(report.notes.is_empty(), "{report:?}");
                assert_eq!(report.strategy, row.name, "{report:?}");
                assert!(report.degraded && report.bytes_from_helpers > 0);
            }
            let whole = scene.read(&helpers, None, &mut Vec::new()).unwrap();
            assert!(whole.bytes_from_helpers > 0 && whole.notes.is_empty(), "{whole:?}");
            // A few bytes cost what their sub-chunk needs.
            let few = scene.right(&helpers, chunk + 1..chunk + 2);
            assert_eq!(few.bytes_from_helpers, 1);
            assert!(few.bytes_received <= (shape.k + shape.m) as u64 * chunk as u64, "{few:?}");
        }
        let helpers = scene.agents().by("central").unwrap();
        let central = scene.right(&helpers, chunk..2 * chunk).bytes_received;
        let best = scene.right(&scene.agents().by("best").unwrap(), chunk..2 * chunk);
        assert!(best.bytes_received < central, "{best:?}");
    }
}

#[test]
fn helpers_are_asked_where_the_reader_gains() {
    let scene = Scene::new("clay:4+2", 7, 512 << 10, 32 << 20);
    let chunk = 4 << 20;
    // Nothing is lost: no agent is asked.
    let whole = scene.right(&scene.agents(), chunk..2 * chunk);
    assert_eq!((&whole.strategy[..], whole.bytes_received), ("direct", chunk as u64));
    scene.stop(1);
    let report = scene.right(&scene.agents(), chunk..2 * chunk);
    assert_eq!((&report.strategy[..], report.bytes_received), ("hub", chunk as u64), "{report:?}");
    assert!(report.notes.is_empty() && report.bytes_read == 0, "{report:?}");
    // Chunk 1 is lost, chunk 2 is there.
    let report = scene.right(&scene.agents(), chunk..3 * chunk);
    assert_eq!((&report.strategy[..], report.bytes_read), ("hub", chunk as u64), "{report:?}");
    // A few bytes of it need one sub-chunk of eight, which is soon decoded from seven of others.
    let report = scene.right(&scene.agents(), chunk..chunk + 60_000);
    assert_eq!((report.bytes_from_helpers, report.bytes_received), (0, 7 * (512 << 10)));
    // With longer sub-chunks helpers send that one.
    let longer = Scene::new("clay:4+2", 7, 1 << 20, 32 << 20);
    longer.stop(1);
    let report = longer.right(&longer.agents(), 2 * chunk..2 * chunk + 60_000);
    assert_eq!((report.bytes_from_helpers, report.bytes_received), (60_000, 1 << 20));
    // Whole stripes are decoded here.
    for range in [0..32 << 20, 1..32 << 20] {
        let report = scene.right(&scene.agents(), range.clone());
        assert_eq!(report.strategy, "central", "{range:?}: {report:?}");
        assert_eq!(report.bytes_from_helpers, 0);
    }
    // And so is what is soon decoded; it says why.
    let scene = Scene::new("clay:4+2", 7, 4096, 1 << 20);
    scene.stop(1);
    let report = scene.right(&scene.agents(), 32 << 10..64 << 10);
    assert_eq!((&report.strategy[..], report.bytes_received), ("central", 80 << 10), "{report:?}");
    assert!(report.notes[0].contains("81920 when decoding here"), "{report:?}");
}

/// Does something when the first bytes arrive.
struct Then<'a>(Vec<u8>, Option<Box<dyn FnOnce() + 'a>>);

impl Write for Then<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(then) = self.1.take() {
            then();
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_helper_that_ends_on_the_way_is_decoded_around() {
    let scene = Scene::new("clay:4+2", 7, 1024, 4_000_000);
    scene.stop(2);
    let helpers = scene.agents().by("hub").unwrap();
    let mut out = Then(Vec::new(), Some(Box::new(|| scene.stop(4))));
    let report = scene.read(&helpers, None, &mut out).unwrap();
    assert!(out.0 == scene.data);
    assert_eq!((&report.strategy[..], report.notes.len()), ("mixed", 1), "{report:?}");
    assert!(report.notes[0].contains("helpers gave up"), "{report:?}");
    // Now two are gone, and helpers do it again.
    let report = scene.right(&helpers, 100..4_000_000);
    assert_eq!(report.strategy, "hub", "{report:?}");
}

#[test]
fn a_corrupt_helper_is_decoded_around() {
    let scene = Scene::new("clay:4+2", 7, 1024, 400_000);
    scene.stop(0);
    let disk = &scene.disks[scene.homes[5]];
    let rot = Fault::new(FaultAction::Flip { offset: 4096 + 700, mask: 16 });
    disk.inject(rot.on(Operation::Read).always());
    let helpers = scene.agents().by("central").unwrap();
    let report = scene.right(&helpers, 0..300_000);
    assert_eq!(report.notes.len(), 1, "{report:?}");
    assert!(report.notes[0].contains("shard 5"), "{report:?}");
    // Folders have no helpers.
    let mut alone = scene.config.clone();
    alone.node.iter_mut().for_each(|node| node.url = "file:///nowhere".to_owned());
    let nobody = HelpingAgents::new(&scene.network, &alone, &|| [1; 16]).by("hub").unwrap();
    let report = scene.right(&nobody, 0..100);
    assert_eq!((&report.strategy[..], report.notes.len()), ("central", 1), "{report:?}");
}

/// Bytes of a chunk, as codes of their own choice have it.
const CHUNK: u32 = 1 << 20;

impl Scene {
    fn recode(&self, to: &str) -> RecodeReport {
        let (pool, index, agents) = (self.pool(), Index::in_memory().unwrap(), self.agents());
        index.refresh(&pool, b"", &Silent).unwrap();
        let req = RecodeRequest {
            names: &[String::new()],
            skip: &|_| false,
            to: Some(to),
            lower_safety: false,
            at_most: u64::MAX,
            dry_run: false,
            nodes: Some(&agents),
            fresh: &|| ([rand(); 16], 5),
        };
        pool.writer().recode(&index, &req, &settings()).unwrap()
    }

    fn places(&self) -> (String, Vec<String>) {
        let Body::Shards(placed) = self.pool().manifest("object").unwrap().body else {
            unreachable!()
        };
        (placed.spec, placed.places.into_iter().map(|place| place.node).collect())
    }

    fn is_whole(&self) {
        let mut out = Vec::new();
        let req = GetRequest { name: "object", range: None };
        self.pool().get(&req, &mut out, &settings()).unwrap();
        assert!(out == self.data);
    }
}

#[test]
fn a_recode_leaves_data_on_its_nodes() {
    let stripe = 2 * u64::from(CHUNK);
    for (from, sub_chunk, to, rest) in [
        ("rs:2+2", CHUNK, "clay:2+2", 0),
        ("rs:2+2", CHUNK, "rs:2+3", 70_001),
        ("clay:2+2", CHUNK / 4, "less:2+2,alpha=2", 1),
        ("less:2+2,alpha=2", CHUNK / 2, "lrc:2+2+1", 5_000),
    ] {
        let scene = Scene::new(from, 7, sub_chunk, 3 * stripe as usize + rest);
        let before = scene.places().1;
        let report = scene.recode(to);
        println!("{from} to {to}: {report:?}");
        assert_eq!((report.in_place, &report.not_in_place), (1, &None), "{report:?}");
        assert_eq!(report.moved, report.planned, "{report:?}");
        let n = scene.places().1.len() as u64;
        let left = (report.planned.read - 3 * stripe, report.planned.written - 3 * n * stripe / 2);
        assert_eq!((report.client.read, report.client.written), left, "{report:?}");
        assert_eq!(left.0 == 0, rest == 0, "{report:?}");
        // Each chunk of data once to the node that makes parity, or more than one.
        assert!(report.sent >= 3 * stripe, "{report:?}");
        assert_eq!(scene.places().1[..2], before[..2]);
        scene.is_whole();
        for lost in [0, n as usize - 1] {
            let node = scene.config.position(&scene.places().1[lost]).unwrap();
            drop(scene.agents.lock().unwrap()[node].take());
        }
        scene.is_whole();
    }
}

#[test]
fn a_recode_with_a_fault_leaves_the_old_or_the_new() {
    let mut ends = std::collections::BTreeMap::<(String, u64), u32>::new();
    for after in 0..30 {
        let scene = Scene::new("rs:2+2", 6, CHUNK, 5 * CHUNK as usize);
        let fail = FaultAction::Fail(std::io::ErrorKind::StorageFull);
        let at = scene.homes[after as usize % 4];
        scene.disks[at].inject(Fault::new(fail).after(after / 4 * 3));
        let report = scene.recode("clay:2+2");
        let spec = scene.places().0;
        assert_eq!(spec.starts_with("clay"), report.recoded == 1, "{report:?}");
        scene.is_whole();
        *ends.entry((spec, report.in_place)).or_default() += 1;
        scene.disks[at].heal();
        scene.recode("clay:2+2");
        assert!(scene.places().0.starts_with("clay"));
        scene.is_whole();
    }
    println!("{ends:?}");
    assert!(ends.len() > 1, "{ends:?}");
}
