//! Everybody on the same ground: the paper's two orders, kiln, and Jerasure.

use super::codes::Code;
use super::fixture::{Fixture, Place};
use super::orders::Schedule;
use crate::BenchError;
use crate::engine::{Family, Job, Operation, Task};
use crate::measure::{self, Effort, Seconds, Spread, Stopwatch};
use crate::peer::{self, Peer};
use kiln_code::{CodeSpec, Codec, RepairPlan, Shape, TemporalHint};
use kiln_gf::KernelProgram;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Who {
    /// The paper's Algorithm 1 with 64-bit words.
    #[serde(rename = "algorithm 1, u64")]
    TraditionalWords,
    /// The paper's Algorithm 2 with 64-bit words.
    #[serde(rename = "algorithm 2, u64")]
    ByWordWords,
    /// Algorithm 1 with the machine's vectors.
    #[serde(rename = "algorithm 1, vectors")]
    TraditionalVectors,
    /// Algorithm 2 with the machine's vectors.
    #[serde(rename = "algorithm 2, vectors")]
    ByWordVectors,
    /// kiln as it is used: register-resident.
    #[serde(rename = "kiln")]
    Kiln,
    /// Jerasure's dumb schedule.
    #[serde(rename = "Jerasure, dumb")]
    JerasureDumb,
    /// Jerasure's smart schedule.
    #[serde(rename = "Jerasure, smart")]
    JerasureSmart,
}

impl Who {
    /// Everybody.
    pub const ALL: [Who; 7] = [
        Who::TraditionalWords,
        Who::ByWordWords,
        Who::TraditionalVectors,
        Who::ByWordVectors,
        Who::Kiln,
        Who::JerasureDumb,
        Who::JerasureSmart,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Who::TraditionalWords => "Algorithm 1, u64",
            Who::ByWordWords => "Algorithm 2, u64",
            Who::TraditionalVectors => "Algorithm 1, vectors",
            Who::ByWordVectors => "Algorithm 2, vectors",
            Who::Kiln => "kiln",
            Who::JerasureDumb => "Jerasure, dumb",
            Who::JerasureSmart => "Jerasure, smart",
        }
    }

    fn words(self) -> bool {
        matches!(self, Who::TraditionalWords | Who::ByWordWords)
    }
}

/// Data per second of one contender at one size of packets.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The code.
    pub code: String,
    /// `encode` or `decode 2`.
    pub operation: String,
    /// The memory gone through.
    pub place: Place,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of data of a pass.
    pub data: usize,
    /// Who did it.
    pub who: Who,
    /// GB of data a second: of an encode those that are protected, of a decode those read.
    pub rate: Spread,
    /// Seconds of a pass, each round.
    #[serde(serialize_with = "crate::measure::samples")]
    pub seconds: Vec<f64>,
}

/// One thing to measure.
pub struct Cell<'a> {
    /// The code.
    pub code: &'a Code,
    /// What is done: an encode, or a decode of the first two data chunks.
    pub operation: Operation,
    /// Bytes of a packet.
    pub packet: usize,
    /// The memory gone through.
    pub place: Place,
    /// Who takes part; Jerasure only where it has the code.
    pub who: &'a [Who],
}

impl Cell<'_> {
    /// What the log says of it, and what `--only` looks into.
    pub fn name(&self) -> String {
        let Cell { code, operation, packet, place, .. } = self;
        format!("{} {operation}, packet {packet}, {}", code.spec, place.name())
    }
}

/// A contender made ready.
enum Ready<'a> {
    Words { kernel: Schedule, temporary: Vec<AtomicU64>, reads: Vec<usize> },
    Vectors { kernel: Box<KernelProgram>, reads: Vec<usize> },
    Plan { plan: Arc<RepairPlan>, reads: Vec<usize> },
    Peer { task: Box<dyn Task + 'a>, reads: Vec<usize> },
}

/// Jerasure's engines, where the library was found.
pub struct Jerasure {
    engines: Vec<Peer>,
}

impl Jerasure {
    /// Loads the library from the folder of peers.
    ///
    /// # Errors
    /// It is not there or does not load.
    pub fn load(folder: &std::path::Path) -> Result<Jerasure, BenchError> {
        Ok(Jerasure { engines: Peer::load(&folder.join("jerasure.so"))? })
    }

    /// Without the library.
    pub fn absent() -> Jerasure {
        Jerasure { engines: Vec::new() }
    }

    /// Name and version.
    pub fn version(&self) -> Option<&str> {
        use crate::engine::Engine;
        self.engines.first().map(|peer| peer.version())
    }

    fn engine(&self, who: Who) -> Option<&Peer> {
        use crate::engine::Engine;
        let name = match who {
            Who::JerasureDumb => "jerasure-dumb",
            Who::JerasureSmart => "jerasure-smart",
            _ => return None,
        };
        self.engines.iter().find(|peer| peer.name() == name)
    }
}

/// Measures a cell; contenders that do not have the code are left out.
///
/// # Errors
/// kiln or an order of the paper fails or makes wrong bytes; memory.
pub fn run(
    cell: &Cell<'_>,
    jerasure: &Jerasure,
    effort: &Effort,
) -> Result<Vec<Point>, BenchError> {
    let spec: CodeSpec = format!("{},packet={}", cell.code.spec, cell.packet).parse()?;
    let codec = Codec::new(&spec)?;
    let shape = codec.shape();
    let Some(blocks) = cell.place.blocks(shape, cell.packet) else { return Ok(Vec::new()) };
    let mut fixture = Fixture::new(shape, cell.packet, blocks)?;
    let expected = expected(&codec, cell, &mut fixture)?;
    let mut ready: Vec<(Who, Ready<'_>)> = Vec::new();
    for &who in cell.who {
        let Some(made) = make_ready(who, &codec, cell, &fixture, jerasure)? else { continue };
        ready.push((who, made));
    }
    for (who, contender) in &mut ready {
        pass(contender, cell, &mut fixture, 1)?;
        check(*who, cell, &fixture, &expected)?;
    }
    let samples = measure::interleave(ready.len(), effort, &mut |i, repeats| {
        peer::clear_vector_state();
        pass(&mut ready[i].1, cell, &mut fixture, repeats)
    })?;
    let data = fixture.data();
    let point = |((who, _), seconds): (&(Who, Ready<'_>), Vec<f64>)| Point {
        code: cell.code.spec.to_string(),
        operation: cell.operation.to_string(),
        place: cell.place,
        packet: cell.packet,
        data,
        who: *who,
        rate: Spread::of(&seconds.iter().map(|s| data as f64 / s / 1e9).collect::<Vec<_>>()),
        seconds,
    };
    Ok(ready.iter().zip(samples).map(point).collect())
}

/// The plan of a cell: for the decode, of the two first data chunks from k whole chunks.
fn plan(codec: &Codec, cell: &Cell<'_>) -> Result<Arc<RepairPlan>, BenchError> {
    Ok(match cell.operation {
        Operation::Encode => codec.encode_plan()?,
        _ => codec.decode_plan(&LOST, &(LOST.len()..codec.shape().n()).collect::<Vec<_>>())?,
    })
}

/// What a decode rebuilds.
const LOST: [usize; 2] = [0, 1];

fn make_ready<'a>(
    who: Who,
    codec: &Codec,
    cell: &Cell<'_>,
    fixture: &Fixture,
    jerasure: &'a Jerasure,
) -> Result<Option<Ready<'a>>, BenchError> {
    let Shape { k, m, .. } = codec.shape();
    let plan = plan(codec, cell)?;
    let reads: Vec<usize> = plan.helpers().iter().map(|helper| helper.chunk).collect();
    Ok(match who {
        Who::Kiln => Some(Ready::Plan { plan, reads }),
        Who::JerasureDumb | Who::JerasureSmart => {
            let (Some(engine), Some((name, w))) = (jerasure.engine(who), cell.code.jerasure) else {
                return Ok(None);
            };
            let chunk = fixture.chunk();
            let job = Job { family: Family::Rs, k, m, operation: cell.operation, chunk };
            let code = format!("{name},w={w},packet={}", cell.packet);
            let task = engine.prepare_code(&code, &job)?;
            let reads = task.reads().iter().map(|read| read.chunk).collect();
            Some(Ready::Peer { task, reads })
        }
        _ => {
            let by_source = matches!(who, Who::ByWordWords | Who::ByWordVectors);
            let kernel = Schedule::new(plan.dag(), by_source)?;
            if !who.words() {
                return Ok(Some(Ready::Vectors { kernel: Box::new(kernel.program()?), reads }));
            }
            let words = kernel.buffers.scratch * cell.packet / 8;
            let temporary = (0..words).map(|_| AtomicU64::new(0)).collect();
            Some(Ready::Words { kernel, temporary, reads })
        }
    })
}

fn pass(
    contender: &mut Ready<'_>,
    cell: &Cell<'_>,
    fixture: &mut Fixture,
    repeats: u32,
) -> Result<Seconds, BenchError> {
    let hint = cell.place.hint();
    match contender {
        Ready::Words { kernel, temporary, reads } => {
            let blocks = fixture.words(cell.operation, reads, temporary);
            let watch = Stopwatch::start();
            for block in (0..repeats).flat_map(|_| &blocks) {
                kernel.run(block);
            }
            Ok(watch.read())
        }
        Ready::Vectors { kernel, reads } => {
            let mut stripe = fixture.stripe(cell.operation, reads);
            let watch = Stopwatch::start();
            for _ in 0..repeats {
                let (inputs, outputs) = (&stripe.inputs, &mut stripe.outputs);
                let temporal = TemporalHint::Temporal;
                kernel
                    .run_packets(inputs, outputs, cell.packet, cell.packet, temporal)
                    .map_err(kiln_code::CodeError::from)?;
            }
            Ok(watch.read())
        }
        Ready::Plan { plan, reads } => {
            let mut stripe = fixture.stripe(cell.operation, reads);
            let watch = Stopwatch::start();
            for _ in 0..repeats {
                plan.run_on(&stripe.inputs, &mut stripe.outputs, hint)?;
            }
            Ok(watch.read())
        }
        Ready::Peer { task, reads } => {
            task.pass(&mut [fixture.stripe(cell.operation, reads)], repeats)
        }
    }
}

/// Puts parity in place and returns the first blocks that the cell should make, by kiln's scalar
/// kernel.
fn expected(
    codec: &Codec,
    cell: &Cell<'_>,
    fixture: &mut Fixture,
) -> Result<Vec<Vec<u8>>, BenchError> {
    let Shape { k, m, .. } = codec.shape();
    let oracle = Codec::with_kernel(codec.spec(), kiln_gf::oracle())?;
    let data: Vec<&[u8]> = (0..k).map(|j| fixture.first_block(j)).collect();
    let mut parity = vec![vec![0; data[0].len()]; m];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    oracle.encode(&data, &mut outputs)?;
    match cell.operation {
        Operation::Encode => Ok(parity),
        _ => {
            for (index, block) in parity.iter().enumerate() {
                fixture.set(k + index, block);
            }
            Ok(LOST.iter().map(|&chunk| fixture.first_block(chunk).to_vec()).collect())
        }
    }
}

fn check(
    who: Who,
    cell: &Cell<'_>,
    fixture: &Fixture,
    expected: &[Vec<u8>],
) -> Result<(), BenchError> {
    let results = fixture.results(cell.operation, who.words());
    for (chunk, (got, expected)) in results.iter().zip(expected).enumerate() {
        if let Some(byte) = got.iter().zip(expected).position(|(a, b)| a != b) {
            let job = format!("{} {}, packet {}", cell.code.spec, cell.operation, cell.packet);
            return Err(BenchError::Wrong { engine: who.name().into(), job, chunk, byte });
        }
    }
    Ok(())
}
