//! Memory of agents that do not answer, and the patience that follows from those that do.
//!
//! A stopped process, a hung disk or a machine behind a cut cable accepts connections, or seems to,
//! and says nothing. Each of them must cost a command little, and only once. Which ones were silent
//! is a hint for the next command, in a file: of them it expects less. Without the file, or with a
//! wrong one, they cost as much as at first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use crate::Address;

/// Patience with a greeting as long as no agent has answered one.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// The shortest patience: the packet that begins a connection is sent again after one second.
const SHORTEST: Duration = Duration::from_millis(1100);
/// The same once there is a connection, where a lost packet is sent again after 0.2 s.
const CONNECTED: Duration = Duration::from_millis(800);
/// Agents are waited for so many times longer than half of those took that have answered: a busy
/// machine answers late, and shows it by all its answers. One late answer counts a fifth of that.
const TIMES: u32 = 50;
/// Times of answers that are kept.
const ANSWERS: usize = 256;
/// When an agent has said nothing for so long, all others of the network are greeted, so that those
/// that are silent are found together.
pub(crate) const DOUBT: Duration = Duration::from_millis(100);
/// The shortest patience with an agent that was silent for an earlier command.
const SUSPECTED: Duration = Duration::from_millis(300);
/// Seconds for which that is remembered, and bytes of the file.
const HINTED: u64 = 600;
const HINTS: u64 = 64 << 10;
/// For so long no new connection is made to an agent that was silent.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Greetings of one network's connections.
#[derive(Debug, Default)]
pub(crate) struct Greetings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Times that answers took, the shortest first.
    answers: Vec<Duration>,
    /// Agents that may be asked.
    known: BTreeMap<String, Address>,
    /// Addresses of agents that were greeted and have not answered yet, and since when.
    greeted: BTreeMap<String, Instant>,
    /// Addresses of agents that have answered.
    heard: BTreeSet<String>,
    /// Addresses of agents that did not answer, and when that was noticed.
    silent: BTreeMap<String, Instant>,
    /// Addresses of agents that were silent for this command or an earlier one, and when, in
    /// seconds since 1970.
    suspects: BTreeMap<String, u64>,
    /// The file that has them.
    file: Option<PathBuf>,
}

impl State {
    /// Writes the suspects to the file, a hint that may be lost.
    fn write(&self) {
        let Some(file) = &self.file else { return };
        let lines = self.suspects.iter().map(|(address, at)| format!("{at} {address}\n"));
        let part = file.with_extension(format!("{}.part", std::process::id()));
        let written = fs::write(&part, lines.collect::<String>());
        if written.and_then(|()| fs::rename(&part, file)).is_err() {
            let _ = fs::remove_file(&part);
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Greetings {
    /// Takes up what earlier commands noted in a file, and notes there what this one finds.
    pub fn remember(&self, file: &Path) {
        let mut state = self.state();
        state.file = Some(file.to_owned());
        let small = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= HINTS);
        let text = if small { fs::read_to_string(file).unwrap_or_default() } else { String::new() };
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let noted = lines.filter_map(|(at, address)| Some((address.to_owned(), at.parse().ok()?)));
        let now = now();
        state.suspects = noted.filter(|(_, at)| now.abs_diff(*at) < HINTED).collect();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an agent that may be asked.
    pub fn know(&self, address: &Address) {
        self.state().known.insert(address.to_string(), address.clone());
    }

    /// Notes that an agent is greeted; returns since when it owes an answer.
    pub fn greet(&self, address: &str) -> Instant {
        *self.state().greeted.entry(address.to_owned()).or_insert_with(Instant::now)
    }

    /// Notes that an agent answered after this time.
    pub fn answered(&self, address: &str, took: Duration) {
        let mut state = self.state();
        let at = state.answers.partition_point(|time| *time < took);
        if state.answers.len() < ANSWERS {
            state.answers.insert(at, took);
        }
        state.greeted.remove(address);
        state.heard.insert(address.to_owned());
        if state.suspects.remove(address).is_some() {
            state.write();
        }
    }

    /// Notes that a connection is over before there was an answer.
    pub fn ended(&self, address: &str) {
        self.state().greeted.remove(address);
    }

    /// Returns the agents that were not greeted so far.
    pub fn others(&self) -> Vec<Address> {
        let state = self.state();
        let is_new = |name: &String| {
            !state.greeted.contains_key(name)
                && !state.heard.contains(name)
                && !state.silent.contains_key(name)
        };
        let new = state.known.iter().filter(|(name, _)| is_new(name));
        new.map(|(_, address)| address.clone()).collect()
    }

    /// Returns the time within which an agent answers if it lives, whose machine has accepted the
    /// connection or not yet.
    pub fn patience(&self, address: &str, connected: bool) -> Duration {
        let state = self.state();
        let (times, least) = match state.suspects.contains_key(address) {
            true => (TIMES / 5, SUSPECTED),
            false => (TIMES, if connected { CONNECTED } else { SHORTEST }),
        };
        let Some(slowest) = state.answers.last() else { return LONGEST };
        let usual = state.answers[state.answers.len() / 2];
        (usual * times).max(*slowest * (times / 5)).clamp(least, LONGEST)
    }

    /// Notes that an agent did not answer; returns the error.
    pub fn silent(&self, address: &str, waited: Duration) -> io::Error {
        let mut state = self.state();
        state.silent.insert(address.to_owned(), Instant::now());
        state.suspects.insert(address.to_owned(), now());
        state.write();
        let why =
            format!("silent for {:.1} s; is its machine up, its disk hung?", waited.as_secs_f64());
        io::Error::new(io::ErrorKind::TimedOut, why)
    }

    /// Refuses to ask an agent that was silent a moment ago.
    pub fn check(&self, address: &str) -> io::Result<()> {
        let is_recent = |since: &Instant| since.elapsed() < REMEMBERED;
        match self.state().silent.get(address).is_some_and(is_recent) {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "silent when it was asked before")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_answers_within_bounds() {
        let greetings = Greetings::default();
        assert_eq!(greetings.patience("a", true), LONGEST);
        for (took, patience) in [(5, 1100), (60, 3000), (50, 2500), (9, 2500), (9000, 10_000)] {
            greetings.answered("a", Duration::from_millis(took));
            assert_eq!(greetings.patience("a", false), Duration::from_millis(patience));
            let connected = greetings.patience("a", true).as_millis();
            assert_eq!(connected, if took == 5 { 800 } else { patience.into() });
        }
        assert!(greetings.check("a").is_ok());
        assert_eq!(greetings.silent("a", SHORTEST).kind(), io::ErrorKind::TimedOut);
        assert!(greetings.check("a").is_err() && greetings.check("b").is_ok());
    }
    #[test]
    fn in_doubt_of_one_agent_all_are_greeted_that_were_not() {
        let greetings = Greetings::default();
        let names = ["kiln://a", "kiln://b", "kiln://c"];
        names.iter().for_each(|name| greetings.know(&name.parse().unwrap()));
        let full = names.map(|name| name.parse::<Address>().unwrap().to_string());
        let since = greetings.greet(&full[0]);
        assert_eq!(greetings.greet(&full[0]), since, "it owes an answer since the first greeting");
        greetings.greet(&full[1]);
        greetings.answered(&full[1], Duration::from_millis(1));
        let others: Vec<String> = greetings.others().iter().map(Address::to_string).collect();
        assert_eq!(others, full[2..]);
        greetings.greet(&full[2]);
        assert!(greetings.others().is_empty());
        greetings.ended(&full[0]);
        assert!(greetings.greet(&full[0]) > since);
    }
    #[test]
    fn the_next_command_expects_less_of_an_agent_that_was_silent_until_it_answers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pool.silent");
        let next = || {
            let greetings = Greetings::default();
            greetings.remember(&file);
            greetings.answered("b", Duration::from_millis(2));
            greetings
        };
        assert_eq!(next().patience("a", false), SHORTEST);
        next().silent("a", SHORTEST);
        assert_eq!(
            (next().patience("a", false), next().patience("c", false)),
            (SUSPECTED, SHORTEST)
        );
        next().answered("a", Duration::from_millis(2));
        assert_eq!(next().patience("a", false), SHORTEST);
        for text in ["7 a\n", "a\n\n x y\n99999999999999999999 a\n"] {
            fs::write(&file, text).unwrap();
            assert_eq!(next().patience("a", false), SHORTEST, "{text:?}");
        }
    }
}
