//! A small server of WebHDFS, NameNode and DataNode in one, that can be told to fail. What it does
//! was compared with Hadoop 3.4.1's: the same tests run over both (`make hdfs-test`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A name of a page of a listing.
const PAGE: usize = 7;

#[derive(Default)]
pub struct Faults {
    /// So many next requests are answered with 503.
    pub busy: usize,
    /// So many next reads end in the middle.
    pub short: usize,
    /// So many next answers to a rename are lost after it was done.
    pub lost: usize,
    /// 2: the next file's bytes get no answer, and while those after them are written they come
    /// late, and put their file in the place of that one.
    pub late: usize,
    /// So many next files are put on another DataNode.
    pub astray: usize,
    pub safe_mode: bool,
    /// Ports at which a NameNode is on standby.
    pub standby: Vec<u16>,
    /// Signs of life of a lock's holder are answered with 503, as if it stood still.
    pub still: bool,
}

struct Node {
    id: u64,
    /// The number of its block; other bytes are another one.
    block: u64,
    bytes: Vec<u8>,
    time: u64,
    astray: bool,
    /// Blocks that a NameNode would tell of: each file that was added is one.
    parts: usize,
}

#[derive(Default)]
pub struct State {
    files: BTreeMap<String, Node>,
    folders: BTreeSet<String>,
    ids: u64,
    port: u16,
    pub faults: Faults,
    /// Folder of blocks as files, as a DataNode has them.
    pub disk: Option<PathBuf>,
    /// Every request: its method, operation and path.
    pub log: Vec<String>,
    /// Bytes that were sent as parts of files.
    pub sent: u64,
}

#[derive(Clone)]
pub struct Fake(Arc<Mutex<State>>);

struct Asked {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    /// Returns whether a NameNode has sent it to a DataNode.
    fn is_sent_on(&self) -> bool {
        self.query.contains_key("namenoderpcaddress")
    }
}

type Answer = (u16, String, Vec<u8>);

impl Fake {
    pub fn start() -> Fake {
        let fake = Fake(Arc::new(Mutex::new(State { ids: 16385, ..State::default() })));
        let port = fake.another();
        fake.state().port = port;
        fake
    }

    /// Another NameNode of the same files; its port.
    pub fn another(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(stream.unwrap()));
            }
        });
        port
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.state().port)
    }

    pub fn mkdir(&self, path: &str) {
        self.state().folders.insert(path.to_owned());
    }

    /// A connection carries one request.
    fn serve(&self, stream: TcpStream) {
        let port = stream.local_addr().unwrap().port();
        let mut stream = BufReader::new(stream);
        let Some(asked) = asked(&mut stream) else { return };
        let mut state = self.0.lock().unwrap();
        let op = asked.query.get("op").cloned().unwrap_or_default();
        state.log.push(format!("{} {op} {}", asked.method, asked.path));
        let still = op == "SETTIMES" && state.faults.still;
        let standby = !asked.is_sent_on() && state.faults.standby.contains(&port);
        let (status, location, body) = match state.faults.busy {
            _ if standby => refused(403, "StandbyException"),
            0 if !still => state.answer(&asked, &op),
            busy => {
                state.faults.busy = busy.saturating_sub(1);
                (503, String::new(), Vec::new())
            }
        };
        if op == "RENAME" && state.faults.lost > 0 {
            state.faults.lost -= 1;
            return;
        }
        if op == "CREATE" && asked.is_sent_on() && state.faults.late == 2 {
            state.faults.late = 1;
            return;
        }
        let mut sent = body.len();
        if op == "OPEN" && status == 200 {
            if state.faults.short > 0 {
                state.faults.short -= 1;
                sent /= 2;
            }
            state.sent += sent as u64;
        }
        drop(state);
        let mut head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", body.len());
        if !location.is_empty() {
            head += &format!("Location: {location}\r\n");
        }
        let stream = stream.get_mut();
        let _ = write!(stream, "{head}Connection: close\r\n\r\n");
        let _ = stream.write_all(&body[..sent]);
    }
}

/// Reads a request; `None`: the connection ended.
fn asked(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, url) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut chunked, mut waits) = (0, false, false);
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let lower = line.trim().to_ascii_lowercase();
        match lower.split_once(':') {
            None => break,
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(("transfer-encoding", _)) => chunked = true,
            Some(("expect", _)) => waits = true,
            _ => {}
        }
    }
    if waits {
        write!(stream.get_mut(), "HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    while chunked {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let at = body.len();
        body.resize(at + size + 2, 0);
        stream.read_exact(&mut body[at..]).ok()?;
        body.truncate(at + size);
        chunked = size > 0;
    }
    let (path, query) = url.split_once('?')?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), plain(value))).collect();
    let path = plain(path.strip_prefix("/webhdfs/v1")?);
    Some(Asked { method, path, query, body })
}

fn plain(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/+=".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(one).collect()
}

fn json(text: String) -> Answer {
    (200, String::new(), text.into_bytes())
}

fn refused(status: u16, exception: &str) -> Answer {
    let said = format!("\"exception\":\"{exception}\",\"message\":\"it says {exception}\"");
    let text = format!("{{\"RemoteException\":{{{said}}}}}");
    (status, String::new(), text.into_bytes())
}

fn absent() -> Answer {
    refused(404, "FileNotFoundException")
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The file of a block below a DataNode's folder.
pub fn block_file(disk: PathBuf, block: u64) -> PathBuf {
    let folder = format!("subdir{}/subdir{}", block >> 16 & 0x1f, block >> 8 & 0x1f);
    disk.join("current/BP-1/current/finalized").join(folder).join(format!("blk_{block}"))
}

impl State {
    /// The number of the block of a file.
    pub fn block_of(&self, path: &str) -> u64 {
        self.files[path].block
    }

    /// Counts the blocks of a file that a NameNode would tell of; none of one that is not there.
    pub fn parts_of(&self, path: &str) -> usize {
        self.files.get(path).map_or(0, |node| node.parts)
    }

    /// HDFS moves files of a folder to another DataNode, or those that it moved are counted: with
    /// `away` all whose names end so.
    pub fn astray(&mut self, folder: &str, away: Option<&str>) -> usize {
        let inside = self.files.iter_mut().filter(|(path, _)| parent(path) == folder);
        let count = |(path, node): (&String, &mut Node)| {
            node.astray |= away.is_some_and(|end| path.ends_with(end));
            usize::from(node.astray)
        };
        inside.map(count).sum()
    }

    /// The path of what is named by its path or its number.
    fn resolved(&self, path: &str) -> Option<String> {
        let Some(id) = path.strip_prefix("/.reserved/.inodes/") else {
            return Some(path.to_owned());
        };
        let id: u64 = id.parse().ok()?;
        self.files.iter().find(|(_, node)| node.id == id).map(|(path, _)| path.clone())
    }

    fn answer(&mut self, asked: &Asked, op: &str) -> Answer {
        let get = |name: &str| asked.query.get(name).map_or("", |value| &value[..]);
        let Some(path) = self.resolved(&asked.path) else { return absent() };
        let sent_on = asked.is_sent_on();
        let writes = ["CREATE", "RENAME", "DELETE", "CONCAT", "TRUNCATE", "SETTIMES"];
        if self.faults.safe_mode && writes.contains(&op) {
            return refused(403, "SafeModeException");
        }
        match op {
            "CREATE" | "OPEN" if !sent_on => self.send_on(asked, op, &path),
            "CREATE" => self.create(path, get("overwrite") == "true", &asked.body),
            "OPEN" => self.read(&path, get("offset"), get("length")),
            "GETFILESTATUS" => self.status(&path),
            "LISTSTATUS_BATCH" => self.list(&path, get("startAfter")),
            "RENAME" => self.rename(&path, get("destination"), get("renameoptions")),
            "DELETE" => json(format!("{{\"boolean\":{}}}", self.files.remove(&path).is_some())),
            "SETTIMES" => {
                let Some(node) = self.files.get_mut(&path) else { return absent() };
                node.time = get("modificationtime").parse().unwrap();
                (200, String::new(), Vec::new())
            }
            "CONCAT" => {
                if !self.files.contains_key(&path) {
                    return absent();
                }
                let Some(more) = self.files.remove(get("sources")) else { return absent() };
                self.change(&path, |bytes| bytes.extend(more.bytes));
                self.files.entry(path).and_modify(|node| node.parts += more.parts);
                (200, String::new(), Vec::new())
            }
            "TRUNCATE" => {
                if !self.files.contains_key(&path) {
                    return absent();
                }
                self.change(&path, |bytes| bytes.truncate(get("newlength").parse().unwrap()));
                json("{\"boolean\":true}".into())
            }
            "GET_BLOCK_LOCATIONS" => self.blocks(&path),
            _ => refused(400, "IllegalArgumentException"),
        }
    }

    fn send_on(&self, asked: &Asked, op: &str, path: &str) -> Answer {
        if op == "OPEN" && !self.files.contains_key(path) {
            return absent();
        }
        let query: Vec<String> =
            asked.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = encoded(&asked.path);
        let location = format!(
            "http://127.0.0.1:{}/webhdfs/v1{path}?{}&namenoderpcaddress=n:8020",
            self.port,
            query.join("&")
        );
        (307, location, Vec::new())
    }

    fn create(&mut self, path: String, over: bool, body: &[u8]) -> Answer {
        if !self.folders.contains(parent(&path)) {
            return absent();
        }
        if self.faults.late == 1 {
            self.faults.late = 0;
            return absent();
        }
        if self.files.contains_key(&path) && !over {
            return refused(403, "FileAlreadyExistsException");
        }
        let astray = self.faults.astray > 0;
        self.faults.astray = self.faults.astray.saturating_sub(1);
        self.ids += 1;
        let node = Node { id: self.ids, block: 0, bytes: body.to_vec(), time: 0, astray, parts: 1 };
        let old = self.files.insert(path.clone(), node);
        self.drop_block(old);
        self.change(&path, |_| {});
        (201, String::new(), Vec::new())
    }

    /// Changes a file's bytes: they are in a block of another number then.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.ids += 1;
        let (ids, disk) = (self.ids, self.disk.clone());
        let Some(node) = self.files.get_mut(path) else { return };
        change(&mut node.bytes);
        (node.block, node.time) = (ids, ids);
        if let Some(path) = disk.map(|disk| block_file(disk, ids)) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &node.bytes).unwrap();
        }
    }

    /// Does as a DataNode does a little later with the block of a file that is gone.
    fn drop_block(&self, node: Option<Node>) {
        if let (Some(disk), Some(node)) = (&self.disk, node) {
            std::fs::remove_file(block_file(disk.clone(), node.block)).unwrap();
        }
    }

    fn read(&self, path: &str, offset: &str, length: &str) -> Answer {
        let Some(node) = self.files.get(path) else { return absent() };
        let start: usize = offset.parse().unwrap();
        let end = node.bytes.len().min(start + length.parse::<usize>().unwrap());
        (200, String::new(), node.bytes[start..end].to_vec())
    }

    fn shown(&self, path: &str, suffix: &str) -> Option<String> {
        let row = |kind, length, time, id| {
            format!(
                "{{\"pathSuffix\":\"{suffix}\",\"type\":\"{kind}\",\"length\":{length},\
                 \"modificationTime\":{time},\"fileId\":{id}}}"
            )
        };
        match self.files.get(path) {
            Some(node) => Some(row("FILE", node.bytes.len(), node.time, node.id)),
            None => self.folders.contains(path).then(|| row("DIRECTORY", 0, 0, 1)),
        }
    }

    fn status(&self, path: &str) -> Answer {
        match self.shown(path, "") {
            Some(row) => json(format!("{{\"FileStatus\":{row}}}")),
            None => absent(),
        }
    }

    fn list(&self, path: &str, after: &str) -> Answer {
        if !self.folders.contains(path) {
            return absent();
        }
        let inside = |other: &&String| parent(other) == path;
        let mut paths: Vec<&String> =
            self.files.keys().chain(&self.folders).filter(inside).collect();
        paths.sort();
        let name = |path: &str| path.rsplit_once('/').unwrap().1.to_owned();
        paths.retain(|path| name(path)[..] > *after);
        let rows: Vec<String> =
            paths.iter().take(PAGE).filter_map(|path| self.shown(path, &name(path))).collect();
        let left = paths.len() - rows.len();
        json(format!(
            "{{\"DirectoryListing\":{{\"partialListing\":{{\"FileStatuses\":{{\"FileStatus\":\
             [{}]}}}},\"remainingEntries\":{left}}}}}",
            rows.join(",")
        ))
    }

    fn rename(&mut self, from: &str, to: &str, how: &str) -> Answer {
        if !self.files.contains_key(from) {
            return absent();
        }
        if from == to || (how == "NONE" && self.files.contains_key(to)) {
            return refused(403, "FileAlreadyExistsException");
        }
        if let Some(node) = self.files.remove(from) {
            let old = self.files.insert(to.to_owned(), node);
            self.drop_block(old);
        }
        (200, String::new(), Vec::new())
    }

    fn blocks(&self, path: &str) -> Answer {
        let Some(node) = self.files.get(path) else { return absent() };
        let port = if node.astray { 1 } else { self.port };
        json(format!(
            "{{\"LocatedBlocks\":{{\"fileLength\":{0},\"isUnderConstruction\":false,\
             \"locatedBlocks\":[{{\"block\":{{\"blockPoolId\":\"BP-1\",\"blockId\":{1},\
             \"numBytes\":{0}}},\"startOffset\":0,\"locations\":[{{\"ipAddr\":\"127.0.0.1\",\
             \"hostName\":\"localhost\",\"infoPort\":{port}}}]}}]}}}}",
            node.bytes.len(),
            node.block
        ))
    }
}
