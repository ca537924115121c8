//! A place of objects that is served as a place of files: what is being written lies in a folder
//! until it has its name.
//!
//! Object stores neither append nor rename, and whoever repairs needs both: shards are rebuilt part
//! by part, resumed after an interruption, and appear whole. An agent beside such a store keeps
//! those parts on a disk of its own and puts them when they are renamed.

use std::{convert::Infallible, sync::Arc};

use super::extensions::{BatchFiles, Extensions, PlaceInfo};
use super::open_file::{Append, ReadAt};
use super::{Backend, check_name, lock::WriteLock, move_file, upload::NewFile, write_whole};
use crate::capability::{Capabilities, Capability};
use crate::{Result, StoreError, in_parallel};

/// The object that says that a place is served: who writes there directly would not be seen by
/// those who write through whoever serves it, nor see them.
pub const SERVED_BY: &str = ".kiln-agent";
/// The file that says which place a folder has the parts of.
const PLACE: &str = ".kiln-place";
/// Longest of both, in bytes.
const MAX_TEXT: u64 = 8192;

/// Bytes that are read from a part, or from an object, at a time.
const PIECE: usize = 4 << 20;
/// Renames that are under way at once: each is a request, or several.
const AT_ONCE: usize = 16;

/// A place of objects with a folder for parts.
///
/// A name that begins with a dot is of a part: it stays in the folder. So does a file that is only
/// ever appended to (a pool's log of changes, a hint). Everything else gets its name by
/// [`Backend::rename`], which puts the object and then removes the part; a crash in between leaves
/// both, as it may leave any part. The lock is the store's.
#[derive(Debug)]
pub struct StagedBackend {
    store: Arc<dyn Backend>,
    parts: Arc<dyn Backend>,
    /// Held as long as the place is served.
    served: Option<WriteLock>,
}

impl StagedBackend {
    /// A place of objects ([`Capabilities::OBJECTS`]), and where its parts lie
    /// ([`Capabilities::FILES`]): a folder for this place alone, on a disk that lasts as long as
    /// the parts should.
    pub fn new(store: Arc<dyn Backend>, parts: Arc<dyn Backend>) -> Self {
        Self { store, parts, served: None }
    }

    /// As [`StagedBackend::new`], for who serves the place to others: from now on until this is
    /// dropped an object ([`SERVED_BY`]) says so to those who would write there directly. `who` is
    /// for them to read, `id` is kept where the folder is new. What `forgotten` names is removed
    /// from the folder: hints that hold only as long as nobody else writes.
    /// Errors: [`StoreError::BadPlace`]: somebody else serves it, and it is not to be taken over;
    /// the folder is of another place, or in use. Both places.
    pub fn serve(
        store: Arc<dyn Backend>,
        parts: Arc<dyn Backend>,
        who: &str,
        id: &str,
        take_over: bool,
        forgotten: &[&str],
    ) -> Result<Self> {
        let bad = |place: String, why: String| StoreError::BadPlace { place, why };
        let Some(lock) = parts.lock(false)? else {
            return Err(bad(parts.place(), "another program uses it".to_owned()));
        };
        let place = store.place();
        let id = match read_text(&*parts, PLACE)? {
            None => {
                write_whole(&*parts, PLACE, format!("{id}\n{place}").as_bytes())?;
                id.to_owned()
            }
            Some(text) => match text.split_once('\n') {
                Some((id, of)) if of == place => id.to_owned(),
                of => {
                    let of = of.map_or("nothing that is known", |(_, of)| of);
                    let why =
                        format!("it has the parts of {of}: name another folder, or remove it");
                    return Err(bad(parts.place(), why));
                }
            },
        };
        if let Some(text) = read_text(&*store, SERVED_BY)?.filter(|_| !take_over) {
            let (by, who) = text.split_once('\n').unwrap_or_default();
            if by != id {
                let why = format!(
                    "{who:?} serves it already; if that one is gone for good, say --take-over: \
                     what it had begun to write is done again"
                );
                return Err(bad(place, why));
            }
        }
        write_whole(&*store, SERVED_BY, format!("{id}\n{who}").as_bytes())?;
        forgotten.iter().try_for_each(|name| parts.remove(name))?;
        Ok(Self { store, parts, served: Some(lock) })
    }

    /// Returns the server of a place, if it is served.
    pub fn served_by(store: &dyn Backend) -> Result<Option<String>> {
        let text = read_text(store, SERVED_BY)?;
        Ok(text.map(|text| text.split_once('\n').map_or_else(String::new, |(_, who)| who.into())))
    }

    /// Returns whether a file of this name is in the folder.
    fn is_part(&self, name: &str) -> Result<bool> {
        match self.parts.open(name) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a part as an object.
    fn put(&self, part: &str, name: &str) -> Result<()> {
        let from = self.parts.open(part)?;
        let mut to = self.store.create(&NewFile::named(name))?;
        each_piece(&*from, from.len(), &mut |bytes| to.write(bytes))?;
        to.complete()
    }

    /// Takes the first bytes of an object into the folder, to be added to.
    fn take(&self, name: &str, bytes: u64) -> Result<()> {
        let from = self.store.open(name)?;
        if from.len() < bytes {
            let (place, name) = (self.place(), name.to_owned());
            return Err(StoreError::Truncated { place, name, need: bytes, have: from.len() });
        }
        // Under another name until it is whole: a file in the folder hides the object.
        let part = NewFile::named(name).part;
        let mut to = self.parts.append(&part, 0)?;
        each_piece(&*from, bytes, &mut |bytes| to.append(bytes))?;
        to.sync()?;
        drop(to);
        self.parts.rename(&part, name)
    }
}

impl Drop for StagedBackend {
    fn drop(&mut self) {
        // If it stays, whoever serves the place next knows it as its own.
        if self.served.is_some() {
            let _ = self.store.remove(SERVED_BY);
        }
    }
}

/// A short file, if it is there.
fn read_text(place: &dyn Backend, name: &str) -> Result<Option<String>> {
    let file = match place.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; file.len().min(MAX_TEXT) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn each_piece(file: &dyn ReadAt, len: u64, see: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut piece = vec![0; len.min(PIECE as u64) as usize];
    let mut at = 0;
    while at < len {
        let now = (len - at).min(PIECE as u64) as usize;
        file.read_at(at, &mut piece[..now])?;
        see(&piece[..now])?;
        at += now as u64;
    }
    Ok(())
}

/// Returns whether a name is one that nobody looks for before it is renamed.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

impl Backend for StagedBackend {
    fn place(&self) -> String {
        self.store.place()
    }

    fn capabilities(&self) -> Capabilities {
        let durable = Capabilities::of(&[Capability::Durable]);
        let both = [&self.store, &self.parts]
            .iter()
            .all(|place| durable.lacking(place.capabilities()).is_none());
        if both { Capabilities::FILES.and(&[Capability::Durable]) } else { Capabilities::FILES }
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = self.store.list()?;
        names.extend(self.parts.list()?);
        names.retain(|name| name != SERVED_BY && name != PLACE);
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        match self.parts.open(name) {
            Err(error) if error.is_not_found() => self.store.open(name),
            opened => opened,
        }
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        check_name(name)?;
        if at > 0 && !self.is_part(name)? {
            self.take(name, at)?;
        }
        self.parts.append(name, at)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let part = self.is_part(from)?;
        if part && (from == to || is_hidden(to)) {
            return self.parts.rename(from, to);
        }
        match part {
            true => self.put(from, to)?,
            false if from == to => drop(self.store.open(from)?),
            false => move_file(&*self.store, from, to)?,
        }
        // What had the name hid the object until now.
        self.parts.remove(to)?;
        if part { self.parts.remove(from) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> Result<()> {
        // The object first: a file in the folder may hide an older one.
        self.store.remove(name)?;
        self.parts.remove(name)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            batch: Some(self),
            locks: self.store.extensions().locks,
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl BatchFiles for StagedBackend {
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        self.parts.write_all(files)
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        let rename = |_, &(from, to): &(&str, &str)| Ok::<_, Infallible>(self.rename(from, to));
        in_parallel(AT_ONCE, names.iter().collect(), rename).unwrap_or_else(|never| match never {})
    }

    fn compact(&self) -> Result<u64> {
        self.parts.compact()
    }
}

impl PlaceInfo for StagedBackend {
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        match self.is_part(name)? {
            true => self.parts.modified(name),
            false => self.store.modified(name),
        }
    }

    fn io_counters(&self) -> (u64, u64) {
        self.store.io_counters()
    }
}
