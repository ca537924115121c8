//! Buffers that are used again: new pages for every frame would cost half as much as its ciphers.

use crate::proto::PAYLOAD_MAX;
use bytes::Bytes;
use std::sync::{Mutex, PoisonError};

/// Buffers that are kept, at most.
const KEPT: usize = 16;
/// Smaller ones are not worth it, and would keep much memory for little.
const SMALL: usize = PAYLOAD_MAX / 2;

/// Buffers of the largest payload's size that are not in use.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Gives its memory back when the last handle to it is dropped.
struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.0));
        }
    }
}

/// An empty buffer with room for `len` bytes, at most the largest payload.
pub(super) fn empty(len: usize) -> Vec<u8> {
    if len < SMALL {
        return Vec::with_capacity(len);
    }
    let mut bytes = used();
    bytes.clear();
    bytes
}

/// A buffer of `len` bytes, whatever they are: the caller overwrites all of them.
pub(super) fn dirty(len: usize) -> Vec<u8> {
    if len < SMALL {
        return vec![0; len];
    }
    let mut bytes = used();
    bytes.resize(len, 0);
    bytes
}

fn used() -> Vec<u8> {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    free.unwrap_or_else(|| Vec::with_capacity(PAYLOAD_MAX))
}

/// Turns a filled buffer into shared bytes.
pub(super) fn lend(bytes: Vec<u8>) -> Bytes {
    match bytes.capacity() == PAYLOAD_MAX {
        true => Bytes::from_owner(Lent(bytes)),
        false => bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_show_nothing_of_their_last_use() {
        let mut first = empty(PAYLOAD_MAX);
        first.extend_from_slice(&[7; 1000]);
        let lent = lend(first);
        let part = lent.slice(10..20);
        drop(lent);
        assert_eq!(part[..], [7; 10]);
        drop(part);
        assert!(empty(SMALL).is_empty());
        assert_eq!(dirty(SMALL).len(), SMALL);
        assert_eq!((lend(empty(100)).len(), dirty(100).len()), (0, 100));
    }

    #[test]
    fn no_more_are_kept_than_a_few() {
        let many: Vec<Bytes> = (0..2 * KEPT).map(|_| lend(empty(SMALL))).collect();
        drop(many);
        assert!(FREE.lock().unwrap().len() <= KEPT);
    }
}
