//! Checksums of sub-chunks and digests of whole shards: CRC-32C and XXH3-128, which find accidents,
//! or BLAKE3, which nobody can forge who does not also change the digest.

use std::fmt;

/// Checks of the sub-chunks of a shard.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// A CRC-32C for each sub-chunk; the digest is XXH3-128 over all of them. Finds every accident
    /// that a disk can have, and no forgery.
    #[default]
    Crc32c,
    /// BLAKE3 for each sub-chunk; the digest is the root of a tree over them, by segments, so that
    /// any sub-chunk can be checked against it alone.
    Blake3,
}

impl SumKind {
    /// All of them.
    pub const ALL: [SumKind; 2] = [SumKind::Crc32c, SumKind::Blake3];

    /// The version of the shard format that has them.
    pub fn version(self) -> u16 {
        match self {
            SumKind::Crc32c => 1,
            SumKind::Blake3 => 2,
        }
    }

    /// Checks of a version of the shard format.
    pub fn of_version(version: u16) -> Option<SumKind> {
        SumKind::ALL.into_iter().find(|kind| kind.version() == version)
    }

    /// Bytes of a sub-chunk's checksum.
    pub fn sum_len(self) -> usize {
        match self {
            SumKind::Crc32c => 4,
            SumKind::Blake3 => 32,
        }
    }

    /// Bytes of a shard's digest.
    pub fn digest_len(self) -> usize {
        match self {
            SumKind::Crc32c => 16,
            SumKind::Blake3 => 32,
        }
    }

    /// Appends the checksum of a sub-chunk.
    pub fn add(self, sub_chunk: &[u8], out: &mut Vec<u8>) {
        match self {
            SumKind::Crc32c => out.extend(checksum(sub_chunk).to_le_bytes()),
            SumKind::Blake3 => out.extend(blake3::hash(sub_chunk).as_bytes()),
        }
    }

    /// Returns whether this is the checksum of a sub-chunk.
    pub fn is_of(self, sub_chunk: &[u8], sum: &[u8]) -> bool {
        match self {
            SumKind::Crc32c => checksum(sub_chunk).to_le_bytes() == *sum,
            SumKind::Blake3 => blake3::hash(sub_chunk).as_bytes() == sum,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            SumKind::Crc32c => "crc32c",
            SumKind::Blake3 => "blake3",
        }
    }
}

/// Digest of a whole shard, over all its checksum tables.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    kind: SumKind,
    /// Zeros follow the bytes of the shorter ones.
    bytes: [u8; 32],
}

impl Digest {
    /// A digest from its bytes; `None` when they are not as many as it has.
    pub fn new(kind: SumKind, bytes: &[u8]) -> Option<Digest> {
        let mut all = [0; 32];
        if bytes.len() != kind.digest_len() {
            return None;
        }
        all[..bytes.len()].copy_from_slice(bytes);
        Some(Digest { kind, bytes: all })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.digest_len()]
    }

    /// Of which checksums it is.
    pub fn kind(&self) -> SumKind {
        self.kind
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// CRC-32C (Castagnoli) of some bytes, as in iSCSI and ext4.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Appends the checksums of a chunk's sub-chunks, in order of position, to `out`.
///
/// `sub_len` is the length in bytes of a sub-chunk (at least 1); a last, shorter piece of `chunk`
/// gets a checksum too.
pub fn checksums(kind: SumKind, chunk: &[u8], sub_len: usize, out: &mut Vec<u8>) {
    chunk.chunks(sub_len.max(1)).for_each(|sub_chunk| kind.add(sub_chunk, out));
}

/// Builds a [`Digest`] from table entries as they come.
#[derive(Clone)]
pub struct DigestBuilder(Hashing);

#[derive(Clone)]
enum Hashing {
    Crc32c(Box<xxhash_rust::xxh3::Xxh3>),
    Blake3(Box<Tree>),
}

/// A tree of two levels: the hashes of all segments' tables, and the root over these.
#[derive(Clone)]
struct Tree {
    segment: blake3::Hasher,
    /// Bytes of a full table without its own checksum, and how many of them the open segment has.
    full: usize,
    filled: usize,
    /// Hashes of the tables before.
    roots: Vec<u8>,
}

impl DigestBuilder {
    /// For a shard whose segments have at most so many sub-chunks.
    pub fn new(kind: SumKind, segment_entries: usize) -> DigestBuilder {
        DigestBuilder(match kind {
            SumKind::Crc32c => Hashing::Crc32c(Box::default()),
            SumKind::Blake3 => Hashing::Blake3(Box::new(Tree {
                segment: blake3::Hasher::new(),
                full: segment_entries.max(1) * kind.sum_len(),
                filled: 0,
                roots: Vec::new(),
            })),
        })
    }

    /// Adds the next checksums of the shard.
    pub fn add(&mut self, mut sums: &[u8]) {
        match &mut self.0 {
            Hashing::Crc32c(hash) => hash.update(sums),
            Hashing::Blake3(tree) => {
                while !sums.is_empty() {
                    let (now, later) = sums.split_at(sums.len().min(tree.full - tree.filled));
                    tree.segment.update(now);
                    tree.filled += now.len();
                    if tree.filled == tree.full {
                        tree.close();
                    }
                    sums = later;
                }
            }
        }
    }

    /// The digest of everything added so far.
    pub fn digest(&self) -> Digest {
        let mut bytes = [0; 32];
        let kind = match &self.0 {
            Hashing::Crc32c(hash) => {
                bytes[..16].copy_from_slice(&hash.digest128().to_be_bytes());
                SumKind::Crc32c
            }
            Hashing::Blake3(_) => {
                bytes = root_of(&self.roots());
                SumKind::Blake3
            }
        };
        Digest { kind, bytes }
    }

    /// The hashes of the segments' tables added so far, one after the other; empty where the
    /// digest is over the checksums themselves.
    pub fn roots(&self) -> Vec<u8> {
        match &self.0 {
            Hashing::Crc32c(_) => Vec::new(),
            Hashing::Blake3(tree) => {
                let mut tree = tree.clone();
                if tree.filled > 0 {
                    tree.close();
                }
                tree.roots
            }
        }
    }
}

impl Tree {
    fn close(&mut self) {
        self.roots.extend(self.segment.finalize().as_bytes());
        self.segment.reset();
        self.filled = 0;
    }
}

/// The digest of a shard whose segments' tables have these hashes.
pub(crate) fn root_of(roots: &[u8]) -> [u8; 32] {
    *blake3::hash(roots).as_bytes()
}

impl fmt::Debug for DigestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DigestBuilder").finish()
    }
}
