//! Position of the next batch in a log: pure arithmetic.

/// A log that is written from its beginning again when its end is reached. Positions only grow; a
/// batch never lies across the end, so that some bytes there may stay unused.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    size: u64,
    head: u64,
    tail: u64,
}

/// Room for a batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Position of its first byte.
    pub start: u64,
    /// Its offset in the log.
    pub offset: u64,
    /// Position after its last byte.
    pub end: u64,
}

impl Ring {
    pub fn new(size: u64) -> Ring {
        Ring { size, head: 0, tail: 0 }
    }

    /// Room for so many bytes; `None`: too much of the log is still needed. Nothing changes before
    /// [`Ring::take`].
    pub fn room(&self, len: u64) -> Option<Room> {
        let left = self.size - self.head % self.size;
        let start = if left < len { self.head + left } else { self.head };
        let end = start + len;
        // Of an empty log nothing is needed that lies before.
        let tail = if self.tail == self.head { start } else { self.tail };
        let fits = len <= self.size && end - tail <= self.size;
        fits.then_some(Room { start, offset: start % self.size, end })
    }

    /// A batch was written there.
    pub fn take(&mut self, room: &Room) {
        if self.tail == self.head {
            self.tail = room.start;
        }
        self.head = room.end;
    }

    /// Releases all before this position.
    pub fn release(&mut self, position: u64) {
        self.tail = position.clamp(self.tail, self.head);
    }

    /// The position after all that was written.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of the log.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are needed or lie unused between those.
    pub fn used(&self) -> u64 {
        self.head - self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_needed_is_written_over() {
        for size in [4096, 7168] {
            let (mut ring, mut live): (Ring, Vec<Room>) = (Ring::new(size), Vec::new());
            let mut seed = 7u64;
            for _ in 0..20_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let len = (1 + (seed >> 33) % 5) * 512;
                match ring.room(len) {
                    Some(room) => {
                        ring.take(&room);
                        assert!(room.offset + len <= size && room.end - room.start == len);
                        let apart = |other: &Room| {
                            let end = other.offset + (other.end - other.start);
                            room.offset + len <= other.offset || end <= room.offset
                        };
                        assert!(live.iter().all(apart));
                        live.push(room);
                    }
                    None => {
                        assert!(!live.is_empty());
                        live.drain(..1 + live.len() / 3);
                        ring.release(live.first().map_or(ring.head(), |room| room.start));
                    }
                }
            }
        }
        assert_eq!(Ring::new(512).room(1024), None);
    }
}
