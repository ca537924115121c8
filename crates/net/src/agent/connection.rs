//! State of one connection to an agent.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kiln_store::StoreError;
use kiln_store::names::{file_key, object_key};

use super::{ConnectionId, Disk, DiskDone, Limits, PeerInfo, Slot, TaskId, failure};
use crate::prefix::{CHANGES, REMEMBERED, Recent, files};
use crate::proto::{Frame, Message, PADDING_MAX, Priority, VERSION_LEAST};
use crate::{NetError, Result};

/// A request that is not answered yet.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub connection: ConnectionId,
    pub request: u64,
    pub priority: Priority,
    pub deadline: Option<Duration>,
    /// The handle it opens or writes to.
    pub handle: Option<u32>,
    /// The slot behind what it opens.
    pub slot: Option<Slot>,
    /// A lock that waits.
    pub wait: bool,
    /// The task that it is a job of; then no client waits for an answer.
    pub task: Option<TaskId>,
}

/// Something that changes the end of a file, or of its being open.
#[derive(Debug)]
pub(super) enum Write {
    Bytes { at: u64, bytes: Bytes },
    At { offset: u64, bytes: Bytes },
    Sync,
    Close,
}

impl Write {
    /// Returns the write to an open file, if the request is of this kind.
    pub fn of(frame: &Frame) -> Result<Option<(u32, Write)>> {
        let payload = &frame.payload;
        Ok(Some(match frame.message {
            Message::Write { handle, at } => (handle, Write::Bytes { at, bytes: payload.clone() }),
            Message::WriteAt { handle, offset } => {
                (handle, Write::At { offset, bytes: payload.clone() })
            }
            Message::WritePadded { handle, offset, zeros } => {
                let zeros = zeros as usize;
                if zeros > PADDING_MAX {
                    return Err(NetError::protocol("a write with too many zeros at its end"));
                }
                let mut bytes = BytesMut::with_capacity(payload.len() + zeros);
                bytes.extend_from_slice(payload);
                bytes.resize(payload.len() + zeros, 0);
                (handle, Write::At { offset, bytes: bytes.freeze() })
            }
            Message::Sync { handle } => (handle, Write::Sync),
            Message::Close { handle } => (handle, Write::Close),
            _ => return Ok(None),
        }))
    }
}

/// The next step of writes to a file.
#[derive(Debug)]
pub(super) enum Next {
    Disk(Disk),
    Answer(Message),
    /// Forget the slot; whether it is a lock.
    Drop(Slot, bool),
}

/// An open file or lock.
#[derive(Debug)]
pub(super) struct Handle {
    pub slot: Slot,
    /// The disk said that it is open.
    pub opened: bool,
    lock: bool,
    /// A log: what fails is told of each write and sync, and nothing is to follow.
    log: bool,
    name: String,
    /// Length, everything appended included.
    end: u64,
    /// An append failed, so that the end is unknown.
    broken: bool,
    busy: bool,
    writes: VecDeque<(Pending, Write)>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub session: u64,
    /// Bytes that its requests under way may carry or ask for.
    pub credit: u32,
    pub peer: PeerInfo,
    /// It has said `Hello`.
    pub ready: bool,
    /// The version of the protocol that is spoken then.
    pub version: u8,
    /// When it last said something.
    pub heard: Duration,
    pub handles: BTreeMap<u32, Handle>,
    /// Objects whose names were shown, where the peer's key is for some names only.
    shown: Recent<()>,
    next_handle: u32,
    last_request: u64,
    /// Requests whose replies are not sent, with the bytes they carry or ask for.
    under_way: BTreeMap<u64, u32>,
    credit_used: u64,
}

impl Connection {
    pub fn new(now: Duration, session: u64, credit: u32, peer: PeerInfo) -> Connection {
        Connection {
            session,
            credit,
            peer,
            ready: false,
            version: VERSION_LEAST,
            heard: now,
            handles: BTreeMap::new(),
            shown: Recent::of(REMEMBERED),
            next_handle: 1,
            last_request: 0,
            under_way: BTreeMap::new(),
            credit_used: 0,
        }
    }

    /// When it must have said something, or be closed.
    pub fn expires(&self, limits: &Limits) -> Duration {
        self.heard + if self.ready { limits.idle } else { limits.hello }
    }

    /// Counts a request, which must be new and within what the connection may have under way.
    pub fn admit(&mut self, frame: &Frame, limits: &Limits) -> Result<()> {
        if frame.id <= self.last_request {
            let what = format!("request {} after request {}", frame.id, self.last_request);
            return Err(NetError::protocol(what));
        }
        self.last_request = frame.id;
        if matches!(frame.message, Message::Cancel { .. }) {
            return Ok(());
        }
        let cost = match frame.message {
            Message::Read { len, .. } | Message::Fetch { max: len, .. } => len,
            _ => frame.payload.len() as u32,
        };
        let ping = matches!(frame.message, Message::Ping {});
        let many = self.under_way.len() >= limits.requests as usize && !ping;
        if many || self.credit_used + u64::from(cost) > u64::from(self.credit) {
            return Err(NetError::protocol("more requests or bytes under way than granted"));
        }
        if self.under_way.len() > 2 * limits.requests as usize {
            return Err(NetError::protocol("too many pings"));
        }
        self.credit_used += u64::from(cost);
        self.under_way.insert(frame.id, cost);
        Ok(())
    }

    /// Takes note of a name that is shown. Returns the answer to a request that the peer's key is
    /// not for.
    pub fn refusal(&mut self, message: &Message) -> Option<Message> {
        let rights = &self.peer.rights;
        if let Some(least) = rights.role.lacks(message) {
            return Some(failure::denied(rights.role, message.name(), least));
        }
        rights.prefix.as_ref()?;
        let may = match message {
            Message::Name { name } => {
                if rights.cover(name) {
                    self.shown.note(object_key(name), ());
                }
                rights.cover(name)
            }
            // Its length is needed to append to it.
            Message::Read { handle, .. } => {
                self.handles.get(handle).is_none_or(|open| open.name != CHANGES)
            }
            _ => files(message).is_some_and(|files| self.are_shown(files.into_iter())),
        };
        (!may).then(|| failure::outside(&self.peer.rights, message.name()))
    }

    /// Returns whether all of these files are of objects that the peer may use.
    pub fn are_shown<'a>(&self, mut files: impl Iterator<Item = &'a str>) -> bool {
        let is_shown = |file| file_key(file).is_some_and(|key| self.shown.get(&key).is_some());
        self.peer.rights.prefix.is_none() || files.all(is_shown)
    }

    /// The reply to a request is on its way: what it used is free again.
    pub fn settled(&mut self, request: u64) {
        if let Some(cost) = self.under_way.remove(&request) {
            self.credit_used -= u64::from(cost);
        }
    }

    /// Reserves a handle for what a request opens.
    pub fn open(&mut self, slot: Slot, message: Message) -> (u32, Disk) {
        let handle = self.next_handle;
        self.next_handle += 1;
        let lock = matches!(message, Message::Lock { .. });
        let log = matches!(message, Message::CreateLog { .. });
        let (name, end, disk) = match message {
            Message::Append { name, at } => {
                let whole = name == CHANGES && self.peer.rights.prefix.is_some();
                (name.clone(), at, Disk::Append { slot, name, at, whole })
            }
            Message::Open { name } => (name.clone(), 0, Disk::Open { slot, name }),
            Message::CreateLog { name, size } => {
                (name.clone(), 0, Disk::CreateLog { slot, name, size })
            }
            _ => (String::new(), 0, Disk::Lock { slot }),
        };
        let writes = VecDeque::new();
        let (opened, broken, busy) = (false, false, true);
        let new = Handle { slot, opened, lock, log, name, end, broken, busy, writes };
        self.handles.insert(handle, new);
        (handle, disk)
    }

    /// A handle for a name, which no disk has to open.
    pub fn name(&mut self, slot: Slot, name: &str) -> u32 {
        let handle = self.next_handle;
        self.next_handle += 1;
        let (lock, log, name, writes) = (false, false, name.to_owned(), VecDeque::new());
        let (opened, broken, busy, end) = (true, false, false, 0);
        let new = Handle { slot, opened, lock, log, name, end, broken, busy, writes };
        self.handles.insert(handle, new);
        handle
    }

    /// Returns whether it holds the lock of the place.
    pub fn holds_lock(&self) -> bool {
        self.handles.values().any(|open| open.lock && open.opened)
    }

    /// Queues a write, sync or close.
    pub fn write(&mut self, handle: u32, write: Write, pending: &mut Pending) -> Result<()> {
        let Some(open) = self.handles.get_mut(&handle) else {
            return Err(NetError::protocol("a write or close of nothing open"));
        };
        pending.handle = Some(handle);
        open.writes.push_back((pending.clone(), write));
        Ok(())
    }

    /// The next write of a file, unless one is under way.
    pub fn next_write(&mut self, handle: u32) -> Option<(Pending, Next)> {
        let open = self.handles.get_mut(&handle)?;
        if open.busy {
            return None;
        }
        let (pending, write) = open.writes.pop_front()?;
        let slot = open.slot;
        let next = match write {
            Write::Close => {
                let lock = open.lock;
                self.handles.remove(&handle);
                return Some((pending, Next::Drop(slot, lock)));
            }
            _ if open.broken => Next::Answer(failure::broken(&open.name)),
            Write::Bytes { at, .. } if at != open.end => {
                open.broken = true;
                Next::Answer(failure::misplaced(&open.name, at, open.end))
            }
            Write::Bytes { bytes, .. } => {
                open.end += bytes.len() as u64;
                Next::Disk(Disk::Write { slot, bytes })
            }
            Write::At { offset, bytes } => Next::Disk(Disk::WriteAt { slot, offset, bytes }),
            Write::Sync => Next::Disk(Disk::Sync { slot }),
        };
        open.busy = matches!(next, Next::Disk(_));
        Some((pending, next))
    }

    /// A job of this connection ended.
    pub fn finished(&mut self, pending: &Pending, outcome: &Result<DiskDone, StoreError>) {
        let Some(handle) = pending.handle else { return };
        let Some(open) = self.handles.get_mut(&handle) else { return };
        open.busy = false;
        match outcome {
            Ok(DiskDone::Opened { len }) => (open.opened, open.end) = (true, *len),
            Ok(DiskDone::Locked(true)) => open.opened = true,
            Ok(DiskDone::Locked(false)) => self.abandoned(pending),
            Ok(_) => {}
            Err(_) if open.opened => open.broken = !open.log,
            Err(_) => self.abandoned(pending),
        }
    }

    /// A request ended without being done: what it would have opened is not open; a write that
    /// was left out leaves the end of its file unknown.
    pub fn abandoned(&mut self, pending: &Pending) {
        let Some(handle) = pending.handle else { return };
        let Some(open) = self.handles.get_mut(&handle) else { return };
        open.busy = false;
        open.broken = true;
        if !open.opened {
            self.handles.remove(&handle);
        }
    }

    /// Everything open.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.handles.values().map(|open| open.slot)
    }
}
