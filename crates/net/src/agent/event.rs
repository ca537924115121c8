//! Events of an agent, and the actions that it asks of its shell.

use std::sync::Arc;

use bytes::Bytes;
use kiln_store::{Located, ShardInfo, Space, StoreError};

use super::{ConnectionId, JobId, PeerInfo, Slot, TaskId};
use crate::Result;
use crate::proto::Frame;
use crate::proto::assignment::Assignment;
use crate::task::Fragment;

/// An input of the state machine.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted (and, with TLS, has shown the cluster's key).
    Connected {
        /// Its number.
        connection: ConnectionId,
        /// A number drawn at random for it.
        session: u64,
        /// The peer.
        peer: PeerInfo,
    },
    /// A frame arrived.
    Frame {
        /// On this connection.
        connection: ConnectionId,
        /// The frame.
        frame: Frame,
    },
    /// The last bytes of the reply to a request were handed to the system.
    Sent {
        /// On this connection.
        connection: ConnectionId,
        /// The request.
        request: u64,
    },
    /// A connection ended.
    Closed {
        /// Its number.
        connection: ConnectionId,
    },
    /// A disk job ended.
    Finished {
        /// Its number.
        job: JobId,
        /// The outcome.
        outcome: Result<DiskDone, StoreError>,
    },
    /// Fragments were answered by their receiver, or not.
    Pushed {
        /// The task.
        task: TaskId,
        /// Address of the receiver.
        address: String,
        /// The fragments.
        fragments: Vec<Fragment>,
        /// Says whether they were taken, and below which window there is room for more.
        answer: Result<u64>,
    },
    /// Time passed; see [`super::Agent::wake_at`].
    Tick,
}

/// An action for the caller.
#[derive(Debug)]
pub enum Action {
    /// Send a frame.
    Send {
        /// On this connection.
        connection: ConnectionId,
        /// With this session.
        session: u64,
        /// The frame.
        frame: Frame,
    },
    /// Close a connection after what was sent.
    Close {
        /// Its number.
        connection: ConnectionId,
        /// Why, for the log.
        why: String,
    },
    /// Do this on the disk, then report [`Event::Finished`].
    Start {
        /// Number of the job.
        job: JobId,
        /// An action for the caller.
        work: Disk,
    },
    /// Send fragments of one window to another agent, then report [`Event::Pushed`].
    Push {
        /// The task.
        task: TaskId,
        /// Address of the receiver.
        address: String,
        /// The fragments, at least one.
        fragments: Vec<Fragment>,
    },
    /// Forget what is open for a task.
    Forget {
        /// The task.
        task: TaskId,
    },
    /// Forget an open file or lock; nothing is reported.
    Drop {
        /// The slot to forget.
        slot: Slot,
    },
}

/// One operation of a [`kiln_store::Backend`].
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
        /// Its name.
        name: String,
    },
    /// Read.
    Read {
        /// The open file.
        slot: Slot,
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Open for appending.
    Append {
        /// The open file's number from now on.
        slot: Slot,
        /// Its name.
        name: String,
        /// Length to cut it to.
        at: u64,
    },
    /// Append.
    Write {
        /// The open file.
        slot: Slot,
        /// The bytes.
        bytes: Bytes,
    },
    /// Make a log and open it.
    CreateLog {
        /// The log's number from now on.
        slot: Slot,
        /// Its name.
        name: String,
        /// Its length in bytes.
        size: u64,
    },
    /// Write to a log.
    WriteAt {
        /// The log.
        slot: Slot,
        /// The first byte.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Take a log from its writer.
    CloseLog {
        /// Its name.
        name: String,
        /// Its name from now on.
        to: String,
        /// Even if its writer lives.
        force: bool,
    },
    /// Make appended bytes, or what was written to a log, durable.
    Sync {
        /// The open file.
        slot: Slot,
    },
    /// Rename.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Remove.
    Remove {
        /// Name.
        name: String,
    },
    /// See where a file's bytes are.
    Locate {
        /// Name.
        name: String,
    },
    /// Copy a file to where the place's bytes belong.
    CopyHome {
        /// Name.
        from: String,
        /// Name of the copy.
        to: String,
    },
    /// Open and compile what a task needs.
    Prepare {
        /// The task.
        task: TaskId,
        /// Its assignment.
        spec: Arc<Assignment>,
    },
    /// Read and verify the pieces of a window.
    Load {
        /// The task.
        task: TaskId,
        /// The window.
        window: u64,
    },
    /// Run the program of a round.
    Compute {
        /// The task.
        task: TaskId,
        /// The window.
        window: u64,
        /// The round, by rank.
        round: usize,
        /// Its inputs.
        inputs: Vec<Bytes>,
    },
    /// Keep what a round persists.
    Persist {
        /// The task.
        task: TaskId,
        /// The window.
        window: u64,
        /// The round, by rank.
        round: usize,
        /// The pieces.
        pieces: Vec<Bytes>,
    },
    /// Complete and verify what was written.
    Finish {
        /// The task.
        task: TaskId,
    },
    /// Put it in place.
    Commit {
        /// The task.
        task: TaskId,
    },
    /// See how much of an unfinished shard is sound.
    Resume {
        /// Name of the part.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskDone {
    /// A page of names.
    Names {
        /// The names, ascending.
        names: Vec<String>,
        /// Says whether there are more.
        more: bool,
    },
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
    Loaded {
        /// The window.
        window: u64,
        /// The pieces with their numbers.
        pieces: Vec<(u32, Bytes)>,
    },
    /// Pieces that a round computed.
    Computed {
        /// The window.
        window: u64,
        /// The pieces, in the round's order.
        made: Vec<Bytes>,
    },
    /// Something is kept.
    Persisted {
        /// The window.
        window: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The shards of a task are complete and verified.
    TaskFinished,
    /// Stripes of an unfinished shard that are sound.
    Resumed(u64),
    /// Says whether the lock was free (and is ours now).
    Locked(bool),
}
