//! Memory of stripes that is kept from one operation to the next.

use std::sync::{Mutex, PoisonError};

/// Memory of stripes, for [`crate::Settings::buffers`]: operations take what earlier ones gave
/// back.
///
/// Fresh memory is mapped page by page when it is first written to. For objects of some
/// MiB, one after the other, that takes as much time of the processor as their coding.
#[derive(Debug)]
pub struct Buffers {
    kept: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl Buffers {
    /// Keeps so many bytes at most.
    pub fn new(most: usize) -> Buffers {
        Buffers { kept: Mutex::new(Vec::new()), most }
    }

    /// Bytes that are kept now.
    pub fn bytes(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Vec::len).sum()
    }

    /// One of exactly so many bytes, with whatever is in them.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rposition(|one| one.len() == len).map(|at| kept.remove(at));
        drop(kept);
        found.unwrap_or_else(|| vec![0; len])
    }

    /// Keeps one, in the place of the oldest ones if need be.
    pub fn give(&self, buffer: Vec<u8>) {
        if buffer.is_empty() || buffer.len() > self.most {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = buffer.len() + kept.iter().map(Vec::len).sum::<usize>();
        let mut oldest = 0;
        while bytes > self.most {
            bytes -= kept[oldest].len();
            oldest += 1;
        }
        kept.drain(..oldest);
        kept.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again_and_no_more_is_kept_than_may_be() {
        let buffers = Buffers::new(100);
        assert_eq!(buffers.take(40), [0; 40]);
        buffers.give(vec![7; 40]);
        buffers.give(vec![8; 50]);
        assert_eq!((buffers.bytes(), buffers.take(41)), (90, vec![0; 41]));
        assert_eq!((buffers.take(40), buffers.bytes()), (vec![7; 40], 50));
        // The oldest one goes.
        buffers.give(vec![9; 51]);
        assert_eq!((buffers.bytes(), buffers.take(51)), (51, vec![9; 51]));
        buffers.give(vec![1; 101]);
        buffers.give(Vec::new());
        assert_eq!(buffers.bytes(), 0);
    }
}
