//! Events of an agent, and the actions that it asks of its shell.

use std::sync::Arc;

use bytes::Bytes;
use kiln_store::{Located, ShardInfo, Space, StoreError};

use super::{ConnectionId, JobId, PeerInfo, Slot, TaskId};
use crate::{Result, proto::Frame, proto::assignment::Assignment, task::Fragment};

/// An input of the state machine.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted (and, with TLS, has shown the cluster's key).
    Connected {
        connection: ConnectionId,
        /// A number drawn at random for it.
        session: u64,
        peer: PeerInfo,
    },
    /// A frame arrived.
    Frame { connection: ConnectionId, frame: Frame },
    /// The last bytes of the reply to a request were handed to the system.
    Sent { connection: ConnectionId, request: u64 },
    /// A connection ended.
    Closed { connection: ConnectionId },
    /// A disk job ended.
    Finished { job: JobId, outcome: Result<DiskDone, StoreError> },
    /// Fragments were answered by their receiver, or not.
    Pushed {
        task: TaskId,
        address: String,
        fragments: Vec<Fragment>,
        /// Says whether they were taken, and below which window there is room for more.
        answer: Result<u64>,
    },
    /// Time passed; see [`super::Agent::wake_at`].
    Tick,
}

/// An action for the caller.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug)]
pub enum Action {
    /// Send a frame.
    Send { connection: ConnectionId, session: u64, frame: Frame },
    /// Close a connection after what was sent.
    Close { connection: ConnectionId, why: String },
    /// Do this on the disk, then report [`Event::Finished`].
    Start { job: JobId, work: Disk },
    /// Send fragments of one window to another agent, then report [`Event::Pushed`].
    Push { task: TaskId, address: String, fragments: Vec<Fragment> },
    /// Forget what is open for a task.
    Forget { task: TaskId },
    /// Forget an open file or lock; nothing is reported.
    Drop { slot: Slot },
}

/// One operation of a [`kiln_store::Backend`].
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// A page of the names after this one; as many as fit half of the largest body.
    List {
        /// The last known name.
        after: String,
    },
    /// Free and total room.
    Space,
    /// Open for reading.
    Open {
        /// The open file's number from now on.
        slot: Slot,
        name: String,
    },
    /// Read.
    Read { slot: Slot, offset: u64, len: u32 },
    /// Open for appending.
    Append {
        /// The open file's number from now on.
        slot: Slot,
        name: String,
        /// Length to cut it to.
        at: u64,
        /// It is a log of changes that may not be cut: it is appended to where it ends.
        whole: bool,
    },
    /// Append.
    Write { slot: Slot, bytes: Bytes },
    /// Make a log and open it.
    CreateLog {
        /// The log's number from now on.
        slot: Slot,
        name: String,
        /// Its length in bytes.
        size: u64,
    },
    /// Write to a log.
    WriteAt { slot: Slot, offset: u64, bytes: Bytes },
    /// Take a log from its writer.
    CloseLog {
        name: String,
        to: String,
        /// Even if its writer lives.
        force: bool,
    },
    /// Make appended bytes, or what was written to a log, durable.
    Sync { slot: Slot },
    /// Rename.
    Rename { from: String, to: String },
    /// Remove.
    Remove { name: String },
    /// See where a file's bytes are.
    Locate { name: String },
    /// Copy a file to where the place's bytes belong.
    CopyHome { from: String, to: String },
    /// Open and compile what a task needs.
    Prepare { task: TaskId, spec: Arc<Assignment> },
    /// Read and verify the pieces of a window.
    Load { task: TaskId, window: u64 },
    /// Run the program of a round.
    Compute { task: TaskId, window: u64, round: usize, inputs: Vec<Bytes> },
    /// Keep what a round persists.
    Persist { task: TaskId, window: u64, round: usize, pieces: Vec<Bytes> },
    /// Complete and verify what was written.
    Finish { task: TaskId },
    /// Put it in place.
    Commit { task: TaskId },
    /// See how much of an unfinished shard is sound.
    Resume {
        part: String,
        /// The header that it must have.
        info: Box<ShardInfo>,
    },
    /// Try to lock the place.
    Lock {
        /// The lock's number from now on.
        slot: Slot,
    },
}

/// The result of a disk job.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskDone {
    /// A page of names.
    Names { names: Vec<String>, more: bool },
    /// Free and total room; `None`: the place cannot tell.
    Room(Option<Space>),
    /// Location of a file's bytes.
    Located(Located),
    /// A file is open.
    Opened {
        /// Its length in bytes.
        len: u64,
    },
    /// Bytes that were read.
    Bytes(Bytes),
    /// It is done.
    Done,
    /// A task is ready.
    Prepared,
    /// Pieces of a window.
    Loaded { window: u64, pieces: Vec<(u32, Bytes)> },
    /// Pieces that a round computed.
    Computed {
        window: u64,
        /// The pieces, in the round's order.
        made: Vec<Bytes>,
    },
    /// Something is kept.
    Persisted { window: u64, bytes: u64 },
    /// The shards of a task are complete and verified.
    TaskFinished,
    /// Stripes of an unfinished shard that are sound.
    Resumed(u64),
    /// Says whether the lock was free (and is ours now).
    Locked(bool),
}
