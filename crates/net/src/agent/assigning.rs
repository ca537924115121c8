//! Arrival of assignments at an agent, and the limits within which they become tasks.

use super::connection::{Connection, Pending};
use super::{Agent, ConnectionId, Disk, TaskId, failure, tasks::Held};
use crate::proto::assignment::{ASSIGNMENT_MAX, Assignment};
use crate::proto::{Message, Priority};
use crate::{NetError, Result, task::Task};
use std::{sync::Arc, time::Duration};

impl Agent {
    /// A piece of an assignment; the last one makes it a task.
    pub(super) fn assign(
        &mut self,
        now: Duration,
        id: TaskId,
        (at, total): (u64, u64),
        bytes: &[u8],
        pending: &Pending,
    ) -> Result<()> {
        if total > ASSIGNMENT_MAX as u64 {
            return Err(NetError::protocol("an assignment that is too long"));
        }
        if let Some(why) = self.beyond_limits(id, bytes.len() as u64, pending.connection) {
            self.tasks.retain(|held_id, held| *held_id != id || held.task.is_some());
            self.answer(pending, failure::busy(&why));
            return Ok(());
        }
        let owner = pending.connection;
        let held = self.tasks.entry(id).or_insert_with(|| Held::new(now, owner));
        held.seen = now;
        // The coordinator that hands out the task gives its priority.
        held.priority = match pending.priority {
            Priority::Client => Priority::Client,
            _ => Priority::Repair,
        };
        if held.task.is_some() || held.preparing.is_some() || held.arriving.len() as u64 != at {
            return Err(NetError::protocol("an assignment out of order"));
        }
        held.arriving.extend_from_slice(bytes);
        held.assigned = held.arriving.len() as u64;
        if held.assigned < total {
            self.answer(pending, Message::Done {});
            return Ok(());
        }
        let arrived = std::mem::take(&mut held.arriving);
        self.assigned(id, &arrived, pending);
        Ok(())
    }

    /// Why there is no room for so many more bytes of an assignment.
    fn beyond_limits(&self, id: TaskId, bytes: u64, from: ConnectionId) -> Option<String> {
        let limits = &self.limits;
        let mine = || self.tasks.values().filter(|held| held.owner == from);
        if !self.tasks.contains_key(&id) {
            if self.tasks.len() >= limits.tasks {
                return Some(format!("{} tasks are here already", self.tasks.len()));
            }
            if mine().count() >= limits.tasks_per_connection {
                return Some(format!("{} tasks of this connection are here", mine().count()));
            }
        }
        let all: u64 = self.tasks.values().map(|held| held.assigned).sum();
        let own: u64 = mine().map(|held| held.assigned).sum();
        let full = all + bytes > limits.assignments || own + bytes > limits.assignments / 2;
        full.then(|| format!("assignments of {all} bytes are here, {own} of this connection"))
    }

    /// An assignment has arrived as a whole.
    fn assigned(&mut self, id: TaskId, arrived: &[u8], pending: &Pending) {
        let taken: u64 =
            self.tasks.values().filter_map(|held| held.task.as_ref()).map(Task::memory).sum();
        let left = self.limits.task_memory.saturating_sub(taken);
        let spec = Assignment::decode(arrived);
        let ready = spec.and_then(|spec| Task::within(Arc::new(spec), left));
        let ready = ready.map(|task| task.under(self.clocks.clone()));
        let asks = self.connections.get(&pending.connection);
        if let (Ok(task), Some(asks)) = (&ready, asks)
            && let Some(why) = refusal(task.spec(), asks)
        {
            self.tasks.remove(&id);
            return self.answer(pending, why);
        }
        if let Ok(task) = &ready
            && self.others_write(task.spec())
        {
            self.tasks.remove(&id);
            return self.answer(pending, failure::busy("another task writes that shard"));
        }
        let Some(held) = self.tasks.get_mut(&id) else { return };
        match ready {
            Ok(task) => {
                let spec = Arc::clone(task.spec());
                held.task = Some(task);
                held.preparing = Some(pending.clone());
                self.task_job(id, Disk::Prepare { task: id, spec });
            }
            Err(error) => {
                self.tasks.remove(&id);
                let why = error.to_string();
                let busy = error.is_retryable();
                let answer = if busy { failure::busy(&why) } else { failure::refused(&why) };
                self.answer(pending, answer);
            }
        }
    }

    /// Returns whether another task writes to one of the parts that this one is to write.
    fn others_write(&self, spec: &Assignment) -> bool {
        let mut written = self
            .tasks
            .values()
            .filter_map(|held| held.task.as_ref())
            .flat_map(|task| &task.spec().targets);
        written.any(|file| spec.targets.iter().any(|target| target.part == file.part))
    }
}

/// Returns the answer to a peer whose key is not for what a task reads or writes.
fn refusal(spec: &Assignment, asks: &Connection) -> Option<Message> {
    let (rights, targets) = (&asks.peer.rights, &spec.targets);
    let written = || targets.iter().flat_map(|target| [&target.part[..], &target.name]);
    if let Some(least) = rights.role.lacks_to_rebuild(written()) {
        return Some(failure::denied(rights.role, "Assign", least));
    }
    let mut files = spec.sources.iter().map(|source| &source.name[..]).chain(written());
    (!asks.are_shown(&mut files)).then(|| failure::outside(rights, "Assign"))
}
