//! How a running pool recovery is controlled (limits, stop) and reports its progress.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kiln_node::net::Control;
use kiln_node::recovery::RateLimits;
use kiln_pool::Observer;

use crate::print;
use crate::setup::{LimitFile, Setup, now_ms};
use crate::sizes;

/// How often the file of limits is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub struct RecoveryControl<'a> {
    setup: &'a Setup,
    file: LimitFile,
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
    /// A line of progress every so often.
    lines: Option<Duration>,
}

struct State {
    limits: RateLimits,
    /// What the file said when it was last looked at.
    said: Option<RateLimits>,
    looked: Instant,
    /// Progress: of how many bytes, how many, since when; and the last line.
    total: u64,
    done: u64,
    since: Instant,
    line: Instant,
}

impl<'a> RecoveryControl<'a> {
    /// With these limits, or if there are none, those of the file.
    pub fn new(
        setup: &'a Setup,
        flags: RateLimits,
        file: PathBuf,
        lines: Option<Duration>,
    ) -> RecoveryControl<'a> {
        let (file, now) = (LimitFile::new(file), Instant::now());
        let said = file.read(&setup.observer);
        let given = flags != RateLimits::default();
        let limits = if given { flags } else { said.unwrap_or_default() };
        let (total, done) = (0, 0);
        let state = State { limits, said, looked: now, total, done, since: now, line: now };
        RecoveryControl { setup, file, state: Mutex::new(state), stop: stop_when_told(), lines }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control for RecoveryControl<'_> {
    fn limits(&self) -> RateLimits {
        let mut state = self.state();
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            let says = self.file.read(&self.setup.observer);
            if says != state.said {
                state.said = says;
                state.limits = says.unwrap_or_default();
            }
        }
        state.limits
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn begin(&self, bytes: u64) {
        let mut state = self.state();
        let now = Instant::now();
        (state.total, state.done, state.since, state.line) = (bytes, 0, now, now);
        self.setup.observer.begin("recover", Some(bytes));
    }

    fn advance(&self, bytes: u64) {
        self.setup.observer.advance(bytes);
        let Some(every) = self.lines else { return };
        let mut state = self.state();
        state.done += bytes;
        if state.line.elapsed() < every {
            return;
        }
        state.line = Instant::now();
        let (done, total) = (state.done, state.total.max(state.done));
        let rate = done as f64 / state.since.elapsed().as_secs_f64().max(1e-3);
        let left = (total - done) as f64 / rate.max(1.0);
        print::progress_line(&format!(
            "recovered {} of {}, {}/s, {left:.0} s left",
            sizes::show(done),
            sizes::show(total),
            sizes::show(rate as u64)
        ));
    }

    fn warn(&self, message: &str) {
        self.setup.observer.warn(message);
    }
}

/// Set when the process is asked to end: what runs is called off, and the report still comes.
fn stop_when_told() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Without this thread a signal ends the process at once, which is safe too.
        let builder = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = builder {
            runtime.block_on(crate::cmd::agent::until_told());
            told.store(true, Ordering::Relaxed);
        }
    });
    stop
}
