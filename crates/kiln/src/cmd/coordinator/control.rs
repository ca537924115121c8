//! Control (limits, stop) and progress of a running pool recovery.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kiln_pool::ScrubReport;
use kiln_recovery::{Control, Phase, RateLimits, RecoveryState, ScrubPosition, Wait, WaitReason};
use kiln_stripe::Observer;

use super::{hook::Hook, scrubs::PositionFile};
use crate::setup::{LimitFile, Setup, now_ms};
use crate::{observer::time_left, page::Board, print, sizes, times};

/// Interval of reading the file of limits.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of progress lines, unless another step begins.
const STATE: Duration = Duration::from_millis(250);

/// See the module.
pub struct RecoveryControl<'a> {
    setup: &'a Setup,
    file: LimitFile,
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
    /// A line of progress every so often.
    lines: Option<Duration>,
    /// The board that gets the state, besides the terminal.
    board: Option<Arc<Board>>,
    scrubs: PositionFile,
    hook: Option<Hook>,
    told: Mutex<Told>,
}

/// The last reported wait.
struct Told {
    /// When the state was last asked for.
    asked: Option<Instant>,
    /// The reason of the wait, and when it was reported.
    waits: Vec<(WaitReason, Option<String>)>,
    said: Instant,
}

struct State {
    limits: RateLimits,
    /// The limits as last read from the file.
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
        scrubs: PositionFile,
    ) -> RecoveryControl<'a> {
        let (file, now) = (LimitFile::new(file), Instant::now());
        let said = file.read(&setup.observer);
        let given = flags != RateLimits::default();
        let limits = if given { flags } else { said.unwrap_or_default() };
        let (total, done) = (0, 0);
        let state = State { limits, said, looked: now, total, done, since: now, line: now };
        let told = Told { asked: None, waits: Vec::new(), said: now };
        RecoveryControl {
            setup,
            file,
            state: Mutex::new(state),
            stop: stop_when_told(),
            lines,
            board: None,
            scrubs,
            hook: None,
            told: Mutex::new(told),
        }
    }

    /// The same, with a board for the state, and a command that gets findings.
    pub fn with(self, board: Option<Arc<Board>>, hook: Option<Hook>) -> RecoveryControl<'a> {
        RecoveryControl { board, hook, ..self }
    }

    /// Says what is waited for: at once, when that changes, and every so often where lines of
    /// progress are wanted. A terminal counts down.
    fn say(&self, state: &RecoveryState) {
        let waits: &[Wait] = match state.phase {
            Phase::Waiting => &state.waits,
            _ => &[],
        };
        let text = waits_text(waits, state.now_ms);
        self.setup.observer.wait(text.as_deref());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // Looks and retries come all the time; what is said of them once is enough.
        let what: Vec<_> = waits.iter().map(|wait| (wait.reason, wait.node.clone())).collect();
        let again = self.lines.is_some_and(|every| told.said.elapsed() >= every);
        let new = what.iter().any(|wait| !told.waits.contains(wait));
        if let (Some(text), true) = (text, new || again) {
            told.said = Instant::now();
            told.waits = what;
            if !self.setup.quiet && !self.setup.observer.has_bar() {
                print::progress_line(&text);
            }
        }
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
        let elapsed = state.since.elapsed();
        let rate = sizes::show((done as f64 / elapsed.as_secs_f64().max(1e-3)) as u64);
        let left = time_left(done, Some(total), elapsed);
        let left = left.map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
        let (done, total) = (sizes::show(done), sizes::show(total));
        print::progress_line(&format!("recovered {done} of {total}, {rate}/s{left}"));
    }

    fn warn(&self, message: &str) {
        self.setup.observer.warn(message);
    }

    fn tell(&self, changed: bool, state: &dyn Fn() -> RecoveryState) {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !changed && told.asked.is_some_and(|at| at.elapsed() < STATE) {
                return;
            }
            told.asked = Some(Instant::now());
        }
        let state = state();
        self.say(&state);
        if let Some(board) = &self.board {
            board.put(state, self.limits());
        }
    }

    fn keep_scrub(&self, position: &ScrubPosition) -> Result<(), String> {
        self.scrubs.write(position)
    }

    fn found(&self, part: &ScrubReport) {
        if let Some(hook) = &self.hook {
            hook.tell(part, &|| self.stopped());
        }
    }
}

/// Returns the reason of a wait, in a line.
fn waits_text(waits: &[Wait], now_ms: u64) -> Option<String> {
    let one = |wait: &&Wait| format!("{wait}: {}", times::show(wait.seconds_left(now_ms)));
    // Reasons that need a decision come first; the next survey is reported when there are no
    // others.
    let mut told: Vec<&Wait> = waits.iter().collect();
    told.sort_by_key(|wait| wait.reason);
    told.retain(|wait| waits.len() == 1 || wait.reason != WaitReason::Look);
    let few: Vec<String> = told.iter().take(3).map(one).collect();
    let more = match told.len().saturating_sub(few.len()) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!few.is_empty()).then(|| format!("waits for {}{more}", few.join("; ")))
}

/// Set when the process is asked to end: what runs is called off, and the report still comes.
fn stop_when_told() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    // Without this thread a signal ends the process at once, which is safe too.
    let _ = std::thread::Builder::new().spawn(move || {
        let builder = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = builder {
            runtime.block_on(crate::cmd::agent::until_told());
            told.store(true, Ordering::Relaxed);
        }
    });
    stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_decides_first_and_how_long() {
        let wait = |reason, node: &str, seconds: u64| Wait {
            reason,
            node: Some(node.to_owned()).filter(|node| !node.is_empty()),
            until_ms: 1_000_000 + seconds * 1000,
        };
        let look = wait(WaitReason::Look, "", 30);
        let said = |waits: &[Wait]| waits_text(waits, 1_000_000);
        assert_eq!(said(&[]), None);
        let alone = said(std::slice::from_ref(&look)).unwrap();
        assert_eq!(alone, "waits for the next look at the pool: 30 s");
        let n3 = wait(WaitReason::Node, "n3", 600);
        let text = said(&[look, wait(WaitReason::Scrub, "", 90_000), n3]).unwrap();
        let wanted = "waits for node n3 to come back; then its shards are rebuilt elsewhere: 10:00 \
                      min; the next scrub: 25 h 0 min";
        assert_eq!(text, wanted);
        let many: Vec<Wait> = (0..5).map(|at| wait(WaitReason::Node, &at.to_string(), 5)).collect();
        assert!(said(&many).unwrap().ends_with("; and 2 more"));
    }
}
