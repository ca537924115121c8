//! Requests of the kernel: a table of them, each with its answer.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, atomic::Ordering};
use std::{io, path::Path, time::SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use kiln_stripe::names::{from_hex, hex};

use super::refusal::{Refusal, Result, refuse};
use super::{FRESH, Kind, Mount, Node, Source};
use crate::print::warning_line;
use crate::setup::{codec, kept::is_kept};
use crate::transfer::attributes::{About, Entry, system_time, time_now, time_of_system};
use crate::transfer::local_tree::joined;
use crate::transfer::raw_names::{path_of, to_file, to_pool};

/// The kernel's door to a mounted pool.
pub struct Door(pub Arc<Mount>);

const FLAGS: FopenFlags = FopenFlags::empty();

impl Mount {
    /// Returns what is shown of a number.
    fn shown(&self, number: u64) -> Result<FileAttr> {
        if let Some(draft) = self.drafted(number) {
            return Ok(self.attributes(number, &draft.node()?));
        }
        let mut node = self.look(&self.name(number)?)?;
        if let (Source::Now { .. }, Some(object)) = (&self.names, self.read_as(number)) {
            node.object = object;
        }
        match self.inodes.lock().identity(number) == Some(node.identity()) {
            true => Ok(self.attributes(number, &node)),
            // Another client put something else there: the kernel asks for the name again.
            false => refuse(Errno::ESTALE),
        }
    }

    fn attributes(&self, number: u64, node: &Node) -> FileAttr {
        let About { mode, time, owner, .. } = &node.about;
        let (uid, gid) = owner.unwrap_or(self.owner);
        let time = system_time(*time).unwrap_or(SystemTime::UNIX_EPOCH);
        let (kind, size) = match &node.kind {
            Kind::File => (FileType::RegularFile, node.object.bytes),
            Kind::Folder => (FileType::Directory, 0),
            Kind::Link(target) => (FileType::Symlink, path_of(target).as_os_str().len() as u64),
        };
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: *mode as u16 & 0o7777,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            blksize: 1 << 20,
            flags: 0,
        }
    }

    /// Looks a name up for the kernel.
    fn look_up(&self, name: &str) -> Result<FileAttr> {
        let node = self.look(name)?;
        // A file that is being written keeps its number.
        let number = self.inodes.lock().number(name);
        let known = number.filter(|number| self.drafted(*number).is_some());
        let mut inodes = self.inodes.lock();
        let of = known.and_then(|number| inodes.identity(number));
        let number = inodes.look_up(name, of.unwrap_or_else(|| node.identity()));
        drop(inodes);
        Ok(self.attributes(number, &node))
    }

    fn listed(&self, number: u64) -> Result<Vec<(u64, FileType, OsString)>> {
        let folder = self.name(number)?;
        let dots = [".", ".."].map(|dots| (number, FileType::Directory, dots.into()));
        let mut all = Vec::from(dots);
        for (word, node) in self.list(&folder)? {
            // Of those that the kernel does not know yet any number will do.
            let number = self.inodes.lock().number(&joined(&folder, &word)).unwrap_or(u64::MAX);
            let kind = self.attributes(number, &node).kind;
            all.push((number, kind, to_file(&word).unwrap_or_default()));
        }
        Ok(all)
    }

    /// Bytes of data that fit into the pool by its code, and into its free space.
    fn space(&self) -> (u64, u64) {
        let pool = self.pool();
        let shape = codec(&pool.config().policy.class_of(u64::MAX).code).map(|code| code.shape());
        let (k, n) = shape.map_or((1, 1), |shape| (shape.k as u64, shape.n() as u64));
        let places = pool.config().node.iter().filter_map(|node| pool.place(&node.id));
        let spaces = places.filter_map(|place| place.space().ok().flatten());
        let sum = spaces.fold((0, 0), |sum, one| (sum.0 + one.total, sum.1 + one.free));
        (sum.0 / n * k, sum.1 / n * k)
    }

    fn child(&self, parent: INodeNo, word: &OsStr) -> Result<String> {
        self.join(parent.0, &to_pool(word))
    }

    fn made(&self, parent: INodeNo, word: &OsStr, entry: Entry) -> Result<FileAttr> {
        let name = self.new_name(parent.0, &to_pool(word))?;
        self.make(&name, entry)?;
        self.look_up(&name)
    }
}

/// Sends a reply with what its request came to.
macro_rules! send {
    (ReplyEmpty, $reply:ident, $done:ident) => {{
        let () = $done;
        $reply.ok()
    }};
    (ReplyEntry, $reply:ident, $attr:ident) => {
        $reply.entry(&FRESH, &$attr, Generation(0))
    };
    (ReplyAttr, $reply:ident, $attr:ident) => {
        $reply.attr(&FRESH, &$attr)
    };
    (ReplyData, $reply:ident, $bytes:ident) => {
        $reply.data(&$bytes)
    };
    (ReplyWrite, $reply:ident, $bytes:ident) => {
        $reply.written($bytes as u32)
    };
    (ReplyOpen, $reply:ident, $at:ident) => {
        $reply.opened(FileHandle($at), FLAGS)
    };
    (ReplyCreate, $reply:ident, $attr:ident) => {
        $reply.created(&FRESH, &$attr, Generation(0), FileHandle(0), FLAGS)
    };
    (ReplyXattr, $reply:ident, $value:ident) => {
        match $value {
            (0, value) => $reply.size(value.len() as u32),
            (room, value) if value.len() > room as usize => $reply.error(Errno::ERANGE),
            (_, value) => $reply.data(&value),
        }
    };
}

/// Writes methods of [`Filesystem`] that answer with what an expression comes to.
macro_rules! requests {
    ($mount:ident; $($name:ident($($arg:tt: $type:ty),*) $reply:ident => $end:expr;)*) => {
        $(fn $name(&self, $($arg: $type,)* reply: $reply) {
            #[allow(unused_variables)]
            let act = |$mount: &Mount| $end;
            match act(&self.0) {
                Ok(value) => send!($reply, reply, value),
                Err(Refusal(code)) => reply.error(code),
            }
        })*
    };
}

impl Filesystem for Door {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A file that is opened to be written anew is replaced once, when it is closed.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        Ok(())
    }

    requests! { mount;
        lookup(_: &Request, parent: INodeNo, name: &OsStr) ReplyEntry => {
            mount.look_up(&mount.child(parent, name)?)
        };
        getattr(_: &Request, ino: INodeNo, _: Option<FileHandle>) ReplyAttr => mount.shown(ino.0);
        setattr(_: &Request, ino: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>,
                size: Option<u64>, _: Option<TimeOrNow>, mtime: Option<TimeOrNow>,
                _: Option<SystemTime>, _: Option<FileHandle>, _: Option<SystemTime>,
                _: Option<SystemTime>, _: Option<SystemTime>, _: Option<BsdFileFlags>)
        ReplyAttr => {
            if let Some(size) = size {
                mount.resize(ino.0, size)?;
            }
            if mode.is_some() || uid.is_some() || gid.is_some() || mtime.is_some() {
                mount.change(ino.0, |about| {
                    about.mode = mode.map_or(about.mode, |mode| mode & 0o7777);
                    let (user, group) = about.owner.unwrap_or(mount.owner);
                    about.owner = Some((uid.unwrap_or(user), gid.unwrap_or(group)));
                    about.time = match mtime {
                        Some(TimeOrNow::Now) => time_now(),
                        Some(TimeOrNow::SpecificTime(time)) => time_of_system(time),
                        None => about.time,
                    };
                    Ok(())
                })?;
            }
            mount.shown(ino.0)
        };
        readlink(_: &Request, ino: INodeNo) ReplyData => {
            match mount.look(&mount.name(ino.0)?)?.kind {
                Kind::Link(target) => Ok(path_of(&target).into_os_string().into_encoded_bytes()),
                _ => refuse(Errno::EINVAL),
            }
        };
        mknod(_: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32) ReplyEntry => {
            refuse(Errno::EPERM)
        };
        mkdir(req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32) ReplyEntry => {
            let about = fresh_about(req, mode & !umask);
            mount.made(parent, name, Entry::Folder { about })
        };
        symlink(req: &Request, parent: INodeNo, name: &OsStr, target: &Path) ReplyEntry => {
            let owner = fresh_about(req, 0).owner;
            mount.made(parent, name, Entry::Link { target: to_pool(target.as_os_str()), owner })
        };
        link(_: &Request, _: INodeNo, _: INodeNo, _: &OsStr) ReplyEntry => {
            refuse(Errno::EOPNOTSUPP)
        };
        unlink(_: &Request, parent: INodeNo, name: &OsStr) ReplyEmpty => {
            mount.unlink(&mount.child(parent, name)?)
        };
        rmdir(_: &Request, parent: INodeNo, name: &OsStr) ReplyEmpty => {
            mount.remove_folder(&mount.child(parent, name)?)
        };
        rename(_: &Request, parent: INodeNo, name: &OsStr, newparent: INodeNo, newname: &OsStr,
               flags: RenameFlags) ReplyEmpty => {
            mount.rename(&mount.child(parent, name)?, &mount.child(newparent, newname)?, flags)
        };
        create(req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32)
        ReplyCreate => {
            let over = (flags & libc::O_EXCL != 0).then_some(None);
            let name = mount.new_name(parent.0, &to_pool(name))?;
            // No other file has this identity.
            let number = mount.inodes.lock().look_up(&name, (3, 0, 0));
            let draft = mount.begin(number, &name, fresh_about(req, mode & !umask), over)?;
            draft.written_by(req.pid());
            mount.opened(number);
            mount.touch(&name)?;
            Ok(mount.attributes(number, &draft.node()?))
        };
        open(req: &Request, ino: INodeNo, flags: OpenFlags) ReplyOpen => {
            mount.open(ino.0, flags.0 & libc::O_TRUNC != 0, req.pid()).map(|()| 0)
        };
        read(_: &Request, ino: INodeNo, _: FileHandle, offset: u64, size: u32, _: OpenFlags,
             _: Option<LockOwner>) ReplyData => mount.read(ino.0, offset, u64::from(size));
        write(req: &Request, ino: INodeNo, _: FileHandle, offset: u64, data: &[u8], _: WriteFlags,
              _: OpenFlags, _: Option<LockOwner>) ReplyWrite => {
            mount.write_at(ino.0, offset, data, req.pid()).map(|()| data.len())
        };
        flush(req: &Request, ino: INodeNo, _: FileHandle, _: LockOwner) ReplyEmpty => {
            mount.closed_by(ino.0, req.pid())
        };
        fsync(_: &Request, ino: INodeNo, _: FileHandle, _: bool) ReplyEmpty => {
            mount.store(ino.0)?;
            mount.settle()
        };
        fsyncdir(_: &Request, _: INodeNo, _: FileHandle, _: bool) ReplyEmpty => mount.settle();
        release(_: &Request, ino: INodeNo, _: FileHandle, _: OpenFlags, _: Option<LockOwner>,
                _: bool) ReplyEmpty => mount.close(ino.0);
        opendir(_: &Request, _: INodeNo, _: OpenFlags) ReplyOpen => {
            Ok(mount.handles.fetch_add(1, Ordering::Relaxed))
        };
        releasedir(_: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags) ReplyEmpty => {
            mount.lists.lock().remove(&fh.0);
            Ok(())
        };
        getxattr(_: &Request, ino: INodeNo, name: &OsStr, size: u32) ReplyXattr => {
            let about = mount.look(&mount.name(ino.0)?)?.about;
            let value = name.to_str().and_then(|name| about.extended.get(shown_attribute(name)?));
            let value = value.and_then(|digits| from_hex(digits));
            Ok((size, value.ok_or(Refusal(Errno::ENODATA))?))
        };
        listxattr(_: &Request, ino: INodeNo, size: u32) ReplyXattr => {
            let about = mount.look(&mount.name(ino.0)?)?.about;
            let names = about.extended.keys().filter_map(|name| shown_attribute(name));
            let names: String = names.flat_map(|name| [name, "\0"]).collect();
            Ok((size, names.into_bytes()))
        };
        setxattr(_: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32)
        ReplyEmpty => mount.change(ino.0, |about| {
            let Some(name) = name.to_str().and_then(shown_attribute) else {
                return refuse(Errno::EOPNOTSUPP);
            };
            match about.extended.contains_key(name) {
                true if flags & libc::XATTR_CREATE != 0 => return refuse(Errno::EEXIST),
                false if flags & libc::XATTR_REPLACE != 0 => return refuse(Errno::ENODATA),
                _ => {}
            }
            about.extended.insert(name.to_owned(), hex(value));
            Ok(())
        });
        removexattr(_: &Request, ino: INodeNo, name: &OsStr) ReplyEmpty => {
            mount.change(ino.0, |about| {
                let removed = name.to_str().and_then(|name| about.extended.remove(name));
                removed.map(drop).ok_or(Refusal(Errno::ENODATA))
            })
        };
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.0.inodes.lock().forget(ino.0, times);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            match self.0.listed(ino.0) {
                Ok(listed) => drop(self.0.lists.lock().insert(fh.0, Arc::new(listed))),
                Err(Refusal(code)) => return reply.error(code),
            }
        }
        let listing = self.0.lists.lock().get(&fh.0).cloned().unwrap_or_default();
        for (at, (number, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*number), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCK: u64 = 4096;
        let (total, free) = self.0.space();
        let (total, free) = (total / BLOCK, free / BLOCK);
        reply.statfs(total, free, free, 0, 0, BLOCK as u32, 255, BLOCK as u32);
    }

    fn destroy(&mut self) {
        if self.0.settle().is_err() {
            warning_line("metadata: what changed in the last second is lost");
        }
    }
}

/// Metadata of what a user makes.
fn fresh_about(req: &Request, mode: u32) -> About {
    let owner = Some((req.uid(), req.gid()));
    About { mode: mode & 0o7777, time: time_now(), owner, ..About::default() }
}

/// Returns an extended attribute's name if it is shown: ACLs are not, as the mount does not keep to
/// them.
fn shown_attribute(name: &str) -> Option<&str> {
    Some(name).filter(|name| is_kept(name) && !name.starts_with("system."))
}
