//! Where the blocks of a file are, and reading them where they lie on this machine's disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use kiln_store::{Operation, StoreError};
use serde::Deserialize;

use crate::client::{Ask, Client};
use crate::place::Server;

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "LocatedBlocks")]
    blocks: Located,
}

/// What the NameNode knows of a file's blocks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Located {
    #[serde(default)]
    pub is_under_construction: bool,
    #[serde(rename = "locatedBlocks", default)]
    pub list: Vec<Block>,
}

/// One block.
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
    pub(crate) fn blocks(
        &self,
        op: Operation,
        name: &str,
        path: &str,
    ) -> Result<Located, StoreError> {
        let action = "GET_BLOCK_LOCATIONS";
        let ask = Ask { op, name, method: "GET", path, action, query: &[] };
        let reply = self.ask(&ask, |_| false)?;
        let answer: Answer = serde_json::from_str(&reply.text)
            .map_err(|error| self.fail(op, name, &format!("its blocks cannot be read: {error}")))?;
        Ok(answer.blocks)
    }
}

/// The blocks of a file as files of this machine, in order.
pub(crate) struct Local(Vec<(u64, u64, File)>);

impl Local {
    /// Opens them below a DataNode's folder; `None`: not all are there.
    pub(crate) fn open(
        folder: &Path,
        located: &Located,
        server: &Server,
        len: u64,
    ) -> Option<Local> {
        let mut end = 0;
        let mut files = Vec::new();
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
            let file = File::open(path).ok()?;
            if file.metadata().ok()?.len() != *num_bytes {
                return None;
            }
            end += num_bytes;
            files.push((block.start_offset, end, file));
        }
        (end == len).then_some(Local(files))
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
