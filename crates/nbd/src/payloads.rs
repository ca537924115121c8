//! Memory of what clients write, used again when it is free.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, Read};

/// Shorter ones are allocated anew: that costs less than to look for them.
const LEAST: usize = 64 << 10;
/// Bytes that are held for one client beyond what it has under way.
const MOST: usize = 48 << 20;

/// Payloads of one client.
///
/// Fresh memory is mapped page by page as it is first written to, and is zeros before; both take as
/// long as the copy from the socket.
#[derive(Default)]
pub(crate) struct Payloads {
    /// The oldest first. Those whose only holder is this are free.
    sent: VecDeque<Bytes>,
    bytes: usize,
}

impl Payloads {
    /// Reads so many bytes.
    pub fn read(&mut self, len: usize, from: &mut impl Read) -> io::Result<Bytes> {
        if len < LEAST {
            let mut bytes = vec![0; len];
            from.read_exact(&mut bytes)?;
            return Ok(bytes.into());
        }
        let mut bytes = self.free(len).unwrap_or_else(|| BytesMut::zeroed(len));
        from.read_exact(&mut bytes)?;
        let bytes = bytes.freeze();
        self.keep(bytes.clone());
        Ok(bytes)
    }

    /// Free memory of this length.
    fn free(&mut self, len: usize) -> Option<BytesMut> {
        let at = self.sent.iter().position(|one| one.len() == len && one.is_unique())?;
        let free = self.sent.remove(at)?;
        self.bytes -= free.len();
        free.try_into_mut().ok()
    }

    fn keep(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        self.sent.push_back(bytes);
        // What is still in use lives on without this.
        while self.bytes > MOST
            && let Some(oldest) = self.sent.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 256 * 7 + seed) as u8).collect()
    }

    #[test]
    fn memory_is_used_again_and_never_while_somebody_has_it() {
        let mut payloads = Payloads::default();
        let (one, two, three) = (bytes(LEAST, 1), bytes(LEAST, 2), bytes(LEAST, 3));
        let first = payloads.read(LEAST, &mut &one[..]).unwrap();
        let second = payloads.read(LEAST, &mut &two[..]).unwrap();
        let place = first.as_ptr();
        drop(first);
        // Of another length nothing is free.
        let other = payloads.read(LEAST + 1, &mut &bytes(LEAST + 1, 4)[..]).unwrap();
        let again = payloads.read(LEAST, &mut &three[..]).unwrap();
        assert_eq!((again.as_ptr(), &again[..], &second[..]), (place, &three[..], &two[..]));
        assert_eq!(other, bytes(LEAST + 1, 4));
        assert_eq!(payloads.bytes, 3 * LEAST + 1);
        // Short ones are not kept, and what ends early is said.
        assert_eq!(payloads.read(5, &mut &one[..]).unwrap(), one[..5]);
        assert_eq!(payloads.sent.len(), 3);
        let early = payloads.read(LEAST, &mut &one[1..]).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn no_more_is_held_than_may_be() {
        let (mut payloads, mut held) = (Payloads::default(), Vec::new());
        for at in 0..60 {
            held.push(payloads.read(1 << 20, &mut &bytes(1 << 20, at)[..]).unwrap());
        }
        assert_eq!((payloads.bytes, payloads.sent.len()), (MOST, 48));
        assert!(held.iter().enumerate().all(|(at, one)| *one == bytes(1 << 20, at)));
    }
}
