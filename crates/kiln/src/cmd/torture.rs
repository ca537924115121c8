//! `kiln torture`

mod history;
mod processes;
mod schedule;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use kiln_code::CodeSpec;
use kiln_pool::Policy;
use kiln_store::SplitMix64;
use minijinja::context;
use rustix::process::Signal;

use crate::args::help;
use crate::exit::{Exit, Failure, Result};
use crate::print::{error_line, fields};
use crate::setup::Setup;
use crate::{interrupt, times};
use history::{Done, Value, possible};
use processes::{Agent, Processes, locked};
use schedule::{Fault, Wrong, choices, faults, operation};

/// Time of a round, without what heals it.
const ROUND: Duration = Duration::from_secs(8);
/// Time in which a pool becomes whole when nothing goes wrong any more.
const HEALED: Duration = Duration::from_secs(180);
/// Clients at a time, and names of objects: few, so that clients meet.
const CLIENTS: u64 = 3;
const NAMES: usize = 4;
/// A name before all.
const NOTHING_THERE: Done =
    Done { begin: Duration::ZERO, end: Some(Duration::ZERO), write: false, value: None };
/// A client without faults.
const NOTHING: Wrong = (0, None);
/// Bytes that a full disk takes in each file.
const FULL: u64 = 20_000;

/// Hurt a pool of processes on this machine, and check what it promises
///
/// Starts agents and a coordinator on folders below --dir. In rounds it kills and stops processes,
/// cuts agents off, fills and empties their disks, as the seed says, while clients put, read and
/// remove objects: these are stopped and killed too, and have clocks that are wrong. No more data
/// is lost at a time than the code tolerates. After each round the pool must become whole, every
/// object be there, and all answers to clients have an order. All that it started ends with it.
#[derive(Debug, Args)]
#[command(after_help = help("torture"))]
pub struct Torture {
    /// Folder for the pool, empty or not there; removed when no promise was broken
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Time in which rounds begin
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = times::parse)]
    time: Duration,
    /// The pool's code
    #[arg(short, long, value_name = "SPEC", default_value = "clay:4+2")]
    code: CodeSpec,
}

/// A pool under torture.
struct Pool {
    processes: Arc<Processes>,
    seed: u64,
    agents: Vec<Agent>,
    coordinator: Mutex<u32>,
    /// Agents that may lose their data in a round.
    wiped: usize,
    begun: Instant,
    counts: Mutex<BTreeMap<String, u64>>,
    /// By name, of the round; first stands what was there when it began.
    histories: [Mutex<Vec<Done>>; NAMES],
    violations: Mutex<Vec<String>>,
}

impl Torture {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let path = &self.dir;
        let failed = |action| move |source| Failure::Io { action, path: path.clone(), source };
        std::fs::create_dir_all(path).map_err(failed("create"))?;
        let dir = path.canonicalize().map_err(failed("open"))?;
        if std::fs::read_dir(&dir).map_err(failed("list"))?.next().is_some() {
            return Err(Failure::InTheWay { path: self.dir });
        }
        let processes = Arc::new(Processes(dir, Mutex::default()));
        let all = Arc::clone(&processes);
        interrupt::at_end(move || {
            // Nothing is started any more; a file that was begun may still come.
            std::mem::forget(all.end());
            let full = |error: io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
            while std::fs::remove_dir_all(&all.0).is_err_and(full) {}
        });
        let played = self.play(setup.seed, &processes);
        drop(processes.end());
        let (pool, rounds) = played.map_err(failed("use a pool in"))?;
        pool.report(&self.code, rounds, setup)?;
        if !locked(&pool.violations).is_empty() {
            let (seed, dir) = (setup.seed, path.display());
            error_line(&format!("promise broken with --seed {seed}: what is left is in {dir}"));
            return Ok(Exit::Broken);
        }
        std::fs::remove_dir_all(path).map_err(failed("remove"))?;
        Ok(Exit::Done)
    }

    fn play(&self, seed: u64, processes: &Arc<Processes>) -> io::Result<(Pool, u64)> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let policy = Policy::for_code(&self.code.to_string()).map_err(io::Error::other)?;
        let m = policy.manifest_copies - 1;
        let agents = (0..self.code.k() + m + 2).map(|_| runtime.block_on(Agent::new()));
        let pool = Pool {
            processes: Arc::clone(processes),
            seed,
            agents: agents.collect::<io::Result<_>>()?,
            coordinator: Mutex::new(0),
            wiped: m.saturating_sub(policy.missing_at_put),
            begun: Instant::now(),
            counts: Mutex::default(),
            histories: std::array::from_fn(|_| Mutex::new(vec![NOTHING_THERE])),
            violations: Mutex::default(),
        };
        let mut words = format!("pool create pool.toml -q -c {}", self.code);
        for (at, agent) in pool.agents.iter().enumerate() {
            agent.start(processes, &format!("d{at}"))?;
            words += &format!(" --node kiln+plain://{}/d{at}", agent.address);
        }
        let mut rounds = 0;
        if pool.kiln(&words, NOTHING) != Some(0) {
            pool.broken("no pool could be made".to_owned());
        }
        while pool.begun.elapsed() < self.time && locked(&pool.violations).is_empty() {
            pool.round(rounds, ROUND.min(self.time))?;
            rounds += 1;
        }
        Ok((pool, rounds))
    }
}

impl Pool {
    fn count(&self, what: &str) {
        *locked(&self.counts).entry(what.to_owned()).or_default() += 1;
    }

    fn broken(&self, what: String) {
        locked(&self.violations).push(what);
    }

    fn round(&self, round: u64, time: Duration) -> io::Result<()> {
        let (begin, mut random) = (Instant::now(), choices(self.seed, round, CLIENTS));
        let faults = faults(&mut random, self.agents.len(), self.wiped, time);
        self.undo(self.agents.len())?;
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut random = choices(self.seed, round, client);
                scope.spawn(move || {
                    while begin.elapsed() < time {
                        self.operate(client, &mut random);
                    }
                });
            }
            for fault in &faults {
                scope.spawn(move || {
                    std::thread::sleep(fault.begin.saturating_sub(begin.elapsed()));
                    self.hurt(fault);
                    std::thread::sleep(fault.end.min(time).saturating_sub(begin.elapsed()));
                    self.undo(fault.target)
                });
            }
        });
        (0..=self.agents.len()).try_for_each(|target| self.undo(target))?;
        let wiped = faults.iter().filter(|fault| fault.kind == "wipe");
        self.heal(wiped.map(|fault| fault.target).collect());
        (0..NAMES).for_each(|name| self.check(name));
        Ok(())
    }

    fn hurt(&self, fault: &Fault) {
        let agent = self.agents.get(fault.target);
        let id = *locked(agent.map_or(&self.coordinator, |agent| &agent.id));
        match (fault.kind, agent) {
            ("stop", _) => self.processes.signal(id, Signal::STOP),
            ("cut", Some(agent)) => drop(agent.cut.send_replace(true)),
            ("full", _) => self.processes.limit(id, Some(FULL)),
            _ => self.processes.kill(id),
        }
        if fault.kind == "wipe" {
            let _ = std::fs::remove_dir_all(self.processes.0.join(format!("d{}", fault.target)));
        }
        self.count(&format!("fault: {}", fault.kind));
    }

    /// Ends all faults of an agent, or of the coordinator.
    fn undo(&self, target: usize) -> io::Result<()> {
        if let Some(agent) = self.agents.get(target) {
            let id = *locked(&agent.id);
            self.processes.signal(id, Signal::CONT);
            self.processes.limit(id, None);
            agent.cut.send_replace(false);
            return agent.start(&self.processes, &format!("d{target}"));
        }
        let mut id = locked(&self.coordinator);
        self.processes.signal(*id, Signal::CONT);
        if let Ok(ended) = self.processes.wait(*id, 1) {
            ended.into_iter().for_each(|_| self.count("coordinator ended by itself"));
            *id = self.processes.start("coordinator --stay --wait 1 -q", 0)?.0;
        }
        Ok(())
    }

    /// Nothing goes wrong any more: the pool must become whole, by a scrub and a repair in the
    /// coordinator's place, which the next round starts again.
    fn heal(&self, mut empty: Vec<usize>) {
        let (begin, run) = (Instant::now(), |words: &str| self.kiln(words, NOTHING));
        self.processes.kill(*locked(&self.coordinator));
        loop {
            empty
                .retain(|at| run(&format!("pool add-node n{at:02} --replace --yes -q")) != Some(0));
            // Killed clients leave files that only a scrub puts aside.
            let mut heals = ["scrub -q", "repair -q", "status -q"].map(run).into_iter().skip(1);
            if empty.is_empty() && heals.all(|exit| exit == Some(0)) {
                return;
            }
            if begin.elapsed() > HEALED {
                return self.broken(format!("the pool is not whole after {HEALED:?}"));
            }
        }
    }

    /// An object can be read, or was removed, and all reads and writes of it have an order.
    fn check(&self, name: usize) {
        self.client("get", name, "check", None, NOTHING);
        let mut history = locked(&self.histories[name]);
        match history.pop() {
            Some(last) if !last.write => {
                history.push(last.clone());
                if !possible(&history) {
                    self.broken(format!("o{name}: no order of {history:?}"));
                }
                // A write whose end was not heard may still take place.
                history.retain(|done| done.end.is_none());
                history.insert(0, last);
            }
            _ => self.broken(format!("o{name} cannot be read, though all is healed")),
        }
    }

    fn operate(&self, client: u64, random: &mut SplitMix64) {
        let (pause, act, size, wrong) = operation(random);
        std::thread::sleep(pause);
        let (name, value) = (random.next() as usize % NAMES, random.next());
        let place = format!("c{client}");
        if act == "put" {
            let _ = std::fs::write(self.processes.0.join(&place), content(value, size));
        }
        self.client(act, name, &place, (act == "put").then_some(value), wrong);
    }

    /// Runs a client's command on an object, and notes what came of it.
    fn client(&self, act: &str, name: usize, place: &str, value: Value, wrong: Wrong) {
        let begin = self.begun.elapsed();
        let words = match act {
            "put" => format!("put {place} o{name} --force -q"),
            "get" => format!("get o{name} -o {place} --force -q"),
            _ => format!("rm o{name} -q"),
        };
        let exit = self.kiln(&words, wrong);
        let end = Some(self.begun.elapsed());
        let (end, write, value) = match exit {
            Some(7) if act != "put" => (end, false, None),
            Some(0) if act == "get" => (end, false, self.value_in(name, place)),
            Some(0) => (end, true, value),
            _ => (None, true, value),
        };
        self.count(&format!("{act}{}", if end.is_some() { "" } else { " failed" }));
        if end.is_some() || act != "get" {
            locked(&self.histories[name]).push(Done { begin, end, write, value });
        }
    }

    /// The value whose content a file has.
    fn value_in(&self, name: usize, place: &str) -> Value {
        let bytes = std::fs::read(self.processes.0.join(place)).unwrap_or_default();
        let value = bytes.first_chunk().map(|first| u64::from_le_bytes(*first));
        if value.is_none_or(|value| content(value, bytes.len()) != bytes) {
            self.broken(format!("o{name}: a read gave {} wrong bytes", bytes.len()));
        }
        value
    }

    /// Runs a command, which may be stopped for a second, or killed; `None`: it was killed.
    fn kiln(&self, words: &str, (clock, stopped): Wrong) -> Option<i32> {
        let (id, _) = self.processes.start(words, clock).ok()?;
        if let Some((after, killed)) = stopped {
            std::thread::sleep(after);
            self.processes.signal(id, if killed { Signal::KILL } else { Signal::STOP });
            self.count(if killed { "fault: client killed" } else { "fault: client stopped" });
            std::thread::sleep(Duration::from_secs(1));
            self.processes.signal(id, Signal::CONT);
        }
        self.processes.wait(id, u64::MAX).ok()?
    }

    fn report(&self, code: &CodeSpec, rounds: u64, setup: &Setup) -> Result<Exit> {
        let (counts, violations) = (locked(&self.counts), locked(&self.violations));
        let (seed, seconds) = (self.seed, self.begun.elapsed().as_secs());
        let (faults, operations): (BTreeMap<_, _>, BTreeMap<_, _>) =
            counts.iter().partition(|(what, _)| what.starts_with("fault: "));
        let report = fields! {
            seed: seed, seconds: seconds, code: code.to_string(), agents: self.agents.len(),
            rounds: rounds, operations: operations, faults: faults, violations: &*violations,
        };
        setup.show("torture", &report, context! { counts => &*counts })
    }
}

/// The bytes of a value.
fn content(value: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64(value);
    let mut content = value.to_le_bytes().to_vec();
    while content.len() < bytes {
        content.extend(random.next().to_le_bytes());
    }
    content.truncate(bytes);
    content
}
