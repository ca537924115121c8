//! Queue of clients' operations that are not taken up yet.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, sync::Arc};

use crate::{Op, OwnedOp, Result, VolumeError};

/// Bytes that are taken up together at most: much at once goes past the log.
pub(crate) const TOGETHER: usize = 16 << 20;
/// Bytes that are held here; what is beyond waits where it came from.
pub(crate) const HELD: usize = 4 * TOGETHER;

/// Hears how a change ended.
pub type Done = Box<dyn FnOnce(Result<(), Arc<VolumeError>>) + Send>;

/// A change, and who hears of its end.
pub(crate) type Submitted = (OwnedOp, Done);

/// Changes that are committed together.
pub(crate) struct Batch {
    pub ops: Arc<Vec<OwnedOp>>,
    dones: Vec<Done>,
}

impl Batch {
    pub fn as_ops(&self) -> Vec<Op<'_>> {
        self.ops.iter().map(OwnedOp::as_op).collect()
    }

    pub fn len(&self) -> usize {
        self.dones.len()
    }

    pub fn bytes(&self) -> usize {
        self.ops.iter().map(OwnedOp::len).sum()
    }

    /// Tells everybody that it is durable, or why it is not.
    pub fn end(self, end: Result<()>) {
        let end = end.map_err(Arc::new);
        // A client that gets its answer sends more, into the same memory if it is free by then.
        drop(self.ops);
        self.dones.into_iter().for_each(|done| done(end.clone()));
    }

    /// As [`Batch::end`]; but where several failed together each is written by itself, since one
    /// that is wrong must not fail the others.
    pub fn end_or_each(self, end: Result<()>, write: impl Fn(Op<'_>) -> Result<()>) {
        if end.is_ok() || self.len() <= 1 {
            return self.end(end);
        }
        for (op, done) in self.ops.iter().zip(self.dones) {
            done(write(op.as_op()).map_err(Arc::new));
        }
    }
}

/// Changes in the order in which they came.
pub(crate) struct Queue<'a> {
    todo: &'a Receiver<Submitted>,
    waiting: VecDeque<Submitted>,
    bytes: usize,
}

impl<'a> Queue<'a> {
    pub fn new(todo: &'a Receiver<Submitted>) -> Queue<'a> {
        Queue { todo, waiting: VecDeque::new(), bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, next: Submitted) {
        self.bytes += next.0.len();
        self.waiting.push_back(next);
    }

    /// Takes over what has come.
    pub fn pull(&mut self) {
        while self.bytes < HELD
            && let Ok(next) = self.todo.try_recv()
        {
            self.push(next);
        }
    }

    /// Waits until there is something; `false`: nothing will come any more.
    pub fn wait(&mut self) -> bool {
        if self.waiting.is_empty() {
            let Ok(first) = self.todo.recv() else { return false };
            self.push(first);
        }
        self.pull();
        true
    }

    /// Waits for more, but not long: until there is enough. `false`: nothing will come any more.
    pub fn linger(&mut self, patience: Duration, enough: impl Fn(&Queue<'_>) -> bool) -> bool {
        let until = Instant::now() + patience;
        self.pull();
        while !enough(self) && self.bytes < HELD {
            let left = until.saturating_duration_since(Instant::now());
            match self.todo.recv_timeout(left) {
                Ok(next) => self.push(next),
                Err(end) => return end == RecvTimeoutError::Timeout,
            }
        }
        true
    }

    /// Takes up the first ones, of so many bytes or little more.
    pub fn take(&mut self, most: usize) -> Batch {
        let (mut ops, mut dones, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((op, _)) = self.waiting.front()
            && (ops.is_empty() || bytes + op.len() <= most)
        {
            let Some((op, done)) = self.waiting.pop_front() else { break };
            bytes += op.len();
            ops.push(op);
            dones.push(done);
        }
        self.bytes -= bytes;
        Batch { ops: Arc::new(ops), dones }
    }

    /// Puts back what was taken up last.
    pub fn put_back(&mut self, batch: Batch) {
        self.bytes += batch.bytes();
        // No thread has it: it was not begun.
        let ops = Arc::try_unwrap(batch.ops).unwrap_or_else(|ops| ops.to_vec());
        ops.into_iter().zip(batch.dones).rev().for_each(|one| self.waiting.push_front(one));
    }
}

/// Returns the time that a commit waits for clients that were just answered, so that they are part
/// of the next commit and not of the one after it: a batch costs a page for its head, and a sync of
/// every copy. Some of what the last commit took; nothing where one client waits for each answer.
pub(crate) fn patience(last: Duration, answered: usize) -> Duration {
    match answered {
        0 | 1 => Duration::ZERO,
        _ => (last / 4).min(Duration::from_millis(1)),
    }
}

/// A volume that is closed takes nothing more.
pub(crate) fn refused() -> Arc<VolumeError> {
    Arc::new(VolumeError::Usage { what: "the volume is being closed".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn write(len: usize) -> Submitted {
        (OwnedOp::Write { offset: 0, bytes: vec![7; len].into() }, Box::new(|_| ()))
    }

    #[test]
    fn changes_are_taken_in_order_and_put_back_as_they_were() {
        let (sender, todo) = channel();
        let mut queue = Queue::new(&todo);
        for len in [10, 20, 30, 40] {
            sender.send(write(len)).unwrap();
        }
        assert!(queue.wait());
        assert_eq!((queue.len(), queue.bytes()), (4, 100));
        let lens = |batch: &Batch| batch.ops.iter().map(OwnedOp::len).collect::<Vec<_>>();
        let first = queue.take(35);
        assert_eq!((lens(&first), first.bytes(), queue.bytes()), (vec![10, 20], 30, 70));
        queue.put_back(first);
        // One that is larger than what is asked for comes alone.
        assert_eq!(lens(&queue.take(5)), [10]);
        assert_eq!(lens(&queue.take(1000)), [20, 30, 40]);
        sender.send(write(1)).unwrap();
        queue.linger(Duration::from_secs(60), |queue| queue.len() == 1);
        assert!(queue.linger(Duration::from_millis(1), |queue| queue.len() == 2));
        drop(sender);
        assert!(!queue.linger(Duration::from_secs(60), |queue| queue.len() == 2));
        assert!(queue.wait());
        assert_eq!(queue.take(0).len(), 1);
        assert!(!queue.wait());
    }

    #[test]
    fn only_who_answered_several_waits_for_them() {
        let last = Duration::from_micros(800);
        assert_eq!(patience(last, 1), Duration::ZERO);
        assert_eq!(patience(last, 2), Duration::from_micros(200));
        assert_eq!(patience(Duration::from_secs(1), 9), Duration::from_millis(1));
    }
}
