//! The cells behind the headline ratios, and no others.

use super::core::{TINY, reed_solomon, small_work, two_threads};
use crate::BenchError;
use crate::buffers::arena_bytes;
use crate::ceiling::BOUNDS;
use crate::cell::{self, Contender, Footprint};
use crate::engine::{Family, Job, Operation};
use crate::kiln::Kiln;
use crate::peers::Engines;
use crate::report::Report;
use crate::setup::Setup;

const CHUNK_64K: Footprint = Footprint::Dram(64 << 10);
const CHUNK_1M: Footprint = Footprint::Dram(1 << 20);
const CHUNK_16M: Footprint = Footprint::Dram(16 << 20);
const CACHE_256K: Footprint = Footprint::Cache(256 << 10);
const CACHE_1M: Footprint = Footprint::Cache(1 << 20);

/// One operation of one family, on several codes and footprints.
struct Row {
    family: Family,
    operation: Operation,
    codes: &'static [(usize, usize)],
    footprints: &'static [Footprint],
    /// Peers with the same family, and with Reed-Solomon beside a Clay code.
    peers: &'static [&'static str],
    beside: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        family: Family::Rs,
        operation: Operation::Encode,
        codes: &[(6, 3), (10, 4), (16, 4)],
        footprints: &[CHUNK_64K, CHUNK_1M, CACHE_256K, CACHE_1M],
        peers: &["klauspost", "klauspost-2", "isal", "isal-next"],
        beside: &[],
    },
    Row {
        family: Family::Clay,
        operation: Operation::Encode,
        codes: &[(8, 4), (16, 4)],
        footprints: &[CHUNK_64K, CHUNK_1M, CHUNK_16M],
        peers: &[],
        beside: &["klauspost", "klauspost-2"],
    },
    Row {
        family: Family::Clay,
        operation: Operation::Encode,
        codes: &[(10, 4)],
        footprints: &[CHUNK_64K, CHUNK_1M, CHUNK_16M, CACHE_256K, CACHE_1M],
        peers: &["ceph-clay-isa"],
        beside: &["klauspost", "kiln"],
    },
    Row {
        family: Family::Clay,
        operation: Operation::Repair(1),
        codes: &[(8, 4), (10, 4), (16, 4)],
        footprints: &[CHUNK_64K, CHUNK_1M],
        peers: &[],
        beside: &["kiln"],
    },
    Row {
        family: Family::Clay,
        operation: Operation::Repair(2),
        codes: &[(8, 4), (10, 4), (16, 4)],
        footprints: &[CACHE_256K, CACHE_1M],
        peers: &[],
        beside: &["kiln"],
    },
];

/// Measures the cells of the headline.
///
/// # Errors
/// kiln fails; memory.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    for row in ROWS {
        for &(k, m) in row.codes {
            for footprint in if setup.tiny { TINY } else { row.footprints } {
                let Some(chunk) = footprint.chunk(row.family, k, m) else { continue };
                let job = Job { family: row.family, k, m, operation: row.operation, chunk };
                one(setup, report, row, job, *footprint)?;
            }
        }
    }
    two_threads(setup, report)?;
    small_work(setup, report)
}

fn one(
    setup: &Setup,
    report: &mut Report,
    row: &Row,
    job: Job,
    footprint: Footprint,
) -> Result<(), BenchError> {
    if !setup.wants(&format!("{} {} {footprint}", job.code(), job.operation)) {
        return Ok(());
    }
    let ours = ["kiln", Kiln::TEMPORAL_NAME];
    let same = ours.iter().chain(row.peers).chain(BOUNDS).copied();
    let same = same.chain(Kiln::variant_names()).map(|name| (name, job));
    let beside = row.beside.iter().map(|name| (*name, reed_solomon(&job)));
    let contenders: Vec<Contender<'_>> = same
        .chain(beside)
        .filter_map(|(name, job)| Some(Contender { engine: setup.engines.get(name)?, job }))
        .filter(|contender| Engines::knows(contender.engine, &contender.job, footprint))
        .collect();
    let mut arena = setup.arena(arena_bytes(&job, footprint.stripes(&job)))?;
    report.add(cell::run(&mut arena, footprint, &contenders, &setup.effort)?);
    Ok(())
}
