//! A small world: memory nodes, data, and short ways to call everything.

use std::sync::Arc;

use kiln_code::Codec;
use kiln_files::{EncodeRequest, RepairRequest, decode, discover, encode, repair, verify};
use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::{
    DecodeReport, EncodeReport, Node, PoolError, RepairReport, Result, Settings, Silent, Source,
    StreamSource, VerifyReport,
};

pub use kiln_stripe::Depth;

pub const NAME: &str = "object";
pub const RUN: [u8; 16] = [7; 16];

/// Bytes that depend on their position, with no period that fits any chunk.
pub fn data(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) >> 11) as u8 ^ (i as u8))
        .collect()
}

pub fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse().unwrap()).unwrap()
}

/// A source in memory that has an identity, as a file has.
pub struct Known<'a> {
    pub bytes: &'a [u8],
    /// The size that it tells.
    pub size: u64,
    pub at: usize,
    pub identity: [u8; 16],
    /// Says that it changed.
    pub changed: bool,
    /// Fails when this many bytes were read.
    pub fail_at: usize,
}

impl<'a> Known<'a> {
    pub fn new(bytes: &'a [u8]) -> Known<'a> {
        let (size, identity) = (bytes.len() as u64, [9; 16]);
        Known { bytes, size, at: 0, identity, changed: false, fail_at: usize::MAX }
    }
}

impl std::io::Read for Known<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.fail_at {
            return Err(std::io::Error::other("told to fail"));
        }
        // Odd sizes, as pipes give them.
        let bytes = buf.len().min(self.bytes.len() - self.at).min(7777);
        buf[..bytes].copy_from_slice(&self.bytes[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Source for Known<'_> {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
    fn identity(&self) -> Option<[u8; 16]> {
        Some(self.identity)
    }
    fn skip(&mut self, bytes: u64) -> std::io::Result<()> {
        self.at += bytes as usize;
        Ok(())
    }
    fn changed(&mut self) -> std::io::Result<bool> {
        Ok(self.changed)
    }
}

/// The numbers of a repair that a dry run must tell too.
pub fn numbers(r: &RepairReport) -> ([u64; 5], &str, &[usize], &[usize]) {
    let sums = [r.bytes_read, r.read_runs, r.bytes_sent, r.max_node_load, r.bytes_written];
    (sums, &r.strategy, &r.lost, &r.helpers)
}

/// Memory nodes with one code.
pub struct World {
    pub codec: Codec,
    pub sub_chunk: u32,
    pub stores: Vec<Arc<MemoryBackend>>,
    pub nodes: Vec<Node>,
}

pub fn memory_nodes(count: usize) -> (Vec<Arc<MemoryBackend>>, Vec<Node>) {
    let stores: Vec<_> = (0..count).map(|_| Arc::new(MemoryBackend::new())).collect();
    let nodes = nodes_over(&stores);
    (stores, nodes)
}

pub fn nodes_over(stores: &[Arc<MemoryBackend>]) -> Vec<Node> {
    let each = stores.iter().enumerate();
    each.map(|(i, store)| Node::new(format!("n{i}"), store.clone() as Arc<dyn Backend>)).collect()
}

pub fn settings() -> Settings<'static> {
    Settings { threads: 2, memory: 8 << 20, ..Settings::new(&Silent) }
}

impl World {
    /// One node for all shards.
    pub fn new(spec: &str, sub_chunk: u32) -> World {
        World::over(spec, sub_chunk, 1)
    }

    /// A node for each shard.
    pub fn spread(spec: &str, sub_chunk: u32) -> World {
        let n = codec(spec).shape().n();
        World::over(spec, sub_chunk, n)
    }

    fn over(spec: &str, sub_chunk: u32, count: usize) -> World {
        let (stores, nodes) = memory_nodes(count);
        World { codec: codec(spec), sub_chunk, stores, nodes }
    }

    pub fn n(&self) -> usize {
        self.codec.shape().n()
    }

    /// Bytes of a full stripe's data.
    pub fn stripe(&self) -> usize {
        let shape = self.codec.shape();
        shape.k * shape.alpha * self.sub_chunk as usize
    }

    pub fn request(&self) -> EncodeRequest<'_> {
        EncodeRequest {
            codec: &self.codec,
            object: NAME,
            run: RUN,
            sub_chunk: Some(self.sub_chunk),
            replace: false,
        }
    }

    pub fn encode(&self, bytes: &[u8]) -> EncodeReport {
        self.try_encode(bytes).unwrap()
    }

    pub fn try_encode(&self, bytes: &[u8]) -> Result<EncodeReport> {
        encode(&self.request(), &mut Known::new(bytes), &self.nodes, &settings())
    }

    pub fn encode_stream(&self, bytes: &[u8]) -> EncodeReport {
        let mut source = StreamSource::new(bytes);
        encode(&self.request(), &mut source, &self.nodes, &settings()).unwrap()
    }

    pub fn decode(&self) -> Result<(Vec<u8>, DecodeReport), PoolError> {
        let mut out = Vec::new();
        let set = discover(&self.nodes, None)?;
        let report = decode(&set, &mut out, &settings())?;
        Ok((out, report))
    }

    pub fn verify(&self, depth: Depth) -> Result<VerifyReport> {
        verify(&discover(&self.nodes, None)?, depth, &settings())
    }

    pub fn repair(&self, req: &RepairRequest) -> Result<RepairReport> {
        repair(&discover(&self.nodes, None)?, req, &settings())
    }

    pub fn store(&self, index: usize) -> &MemoryBackend {
        &self.stores[if self.stores.len() == 1 { 0 } else { index }]
    }

    pub fn shard(&self, index: usize) -> Vec<u8> {
        self.store(index).bytes(&name(index)).unwrap()
    }

    pub fn put(&self, index: usize, bytes: Vec<u8>) {
        self.store(index).put(&name(index), bytes);
    }

    pub fn lose(&self, index: usize) {
        self.store(index).remove(&name(index)).unwrap();
    }

    /// Flips bits of a byte of a shard; the offset wraps around.
    pub fn flip(&self, index: usize, offset: usize, mask: u8) {
        let mut bytes = self.shard(index);
        let at = offset % bytes.len();
        bytes[at] ^= mask;
        self.put(index, bytes);
    }

    /// All shard files.
    pub fn all(&self) -> Vec<Vec<u8>> {
        (0..self.n()).map(|index| self.shard(index)).collect()
    }

    /// Names of all files on all nodes, hidden ones too.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.stores.iter().flat_map(|store| store.list().unwrap()).collect();
        names.sort();
        names
    }

    /// Exactly the n shards are there, clean, and decode to `bytes`.
    pub fn assert_whole(&self, bytes: &[u8]) {
        let names: Vec<String> = (0..self.n()).map(name).collect();
        assert_eq!(self.files(), names);
        let report = self.verify(Depth::Parity).unwrap();
        assert!(report.clean, "{report:?}");
        assert!(self.decode().unwrap().0 == bytes);
    }
}

pub fn name(index: usize) -> String {
    format!("{NAME}.{index:02}.kiln")
}
