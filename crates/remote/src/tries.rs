//! Tries of one thing, with pauses that grow and an end.

use std::thread;
use std::time::{Duration, Instant};

/// Most tries of one request.
const TRIES: u32 = 7;
/// All tries of a request together take so many times what a server may be silent.
const DEADLINE: u32 = 4;
/// Pause after the first failure; each next one is twice as long, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub struct Tries {
    begin: Instant,
    pause: Duration,
    left: u32,
    longest: Duration,
}

impl Tries {
    /// Of a server that may be silent for so long.
    pub fn new(patience: Duration) -> Tries {
        let (begin, longest) = (Instant::now(), patience * DEADLINE);
        Tries { begin, pause: PAUSE, left: TRIES, longest }
    }

    /// Only the one that is made now.
    #[must_use]
    pub fn once(self) -> Tries {
        Tries { left: 1, ..self }
    }

    /// Returns whether there may be another one; waits for it.
    pub fn again(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.begin.elapsed() >= self.longest {
            return false;
        }
        // Pauses of many clients must not end together.
        thread::sleep(self.pause.mul_f64(0.5 + 0.5 * (random() >> 11) as f64 / 2f64.powi(53)));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// 64 bits that differ each time.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_end_by_their_number_and_by_time() {
        let mut tries = Tries { pause: Duration::ZERO, ..Tries::new(Duration::from_secs(9)) };
        assert_eq!((0..20).filter(|_| tries.again()).count(), TRIES as usize - 1);
        assert!(!Tries::new(Duration::from_secs(9)).once().again());
        assert!(!Tries::new(Duration::ZERO).again());
        assert_ne!(random(), random());
    }
}
