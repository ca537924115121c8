//! Limits of an agent: concurrency, memory, waiting times.

use crate::proto::VERSION;
use std::time::Duration;

/// Limits of an agent. Everything that grows has a limit here.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The latest version of the protocol that is spoken: an earlier one for tests of upgrades.
    pub version: u8,
    /// The latest version of pools' descriptions that the program reads, for clients that ask.
    pub reads: u32,
    /// Connections of members at once.
    pub connections: usize,
    /// The same from one address: one machine cannot keep all others away.
    pub connections_per_address: usize,
    /// Connections at once that have not shown yet who they are.
    pub unproven: usize,
    /// The same from one address.
    pub unproven_per_address: usize,
    /// Open files and locks of a connection.
    pub handles: usize,
    /// Requests of a connection that are under way at once.
    pub requests: u32,
    /// Bytes that a connection's requests under way carry or ask for.
    pub credit: u32,
    /// The same of all connections, about: each is granted a part of what is left, and at least
    /// the largest payload.
    pub memory: u64,
    /// Tasks at once.
    pub tasks: usize,
    /// Tasks at once that one connection has assigned.
    pub tasks_per_connection: usize,
    /// Bytes of assignments of all tasks, those included that have not arrived as a whole; one
    /// connection may have assigned half of them.
    pub assignments: u64,
    /// Bytes of memory that all tasks may take to be carried out.
    pub task_memory: u64,
    /// Disk jobs at once.
    pub jobs: usize,
    /// A connection that says nothing for so long is closed.
    pub idle: Duration,
    /// The handshake of TLS must be over within this time.
    pub handshake: Duration,
    /// A connection must say `Hello` within this time, and have a place among the members.
    pub hello: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            version: VERSION,
            reads: 0,
            connections: 256,
            connections_per_address: 128,
            unproven: 128,
            unproven_per_address: 32,
            handles: 1024,
            requests: 256,
            credit: 16 << 20,
            memory: 512 << 20,
            tasks: 96,
            tasks_per_connection: 64,
            assignments: 128 << 20,
            task_memory: 2 << 30,
            jobs: 16,
            idle: Duration::from_secs(30),
            handshake: Duration::from_secs(5),
            hello: Duration::from_secs(5),
        }
    }
}
