//! kiln-bench: kiln's coding speed against other libraries and the machine's limits.
//!
//! All engines of a cell run on the same buffers, in one process, on one core, in turn. Peers are
//! shared libraries made by `lab/peers/build.sh`; without them kiln is measured alone.
#![deny(unsafe_code)]

mod error;
mod isa;
mod measure;
mod engine;
mod buffers;
mod kiln;
mod machine;
mod mix;
mod parts;
mod page;
mod devices;
mod order;
mod peer;
mod ceiling;
mod cell;
mod peers;
mod plan;
mod pool;
mod replay;
mod small;
mod threads;
mod headline;
mod xor;
mod setup;
mod report;
mod cases;

use cases::{CASES, case};
use clap::Parser;
use error::BenchError;
use measure::{Clock, Effort};
use parts::Parts;
use peers::Engines;
use report::Report;
use setup::Setup;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures kiln against other libraries and the machine's limits.
#[derive(Debug, Parser)]
#[command(name = "kiln-bench", version)]
struct Args {
    /// What to measure; see --list.
    #[arg(default_value = "core")]
    case: String,
    /// For pool: logs of the simulator and of sweeps; for replay: a trace and what it is played
    /// onto; for traces: traces; for mix: a folder and a plan.
    files: Vec<PathBuf>,
    /// The headline ratios only, in about a minute, as one line of JSON on standard output.
    #[arg(long)]
    quick: bool,
    /// List the cases and end.
    #[arg(long)]
    list: bool,
    /// Only cells whose name contains this, e.g. "clay 10+4 encode".
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Write the whole report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as JSON and Markdown into this folder; lab/figures draws it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where the peers' libraries are.
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers: PathBuf,
    /// The program, for sections of `devices` that run it.
    #[arg(long, value_name = "FILE", default_value = "target/release/kiln")]
    kiln: PathBuf,
    /// The core to measure on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    core: usize,
    /// Count the time on the core instead of the time that passed: for a machine that has other
    /// work to do. Two threads are always measured by the time that passed.
    #[arg(long)]
    cpu_time: bool,
    /// Buffers on small pages, as from an ordinary allocation.
    #[arg(long)]
    small_pages: bool,
    /// For replay: how fast the trace's time goes; 0 asks as fast as answers come.
    #[arg(long, default_value_t = 0.0, value_name = "X")]
    speed: f64,
}

/// A bench with a report of its own; the cases of `cases.rs` share one.
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Args) -> Result<(), BenchError>,
}

static BENCHES: &[Bench] = &[
    Bench {
        name: "devices",
        about: "reads of repairs on emulated disks, by order and read planner (as root)",
        run: |args| {
            let options = devices::Options {
                quick: args.quick,
                tiny: false,
                only: args.only.clone(),
                kiln: args.kiln.clone(),
            };
            devices::run(&options, args.out.as_deref())
        },
    },
    Bench { name: mix::NAME, about: mix::ABOUT, run: |args| mix::run(&args.files) },
    Bench {
        name: "order",
        about: "orders of sub-chunks: the G-Clay paper's tables and beyond, cost at write and read",
        run: |args| order::run(&order::Options { tiny: false, out: args.out.as_deref() }),
    },
    Bench {
        name: "plan",
        about: "repairs placed on nodes: load and traffic against the bound and ParaRC's heuristic",
        run: |args| {
            let out = args.out.as_deref();
            plan::run(&plan::Options { tiny: false, quick: args.quick, out })
        },
    },
    Bench {
        name: pool::NAME,
        about: pool::ABOUT,
        run: |args| {
            let (kiln, out) = (args.kiln.as_path(), args.out.as_deref());
            let (quick, logs) = (args.quick, &args.files[..]);
            pool::run(&pool::Options { quick, tiny: false, kiln, logs, out })
        },
    },
    Bench {
        name: replay::REPLAY,
        about: replay::REPLAY_ABOUT,
        run: |args| replay::run(&args.files, args.speed),
    },
    Bench {
        name: replay::TRACES,
        about: replay::TRACES_ABOUT,
        run: |args| replay::summarise(&args.files),
    },
    Bench {
        name: xor::NAME,
        about: xor::ABOUT,
        run: |args| {
            let (quick, peers, out) = (args.quick, args.peers.as_path(), args.out.as_deref());
            // Before peers are loaded: threads of their run-times inherit the core.
            let core = measure::pin(args.core);
            let clock = if args.cpu_time { Clock::Cpu } else { Clock::Wall };
            let only = args.only.as_str();
            xor::run(&xor::Options { quick, tiny: false, only, peers, out, core, clock })
        },
    },
];

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        for case in CASES {
            println!("{:8} {}", case.name, case.about);
        }
        for bench in BENCHES {
            println!("{:8} {}", bench.name, bench.about);
        }
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kiln-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), BenchError> {
    isa::check()?;
    if let Some(bench) = BENCHES.iter().find(|bench| bench.name == args.case) {
        return (bench.run)(args);
    }
    // Before peers are loaded: threads of their run-times inherit the core.
    let core = measure::pin(args.core);
    let clock = if args.cpu_time { Clock::Cpu } else { Clock::Wall };
    let asked = case(&args.case, BENCHES.iter().map(|bench| bench.name))?;
    let case = if args.quick { case("quick", std::iter::empty())? } else { asked };
    let mut setup = Setup {
        engines: Engines::load(&args.peers),
        huge_pages: !args.small_pages,
        effort: Effort { clock, ..case.effort },
        only: args.only.clone(),
        tiny: false,
        parts: Parts::default(),
    };
    let mut report = Report::new(&isa::named(case.name), &setup, core);
    // The headline is measured in a minute, of one piece.
    let kept = args.out.as_deref().filter(|_| !args.quick);
    let kind = format!("{}-{}", report.machine.commit, report.machine.kernel);
    setup.parts = Parts::new(kept, &isa::named(case.name), &kind);
    (case.run)(&setup, &mut report)?;
    if let Some(file) = &args.json {
        write(file, report.json().unwrap_or_default())?;
    }
    if let Some(folder) = &args.out {
        report.write(folder)?;
    }
    setup.parts.forget();
    println!("{}", report.headline());
    Ok(())
}

fn write(path: &Path, text: String) -> Result<(), BenchError> {
    std::fs::write(path, text)
        .map_err(|source| BenchError::Report { path: path.to_path_buf(), source })
}
