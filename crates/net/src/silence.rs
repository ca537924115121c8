//! Memory of agents that do not answer, and the patience that follows from those that do.
//!
//! A stopped process, a hung disk or a machine behind a cut cable accepts connections, or seems to,
//! and says nothing. Each of them must cost a command little, and only once.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Patience with a greeting as long as no agent has answered one.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// The shortest patience: a lost packet is sent again after one second, and a busy machine
/// answers late.
const SHORTEST: Duration = Duration::from_millis(2000);
/// Agents are waited for so many times longer than the slowest that has answered.
const TIMES: u32 = 20;
/// For so long no new connection is made to an agent that was silent.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Greetings of one network's connections.
#[derive(Debug, Default)]
pub(crate) struct Greetings {
    /// The longest time that an answer took.
    slowest: Mutex<Option<Duration>>,
    /// Addresses of agents that did not answer, and when that was noticed.
    silent: Mutex<BTreeMap<String, Instant>>,
}

impl Greetings {
    /// Notes that an agent answered after this time.
    pub fn answered(&self, took: Duration) {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        *slowest = slowest.max(Some(took));
    }

    /// Returns the time within which an agent answers if it lives.
    pub fn patience(&self) -> Duration {
        let slowest = *self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.map_or(LONGEST, |time| (time * TIMES).clamp(SHORTEST, LONGEST))
    }

    /// Notes that an agent did not answer; returns the error.
    pub fn silent(&self, address: &str, waited: Duration) -> io::Error {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.insert(address.to_owned(), Instant::now());
        let why =
            format!("silent for {:.1} s; is its machine up, its disk hung?", waited.as_secs_f64());
        io::Error::new(io::ErrorKind::TimedOut, why)
    }

    /// Refuses to ask an agent that was silent a moment ago.
    ///
    /// # Errors
    /// It was.
    pub fn check(&self, address: &str) -> io::Result<()> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match silent.get(address).is_some_and(|since| since.elapsed() < REMEMBERED) {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "silent when it was asked before")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_slowest_answer_within_bounds() {
        let greetings = Greetings::default();
        assert_eq!(greetings.patience(), LONGEST);
        for (took, patience) in [(5, 2000), (150, 3000), (50, 3000), (9000, 10_000)] {
            greetings.answered(Duration::from_millis(took));
            assert_eq!(greetings.patience(), Duration::from_millis(patience));
        }
        assert!(greetings.check("a").is_ok());
        assert_eq!(greetings.silent("a", SHORTEST).kind(), io::ErrorKind::TimedOut);
        assert!(greetings.check("a").is_err() && greetings.check("b").is_ok());
    }
}
