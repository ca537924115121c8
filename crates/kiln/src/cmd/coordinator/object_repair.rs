//! `kiln coordinator AGENT...`: the shards of one object.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_net::{Address, Network};

use kiln_files::discover;
use kiln_net::proto::assignment::Geometry;
use kiln_net::task::{TransferCounters, as_many, default_slice};
use kiln_plan::{Plan, SearchBudget, UNDECIDED, strategy};
use kiln_recovery::{ByPrice, FinalFailure, Helper, PlacedRepair, RepairWatcher, Repaired};
use kiln_store::{Locks, ReadMode, ShardReader, StoreError};
use kiln_stripe::{Condition, Observer, SetReport, names};
use minijinja::context;
use serde::Serialize;
use uuid::Uuid;

use super::Coordinator;
use super::paid::Paid;
use crate::exit::{Exit, Failure, Result};
use crate::setup::{Folders, PlanFile, Setup};
use crate::{print::fields, times};

/// Between two tries while agents cannot be reached.
const BETWEEN: Duration = Duration::from_secs(1);

/// Shows progress on the terminal.
struct Show<'a>(&'a Setup, AtomicU64);

impl RepairWatcher for Show<'_> {
    fn kept(&self, bytes: u64, _total: u64) {
        let before = self.1.swap(bytes, Ordering::Relaxed);
        self.0.observer.advance(bytes.saturating_sub(before));
    }

    fn replanned(&self, why: &str) {
        self.0.observer.warn(&format!("planned again {why}"));
    }
}

/// Repairs one object.
pub fn run(flags: &Coordinator, setup: &Setup) -> Result<Exit> {
    let address = |path: &PathBuf| -> Result<Address> { Ok(path.to_string_lossy().parse()?) };
    let addresses: Vec<Address> = flags.agents.iter().map(address).collect::<Result<_, _>>()?;
    let to = match &flags.to[..] {
        [to] => address(&PathBuf::from(to))?,
        _ => {
            let problem = "name the one agent that is to store the rebuilt shards".to_owned();
            return Err(Failure::Flag { flag: "--to", problem });
        }
    };
    let mut plans = flags.plans.as_deref().map(PlanFile::open).transpose()?;
    let folders = Folders::to_read(setup, &flags.agents, ReadMode::Cached)?;
    let set = discover(folders.nodes(), flags.object.as_deref())?;
    let found = set.report();
    let lost: Vec<usize> =
        found.shards.iter().filter(|s| s.state != Condition::Complete).map(|s| s.index).collect();
    let (nodes, target) = nodes_of(&found, &addresses, &to);
    if lost.is_empty() {
        setup.observer.warn(&format!("{}: nothing to repair", found.object));
        return Ok(Exit::Done);
    }
    if !set.codec().sliceable() {
        let problem =
            "codes with packet= cannot be repaired over agents; use kiln repair".to_owned();
        return Err(Failure::Flag { flag: "AGENT", problem });
    }
    let geometry = geometry_of(&found, &folders)?;
    let ids = || nodes.iter().map(|node| &node.address[..]);
    let paid = Paid::read(flags.price.as_deref(), ids())?;
    let by_price = |paid: &Paid| ByPrice::new(paid.nodes.of(ids()), flags.strategy.as_deref());
    let prices = paid.as_ref().map(by_price);
    let (slice, windows) = windows(flags, found.size, set.codec().shape());
    let mut repair = PlacedRepair {
        codec: set.codec(),
        geometry,
        nodes,
        targets: lost.iter().map(|&index| target_of(&found.object, index, target)).collect(),
        strategy: flags.strategy.as_deref().unwrap_or(UNDECIDED.name),
        first: None,
        prices,
        copies: false,
        in_place: true,
        slice,
        windows,
        rate: setup.limit_rate().unwrap_or(0),
        seed: setup.seed,
        moves: flags.moves,
    };
    let mut ready = false;
    if let Some((path, plans)) = flags.plans.as_deref().zip(plans.as_mut()) {
        let (plan, found) = first_plan(plans, path, &repair, setup)?;
        (repair.first, ready) = (Some(plan), found);
    }
    setup.observer.begin("repair", None);
    let outcome = patiently(flags, setup, &to, &repair);
    setup.observer.finish();
    let done = outcome?;
    let price = paid.map(|paid| paid.table.priced(done.price.unwrap_or_default()));
    let plan_cached = plans.map(|_| ready && done.given);
    let source = flags.plans.as_deref().map_or_else(String::new, |path| {
        let from = if plan_cached == Some(true) { " from" } else { ", not from" };
        format!("{from} {}", path.display())
    });
    let json = json(&found, &repair, (&lost, plan_cached), (&done, &price), setup);
    setup.tell("recovery of an object", &json, context! { source })
}

/// Bytes of every sub-chunk in a window, and windows under way, for an object of `size` bytes.
fn windows(flags: &Coordinator, size: u64, shape: kiln_code::Shape) -> (u32, u32) {
    if let Some(bytes) = flags.window {
        return (u32::try_from(bytes).unwrap_or(u32::MAX).max(1), flags.windows);
    }
    let slice = default_slice(shape.alpha, size / (shape.k * shape.alpha) as u64);
    (slice, as_many(flags.windows, shape.alpha, slice))
}

/// The plan to begin with: that of the file, or a new one that is kept there; and which it is. A
/// file that cannot be written holds up no repair.
fn first_plan(
    plans: &mut PlanFile,
    path: &Path,
    repair: &PlacedRepair<'_>,
    setup: &Setup,
) -> Result<(Plan, bool), Failure> {
    let (row, problem) = (strategy(repair.strategy)?, repair.problem()?);
    let mut budget = SearchBudget::new(repair.seed).with_moves(repair.moves);
    // Said before it searches, which with as many moves as plans are searched for takes a while.
    if !plans.has(row, &problem, &budget) {
        setup.observer.warn(&format!(
            "{} has no {} plan of this kind with --moves {} and --seed {}; one is made now",
            path.display(),
            row.name,
            repair.moves,
            repair.seed
        ));
    }
    setup.observer.begin("plan", None);
    let made = plans.plan(row, &problem, &mut budget);
    setup.observer.finish();
    let (plan, ready) = made?;
    plan.check()?;
    if !ready && let Err(error) = plans.write() {
        setup.observer.warn(&format!("the plan is not kept for another time: {error}"));
    }
    Ok((plan, ready))
}

/// Repairs, and tries again as long as it may help: agents that cannot be reached now may be there
/// in a moment, and what they wrote stays.
fn patiently(
    flags: &Coordinator,
    setup: &Setup,
    to: &Address,
    repair: &PlacedRepair<'_>,
) -> Result<Repaired> {
    let network = setup.network(to)?;
    let show = Show(setup, AtomicU64::new(0));
    let (mut given_up, mut since) = (Vec::new(), None);
    loop {
        let kept = show.1.load(Ordering::Relaxed);
        let (error, passing) = match attempt(network, to, repair, &show) {
            Ok(done) => {
                given_up.extend(done.given_up);
                return Ok(Repaired { given_up, ..done });
            }
            Err(failure) => {
                given_up.extend(failure.given_up);
                (failure.error, failure.passing)
            }
        };
        if show.1.load(Ordering::Relaxed) > kept {
            since = None;
        }
        let first = *since.get_or_insert_with(Instant::now);
        let left = Duration::from_secs(flags.patience).saturating_sub(first.elapsed());
        if !passing || left.is_zero() {
            return Err(error.into());
        }
        let left = times::show(left.as_secs());
        show.replanned(&format!("after a while: {error}; it gives up in {left} (--patience)"));
        given_up.push(format!("waited: {error}"));
        std::thread::sleep(BETWEEN);
    }
}

/// One attempt, under the lock of the agent that gets the shards: no other client may write there
/// meanwhile. The lock goes with its connection, so each try takes it anew.
fn attempt(
    network: &Network,
    to: &Address,
    repair: &PlacedRepair<'_>,
    show: &Show<'_>,
) -> Result<Repaired, Box<FinalFailure>> {
    let spare = network.open(to);
    let lock = Locks::lock(&spare, true).map_err(|error| {
        let refused = |kind| kind == ErrorKind::PermissionDenied;
        let broken = matches!(&error, StoreError::Io { source, .. } if !refused(source.kind()));
        let (passing, error) = (broken && !error.is_full(), error.into());
        Box::new(FinalFailure { error, node: None, passing, given_up: Vec::new() })
    });
    let _lock = lock?;
    repair.run(network, *Uuid::new_v4().as_bytes(), show)
}

/// The description that all shards carry, read from an intact one.
fn geometry_of(found: &SetReport, folders: &Folders) -> Result<Geometry> {
    let whole = found.shards.iter().find(|shard| shard.state == Condition::Complete);
    let place = whole.and_then(|shard| shard.node.as_ref().zip(shard.name.as_ref()));
    let node = place.and_then(|(node, name)| {
        folders.nodes().iter().find(|known| known.name == *node).map(|node| (node, name))
    });
    let refused = |problem: &str| Failure::Flag { flag: "AGENT", problem: problem.to_owned() };
    let (node, name) = node.ok_or_else(|| refused("no shard is intact"))?;
    let reader = ShardReader::open(&*node.store, name)?;
    let (info, digests) = (reader.info(), reader.digests());
    let digests = digests
        .ok_or_else(|| refused("no shard has an intact trailer with the digests of all shards"))?;
    Ok(Geometry::of(info, found.size, digests))
}

/// The strategy: of several the one whose plan was the cheapest.
fn strategy_of<'a>(repair: &PlacedRepair<'a>, done: &Repaired) -> &'a str {
    done.price.map_or(repair.strategy, |_| done.strategy)
}

/// Sum over all agents.
fn sum(done: &Repaired, bytes: fn(&TransferCounters) -> u64) -> u64 {
    done.nodes.values().map(bytes).sum()
}

/// Bytes of the busiest agent in one direction.
fn most(done: &Repaired) -> u64 {
    done.nodes.values().map(|amounts| amounts.sent.max(amounts.received)).max().unwrap_or(0)
}

fn json(
    found: &SetReport,
    repair: &PlacedRepair<'_>,
    (lost, plan_cached): (&[usize], Option<bool>),
    (done, price): (&Repaired, &impl Serialize),
    setup: &Setup,
) -> impl Serialize {
    let node = |(rank, amounts): (&usize, &TransferCounters)| {
        fields! {
            node: repair.nodes[*rank].address.clone(),
            bytes_read: amounts.read,
            bytes_sent: amounts.sent,
            bytes_received: amounts.received,
            bytes_written: amounts.written,
        }
    };
    fields! {
        object: &found.object,
        code: &found.code,
        strategy: strategy_of(repair, done),
        lost: lost,
        helpers: &done.helpers,
        bytes_read: sum(done, |amounts| amounts.read),
        bytes_sent: sum(done, |amounts| amounts.sent),
        max_node_load: most(done),
        bytes_written: sum(done, |amounts| amounts.written),
        planned_sent: done.planned.bandwidth() as u64 * done.sub_bytes,
        planned_max_node_load: done.planned.max_load() as u64 * done.sub_bytes,
        seconds: setup.seconds(),
        verified: true,
        nodes: done.nodes.iter().map(node).collect::<Vec<_>>(),
        replanned: &done.given_up,
        // The plan was in the file of `--plans`.
        plan_cached or none: plan_cached,
        price or none: price,
    }
}

/// All agents with their shards, and the rank of the one that gets what is rebuilt.
fn nodes_of(found: &SetReport, addresses: &[Address], to: &Address) -> (Vec<Helper>, usize) {
    let node =
        |address: &Address| Helper { address: address.to_string(), shards: shards(found, address) };
    let mut nodes: Vec<Helper> = addresses.iter().map(node).collect();
    let known = addresses.iter().position(|address| address == to);
    let target = known.unwrap_or_else(|| {
        nodes.push(Helper { address: to.to_string(), shards: Vec::new() });
        nodes.len() - 1
    });
    (nodes, target)
}

/// The intact shards of an agent.
fn shards(found: &SetReport, address: &Address) -> Vec<(usize, String)> {
    let name = address.to_string();
    let mine = found
        .shards
        .iter()
        .filter(|shard| shard.state == Condition::Complete && shard.node.as_ref() == Some(&name));
    mine.filter_map(|shard| Some((shard.index, shard.name.clone()?))).collect()
}

fn target_of(object: &str, index: usize, rank: usize) -> (usize, usize, String, String) {
    (index, rank, names::repair_part(object, index), names::shard(object, index))
}
