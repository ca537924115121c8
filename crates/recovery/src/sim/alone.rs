//! One node that carries out an assignment all by itself: what it would receive is zeros, what it
//! would send is taken.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use kiln_store::Backend;

use kiln_net::task::{Effect, Fragment, Task, TaskPhase};
use kiln_net::{NetError, Result, proto::assignment::Assignment, task_executor::TaskExecutor};

/// Bytes of all pieces of a window, at most.
const WINDOW_BYTES: u64 = 1 << 20;

/// Reads an assignment, opens its shards, compiles its DAGs, and does what it says to the end; but
/// no more than `steps` effects, and no windows of more than a mebibyte. Gives whether it came to
/// its end: then the shards that it rebuilds are in place.
/// Errors: the error is that of an agent for the same assignment.
pub fn alone(bytes: &[u8], place: Arc<dyn Backend>, steps: usize) -> Result<bool> {
    let spec = Arc::new(Assignment::decode(bytes)?);
    let sub_chunks: u64 = spec.pieces.iter().map(|piece| u64::from(piece.sub_chunks)).sum();
    if sub_chunks.saturating_mul(spec.slice.min(spec.geometry.sub_chunk).into()) > WINDOW_BYTES {
        return Ok(false);
    }
    let (layout, now) = (spec.layout()?, Duration::ZERO);
    let executor = TaskExecutor::new(Arc::clone(&spec), place)?;
    let mut task = Task::new(Arc::clone(&spec))?;
    let mut effects: VecDeque<Effect> = task.start(now).into();
    let (mut given, mut left) = (0, steps);
    while left > 0 {
        left -= 1;
        let Some(effect) = effects.pop_front() else {
            // It waits for others.
            if given == task.upto() {
                return Ok(false);
            }
            for id in spec.rounds.iter().flat_map(|round| &round.receives) {
                let total =
                    spec.piece(*id)?.sub_chunks as usize * spec.window(&layout, given).1.len();
                let (window, piece, bytes) = (given, *id, Bytes::from(vec![0; total]));
                let fragment =
                    Fragment { window, piece, to: spec.me, at: 0, total: total as u32, bytes };
                effects.extend(task.fragment(now, fragment)?);
            }
            given += 1;
            continue;
        };
        effects.extend(match effect {
            Effect::Load(window) => {
                let pieces = executor.load(window).map_err(NetError::from)?;
                task.loaded(now, window, pieces)
            }
            Effect::Compute { window, round, inputs } => {
                let made = executor.compute(window, round, &inputs)?;
                task.computed(now, window, made)
            }
            Effect::Persist { window, round, pieces } => {
                let kept = executor.persist(window, round, &pieces)?;
                task.kept(now, window, kept)
            }
            Effect::Push(fragment) => task.sent(now, fragment.window, fragment.bytes.len()),
            Effect::Finish => {
                executor.finish()?;
                executor.commit()?;
                task.finished();
                Vec::new()
            }
        });
        if task.state() == TaskPhase::Done {
            return Ok(true);
        }
    }
    Ok(false)
}
