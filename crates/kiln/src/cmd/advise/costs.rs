//! A site, and what a code costs on it.

use std::sync::Arc;

use kiln_code::Codec;
use kiln_durability::{
    DurabilityError, Effort, Estimate, Placement, PoolModel, Tolerance, simulate,
};
use kiln_plan::{Cluster, Destination, Layout, Node, RecoveryOptions, RecoveryPlan};
use kiln_store::device::DeviceModel;
use kiln_stripe::Advice as Reads;
use serde::Serialize;

use crate::exit::{Failure, Result};

/// Stripes of a recovery that is planned; more of them share links in the same proportions.
const PLANNED_STRIPES: usize = 40;
/// The most nodes of a recovery that is planned; more of them have more links each.
const PLANNED_NODES: usize = 64;
/// Placement groups of a simulation that stand for all objects.
const PLAYED_STRIPES: u64 = 1_000;

/// Machines and data.
#[derive(Debug, Clone)]
pub struct Site {
    pub nodes: usize,
    pub data: u64,
    pub object: u64,
    pub model: DeviceModel,
    /// Bytes a second, each way.
    pub link: u64,
    /// Failures of a node in a year.
    pub failures: f64,
    pub detection_hours: f64,
    /// Nodes that can fail at once, and how often these do in a year.
    pub domain: usize,
    pub domain_failures: f64,
    /// Money for a TB stored a month, and for one read by repairs.
    pub price: Option<(f64, f64)>,
    /// Unreadable bits among those read.
    pub bad_bits: f64,
    pub limit_rate: Option<u64>,
}

/// One code on a site.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    pub code: String,
    pub shards: usize,
    /// Any so many nodes may be lost.
    pub survives: usize,
    /// Bytes stored for each byte of data.
    pub stored: f64,
    /// Bytes of a node.
    pub node_bytes: u64,
    /// Chunks read to rebuild one, on average, in as many reads: as the read planner has them for
    /// these disks, gaps that it reads through included.
    pub repair_chunks: f64,
    pub repair_reads: f64,
    /// Hours of all disks for the reads and writes of a lost node.
    pub disk_hours: f64,
    /// Hours until all that one node held is rebuilt, once that has begun.
    pub repair_hours: f64,
    /// The resource that sets them: links, disks, or the limit.
    pub repair_bound_by: &'static str,
    /// Bytes that repairs read in a year, at all nodes.
    pub repair_bytes_a_year: f64,
    /// Money that storage and repairs take in a year.
    pub cost_a_year: Option<f64>,
    /// The chance that a year loses data, and its nines.
    pub loss_a_year: f64,
    pub nines: f64,
    /// The assumption whose doubling costs most nines, and how many are left then.
    pub decides: &'static str,
    pub nines_if_doubled: f64,
    /// Wishes that are not met.
    pub unmet: Vec<String>,
    #[serde(skip)]
    pub pool: Option<PoolModel>,
}

/// A change of one assumption.
type Change = fn(&mut PoolModel);

fn impossible(error: impl std::fmt::Display) -> Failure {
    Failure::Flag { flag: "kiln advise", problem: error.to_string() }
}

/// Computes what disks do for a code on a site.
/// Errors: the code cannot rebuild a loss.
pub fn on_disks(site: &Site, codec: &Codec) -> Result<Advice> {
    let shape = codec.shape();
    let n = shape.n();
    let stored = n as f64 / shape.k as f64;
    let chunk = site.chunk(codec);
    let sub_chunk = (chunk / shape.alpha as u64).max(1);
    let (mut reads, mut bytes, mut seconds) = (0.0, 0.0, 0.0);
    for lost in 0..n {
        let others: Vec<usize> = (0..n).filter(|&other| other != lost).collect();
        let repair = codec.repair_plan(&[lost], &others)?;
        let decode = codec.decode_plan(&[lost], &others)?;
        let costs = Reads::of(&repair, &decode, sub_chunk, shape, &site.model);
        let planned = costs.planned.device_seconds <= costs.decode.device_seconds;
        let cheaper = if planned { &costs.planned } else { &costs.decode };
        reads += cheaper.reads / n as f64;
        bytes += cheaper.bytes / n as f64;
        seconds += cheaper.device_seconds / n as f64;
    }
    let node_bytes = site.data as f64 * stored / site.nodes as f64;
    let chunks = node_bytes / chunk as f64;
    let nodes = site.nodes as f64;
    let read = nodes * (site.failures + site.domain_failures) * chunks * bytes;
    let cost = |(stored, moved)| (nodes * node_bytes * 12.0 * stored + read * moved) / 1e12;
    Ok(Advice {
        code: codec.spec().to_string(),
        shards: n,
        survives: usize::try_from(codec.margin(&[])).unwrap_or(0),
        stored,
        node_bytes: node_bytes as u64,
        repair_chunks: bytes / chunk as f64,
        repair_reads: reads,
        disk_hours: chunks * (seconds + site.model.seconds(1, chunk)) / 3600.0,
        repair_hours: f64::INFINITY,
        repair_bound_by: "",
        repair_bytes_a_year: read,
        cost_a_year: site.price.map(cost),
        loss_a_year: 1.0,
        nines: 0.0,
        decides: "",
        nines_if_doubled: 0.0,
        unmet: Vec::new(),
        pool: None,
    })
}

/// Adds the time of repair and the durability of a code on a site.
/// Errors: a repair cannot be planned; a number of the site is outside of what can be computed.
pub fn durable(site: &Site, codec: &Codec, row: &mut Advice, seed: u64) -> Result<()> {
    if row.shards > site.nodes / site.domain {
        return Ok(());
    }
    (row.repair_hours, row.repair_bound_by) = repair(site, codec, row, seed)?;
    // With domains that fail, each loss of a node counts as that of its domain, for as long as most
    // losses take: no more data is safe than that says.
    let domain = site.domain as f64;
    let failures = domain * site.failures + site.domain_failures;
    let longer = (domain * site.failures + domain * site.domain_failures) / failures;
    let pool = PoolModel {
        nodes: site.nodes / site.domain,
        tolerance: tolerance(codec, seed)?,
        placement: Placement::Spread { stripes: (site.data / site.object).max(1) },
        failures_per_year: failures,
        detection_hours: site.detection_hours,
        repair_hours: (row.repair_hours * longer).max(1e-6),
        bad_chunks: (site.chunk(codec) as f64 * 8.0 * site.bad_bits).min(1.0),
    };
    row.loss_a_year = loss_a_year(&pool)?;
    row.nines = 0.0 - row.loss_a_year.log10();
    let doubled: [(&'static str, Change); 4] = [
        ("failures of nodes", |pool| pool.failures_per_year *= 2.0),
        ("time of repair", |pool| pool.repair_hours *= 2.0),
        ("time of detection", |pool| pool.detection_hours *= 2.0),
        ("unreadable sectors", |pool| pool.bad_chunks = (pool.bad_chunks * 2.0).min(1.0)),
    ];
    row.nines_if_doubled = row.nines;
    for (name, change) in doubled {
        let mut other = pool.clone();
        change(&mut other);
        let nines = 0.0 - loss_a_year(&other)?.log10();
        if nines < row.nines_if_doubled {
            (row.decides, row.nines_if_doubled) = (name, nines);
        }
    }
    row.pool = Some(pool);
    Ok(())
}

/// Returns the chance that a year loses data; 1 where nodes fail faster than they are rebuilt.
fn loss_a_year(pool: &PoolModel) -> Result<f64> {
    match pool.chain() {
        Ok(chain) => Ok(chain.loss_a_year()),
        Err(DurabilityError::Overloaded { .. }) => Ok(1.0),
        Err(error) => Err(impossible(error)),
    }
}

/// Returns the parts of all patterns of losses that the code survives.
fn tolerance(codec: &Codec, seed: u64) -> Result<Tolerance> {
    let shape = codec.shape();
    if codec.is_mds() {
        return Tolerance::any(shape.n(), shape.m).map_err(impossible);
    }
    let mut survived = vec![1.0_f64];
    for lost in 1..=shape.m {
        let part = match lost <= usize::try_from(codec.margin(&[])).unwrap_or(0) {
            true => 1.0,
            false => codec.survived(lost, seed)?,
        };
        survived.push(part.min(survived[lost - 1]));
    }
    Tolerance::new(shape.n(), &survived).map_err(impossible)
}

/// Hours in which a lost node is rebuilt on all others, or on one new node where each holds a shard
/// of every object, and the resource that sets them.
fn repair(
    site: &Site,
    codec: &Codec,
    row: &Advice,
    seed: u64,
) -> Result<(f64, &'static str), Failure> {
    let n = codec.shape().n();
    let chunk = site.chunk(codec) as f64;
    let chunks = row.node_bytes as f64 / chunk;
    // Links: a sample of stripes, planned together. One new node where there is no other choice.
    let planned = site.nodes.min(PLANNED_NODES.max(2 * n));
    let spread = planned > n;
    let node = |index: usize| Node::new(format!("n{index}"));
    let link = site.link as f64;
    let nodes = (0..planned + usize::from(!spread)).map(|i| node(i).with_link(link, link));
    let cluster = Arc::new(Cluster::new(nodes.collect())?);
    let tolerates = |lost: &[usize]| codec.tolerates(lost);
    let layout =
        Layout::random(codec.shape(), &tolerates, 0..planned, &[0], PLANNED_STRIPES, seed)?;
    let emit = |lost: &[usize], available: &[usize]| Ok(codec.repair_dag(lost, available)?.1);
    let to = if spread { Destination::Spread } else { Destination::Nodes(vec![planned]) };
    let options = RecoveryOptions { seed, sweeps: 4, moves: 1000, ..RecoveryOptions::default() };
    let plan = RecoveryPlan::new(cluster, layout, &emit, to, &options)?;
    let each = plan.makespan() / PLANNED_STRIPES as f64 * chunk / link;
    let share = (planned - 1) as f64 / (site.nodes - 1) as f64;
    let links = each * chunks * if spread { share } else { 1.0 };
    // Disks: on average over those that take part; a new node has all the writes.
    let others = (site.nodes - 1) as f64;
    let write = chunks * site.model.seconds(1, chunk as u64);
    let all = row.disk_hours * 3600.0;
    let disks = if spread { all / others } else { ((all - write) / others).max(write) };
    let moved = chunks * chunk * (row.repair_chunks + 1.0);
    let limit = site
        .limit_rate
        .map_or(0.0, |rate| (if spread { moved / others } else { chunks * chunk }) / rate as f64);
    let (seconds, by) = [(links, "links"), (disks, "disks"), (limit, "--limit-rate")]
        .into_iter()
        .fold((0.0, "links"), |worst, one| if one.0 > worst.0 { one } else { worst });
    Ok((seconds / 3600.0, by))
}

impl Site {
    /// Bytes of a chunk of a typical object.
    fn chunk(&self, codec: &Codec) -> u64 {
        (self.object / codec.shape().k as u64).max(1)
    }

    /// Plays the pool of a code event by event.
    /// Errors: a loss was not reached within the effort of a command.
    pub fn play(&self, row: &Advice, seed: u64) -> Result<Estimate> {
        let Some(pool) = &row.pool else { return Err(impossible("there are too few nodes")) };
        let all = (self.data / self.object).max(1);
        let stripes = all.min(PLAYED_STRIPES);
        // Each stands for many objects, with as many chunks that may prove unreadable.
        let bad_chunks = (pool.bad_chunks * all as f64 / stripes as f64).min(1.0);
        let placement = Placement::Spread { stripes };
        let pool = PoolModel { placement, bad_chunks, ..pool.clone() };
        simulate(&pool, &Effort { rises: 300, trials: 50_000, seed }).map_err(impossible)
    }
}
