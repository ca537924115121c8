//! The log of changes on every node: which objects were touched, so that an index elsewhere can
//! follow without looking at everything. It is a hint only: never synced, cut at will.

use crate::Key;
use kiln_store::{Backend, Capability, write_whole};
use kiln_stripe::{Result, names::CHANGES as LOG};

/// Bytes of a record: the object's key and a mark that no other record has.
const RECORD: u64 = 32;
/// Beyond this the log starts anew.
const MAX_LOG: u64 = 1 << 20;
/// The same where every change writes all of it.
const MAX_WHOLE: u64 = 16 << 10;

/// Tries to read a log that others write.
const READS: u32 = 3;

/// A place in a log: everything before it is known.
///
/// The mark of the last record tells a log that grew from one that was cut and grew again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Bytes.
    pub len: u64,
    /// The last record before; zeros when there is none.
    pub last: [u8; 32],
}

impl Position {
    pub(crate) fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..].copy_from_slice(&self.last);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Position> {
        let (len, last) = bytes.split_at_checked(8)?;
        let len = u64::from_le_bytes(len.try_into().ok()?);
        Some(Position { len, last: last.try_into().ok()? })
    }
}

/// Notes that objects changed: their keys, and marks that no other change has. Failures are of no
/// consequence beyond a slower index.
pub(crate) fn note(store: &dyn Backend, changes: &[(Key, [u8; 16])]) {
    let records: Vec<u8> =
        changes.iter().flat_map(|(key, mark)| [key.0, *mark]).flatten().collect();
    let len = store.open(LOG).map_or(0, |file| file.len());
    let whole = len - len % RECORD;
    if !store.capabilities().has(Capability::Append) {
        note_whole(store, whole.min(len), records);
        return;
    }
    let at = if whole + records.len() as u64 > MAX_LOG { 0 } else { whole };
    if let Ok(mut file) = store.append(LOG, at) {
        let _ = file.append(&records);
    }
}

/// As [`note`], where nothing can be appended: the log is written whole, and starts anew sooner.
fn note_whole(store: &dyn Backend, len: u64, records: Vec<u8>) {
    let keep = if len + records.len() as u64 > MAX_WHOLE { 0 } else { len };
    let mut log = vec![0; keep as usize];
    let read = store.open(LOG).and_then(|file| file.read_at(0, &mut log));
    if read.is_err() {
        log.clear();
    }
    log.extend(records);
    let _ = write_whole(store, LOG, &log);
}

/// The end of the log, and the keys noted since `known`; `None` for the keys when they cannot be
/// told.
pub(crate) fn since(store: &dyn Backend, known: &Position) -> Result<(Position, Option<Vec<Key>>)> {
    let Some(bytes) = read(store)? else {
        let same = *known == Position::default();
        return Ok((Position::default(), same.then(Vec::new)));
    };
    let len = bytes.len() as u64;
    let last_before = |len: u64| {
        let mut last = [0; 32];
        if len > 0 {
            last.copy_from_slice(&bytes[(len - RECORD) as usize..len as usize]);
        }
        last
    };
    let end = Position { len, last: last_before(len) };
    let grown = known.len <= len
        && known.len.is_multiple_of(RECORD)
        && last_before(known.len) == known.last;
    let keys = grown.then(|| {
        let records = bytes[known.len as usize..].chunks_exact(RECORD as usize);
        let mut keys: Vec<Key> =
            records.map(|record| Key(std::array::from_fn(|at| record[at]))).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    });
    Ok((end, keys))
}

/// All whole records; `None`: there is no log. Where places write it whole, a writer may do so
/// between the look at it and the read of it.
fn read(store: &dyn Backend) -> Result<Option<Vec<u8>>> {
    let mut left = READS;
    loop {
        let file = match store.open(LOG) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; (file.len() - file.len() % RECORD).min(MAX_LOG + RECORD) as usize];
        left -= 1;
        match file.read_at(0, &mut bytes) {
            Ok(()) => return Ok(Some(bytes)),
            Err(_) if left > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_store::MemoryBackend;

    #[test]
    fn a_log_tells_what_is_new_or_that_it_cannot_tell() {
        let disk = MemoryBackend::new();
        let (start, keys) = since(&disk, &Position::default()).unwrap();
        assert_eq!(keys, Some(vec![]));
        note(&disk, &[(Key([2; 16]), [1; 16])]);
        note(&disk, &[(Key([1; 16]), [2; 16])]);
        note(&disk, &[(Key([2; 16]), [3; 16])]);
        let (end, keys) = since(&disk, &start).unwrap();
        assert_eq!(keys, Some(vec![Key([1; 16]), Key([2; 16])]));
        assert_eq!(since(&disk, &end).unwrap(), (end, Some(vec![])));
        // Cut and grown to the same length by others: the mark tells.
        disk.put(LOG, Vec::new());
        for mark in [7, 8, 9] {
            note(&disk, &[(Key([5; 16]), [mark; 16])]);
        }
        let (again, keys) = since(&disk, &end).unwrap();
        assert_eq!((again.len, keys), (end.len, None));
        // A record cut short by a crash is written over.
        let mut bytes = disk.bytes(LOG).unwrap();
        bytes.truncate(70);
        disk.put(LOG, bytes);
        note(&disk, &[(Key([6; 16]), [4; 16])]);
        assert_eq!(disk.bytes(LOG).unwrap().len(), 96);
        assert_eq!(since(&disk, &start).unwrap().1, Some(vec![Key([5; 16]), Key([6; 16])]));
    }

    #[test]
    fn a_long_log_starts_anew() {
        let disk = MemoryBackend::new();
        disk.put(LOG, vec![1; MAX_LOG as usize]);
        let (full, _) = since(&disk, &Position::default()).unwrap();
        note(&disk, &[(Key([3; 16]), [1; 16])]);
        assert_eq!(disk.bytes(LOG).unwrap().len(), 32);
        assert_eq!(since(&disk, &full).unwrap().1, None);
        // Of several changes none is cut off.
        disk.put(LOG, vec![1; (MAX_LOG - 2 * RECORD) as usize]);
        note(&disk, &[1, 2, 3].map(|at| (Key([at; 16]), [at; 16])));
        assert_eq!(disk.bytes(LOG).unwrap().len(), 96);
    }
}
