//! Long writes that follow each other: while one is on its way into the pool, so is the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crate::kept::lock;
use crate::long::{Long, PART};
use crate::queue::{Batch, OwnedOp, Queue, TOGETHER};
use crate::segment::SegmentHead;
use crate::{BLOCK, Op, Volume};

/// Long writes on their way at a time: one encodes while another syncs.
const UNDER_WAY: usize = 2;
/// Long writes after which others may have the volume: whoever looks at its nodes, say.
const MOST: usize = 32;
/// How long it is waited for more from those who were just answered, while another one is on its
/// way: little of what that one takes.
const PATIENCE: Duration = Duration::from_millis(10);

/// One that is on its way; the thread gives what the segment holds, and whether the pool has it.
struct UnderWay<'s> {
    long: Long,
    batch: Batch,
    put: ScopedJoinHandle<'s, (SegmentHead, bool)>,
}

/// Writes what waits as long as it is long. What is given back goes through the log.
///
/// Nothing else is committed meanwhile, and these are in the order in which they came: so each
/// knows by which batch of the log it will count.
pub(crate) fn write(volume: &Volume, queue: &mut Queue<'_>) -> Vec<Batch> {
    // Most of what comes is short, and shall not pay for this.
    queue.pull();
    if queue.bytes() < lock(&volume.state).capacity() * BLOCK / PART {
        return Vec::new();
    }
    let mut generation = lock(&volume.generation);
    let (segment, most) = {
        let state = lock(&volume.state);
        let most = state.stripes.capacity(TOGETHER / BLOCK, false);
        (state.capacity() * BLOCK, most.min(state.capacity()) * BLOCK)
    };
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let mut under_way: VecDeque<UnderWay<'_>> = VecDeque::new();
        let mut started = 0;
        loop {
            queue.pull();
            let may_start = under_way.len() < UNDER_WAY && failed.is_empty() && started < MOST;
            if may_start && queue.bytes() >= segment / PART {
                let batch = queue.take(most);
                match volume.begin_long(&batch.as_ops(), under_way.len() as u64) {
                    Ok(Some(long)) => {
                        let ops = Arc::clone(&batch.ops);
                        let put = scope.spawn(move || {
                            let ops: Vec<Op<'_>> = ops.iter().map(OwnedOp::as_op).collect();
                            volume.put_long(&long, &ops)
                        });
                        under_way.push_back(UnderWay { long, batch, put });
                        started += 1;
                        continue;
                    }
                    // What is wrong with it is found again, and said, where all others go.
                    Ok(None) | Err(_) => queue.put_back(batch),
                }
            }
            let Some(UnderWay { long, batch, put }) = under_way.pop_front() else { break };
            let (head, there) = put.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // After one that was given up, the next ones would count by a batch that is another's.
            match volume.end_long(&mut generation, &long, &head, there && failed.is_empty()) {
                Ok(false) => failed.push(batch),
                end => {
                    let bytes = queue.bytes() + batch.bytes();
                    batch.end(end.map(drop));
                    if !under_way.is_empty() {
                        queue.linger(PATIENCE, |queue| queue.bytes() >= bytes.min(most));
                    }
                }
            }
        }
    });
    failed
}
