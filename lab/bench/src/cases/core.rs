//! The full matrix: codes x footprints x operations x engines.

use crate::BenchError;
use crate::buffers::arena_bytes;
use crate::cell::{self, Cell, Contender, Footprint};
use crate::engine::{Family, Job, Operation};
use crate::peers::Engines;
use crate::report::Report;
use crate::setup::Setup;
use crate::{small, threads};

/// k and m of the codes.
pub const CODES: &[(usize, usize)] = &[(4, 2), (6, 3), (8, 4), (10, 4), (12, 4), (16, 4), (20, 4)];

/// In cache, and out of it with three lengths of chunks.
pub const FOOTPRINTS: &[Footprint] = &[
    Footprint::Cache(256 << 10),
    Footprint::Cache(1 << 20),
    Footprint::Dram(64 << 10),
    Footprint::Dram(1 << 20),
    Footprint::Dram(16 << 20),
];

/// Footprints of the test that runs every cell.
pub const TINY: &[Footprint] = &[Footprint::Stripes(4 << 10, 2)];

/// What is done with a code. For Reed-Solomon a repair is a decode.
fn operations(family: Family, m: usize) -> Vec<Operation> {
    use Operation::{Decode, Encode, Repair};
    match family {
        Family::Rs => vec![Encode, Decode(1), Decode(m)],
        Family::Clay => vec![Encode, Decode(1), Decode(m), Repair(1), Repair(2)],
    }
}

/// Measures everything that `--only` does not leave out.
///
/// # Errors
/// kiln fails; memory.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    for family in [Family::Rs, Family::Clay] {
        for &(k, m) in CODES {
            for footprint in if setup.tiny { TINY } else { FOOTPRINTS } {
                for operation in operations(family, m) {
                    let Some(chunk) = footprint.chunk(family, k, m) else { continue };
                    one(setup, report, Job { family, k, m, operation, chunk }, *footprint)?;
                }
            }
        }
    }
    two_threads(setup, report)?;
    small_work(setup, report)
}

fn one(
    setup: &Setup,
    report: &mut Report,
    job: Job,
    footprint: Footprint,
) -> Result<(), BenchError> {
    let name = format!("{} {} {footprint}", job.code(), job.operation);
    if !setup.wants(&name) {
        return Ok(());
    }
    let engines = setup.engines.all().filter(|engine| Engines::knows(*engine, &job, footprint));
    let mut contenders: Vec<Contender<'_>> =
        engines.map(|engine| Contender { engine, job }).collect();
    // Beside Clay stands Reed-Solomon of the same k and m: what the cheap repair costs.
    if job.family == Family::Clay {
        let job = reed_solomon(&job);
        let engines = ["kiln", "klauspost", "klauspost-2"];
        let engines = engines.iter().filter_map(|name| setup.engines.get(name));
        contenders.extend(engines.map(|engine| Contender { engine, job }));
    }
    let found = setup.parts.take(&name, || {
        let mut arena = setup.arena(arena_bytes(&job, footprint.stripes(&job)))?;
        Ok(cell::run(&mut arena, footprint, &contenders, &setup.effort)?.keep())
    })?;
    report.add(Cell::of(job, footprint, found));
    Ok(())
}

/// What Reed-Solomon does where Clay does a job: its repair is a decode.
pub fn reed_solomon(job: &Job) -> Job {
    let operation = match job.operation {
        Operation::Repair(lost) => Operation::Decode(lost),
        other => other,
    };
    Job { family: Family::Rs, operation, ..*job }
}

/// What a second core adds.
///
/// # Errors
/// kiln fails; memory.
pub fn two_threads(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let (footprint, seconds) = match setup.tiny {
        true => (TINY[0], 1e-5),
        false => (Footprint::Cache(256 << 10), 0.01),
    };
    for family in [Family::Rs, Family::Clay] {
        if setup.wants("two threads") {
            let rounds = 4 * setup.effort.rounds_max;
            let found = threads::run(family, (10, 4), footprint, rounds, seconds)?;
            report.threads.extend(found);
        }
    }
    Ok(())
}

/// How long small work takes.
///
/// # Errors
/// kiln fails.
pub fn small_work(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let (rounds, repeats) = if setup.tiny { (1, 1) } else { (15, 50) };
    for spec in ["rs:6+3", "rs:10+4", "clay:4+2", "clay:10+4"] {
        if setup.wants("small work") {
            report.small.push(small::run(spec, rounds, repeats)?);
        }
    }
    Ok(())
}
