//! Requests that wait for the disk: clients before repair, but repair never for ever.

use super::{ConnectionId, Disk, TaskId, connection::Pending};
use crate::proto::Priority;
use std::collections::VecDeque;

/// Of so many jobs one is repair's, when it waits: a busy cluster must still become whole.
const REPAIR_SHARE: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Queue {
    clients: VecDeque<(Pending, Disk)>,
    repair: VecDeque<(Pending, Disk)>,
    since_repair: u32,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.clients.len() + self.repair.len()
    }

    /// Bounded by what connections may have under way.
    pub fn push(&mut self, pending: Pending, work: Disk) {
        let queue = match pending.priority {
            Priority::Repair => &mut self.repair,
            Priority::Control | Priority::Client => &mut self.clients,
        };
        queue.push_back((pending, work));
    }

    pub fn pop(&mut self) -> Option<(Pending, Disk)> {
        let turn = self.since_repair + 1 >= REPAIR_SHARE || self.clients.is_empty();
        if turn && let Some(next) = self.repair.pop_front() {
            self.since_repair = 0;
            return Some(next);
        }
        self.since_repair = self.since_repair.saturating_add(1);
        self.clients.pop_front()
    }

    /// Takes a request out of the queue.
    pub fn remove(&mut self, wanted: impl Fn(&Pending) -> bool) -> Option<Pending> {
        for queue in [&mut self.clients, &mut self.repair] {
            if let Some(at) = queue.iter().position(|(pending, _)| wanted(pending)) {
                return queue.remove(at).map(|(pending, _)| pending);
            }
        }
        None
    }

    /// Drops the jobs of a task.
    pub fn forget_task(&mut self, task: TaskId) {
        self.repair.retain(|(pending, _)| pending.task != Some(task));
    }

    /// Drops what a connection waits for.
    pub fn forget(&mut self, connection: ConnectionId) {
        for queue in [&mut self.clients, &mut self.repair] {
            queue.retain(|(pending, _)| pending.connection != connection || pending.task.is_some());
        }
    }
}
