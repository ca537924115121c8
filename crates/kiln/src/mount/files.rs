//! Open files: versions that are read, and files that are gathered to be put whole.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, read_to_string, remove_file};
use std::io::Seek;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::{ops::Range, sync::Arc, time::Instant};

use fuser::Errno;
use kiln_folders::Folders;
use kiln_pool::{GetRequest, OpenObject, Over, PutRequest};
use kiln_stripe::{PoolError, StreamSource};
use parking_lot::{Mutex, RwLock};

use super::refusal::{Refusal, Result, refuse};
use super::{Kind, Mount, Node, Source};
use crate::setup::{fresh_run, now_ms};
use crate::transfer::attributes::{About, time_now};
use crate::{print::warning_line, transfer::pool_tree::Listing};

/// Bytes that are read ahead for a reader that goes on.
const AHEAD: u64 = 4 << 20;
/// Bytes that files which are being written leave to others.
const RESERVE: u64 = 64 << 20;

/// A file that is open so many times.
#[derive(Default)]
pub struct OpenFile {
    opens: u64,
    reader: Option<Arc<Mutex<Reader>>>,
    draft: Option<Arc<Draft>>,
}

/// A version of an object that is read.
struct Reader {
    name: String,
    object: OpenObject,
    inline: Option<Vec<u8>>,
    /// End of the last read, and bytes that were read from some place on.
    next: u64,
    ahead: (u64, Vec<u8>),
}

/// A file that is being written.
pub struct Draft {
    part: File,
    /// Held by writers together, and alone by a put and by those who take its name away.
    pub still: RwLock<()>,
    pub state: Mutex<State>,
}

/// State of a file that is being written.
#[derive(Clone)]
pub struct State {
    dirty: bool,
    /// `None`: it was removed.
    pub name: Option<String>,
    pub about: About,
    pub over: Over,
    /// The object, once it was put.
    pub put: Option<Listing>,
    /// Processes that opened or wrote it. One that starts another program closes the copies of its
    /// files there: the file is not whole then.
    writers: BTreeSet<String>,
}

/// Returns the process of a thread; `None`: it is not seen from here.
fn process_of(thread: u32) -> Option<String> {
    let status = read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find(|line| line.starts_with("Tgid:")).map(str::to_owned)
}

/// Returns an object as names list it.
fn listing(object: &OpenObject) -> Listing {
    let found = object.manifest();
    Listing::new(found.size, found.version, found.created_ms)
}

impl Draft {
    /// Returns it as it is shown.
    pub fn node(&self) -> Result<Node> {
        let State { put, about, .. } = self.state.lock().clone();
        let object = Listing { bytes: self.part.metadata()?.len(), ..put.unwrap_or_default() };
        Ok(Node { kind: Kind::File, object, about })
    }

    /// A thread opened or writes it.
    pub fn written_by(&self, thread: u32) {
        self.state.lock().writers.extend(process_of(thread));
    }

    /// Changes its bytes.
    fn change(&self, more: u64, change: impl FnOnce(&File) -> std::io::Result<()>) -> Result {
        let _writes = self.still.read();
        let free = rustix::fs::fstatvfs(&self.part).map_err(std::io::Error::from)?;
        let least = RESERVE.min(free.f_blocks.saturating_mul(free.f_frsize) / 16);
        if free.f_bavail.saturating_mul(free.f_frsize) < more.saturating_add(least) {
            return refuse(Errno::ENOSPC);
        }
        change(&self.part)?;
        let mut state = self.state.lock();
        (state.dirty, state.about.time) = (true, time_now());
        Ok(())
    }
}

impl Mount {
    /// Begins a file, with nothing in it.
    fn draft(&self, name: &str, about: About, over: Over) -> Result<Draft> {
        let path = self.parts.join(format!(".kiln-{}", uuid::Uuid::new_v4().simple()));
        let mut options = OpenOptions::new();
        let part = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        // Its name is of no use: it goes with this process.
        remove_file(&path)?;
        let (name, writers) = (Some(name.to_owned()), BTreeSet::new());
        let state = State { dirty: true, name, about, over, put: None, writers };
        Ok(Draft { part, still: RwLock::new(()), state: Mutex::new(state) })
    }

    /// Begins a file; the number has it from now on, unless another thread was quicker.
    pub fn begin(&self, number: u64, name: &str, about: About, over: Over) -> Result<Arc<Draft>> {
        Ok(self.adopt(number, self.draft(name, about, over)?))
    }

    fn adopt(&self, number: u64, draft: Draft) -> Arc<Draft> {
        let mut files = self.files.lock();
        files.entry(number).or_default().draft.get_or_insert_with(|| Arc::new(draft)).clone()
    }

    /// Returns a file that is being written.
    pub fn drafted(&self, number: u64) -> Option<Arc<Draft>> {
        self.files.lock().get(&number)?.draft.clone()
    }

    /// Files that are being written, of a name or below it.
    pub fn drafts_at(&self, name: &str) -> Vec<(u64, Arc<Draft>)> {
        let files = self.files.lock();
        let all = files.iter().filter_map(|(at, file)| Some((*at, file.draft.clone()?)));
        let is_there = |draft: &Draft| {
            let of = draft.state.lock().name.clone();
            let inside = of.as_ref().and_then(|of| of.strip_prefix(name));
            inside.is_some_and(|rest| name.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        all.filter(|(_, draft)| is_there(draft)).collect()
    }

    /// Counts one more that has a file open.
    pub fn opened(&self, number: u64) {
        self.files.lock().entry(number).or_default().opens += 1;
    }

    /// Opens a file; `truncate`: to write it anew.
    pub fn open(&self, number: u64, truncate: bool, thread: u32) -> Result {
        self.opened(number); // first: what is open is not forgotten by one who closes it now
        let found = self.open_counted(number, truncate, thread);
        if found.is_err() {
            self.close(number)?;
        }
        found
    }

    fn open_counted(&self, number: u64, truncate: bool, thread: u32) -> Result {
        let name = self.name(number)?;
        let draft = match (self.drafted(number), truncate) {
            (None, true) => Some(self.begin(number, &name, self.look(&name)?.about, None)?),
            (draft, _) => draft,
        };
        match draft {
            Some(draft) => {
                draft.written_by(thread);
                if truncate {
                    draft.change(0, |part| part.set_len(0))?;
                }
            }
            None => {
                let reader = Arc::new(Mutex::new(self.reader(number, name)?));
                self.files.lock().entry(number).or_default().reader.get_or_insert(reader);
            }
        }
        Ok(())
    }

    /// Opens the version of an object that a number is of.
    fn reader(&self, number: u64, name: String) -> Result<Reader> {
        let past = match &self.names {
            Source::Now { .. } => None,
            Source::Then(tree) => tree.objects.get(&name).and_then(|one| one.past.clone()),
        };
        let name = past.clone().unwrap_or(name);
        let (object, inline) = self.with(|pool| {
            let object = pool.open_object(&name)?;
            let inline = pool.reader().inline(object.manifest())?;
            Ok((object, inline))
        })?;
        let of = (0, object.size(), object.manifest().created_ms);
        if past.is_none() && self.inodes.lock().identity(number) != Some(of) {
            self.changed();
            self.corrected.lock().insert(name, (Instant::now(), listing(&object)));
            return refuse(Errno::ESTALE); // the kernel looks the name up again
        }
        Ok(Reader { name, object, inline, next: 0, ahead: (0, Vec::new()) })
    }

    /// Returns the version that a number is read as, where it is open.
    pub fn read_as(&self, number: u64) -> Option<Listing> {
        let reader = self.files.lock().get(&number)?.reader.clone()?;
        Some(listing(&reader.lock().object))
    }

    /// Reads a range; it may lie beyond the end.
    pub fn read(&self, number: u64, at: u64, bytes: u64) -> Result<Vec<u8>> {
        if let Some(draft) = self.drafted(number) {
            let bytes = bytes.min(draft.part.metadata()?.len().saturating_sub(at));
            let mut read = vec![0; bytes as usize];
            draft.part.read_exact_at(&mut read, at)?;
            return Ok(read);
        }
        let reader = self.files.lock().get(&number).and_then(|file| file.reader.clone());
        let reader = reader.ok_or(Refusal(Errno::EBADF))?;
        let mut reader = reader.lock();
        let size = reader.object.size();
        let range = at.min(size)..at.saturating_add(bytes).min(size);
        let cut = |from: u64, all: &[u8]| {
            let start = range.start.checked_sub(from)? as usize;
            Some(all.get(start..start + (range.end - range.start) as usize)?.to_vec())
        };
        let goes_on = at > 0 && at == std::mem::replace(&mut reader.next, range.end);
        let known = match &reader.inline {
            Some(all) => cut(0, all),
            None => cut(reader.ahead.0, &reader.ahead.1),
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let ahead = if goes_on { range.start.saturating_add(AHEAD).min(size) } else { 0 };
        let read = self.fetch(&mut reader, range.start..range.end.max(ahead))?;
        let wanted = cut(range.start, &read).ok_or(Refusal(Errno::EIO))?;
        reader.ahead = (range.start, read);
        Ok(wanted)
    }

    /// Reads bytes of the version that was opened, wherever its shards are now.
    fn fetch(&self, reader: &mut Reader, range: Range<u64>) -> Result<Vec<u8>> {
        let settings = self.settings();
        if let Ok(read) = reader.object.read_known(&self.pool(), range.clone(), &settings) {
            return Ok(read);
        }
        let now = self.with(|pool| pool.open_object(&reader.name))?;
        let (old, new) = (reader.object.manifest(), now.manifest());
        if (old.size, old.created_ms) != (new.size, new.created_ms) {
            return refuse(Errno::ESTALE);
        }
        let read = self.with(|pool| now.read_known(pool, range.clone(), &settings))?;
        reader.object = now;
        Ok(read)
    }

    /// Returns the file of a number, to be written; the object's content is copied first.
    fn to_write(&self, number: u64) -> Result<Arc<Draft>> {
        if let Some(draft) = self.drafted(number) {
            return Ok(draft);
        }
        let name = self.name(number)?;
        let node = self.look(&name)?;
        let manifest = self.with(|pool| pool.manifest(&name))?;
        let draft = self.draft(&name, node.about, Some(Some(manifest.run)))?;
        draft.change(manifest.size, |_| Ok(()))?;
        self.with(|pool| {
            let (mut part, req) = (&draft.part, GetRequest { name: &name, range: None });
            let empty = part.set_len(0).and_then(|()| part.rewind());
            empty.map_err(|source| PoolError::Output { source })?;
            pool.get(&req, &mut part, &self.settings()).map(drop)
        })?;
        draft.state.lock().put = Some(node.object);
        Ok(self.adopt(number, draft))
    }

    /// Writes bytes of a file that is open.
    pub fn write_at(&self, number: u64, at: u64, bytes: &[u8], thread: u32) -> Result {
        let draft = self.to_write(number)?;
        draft.written_by(thread);
        draft.change(bytes.len() as u64, |part| part.write_all_at(bytes, at))
    }

    /// Gives a file another length; one that is not open is put at once.
    pub fn resize(&self, number: u64, bytes: u64) -> Result {
        if bytes == 0 && self.drafted(number).is_none() {
            let name = self.name(number)?;
            self.begin(number, &name, self.look(&name)?.about, None)?;
        }
        self.to_write(number)?.change(0, |part| part.set_len(bytes))?;
        self.close_unused(number)
    }

    /// As [`Mount::store`], where one of those that wrote the file closes it.
    pub fn closed_by(&self, number: u64, thread: u32) -> Result {
        let Some(draft) = self.drafted(number) else { return Ok(()) };
        let wrote = |process: String| draft.state.lock().writers.contains(&process);
        if process_of(thread).is_none_or(wrote) { self.store(number) } else { Ok(()) }
    }

    /// Puts a file if it was written since; it is durable then.
    pub fn store(&self, number: u64) -> Result {
        let Some(draft) = self.drafted(number) else { return Ok(()) };
        let _still = draft.still.write();
        let State { name, dirty, over, .. } = draft.state.lock().clone();
        let (Some(name), true) = (name, dirty) else { return Ok(()) };
        let (run, bytes) = (fresh_run(), draft.part.metadata()?.len());
        let put = self.with(|pool| {
            let req = PutRequest { name: &name, run, now_ms: now_ms(), replace: true };
            let (folders, settings) = (Folders(pool), self.settings());
            let way = folders.look(&name)?;
            folders.make_way(&req, &way, &|| None)?;
            let mut part = &draft.part;
            part.rewind().map_err(|source| PoolError::Input { source })?;
            let mut source = StreamSource::new(part).with_size(bytes);
            match over {
                None => folders.put(&req, &way, &mut source, &settings),
                Some(over) => pool.writer().put_over(&req, over, &mut source, &settings),
            }
        });
        let put = put.map(|put| (put.version, put.created_ms));
        let (version, put) = match put {
            // A try before the pool was opened again may have been it.
            Err(PoolError::Conflict { .. }) => match self.with(|pool| pool.manifest(&name)) {
                Ok(there) if there.run == run => (there.version, there.created_ms),
                _ => return refuse(if over == Some(None) { Errno::EEXIST } else { Errno::ESTALE }),
            },
            put => put?,
        };
        let mut state = draft.state.lock();
        (state.dirty, state.over) = (false, over.and(Some(Some(run))));
        state.put = Some(Listing::new(bytes, version, put));
        drop(state);
        self.inodes.lock().written(number, (0, bytes, put));
        self.changed();
        self.note(&name, Some(draft.node()?.entry()));
        Ok(())
    }

    /// Closes a file.
    pub fn close(&self, number: u64) -> Result {
        if let Some(file) = self.files.lock().get_mut(&number) {
            file.opens -= 1;
        }
        self.close_unused(number)
    }

    /// Puts and forgets a file that is not open any more.
    fn close_unused(&self, number: u64) -> Result {
        let is_open = || self.files.lock().get(&number).is_none_or(|file| file.opens > 0);
        if is_open() {
            return Ok(());
        }
        let stored = self.store(number);
        let mut files = self.files.lock();
        let unused = files.get(&number).is_some_and(|file| file.opens == 0);
        let forgotten = if unused { files.remove(&number) } else { None };
        drop(files);
        if let Some(OpenFile { draft: Some(lost), .. }) = forgotten
            && stored.is_err()
        {
            let name = lost.state.lock().name.clone().unwrap_or_default();
            warning_line(&format!("{name:?}: written bytes are lost (it could not be put)"));
        }
        stored
    }
}
