use kiln_code::Codec;
use kiln_files::{EncodeRequest, encode};
use kiln_plan::{Cluster, Problem, STRATEGIES, SearchBudget};
use kiln_store::{Backend, MemoryBackend, ShardReader};
use kiln_stripe::{Node, Settings, Silent, StreamSource};
use kiln_testkit::Random;

use super::*;
use crate::coordinator::{Outcome, RepairFailure, Share};
use kiln_net::proto::assignment::{Assignment, Geometry, Peer, SourceFile, TargetFile};
use std::collections::BTreeSet;
use std::sync::Arc;

fn name(index: usize) -> String {
    format!("object.{index:02}.kiln")
}

/// Returns whether two shards hold the same; the header of a streamed object does not know its
/// size.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a[4096..] == b[4096..]
}

/// An encoded object, one shard a disk, the lost one missing, and a spare disk.
struct Scene {
    codec: Codec,
    disks: Vec<MemoryBackend>,
    shards: Vec<Vec<u8>>,
    lost: usize,
}

impl Scene {
    fn new(spec: &str, lost: usize) -> Scene {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let n = codec.shape().n();
        let disks: Vec<MemoryBackend> = (0..=n).map(|_| MemoryBackend::new()).collect();
        let node = |i: usize| Node::new(format!("n{i}"), Arc::new(disks[i].clone()));
        let nodes: Vec<Node> = (0..n).map(node).collect();
        let (object, run, sub_chunk, replace) = ("object", [4; 16], Some(96), false);
        let request = EncodeRequest { codec: &codec, object, run, sub_chunk, replace };
        let data: Vec<u8> = (0..5_001).map(|i| (i * 31 + i / 256 * 7) as u8).collect();
        let mut source = StreamSource::new(&data[..]);
        encode(&request, &mut source, &nodes, &Settings::new(&Silent)).unwrap();
        let shards = (0..n).map(|i| disks[i].bytes(&name(i)).unwrap()).collect();
        disks[lost].remove(&name(lost)).unwrap();
        Scene { codec, disks, shards, lost }
    }

    /// Copies of the disks, some with a flipped bit.
    fn disks(&self, random: &mut Random, corrupt: u64) -> Vec<MemoryBackend> {
        let copy = |disk: &MemoryBackend| {
            let copy = MemoryBackend::new();
            disk.list().unwrap().iter().for_each(|n| copy.put(n, disk.bytes(n).unwrap()));
            copy
        };
        let disks: Vec<MemoryBackend> = self.disks.iter().map(copy).collect();
        for _ in 0..corrupt {
            let index = random.below(self.shards.len() as u64) as usize;
            if let Some(mut bytes) = disks[index].bytes(&name(index)) {
                // Anywhere in the data; headers are looked at by others.
                let at = 4096 + random.below(200) as usize;
                bytes[at] ^= 1 << random.below(8);
                disks[index].put(&name(index), bytes);
            }
        }
        disks
    }

    /// The shares of a plan without some nodes and chunks; `None` when there is none.
    fn shares(&self, without: &BTreeSet<usize>, seed: u64, attempt: u8) -> Option<Vec<Share>> {
        let n = self.shards.len();
        let usable = |chunk: &usize| *chunk != self.lost && !without.contains(chunk);
        let homes: Vec<(usize, usize)> = (0..n).filter(usable).map(|c| (c, c)).collect();
        let available: Vec<usize> = homes.iter().map(|(chunk, _)| *chunk).collect();
        let (_, dag) = self.codec.repair_dag(&[self.lost], &available).ok()?;
        let cluster = Arc::new(Cluster::uniform(n + 1).unwrap());
        let targets = [(self.lost, n)];
        let problem = Problem::new(Arc::new(dag), cluster, &homes, &targets).unwrap();
        let rows: Vec<_> = STRATEGIES.iter().filter(|row| row.suits_recovery()).collect();
        let row = rows[seed as usize % rows.len()];
        let plan = row.plan(&problem, &mut SearchBudget::new(seed).with_moves(500)).unwrap();
        let execution = plan.execution().unwrap();
        let whole = (0..n).find(|i| *i != self.lost).unwrap();
        let reader = ShardReader::open(&self.disks[whole], &name(whole)).unwrap();
        let info = reader.info();
        let geometry = Geometry::of(info, reader.size().unwrap(), reader.digests().unwrap());
        let peers: Vec<Peer> =
            (0..=n).map(|i| Peer { node: i as u32, address: World::address(i) }).collect();
        let share = |node: usize| {
            let bare = Assignment::of(&execution, node)?;
            let file = SourceFile { chunk: node as u32, name: name(node) };
            let part = format!(".{}.repair.part.{attempt}", name(self.lost));
            let chunk = self.lost as u32;
            let target = TargetFile { chunk, part, name: name(self.lost) };
            let reads = node < n && usable(&node);
            let assignment = Assignment {
                end: reader.layout().stripes(),
                slice: 40,
                windows: 3,
                geometry: geometry.clone(),
                peers: peers.clone(),
                sources: if reads { vec![file] } else { Vec::new() },
                targets: if node == n { vec![target] } else { Vec::new() },
                ..bare
            };
            Some(Share { node, assignment: assignment.encode().into(), writes: node == n })
        };
        Some((0..=n).filter_map(share).collect())
    }
}

/// One run: plans, and plans again as the coordinator's shell does. Says what came of it.
fn run(scene: &Scene, seed: u64) -> &'static str {
    let mut random = Random(seed);
    let faults = Faults::of_seed(seed);
    let disks = scene.disks(&mut random, faults.corrupt);
    let mut world = World::new(seed, faults, disks);
    let spare = scene.shards.len();
    let mut without = BTreeSet::new();
    for attempt in 0..8 {
        let Some(shares) = scene.shares(&without, seed, attempt) else { return "honest" };
        let mut task = [attempt; 16];
        task[..8].copy_from_slice(&seed.to_le_bytes());
        let ending = world.run(task, shares).unwrap_or_else(|error| panic!("{error}"));
        let found = world.disk(spare).bytes(&name(scene.lost));
        // The invariant: a file with the shard's name is the shard.
        if let Some(found) = &found {
            assert!(same(found, &scene.shards[scene.lost]), "wrong bytes in place");
        }
        match ending.outcome {
            Outcome::Done(_) => {
                assert!(found.is_some(), "acknowledged but not there");
                return "done";
            }
            Outcome::Failed(RepairFailure::Node(node, _) | RepairFailure::Disk(node, _))
                if node == spare => {}
            Outcome::Failed(RepairFailure::Node(node, _) | RepairFailure::Disk(node, _)) => {
                without.insert(node);
            }
            Outcome::Failed(RepairFailure::Chunk(chunk, ..)) => {
                without.insert(chunk);
            }
            Outcome::Failed(RepairFailure::Failed(_)) => {}
        }
    }
    "given up"
}

/// Runs many seeds; KILN_SIM_SEED repeats one, KILN_SIM_SEEDS says how many.
#[test]
fn no_seed_puts_wrong_bytes_in_place_or_waits_for_ever() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let scenes = [("rs:3+2", 1), ("clay:2+2", 0), ("clay:4+2", 4)]
        .map(|(spec, lost)| Scene::new(spec, lost));
    let seeds = match number("KILN_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KILN_SIM_SEEDS").unwrap_or(600),
    };
    let mut counts = std::collections::BTreeMap::new();
    for seed in seeds.clone() {
        let scene = &scenes[(seed % 3) as usize];
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(scene, seed)));
        let Ok(result) = result else {
            panic!("seed {seed} failed; repeat it by KILN_SIM_SEED={seed} and this test's name");
        };
        *counts.entry(result).or_insert(0) += 1;
    }
    println!("{counts:?}");
    if seeds.end - seeds.start > 100 {
        // A simulation in which nothing succeeds would prove nothing, nor one without faults.
        let done = counts.get("done").copied().unwrap_or(0);
        assert!(done * 4 > seeds.end - seeds.start, "{counts:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let scene = Scene::new("clay:2+2", 0);
    for seed in 0..20 {
        let once = || {
            let faults = Faults::of_seed(seed);
            let disks = scene.disks(&mut Random(seed), faults.corrupt);
            let mut world = World::new(seed, faults, disks);
            let shares = scene.shares(&BTreeSet::new(), seed, 0).unwrap();
            let ending = world.run([1; 16], shares).unwrap();
            (ending.time, ending.frames, format!("{:?}", ending.outcome))
        };
        assert_eq!(once(), once());
    }
}

#[test]
fn on_a_calm_day_everything_succeeds() {
    for (spec, lost) in [("rs:3+2", 2), ("clay:4+2", 0)] {
        let scene = Scene::new(spec, lost);
        let mut world = World::new(1, Faults::none(), scene.disks(&mut Random(1), 0));
        let shares = scene.shares(&BTreeSet::new(), 0, 0).unwrap();
        let ending = world.run([2; 16], shares).unwrap();
        assert!(matches!(ending.outcome, Outcome::Done(_)), "{:?}", ending.outcome);
        let spare = world.disk(scene.shards.len());
        assert!(same(&spare.bytes(&name(lost)).unwrap(), &scene.shards[lost]));
    }
}
