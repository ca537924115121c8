//! The limit of an agent's repair traffic: one clock for each direction, shared by all its tasks.
//! Pure: the time is an argument.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::VecDeque, time::Duration};

/// Time that was not used is kept for so long: enough to make up for a late start, too little to
/// be felt as a burst.
const CREDIT: Duration = Duration::from_millis(100);
/// Part of the limit that bytes of shards may take: TLS, frames and headers of packets are on the
/// link too, and the link is what people set a limit for.
const PART: f64 = 0.95;
/// Paid bytes arrive a little later, by a delay that varies. No more than what may be moved
/// in this time may be awaited at once, so that it cannot all come in one burst, ...
const AWAITED: f64 = 0.25;
/// ... but what has not come after this time does not hold up others.
const OVERDUE: Duration = Duration::from_secs(1);
/// The longest that one reservation may hold others up, whatever the limit.
const LONGEST: f64 = 3600.0;

/// Says when the next bytes of a repair may be moved. Clones share the clocks.
#[derive(Debug, Clone, Default)]
pub struct Throttle {
    clocks: Arc<Mutex<Clocks>>,
}

/// Up to when the bytes of each direction are paid for.
#[derive(Debug, Default)]
struct Clocks {
    up: Duration,
    down: Duration,
    /// Bytes that were paid for and not received yet, and when they are overdue; the oldest first.
    awaited: VecDeque<(Duration, u64)>,
    /// Bytes that may be awaited.
    most: u64,
    /// Less is awaited again.
    freed: bool,
}

impl Clocks {
    fn awaited(&self) -> u64 {
        self.awaited.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Throttle {
    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        // Poison: two moments are sound whatever happened.
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next bytes may be moved.
    pub fn ready_at(&self) -> Duration {
        let clocks = self.clocks();
        let mut left = clocks.awaited();
        let mut ready = clocks.up.max(clocks.down);
        for (overdue, bytes) in &clocks.awaited {
            if left <= clocks.most {
                break;
            }
            left -= bytes;
            ready = ready.max(*overdue);
        }
        ready
    }

    /// Bytes that were paid for have been received.
    pub fn received(&self, mut bytes: u64) {
        let mut clocks = self.clocks();
        let before = clocks.awaited();
        while let Some((_, first)) = clocks.awaited.front_mut() {
            let part = bytes.min(*first);
            (*first, bytes) = (*first - part, bytes - part);
            if *first > 0 {
                break;
            }
            clocks.awaited.pop_front();
        }
        clocks.freed |= before > clocks.most && clocks.awaited() <= clocks.most;
    }

    /// Returns whether, since the last call, something may have become possible earlier than
    /// [`Throttle::ready_at`] said.
    pub fn freed(&self) -> bool {
        std::mem::take(&mut self.clocks().freed)
    }

    /// Takes note of bytes that are moved from now on, both ways at once, at `rate` bytes a
    /// second.
    pub fn reserve(&self, now: Duration, sent: u64, received: u64, rate: u64) {
        let time = |bytes: u64| {
            Duration::from_secs_f64((bytes as f64 / (rate.max(1) as f64 * PART)).min(LONGEST))
        };
        let from = now.saturating_sub(CREDIT);
        let mut clocks = self.clocks();
        clocks.up = clocks.up.max(from) + time(sent);
        clocks.down = clocks.down.max(from) + time(received);
        clocks.most = (rate as f64 * AWAITED) as u64;
        clocks.awaited.retain(|(overdue, _)| *overdue > now);
        if received > 0 {
            clocks.awaited.push_back((now + OVERDUE, received));
        }
    }

    /// The limit is another one from now on: what was waited for under the old one is forgiven.
    pub fn restart(&self, now: Duration) {
        let mut clocks = self.clocks();
        clocks.up = clocks.up.min(now);
        clocks.down = clocks.down.min(now);
        clocks.awaited.clear();
        clocks.freed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 20_000_000;

    /// Moves windows for ten seconds, ticking late now and then; gives bytes a second each way.
    fn run(sizes: impl Fn(u64) -> (u64, u64), late: u64) -> (f64, f64) {
        let throttle = Throttle::default();
        let (mut now, mut sent, mut received, mut step) = (Duration::ZERO, 0, 0, 0);
        while now < Duration::from_secs(10) {
            while throttle.ready_at() <= now {
                let (up, down) = sizes(step);
                throttle.reserve(now, up, down, RATE);
                throttle.received(down);
                (sent, received, step) = (sent + up, received + down, step + 1);
            }
            now = throttle.ready_at() + Duration::from_millis(step * 7 % (late + 1));
        }
        (sent as f64 / 10.0, received as f64 / 10.0)
    }

    #[test]
    fn the_busier_direction_keeps_just_below_the_limit() {
        for late in [0, 3, 40, 90] {
            let (up, down) = run(|step| (100_000 + step % 5 * 50_000, 30_000), late);
            assert!(up <= RATE as f64 && up >= RATE as f64 * 0.94, "{late} ms: {up}");
            assert!(down < up, "{down}");
            // One task sends, another one receives: a link carries both at once.
            let (up, down) =
                run(|step| if step % 2 == 0 { (200_000, 0) } else { (0, 200_000) }, late);
            for rate in [up, down] {
                assert!(rate <= RATE as f64 && rate >= RATE as f64 * 0.94, "{rate}");
            }
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let throttle = Throttle::default();
        throttle.reserve(Duration::ZERO, 1_000_000, 0, RATE);
        let later = Duration::from_secs(100);
        let mut moved = 0;
        while throttle.ready_at() <= later {
            throttle.reserve(later, 100_000, 0, RATE);
            moved += 100_000;
        }
        assert!(moved <= RATE / 4, "{moved} bytes at once");
    }

    #[test]
    fn what_is_late_is_not_joined_by_more_until_it_comes_or_is_overdue() {
        let throttle = Throttle::default();
        let mut now = Duration::ZERO;
        let mut awaited = 0;
        while throttle.ready_at() < OVERDUE {
            now = now.max(throttle.ready_at());
            throttle.reserve(now, 0, 100_000, RATE);
            awaited += 100_000;
        }
        assert!(awaited <= RATE / 4 + 100_000, "{awaited}");
        // The first to be overdue lets the next one begin.
        assert_eq!(throttle.ready_at(), OVERDUE);
        assert!(!throttle.freed());
        throttle.received(awaited);
        assert!(throttle.freed() && throttle.ready_at() < OVERDUE);
    }

    #[test]
    fn a_higher_limit_counts_at_once() {
        let throttle = Throttle::default();
        throttle.reserve(Duration::ZERO, 1_000_000, 0, 1_000);
        assert!(throttle.ready_at() > Duration::from_secs(900));
        throttle.restart(Duration::from_secs(1));
        assert!(throttle.ready_at() <= Duration::from_secs(1));
    }
}
