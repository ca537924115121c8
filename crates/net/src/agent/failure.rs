//! Failures of storage as messages, and back.

use super::{PeerRole, Rights};
use crate::{NetError, proto::Message};
use kiln_store::{Operation, StoreError, check_name};
use std::io;

/// Kinds of failure on the wire. Numbers are for ever.
const OTHER: u8 = 0;
const NOT_FOUND: u8 = 1;
const FULL: u8 = 2;
const DENIED: u8 = 3;
const BAD_NAME: u8 = 4;
const TRUNCATED: u8 = 5;
const BUSY: u8 = 6;
const LATE: u8 = 7;
const CANCELLED: u8 = 8;
const MISUSE: u8 = 9;
const REFUSED: u8 = 10;
const GONE: u8 = 11;
const EXISTS: u8 = 12;
const FENCED: u8 = 13;
const IN_USE: u8 = 14;

/// The message that tells a failure of storage.
pub fn failed(error: &StoreError) -> Message {
    let (kind, op, name) = match error {
        StoreError::Io { op, name, source, .. } => {
            let kind = match source.kind() {
                _ if error.is_full() => FULL,
                io::ErrorKind::NotFound => NOT_FOUND,
                io::ErrorKind::PermissionDenied => DENIED,
                io::ErrorKind::AlreadyExists => EXISTS,
                _ if error.is_retryable() => BUSY,
                _ => OTHER,
            };
            (kind, op.verb(), name.as_str())
        }
        StoreError::BadName { name, .. } => (BAD_NAME, "use", name.as_str()),
        StoreError::Truncated { name, .. } => (TRUNCATED, "read", name.as_str()),
        StoreError::Misuse { op, name, .. } => (MISUSE, *op, name.as_str()),
        StoreError::Fenced { name, .. } => (FENCED, "sync", name.as_str()),
        StoreError::InUse { name, .. } => (IN_USE, "use", name.as_str()),
        _ => (OTHER, "use", ""),
    };
    let text = match error {
        StoreError::Io { source, .. } => source.to_string(),
        StoreError::InUse { holder, .. } => holder.clone().unwrap_or_default(),
        other => other.to_string(),
    };
    let (need, have) = match error {
        StoreError::Truncated { need, have, .. } => (*need, *have),
        _ => (0, 0),
    };
    Message::Failed { kind, op: op.into(), name: name.into(), text, need, have }
}

/// Returns a `Failed` as an error of the client that asked `what` of `place`, about the file
/// `name`.
pub fn store_error(message: Message, place: &str, what: &str, name: &str) -> NetError {
    let Message::Failed { kind, op, text, need, have, .. } = message else {
        return NetError::protocol(format!("{place} answered {what} by {}", message.name()));
    };
    let (place, name) = (place.to_owned(), name.to_owned());
    let op = Operation::of_verb(&op).unwrap_or(Operation::Use);
    let io_kind = match kind {
        TRUNCATED => return StoreError::Truncated { place, name, need, have }.into(),
        BAD_NAME => {
            let known = check_name(&name).err();
            let other = StoreError::BadName { name, why: "the agent refuses it" };
            return known.unwrap_or(other).into();
        }
        MISUSE => return StoreError::Misuse { op: op.verb(), name, what: text }.into(),
        FENCED => return StoreError::Fenced { place, name }.into(),
        IN_USE => {
            let holder = Some(text).filter(|text| !text.is_empty());
            return StoreError::InUse { place, name, holder }.into();
        }
        LATE | CANCELLED => {
            return NetError::GaveUp { what: what.to_owned(), place, why: text };
        }
        REFUSED => return NetError::Refused { place, why: text },
        NOT_FOUND => io::ErrorKind::NotFound,
        FULL => io::ErrorKind::StorageFull,
        DENIED => io::ErrorKind::PermissionDenied,
        EXISTS => io::ErrorKind::AlreadyExists,
        BUSY => io::ErrorKind::ResourceBusy,
        _ => io::ErrorKind::Other,
    };
    StoreError::Io { op, place, name, source: io::Error::new(io_kind, text) }.into()
}

fn plain(kind: u8, text: &str) -> Message {
    let (op, name, text) = ("use".to_owned(), String::new(), text.to_owned());
    Message::Failed { kind, op, name, text, need: 0, have: 0 }
}

/// The refusal of a request, or of a connection.
pub(crate) fn refused(why: &str) -> Message {
    plain(REFUSED, why)
}

/// The answer to a request that a peer of this role may not make.
pub(super) fn denied(role: PeerRole, what: &str, least: PeerRole) -> Message {
    let why = format!(
        "a key of the role {role} may not ask for {what}; that needs a key of the role {least}"
    );
    plain(DENIED, &why)
}

/// The answer to a request about what is not known to be of a limited key's objects.
pub(super) fn outside(rights: &Rights, what: &str) -> Message {
    plain(DENIED, &format!("a key of the role {rights} may not ask for {what} of anything else"))
}

pub(super) fn busy(why: &str) -> Message {
    plain(BUSY, why)
}

pub(super) fn late() -> Message {
    plain(LATE, "its time was up before it could be begun")
}

pub(super) fn cancelled() -> Message {
    plain(CANCELLED, "it was cancelled")
}

/// A request about a task that is not here (any more).
pub(super) fn gone() -> Message {
    plain(GONE, "there is no such task here")
}

/// A write after one that failed.
pub(super) fn broken(name: &str) -> Message {
    plain(MISUSE, &format!("an earlier write to {name:?} failed; open it again"))
}

/// A write that does not continue the file.
pub(super) fn misplaced(name: &str, at: u64, end: u64) -> Message {
    plain(MISUSE, &format!("a write at {at} of {name:?}, which ends at {end}"))
}
