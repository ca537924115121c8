//! The one enum of messages. To add one: a row here, with the next number; numbers are for ever.

use super::assignment::{FragmentHeader, Geometry};
use super::field::{Field, Reader, TaskState};
use crate::{NetError, Result};
use kiln_store::Located;

/// The side of a connection that may send it. The side that connected asks, the other one replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Request,
    /// The side that was connected to.
    Reply,
}

macro_rules! messages {
    ($($(#[doc = $doc:literal])* $number:literal $role:ident $name:ident {
        $($(#[doc = $field_doc:literal])* $field:ident: $type:ty),* $(,)?
    })*) => {
        /// A message of the protocol.
        #[allow(missing_docs)] // of fields that their names describe
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Message {
            $($(#[doc = $doc])* $name { $($(#[doc = $field_doc])* $field: $type,)* },)*
        }

        impl Message {
            /// Its number on the wire.
            pub fn kind(&self) -> u16 {
                match self { $(Self::$name { .. } => $number,)* }
            }

            /// Its name, for messages and logs.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name { .. } => stringify!($name),)* }
            }

            /// Returns the side that may send it.
            pub fn role(&self) -> Role {
                match self { $(Self::$name { .. } => Role::$role,)* }
            }

            /// The version of the protocol in which it came.
            pub fn since(&self) -> u8 {
                match self {
                    Self::Name { .. } => 7,
                    Self::Reads {} | Self::ReadsUpTo { .. } => 6,
                    Self::WritePadded { .. } => 5,
                    Self::Locate { .. } | Self::Located { .. } | Self::CopyHome { .. } => 4,
                    Self::CreateLog { .. } | Self::WriteAt { .. } | Self::CloseLog { .. } => 3,
                    Self::Claim { .. } | Self::Held { .. } => 2,
                    Self::Space {} | Self::Room { .. } => 2,
                    _ => 1,
                }
            }

            /// Appends the fields.
            pub(super) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field,)* } => { $(Field::put($field, out);)* let _ = out; })*
                }
            }

            /// Reads the fields of the message with this number.
            pub(super) fn take(kind: u16, reader: &mut Reader<'_>) -> Result<Self> {
                match kind {
                    $($number => {
                        let _ = &reader;
                        Ok(Self::$name { $($field: Field::take(reader)?,)* })
                    })*
                    _ => Err(NetError::protocol(format!("message {kind} is unknown"))),
                }
            }
        }

        /// Name and number of every message, for tests and documentation.
        pub static MESSAGES: &[(u16, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

messages! {
    /// The first frame of a connection, with request number 0 and session 0.
    1 Request Hello {
        /// The lowest version spoken.
        lowest: u8,
        /// The highest version spoken.
        highest: u8,
        /// Name of the place that is meant; empty: whichever is there.
        place: String,
    }
    /// The answer to `Hello`, still with session 0; all later frames use the session it names.
    2 Reply Welcome {
        /// The version that is spoken from here on.
        version: u8,
        /// Name of the place.
        place: String,
        /// A number drawn for this connection.
        session: u64,
        /// Requests that may be under way at once.
        requests: u32,
        /// Bytes that requests under way may carry or ask for together: the credit.
        credit: u32,
    }
    /// Asks for the names of the files, after a name (empty: from the first on).
    3 Request List {
        /// The last name that is known already.
        after: String,
    }
    /// A page of names, ascending.
    4 Reply Names {
        names: Vec<String>,
        /// Says whether there are more.
        more: bool,
    }
    /// Opens a file for reading.
    5 Request Open { name: String }
    /// Reads from an open file.
    6 Request Read {
        handle: u32,
        offset: u64,
        /// Bytes wanted, at most the largest payload.
        len: u32,
    }
    /// Bytes of a file, as payload.
    7 Reply Data {}
    /// Opens a file for appending, as the contract of backends says.
    8 Request Append {
        name: String,
        /// Length to which it is cut.
        at: u64,
    }
    /// Something is open, until it is closed or the connection ends.
    9 Reply Opened {
        /// The number by which later requests of this connection name it.
        handle: u32,
        len: u64,
    }
    /// Appends the payload. Writes to one handle are done in the order in which they arrive.
    10 Request Write {
        handle: u32,
        /// Its length before; a write that does not fit the end is refused.
        at: u64,
    }
    /// Makes all bytes appended so far durable.
    11 Request Sync { handle: u32 }
    /// Closes a file, or gives a lock back.
    12 Request Close { handle: u32 }
    /// Renames a file, durably.
    13 Request Rename { from: String, to: String }
    /// Removes a file, durably.
    14 Request Remove { name: String }
    /// Locks the place against other writers; answered by `Opened` or, without `wait`, `Busy`
    /// (from version 2 on `Held`).
    15 Request Lock {
        /// Says whether to wait until it is free.
        wait: bool,
    }
    /// Another one holds the lock.
    16 Reply Busy {}
    /// It is done.
    17 Reply Done {}
    /// It was not done.
    18 Reply Failed {
        /// Kind of the failure, see `docs/reference/formats.md`.
        kind: u8,
        /// The operation that failed, as a verb.
        op: String,
        name: String,
        /// The reason, for people.
        text: String,
        /// Bytes needed, for a file that is too short.
        need: u64,
        /// Bytes there are.
        have: u64,
    }
    /// The reply to a request is no longer wanted. Has no reply of its own; the request is still
    /// answered, by `Failed` or by what was done before this came.
    19 Request Cancel { request: u64 }
    /// Is anybody there?
    20 Request Ping {}
    /// A piece of a node's share of a placed repair, as payload, from byte `at` of `total` on;
    /// pieces come in order.
    21 Request Assign { task: [u8; 16], at: u64, total: u64 }
    /// Begins a task that is assigned.
    22 Request Start { task: [u8; 16] }
    /// A piece of the plan of `total` bytes, or a part of one from byte `at` on, as payload;
    /// answered by `Taken`. Without payload it asks for room: it is answered when there is some
    /// for its window, or after a while.
    23 Request Push { task: [u8; 16], window: u64, piece: u32, at: u32, total: u32 }
    /// Asks how far a task is; answered when it has ended, or after a while.
    24 Request Watch {
        task: [u8; 16],
        /// Windows done, as known.
        seen: u64,
        /// Milliseconds to wait, at most two seconds.
        wait_ms: u32,
    }
    /// The progress of a task.
    25 Reply Progress {
        state: TaskState,
        done: u64,
        total: u64,
        read: u64,
        sent: u64,
        received: u64,
        /// Bytes of rebuilt chunks kept.
        written: u64,
        text: String,
        /// The node that could not be reached.
        peer: Option<u32>,
        chunk: Option<u32>,
        /// The stripe in which it is damaged.
        stripe: u64,
        /// Says whether the lowest window that is not done waits for pieces of other nodes.
        waits: bool,
    }
    /// Puts the verified result of a task in place.
    26 Request Commit { task: [u8; 16] }
    /// Forgets a task.
    27 Request Abort { task: [u8; 16] }
    /// Changes a task's limit of bytes a second (0: none).
    28 Request Throttle {
        task: [u8; 16],
        /// Bytes a second.
        rate: u64,
    }
    /// Asks how much of an unfinished shard is sound, so that its repair can go on there. Tasks
    /// that still write it are ended first.
    29 Request Resume {
        /// Name of the part.
        part: String,
        chunk: u32,
        /// The header that it must have.
        geometry: Box<Geometry>,
    }
    /// The sound part of a shard.
    30 Reply Resumed {
        /// Stripes from the start, in whole segments, read and verified.
        stripes: u64,
    }
    /// Several pieces of a window, or parts of them, one after the other as payload; answered by
    /// `Taken`. Small pieces would else cost more frames and answers than they are worth.
    31 Request Bundle {
        task: [u8; 16],
        window: u64,
        /// Fragments of the payload, in its order; together as long as the payload.
        headers: Vec<FragmentHeader>,
    }
    /// The fragments were taken, if there were any.
    32 Reply Taken {
        /// There is room for the pieces of windows below this one.
        upto: u64,
    }
    /// Asks for pieces that a task has for a node that cannot be sent to: a reader of a lost chunk,
    /// which no agent could connect to. Answered when there is something for it, or after a second.
    33 Request Fetch {
        task: [u8; 16],
        /// Only windows below this one; a later and larger number holds for questions that still
        /// wait too.
        below: u64,
        /// Bytes wanted: at least a fragment's 64 KiB, at most the largest payload.
        max: u32,
    }
    /// Pieces of one window, or parts of them, one after the other as payload; nothing when there
    /// is none yet. They are not sent again.
    34 Reply Fetched {
        window: u64,
        /// Fragments of the payload, in its order; together as long as the payload.
        headers: Vec<FragmentHeader>,
    }
    /// Takes a name for as long as the connection lasts, or until it is closed: for what only one
    /// may do at a time. Answered by `Opened` or `Held`.
    35 Request Claim {
        name: String,
        /// Drawn at random by who claims, so that on a new connection it gets the name again
        /// although the end of its old one is not known yet.
        claimant: [u8; 16],
        /// The claimant, for people.
        by: String,
    }
    /// Another one has the name, or the lock.
    36 Reply Held {
        /// The holder, for people.
        by: String,
    }
    /// Asks how much room the place has.
    37 Request Space {}
    /// Its room.
    38 Reply Room {
        /// Says whether the place can tell; the numbers are 0 if not.
        known: bool,
        /// Bytes in all.
        total: u64,
        /// Bytes that can still be written.
        free: u64,
    }
    /// Makes a log: a file of `size` bytes that this connection writes in place, until the
    /// connection ends or another client closes it.
    39 Request CreateLog { name: String, size: u64 }
    /// Writes the payload at an offset of a log. Writes and syncs of one handle are done in the
    /// order in which they arrive.
    40 Request WriteAt { handle: u32, offset: u64 }
    /// Takes a log from its writer, whose syncs fail from then on.
    41 Request CloseLog {
        name: String,
        /// Its name from now on.
        to: String,
        /// Even if its writer lives.
        force: bool,
    }
    /// Asks where a file's bytes are, for places whose server may move them without being asked.
    42 Request Locate { name: String }
    /// Their location.
    43 Reply Located {
        /// 0: no server of this place moves files; 1: where they belong; 2: elsewhere.
        kind: u8,
        /// Elsewhere: where, in the server's words.
        at: String,
    }
    /// Copies a file to a new name, its bytes where the place's belong, and reads the copy back.
    44 Request CopyHome {
        from: String,
        /// Name of the copy.
        to: String,
    }
    /// As `WriteAt`, with zeros after the payload, which need not travel.
    45 Request WritePadded {
        handle: u32,
        offset: u64,
        /// Number of zeros, at most [`PADDING_MAX`](super::PADDING_MAX).
        zeros: u32,
    }
    /// Asks which descriptions of pools the agent's release reads.
    46 Request Reads {}
    /// Tells that.
    47 Reply ReadsUpTo {
        /// The latest version of them.
        version: u32,
    }
    /// Shows the name of an object, or of a kept version, whose files the client is about to use:
    /// one with a key for names that begin with a prefix may use no others. It holds for the
    /// connection, as one of the last 2048 at least.
    48 Request Name { name: String }
}

impl Message {
    /// The answer that tells where a file's bytes are.
    pub(crate) fn located(found: Located) -> Message {
        let (kind, at) = match found {
            Located::Unmanaged => (0, String::new()),
            Located::Here => (1, String::new()),
            Located::Away(at) => (2, at),
        };
        Message::Located { kind, at }
    }

    /// Returns the location in such an answer; `None`: another message, or an unknown kind.
    pub(crate) fn locality(&self) -> Option<Located> {
        match self {
            Message::Located { kind: 0, .. } => Some(Located::Unmanaged),
            Message::Located { kind: 1, .. } => Some(Located::Here),
            Message::Located { kind: 2, at } => Some(Located::Away(at.clone())),
            _ => None,
        }
    }
}
