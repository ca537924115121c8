//! Makespans of whole machines' recoveries against their bounds.
//!
//! Loads are counted from the plans; times and memory of planning are measured. "Alone" plans every
//! stripe by itself (one strategy, a random new node), as ParaRC does.

use super::{BLOCK_MIB, Options};
use kiln_code::Codec;
use kiln_plan::{Cluster, Destination, Layout, PlanError, RecoveryOptions, RecoveryPlan};
use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::Arc;
use std::time::Instant;

/// From here on a recovery is planned once, not with three layouts.
const LARGE: usize = 10_000;
/// What single stripes are planned with, to compare.
const ALONE: [&str; 3] = ["central", "hub", "pipeline"];

/// A recovery to be planned: a code, machines left, stripes, new machines (none: spread over those
/// that are left).
pub(super) struct Row {
    code: &'static str,
    survivors: usize,
    stripes: usize,
    new: usize,
}

const fn row(code: &'static str, survivors: usize, stripes: usize, new: usize) -> Row {
    Row { code, survivors, stripes, new }
}

const ROWS: &[Row] = &[
    row("clay:10+4", 20, 100, 0),
    row("clay:10+4", 20, 100, 1),
    row("clay:10+4", 20, 100, 2),
    row("clay:10+4", 20, 100, 4),
    row("clay:12+4", 20, 100, 0),
    row("clay:12+4", 20, 100, 1),
    row("butterfly:10+2", 20, 100, 0),
    row("butterfly:10+2", 20, 100, 1),
    row("rs:10+4", 20, 100, 0),
    row("rs:10+4", 20, 100, 1),
    row("clay:10+4", 100, 100_000, 0),
];

const TINY: &[Row] = &[row("clay:2+2", 6, 30, 0), row("rs:2+1", 5, 30, 1)];

/// What is planned in a run.
pub(super) fn rows(options: &Options<'_>) -> &'static [Row] {
    if options.tiny { TINY } else { ROWS }
}

/// What a recovery costs, planned in different ways; of several layouts the worst.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovery {
    pub code: String,
    pub survivors: usize,
    pub stripes: usize,
    pub new: usize,
    /// Random layouts that were planned.
    pub layouts: u64,
    pub bound_mib: f64,
    pub makespan_mib: f64,
    pub plan_seconds: f64,
    /// The most memory of the whole process while it planned, where the system says.
    pub peak_memory_mib: Option<f64>,
    /// Makespan when stripes are planned alone, by strategy.
    pub alone_mib: Vec<(String, f64)>,
}

impl Recovery {
    /// How far it is above its bound.
    pub(super) fn above(&self) -> f64 {
        self.makespan_mib / self.bound_mib - 1.0
    }

    /// Where the chunks go.
    pub(super) fn to(&self) -> String {
        match self.new {
            0 => "survivors".into(),
            new => format!("{new} new"),
        }
    }
}

impl Row {
    pub(super) fn name(&self) -> String {
        let Row { code, survivors, stripes, new } = self;
        format!("recovery of {code} over {survivors} {stripes} stripes to {new}")
    }
}

pub(super) fn recovery(row: &Row, options: &Options<'_>) -> Result<Recovery, PlanError> {
    let layouts = if options.quick || row.stripes >= LARGE { 1 } else { 3 };
    let mut worst = one(row, 1)?;
    for seed in 2..=layouts {
        let next = one(row, seed)?;
        if next.above() > worst.above() {
            worst = next;
        }
    }
    Ok(Recovery { layouts, ..worst })
}

fn one(row: &Row, seed: u64) -> Result<Recovery, PlanError> {
    let codec = Codec::new(&row.code.parse()?)?;
    let nodes = row.survivors + 1 + row.new;
    let layout = Layout::random(
        codec.shape(),
        &|lost| codec.tolerates(lost),
        0..=row.survivors,
        &[0],
        row.stripes,
        seed,
    )?;
    let emit = |lost: &[usize], available: &[usize]| Ok(codec.repair_dag(lost, available)?.1);
    let recover = |options: &RecoveryOptions| {
        let to = match row.new {
            0 => Destination::Spread,
            new => Destination::Nodes((nodes - new..nodes).collect()),
        };
        let cluster = Arc::new(Cluster::uniform(nodes)?);
        RecoveryPlan::new(cluster, layout.clone(), &emit, to, options)
    };
    forget_peak();
    let start = Instant::now();
    let plan = recover(&RecoveryOptions { seed, ..RecoveryOptions::default() })?;
    let plan_seconds = start.elapsed().as_secs_f64();
    let peak_memory_mib = peak();
    let (bound_mib, makespan_mib) = (plan.bound() * BLOCK_MIB, plan.makespan() * BLOCK_MIB);
    drop(plan);
    let mut alone_mib = Vec::new();
    for name in ALONE {
        let strategies = vec![name];
        let options = RecoveryOptions { strategies, sweeps: 0, seed, moves: 1_000, leaving: None };
        alone_mib.push((name.to_owned(), recover(&options)?.makespan() * BLOCK_MIB));
    }
    Ok(Recovery {
        code: row.code.into(),
        survivors: row.survivors,
        stripes: row.stripes,
        new: row.new,
        layouts: 1,
        bound_mib,
        makespan_mib,
        plan_seconds,
        peak_memory_mib,
        alone_mib,
    })
}

/// The most memory that the process had since the last [`forget_peak`], in MiB; nothing where the
/// system does not say.
fn peak() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// Begins to count the peak again; where that is not permitted it is the peak of the whole run.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
