//! Blocks of files, and reading them where they lie on this machine's disk.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use kiln_store::{Operation, Result};
use serde::Deserialize;

use crate::hdfs::client::{Ask, Client};
use crate::hdfs::known::{Piece, Version};
use crate::{hdfs::operations::Status, hdfs::place::Server};

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "LocatedBlocks")]
    blocks: Located,
}

/// A file as the NameNode knows it's blocks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Located {
    #[serde(default)]
    pub is_under_construction: bool,
    #[serde(rename = "locatedBlocks", default)]
    pub list: Vec<Block>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Block {
    block: Name,
    start_offset: u64,
    locations: Vec<Host>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name {
    block_pool_id: String,
    block_id: u64,
    num_bytes: u64,
}

/// A DataNode as the NameNode knows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    ip_addr: String,
    host_name: String,
    info_port: u16,
}

impl Host {
    fn is(&self, server: &Server) -> bool {
        let named = self.ip_addr == server.host || self.host_name == server.host;
        named && self.info_port == server.port
    }
}

impl Located {
    /// The first DataNode that has a block of it which this one has not.
    pub(crate) fn elsewhere(&self, server: &Server) -> Option<String> {
        let astray = |block: &&Block| !block.locations.iter().any(|host| host.is(server));
        let block = self.list.iter().find(astray)?;
        let host = block.locations.first();
        Some(
            host.map_or("no DataNode".into(), |host| {
                format!("{}:{}", host.host_name, host.info_port)
            }),
        )
    }
}

impl Client {
    /// The blocks of a file.
    pub(crate) fn blocks(&self, op: Operation, name: &str, path: &str) -> Result<Located> {
        let action = "GET_BLOCK_LOCATIONS";
        let ask = Ask { op, name, method: "GET", path, action, query: &[] };
        let reply = self.ask(&ask, |_| false)?;
        let answer: Answer = serde_json::from_str(&reply.text)
            .map_err(|error| self.fail(op, name, &format!("its blocks cannot be read: {error}")))?;
        Ok(answer.blocks)
    }
}

/// The files of blocks below a DataNode's folder, in order; `None`: HDFS has some of them
/// elsewhere.
fn pieces(folder: &Path, located: &Located, server: &Server, len: u64) -> Option<Vec<Piece>> {
    let (mut pieces, mut end) = (Vec::new(), 0);
    for block in &located.list {
        let Name { block_pool_id, block_id, num_bytes } = &block.block;
        let here = block.locations.iter().any(|host| host.is(server));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if !here || block.start_offset != end || !block_pool_id.bytes().all(plain) {
            return None;
        }
        let path = folder
            .join(format!("current/{block_pool_id}/current/finalized"))
            .join(format!("subdir{}", block_id >> 16 & 0x1f))
            .join(format!("subdir{}", block_id >> 8 & 0x1f))
            .join(format!("blk_{block_id}"));
        pieces.push((path, end, end.checked_add(*num_bytes)?));
        end += num_bytes;
    }
    (end == len).then_some(pieces)
}

/// Returns the tag of a file with these bytes.
fn version(status: &Status) -> Version {
    (status.file_id, status.modification_time, status.length)
}

/// The blocks of a file as files of this machine, in order.
pub(crate) struct Local(Vec<(u64, u64, File)>);

impl Local {
    /// The blocks of the file with this status, which is found at the path by its number; `None`:
    /// not all of them are here. The NameNode is asked where they are unless that is known and
    /// still so.
    pub(crate) fn of(
        client: &Client,
        name: &str,
        path: &str,
        status: &Status,
    ) -> Result<Option<Local>> {
        let (Some(folder), Some(server)) = (&client.place.blocks, &client.place.datanode) else {
            return Ok(None);
        };
        if let Some(local) = client.known.get(version(status)).and_then(Local::open) {
            return Ok(Some(local));
        }
        let located = client.blocks(Operation::Open, name, path)?;
        let pieces = pieces(folder, &located, server, status.length);
        let local = pieces.clone().and_then(Local::open);
        client.known.note(version(status), pieces.filter(|_| local.is_some()));
        Ok(local)
    }

    /// Opens them; `None`: not all are there as they should be.
    fn open(pieces: Vec<Piece>) -> Option<Local> {
        let mut files = Vec::new();
        for (path, start, end) in pieces {
            let file = File::open(path).ok()?;
            if file.metadata().ok()?.len() != end - start {
                return None;
            }
            files.push((start, end, file));
        }
        Some(Local(files))
    }

    /// Fills a buffer from an offset on; the range is within the file.
    pub(crate) fn read(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        for (start, end, file) in &self.0 {
            if buf.is_empty() {
                break;
            }
            if (*start..*end).contains(&offset) {
                let now = buf.len().min((end - offset) as usize);
                let (first, rest) = buf.split_at_mut(now);
                file.read_exact_at(first, offset - start)?;
                (offset, buf) = (offset + now as u64, rest);
            }
        }
        Ok(())
    }
}
