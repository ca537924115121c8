//! Long writes that follow each other: while one is on its way into the pool, so is the next.

use crate::long::{Long, PART};
use crate::queue::{Batch, Queue, TOGETHER};
use crate::{BLOCK, Op, OwnedOp, Volume, generation::Generation, kept::lock, segment::SegmentHead};
use std::{collections::VecDeque, sync::Arc, thread::ScopedJoinHandle, time::Duration};

/// Long writes on their way at a time: one encodes while another syncs.
const UNDER_WAY: usize = 2;
/// Long writes after which others may have the volume: a check of its nodes, say.
const MOST: usize = 32;
/// Interval at which the ends of uploads are looked for.
const GLANCE: Duration = Duration::from_micros(300);
/// Wait for more from clients that were just answered: less than one upload takes.
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
    std::thread::scope(|scope| {
        let mut flight = Flight::default();
        loop {
            queue.pull();
            if flight.may_begin() && queue.bytes() >= flight.enough(segment, most) {
                let batch = queue.take(most);
                match volume.begin_long(&batch.as_ops(), flight.under_way.len() as u64) {
                    Ok(Some(long)) => {
                        let ops = Arc::clone(&batch.ops);
                        let put = scope.spawn(move || {
                            let ops: Vec<Op<'_>> = ops.iter().map(OwnedOp::as_op).collect();
                            volume.put_long(&long, &ops)
                        });
                        flight.begun(UnderWay { long, batch, put });
                    }
                    // What is wrong with it is found again, and said, where all others go.
                    Ok(None) | Err(_) => {
                        queue.put_back(batch);
                        flight.ending = true;
                    }
                }
            } else if flight.may_begin() && flight.is_waiting() {
                // What comes meanwhile is looked at: else one would go after the other.
                flight.ending = !queue.linger(GLANCE, |queue| queue.bytes() >= most);
            } else {
                let Some(next) = flight.under_way.pop_front() else { break };
                land(volume, &mut generation, next, &mut flight);
                if flight.under_way.is_empty() && !flight.ending {
                    queue.linger(PATIENCE, |queue| queue.bytes() >= most);
                }
            }
        }
        flight.failed
    })
}

/// Makes one that has ended count, and tells those who wait for it.
fn land(volume: &Volume, generation: &mut Generation, next: UnderWay<'_>, flight: &mut Flight<'_>) {
    let UnderWay { long, batch, put } = next;
    let (head, there) = put.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    // After one that was given up, the next ones would count by a batch that is another's.
    match volume.end_long(generation, &long, &head, there && flight.failed.is_empty()) {
        Ok(false) => {
            flight.failed.push(batch);
            flight.ending = true;
        }
        end => batch.end(end.map(drop)),
    }
}

/// Those that are on their way, in order.
#[derive(Default)]
struct Flight<'s> {
    under_way: VecDeque<UnderWay<'s>>,
    begun: usize,
    /// No more are begun.
    ending: bool,
    /// Batches that were given up.
    failed: Vec<Batch>,
}

impl<'s> Flight<'s> {
    fn may_begin(&self) -> bool {
        !self.ending && self.under_way.len() < UNDER_WAY && self.begun < MOST
    }

    /// Bytes with which the next one is begun: beside another one, as many as it can have.
    fn enough(&self, segment: usize, most: usize) -> usize {
        if self.under_way.is_empty() { segment / PART } else { most - most / 8 }
    }

    fn begun(&mut self, one: UnderWay<'s>) {
        self.under_way.push_back(one);
        self.begun += 1;
    }

    /// Returns whether the first of them has not ended.
    fn is_waiting(&self) -> bool {
        self.under_way.front().is_some_and(|first| !first.put.is_finished())
    }
}
