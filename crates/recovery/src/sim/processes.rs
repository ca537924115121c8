//! Processes that use a simulated cluster, and their threads: who can go on, and whose turn it is.

use std::time::Duration;

/// Clients of the world: processes, and threads that belong to them.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub all: Vec<State>,
    pub threads: Vec<Thread>,
    /// The thread that has the turn.
    pub turn: Option<usize>,
    /// The reason that no client can go on.
    pub stuck: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub killed: bool,
    pub cut_until: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub client: usize,
    /// It has something to go on with.
    pub ready: bool,
    pub done: bool,
    /// Counts its pauses, and those of threads that had its number: a wake is for one of them.
    pub pauses: u64,
}

impl Clients {
    /// Threads of all clients at most.
    pub const THREADS: usize = 64;

    pub fn is_killed(&self, client: usize) -> bool {
        self.all.get(client).is_some_and(|state| state.killed)
    }

    pub fn is_cut(&self, client: usize, now: Duration) -> bool {
        self.all.get(client).is_some_and(|state| state.cut_until > now)
    }

    pub fn cut_until(&self, client: usize) -> Duration {
        self.all.get(client).map_or(Duration::ZERO, |state| state.cut_until)
    }

    pub fn cut(&mut self, client: usize, until: Duration) {
        if let Some(state) = self.all.get_mut(client) {
            state.cut_until = until;
        }
    }

    pub fn kill(&mut self, client: usize) {
        if let Some(state) = self.all.get_mut(client) {
            state.killed = true;
            self.answered(client);
        }
    }

    pub fn heal(&mut self) {
        self.all.iter_mut().for_each(|state| state.cut_until = Duration::ZERO);
    }

    /// A client's threads share its connections: which of them an answer is for, they find out.
    pub fn answered(&mut self, client: usize) {
        let threads = self.threads.iter_mut().filter(|thread| thread.client == client);
        threads.for_each(|thread| thread.ready = true);
    }

    pub fn wake(&mut self, thread: usize, pause: u64) {
        if let Some(thread) = self.threads.get_mut(thread).filter(|t| t.pauses == pause) {
            thread.ready = true;
        }
    }

    /// A new thread of a client.
    pub fn begin(&mut self, client: usize) -> usize {
        let free = self.threads.iter().position(|thread| thread.done);
        let number = free.unwrap_or(self.threads.len());
        assert!(number < Clients::THREADS, "too many threads of clients");
        if free.is_none() {
            self.threads.push(Thread::default());
        }
        let thread = &mut self.threads[number];
        (thread.client, thread.ready, thread.done) = (client, true, false);
        number
    }
}
