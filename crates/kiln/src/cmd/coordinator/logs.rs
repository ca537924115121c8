//! Logs of volumes, looked after beside the repair of objects: a volume that no client uses is
//! closed where its log has lost a copy.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_pool::Index;
use kiln_stripe::Observer;
use kiln_volume::LogReport;

use crate::exit::{Exit, Result};
use crate::page::Board;
use crate::setup::{PoolFlags, Setup, logs, volumes};
use crate::volume_logs::{self, Tended};

/// Shortest interval between surveys: each volume is asked about.
const EVERY: Duration = Duration::from_secs(60);

/// A look, on a thread of its own: to close a volume takes its time.
struct Look {
    since: Instant,
    thread: JoinHandle<Result<Exit>>,
}

/// The surveying thread.
pub struct LogKeeper<'a> {
    flags: &'a PoolFlags,
    setup: &'a Setup,
    board: Option<Arc<Board>>,
    look: Mutex<Option<Look>>,
}

impl<'a> LogKeeper<'a> {
    /// For a pool.
    pub fn new(flags: &'a PoolFlags, setup: &'a Setup, board: Option<Arc<Board>>) -> LogKeeper<'a> {
        LogKeeper { flags, setup, board, look: Mutex::new(None) }
    }

    /// Looks at all logs that this index knows of, unless that was just done.
    pub fn look(&self, index: &Index) {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        let done = |look: &Look| look.thread.is_finished() && look.since.elapsed() >= EVERY;
        if look.as_ref().is_some_and(|look| !done(look)) {
            return;
        }
        let (flags, setup, index) = (self.flags.clone(), self.setup.background(), index.clone());
        let board = self.board.clone();
        let spawned = std::thread::Builder::new().spawn(move || {
            let end = tend(&flags, &setup, &index);
            if let Some(board) = board {
                board.see_logs(end.as_ref().map(Vec::clone).map_err(ToString::to_string));
            }
            end.map(|tended| volume_logs::tended_exit(&tended))
        });
        let thread = match spawned {
            Ok(thread) => thread,
            Err(error) => return self.setup.observer.warn(&format!("logs of volumes: {error}")),
        };
        if let Some(last) = look.replace(Look { since: Instant::now(), thread }) {
            self.heard(last);
        }
    }

    /// Waits for the last look; what it found and could not set right.
    pub fn end(self) -> Exit {
        let look = self.look.lock().unwrap_or_else(PoisonError::into_inner).take();
        look.map_or(Exit::Done, |look| self.heard(look))
    }

    fn heard(&self, look: Look) -> Exit {
        match look.thread.join() {
            Ok(Ok(exit)) => exit,
            // The pool cannot be opened, say, which the repair has said.
            Ok(Err(error)) => {
                self.setup.observer.warn(&format!("logs of volumes: {error}"));
                Exit::Damaged
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// All logs, with what came of those that lacked copies.
fn tend(flags: &PoolFlags, setup: &Setup, index: &Index) -> Result<Vec<Tended>> {
    let rim = volumes::rim_over(flags.open_quietly(setup)?, flags, setup);
    let all = logs::all(&rim, index, setup)?;
    let (whole, lacking): (Vec<_>, Vec<_>) = all.into_iter().partition(LogReport::is_whole);
    let tended = logs::tend(&rim, lacking, false);
    tended.iter().for_each(|it| setup.observer.warn(&it.words()));
    Ok(whole.into_iter().map(Tended::left).chain(tended).collect())
}
