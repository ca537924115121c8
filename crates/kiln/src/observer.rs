//! Progress and warnings of long operations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{io::IsTerminal, time::Duration};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use kiln_stripe::Observer;

use crate::print;

/// A disk full of corrupt data would otherwise scroll every other message away; --json lists more.
const MAX_WARNINGS: u64 = 50;

/// The bar takes what the words leave of the terminal's width.
const KNOWN: &str = "{msg:>8} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {left} left";
const UNKNOWN: &str = "{msg:>8} {spinner} {bytes}, {bytes_per_sec}";

/// From when on, and from which share of the rest on, a pace says when it ends.
const PACE_KNOWN: Duration = Duration::from_secs(2);
const LEAST_SHARE: u64 = 500;

/// The observer of the program.
pub struct Terminal {
    bar: Option<ProgressBar>,
    warnings: AtomicU64,
    /// The bar says what is waited for.
    waits: AtomicBool,
}

impl Terminal {
    /// Draws progress only when wanted and when stderr is a terminal.
    pub fn new(wanted: bool) -> Terminal {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(8);
            ProgressBar::with_draw_target(None, target)
        });
        Terminal { bar, warnings: AtomicU64::new(0), waits: AtomicBool::new(false) }
    }

    /// Returns whether a bar is shown, which names the current step.
    pub fn has_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Says on the bar what is waited for; `None`: nothing any more.
    pub fn wait(&self, text: Option<&str>) {
        let Some(bar) = &self.bar else { return };
        let waits = self.waits.swap(text.is_some(), Ordering::Relaxed);
        match text {
            Some(text) => {
                if !waits {
                    // The template is a constant; if it were wrong, a plain bar would still do.
                    let style = ProgressStyle::with_template("{wide_msg}");
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                }
                bar.set_message(text.to_owned());
            }
            None if waits => bar.set_message(""),
            None => {}
        }
    }

    /// Takes the bar off the screen, before a summary or an error is printed.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Terminal {
    fn begin(&self, phase: &str, total_bytes: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        let template = if total_bytes.is_some() { KNOWN } else { UNKNOWN };
        // The templates are constants; if one were wrong, plain progress would still do.
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("left", left));
        match total_bytes {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
        bar.set_message(phase.to_owned());
        bar.reset();
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn warn(&self, message: &str) {
        let earlier = self.warnings.fetch_add(1, Ordering::Relaxed);
        let say = || match earlier {
            0..MAX_WARNINGS => print::warning_line(message),
            MAX_WARNINGS => print::warning_line("further warnings are not shown"),
            _ => {}
        };
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

/// Writes the time left.
fn left(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    let written = match time_left(state.pos(), state.len(), state.elapsed()) {
        None => text.write_char('?'),
        Some(time) => write!(text, "{:#}", HumanDuration(time)),
    };
    // The text is a buffer in memory; a progress bar is not worth a panic.
    let _ = written;
}

/// Returns the time left at the pace so far; unknown before a pace is known.
pub fn time_left(done: u64, total: Option<u64>, elapsed: Duration) -> Option<Duration> {
    let rest = total?.saturating_sub(done);
    // The first bytes come late: files are opened and nodes asked before.
    if done == 0 || elapsed < PACE_KNOWN || done < rest / LEAST_SHARE {
        return None;
    }
    let seconds = elapsed.as_secs_f64() * rest as f64 / done as f64;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_when_a_pace_is_known() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        for (done, total, elapsed) in [
            (0, Some(100), minute),
            (1, Some(u64::MAX), minute),
            (50, Some(100), second),
            (5, None, minute),
        ] {
            assert_eq!(time_left(done, total, elapsed), None, "{done}");
        }
        assert_eq!(time_left(25, Some(100), minute), Some(3 * minute));
        assert_eq!(time_left(200, Some(100), minute), Some(Duration::ZERO));
    }
}
