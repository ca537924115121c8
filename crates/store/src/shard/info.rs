//! Descriptions of shards, and the record that carries it in header and trailer.

use super::layout::{BLOCK, within};
use crate::{Digest, DigestBuilder, Layout, Result, StoreError, SumKind, checksum};

/// The latest format version that this crate reads and writes.
pub const VERSION: u16 = 2;
/// Most bytes of the code's spec.
pub const MAX_SPEC: usize = 1024;
/// Most bytes of the object's name.
pub const MAX_OBJECT: usize = 1024;
/// Most chunks per stripe.
pub const MAX_N: u16 = 256;
/// Bytes of the tail at the very end of a shard.
pub const TAIL: usize = 24;

/// First bytes of header and trailer. Not text, and broken by newline conversion, as in PNG.
pub(crate) const MAGIC: [u8; 8] = *b"\x89KILN\r\n\x1a";
const TAIL_MAGIC: [u8; 8] = *b"\x89TAIL\r\n\x1a";
/// Bytes of a record before the two strings.
const FIXED: usize = 80;
/// Bytes of the checksum that ends a record.
const SUM: usize = 4;
/// Most bytes of a trailer's record.
const MAX_RECORD: usize = FIXED + MAX_SPEC + MAX_OBJECT + 32 * MAX_N as usize + SUM;
/// Flag: the size field is meaningful.
const SIZE_KNOWN: u16 = 1;

/// The description that header and trailer of a shard both carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    /// The code with every parameter, at most 1024 bytes; not interpreted here.
    pub spec: String,
    /// The object's name, at most 1024 bytes.
    pub object: String,
    /// Identity of the encode run; shards of two runs never mix.
    pub run: [u8; 16],
    /// Fingerprint of the input, to resume an interrupted run; zeros: none.
    pub source: [u8; 16],
    /// Chunk of every stripe that this shard holds: 0..n.
    pub index: u16,
    /// Data chunks per stripe.
    pub k: u16,
    /// Chunks per stripe, data and parity; at most 256.
    pub n: u16,
    /// Sub-chunks per chunk.
    pub alpha: u32,
    /// Bytes per sub-chunk of all stripes but perhaps the last.
    pub sub_chunk: u32,
    /// Stripes per segment, each of which ends in a checksum table.
    pub segment_stripes: u32,
    /// Bytes of the object; `None` in the header of a streamed object, never in a trailer.
    pub size: Option<u64>,
    /// Checks of its sub-chunks.
    pub sums: SumKind,
}

impl ShardInfo {
    /// Checks every limit of the format; [`StoreError::BadField`] names the first one broken.
    pub fn check(&self) -> Result<()> {
        within("spec length", self.spec.len() as u64, 0, MAX_SPEC as u64)?;
        within("object length", self.object.len() as u64, 0, MAX_OBJECT as u64)?;
        within("n", self.n.into(), 1, MAX_N.into())?;
        within("k", self.k.into(), 1, self.n.into())?;
        within("index", self.index.into(), 0, u64::from(self.n) - 1)?;
        self.layout().map(|_| ())
    }

    /// The geometry of this shard.
    pub fn layout(&self) -> Result<Layout> {
        let (k, stripes) = (self.k, self.segment_stripes);
        Layout::new(k, self.alpha, self.sub_chunk, stripes, self.size, self.sums)
    }

    /// Builds the digest of this shard.
    #[must_use]
    pub fn digest_builder(&self) -> DigestBuilder {
        DigestBuilder::new(self.sums, self.segment_stripes as usize * self.alpha as usize)
    }

    /// Bytes of the finished shard: header, chunks, tables and trailer.
    pub fn file_bytes(&self) -> Result<u64> {
        Ok(self.layout()?.trailer_offset() + (self.trailer_record() + TAIL) as u64)
    }

    /// Bytes of the trailer's record.
    fn trailer_record(&self) -> usize {
        FIXED + self.spec.len() + self.object.len() + self.digests_len() + SUM
    }

    /// Bytes of the digests of all shards.
    fn digests_len(&self) -> usize {
        self.sums.digest_len() * usize::from(self.n)
    }

    /// Returns whether two descriptions agree, where an unknown size agrees with any.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let same_size = match (self.size, other.size) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        same_size && Self { size: None, ..self.clone() } == Self { size: None, ..other.clone() }
    }
}

/// Kind of record: the two are never taken for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Header = 1,
    Trailer = 2,
}

/// Why bytes are not the record that was looked for.
#[derive(Debug)]
pub(crate) enum RecordFlaw {
    /// They do not start (or end) with the magic bytes.
    NoMagic(String),
    /// An intact record of a version this crate does not know.
    Version(u16),
    /// A record, but damaged.
    Bad(String),
    /// The bytes could not be read.
    Unread(StoreError),
}

impl std::fmt::Display for RecordFlaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMagic(what) | Self::Bad(what) => f.write_str(what),
            Self::Version(version) => write!(f, "format version {version} is not known"),
            Self::Unread(error) => write!(f, "{error}"),
        }
    }
}

/// The header block: exactly [`BLOCK`] bytes.
pub(crate) fn encode_header(info: &ShardInfo) -> Vec<u8> {
    let mut bytes = encode_fields(info, Kind::Header, BLOCK as usize);
    bytes.resize(BLOCK as usize - SUM, 0);
    seal(bytes)
}

/// The trailer's record and the tail, for a file whose record starts at `offset`.
pub(crate) fn encode_trailer(info: &ShardInfo, digests: &[Digest], offset: u64) -> Vec<u8> {
    let record = info.trailer_record();
    let mut bytes = encode_fields(info, Kind::Trailer, record);
    bytes.extend(digests.iter().flat_map(Digest::as_bytes));
    let mut bytes = seal(bytes);
    debug_assert_eq!(bytes.len(), record);
    bytes.extend(encode_tail(offset + (record + TAIL) as u64, record as u32));
    bytes
}

fn encode_fields(info: &ShardInfo, kind: Kind, record: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(record + TAIL);
    out.extend(MAGIC);
    out.extend(info.sums.version().to_le_bytes());
    out.extend((kind as u16).to_le_bytes());
    out.extend((record as u32).to_le_bytes());
    out.extend(info.run);
    out.extend(info.source);
    out.extend(info.index.to_le_bytes());
    out.extend(info.k.to_le_bytes());
    out.extend(info.n.to_le_bytes());
    out.extend((if info.size.is_some() { SIZE_KNOWN } else { 0 }).to_le_bytes());
    out.extend(info.alpha.to_le_bytes());
    out.extend(info.sub_chunk.to_le_bytes());
    out.extend(info.segment_stripes.to_le_bytes());
    out.extend((info.spec.len() as u16).to_le_bytes());
    out.extend((info.object.len() as u16).to_le_bytes());
    out.extend(info.size.unwrap_or(0).to_le_bytes());
    debug_assert_eq!(out.len(), FIXED);
    out.extend(info.spec.as_bytes());
    out.extend(info.object.as_bytes());
    out
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn encode_tail(file_len: u64, record: u32) -> [u8; TAIL] {
    let mut tail = [0; TAIL];
    tail[..8].copy_from_slice(&file_len.to_le_bytes());
    tail[8..12].copy_from_slice(&record.to_le_bytes());
    let sum = checksum(&tail[..12]);
    tail[12..16].copy_from_slice(&sum.to_le_bytes());
    tail[16..].copy_from_slice(&TAIL_MAGIC);
    tail
}

/// Length of the trailer's record, from the last [`TAIL`] bytes of a file of `file_len` bytes.
pub(crate) fn parse_tail(tail: &[u8; TAIL], file_len: u64) -> Result<usize, RecordFlaw> {
    if tail[16..] != TAIL_MAGIC {
        return Err(RecordFlaw::NoMagic("it does not end like one".into()));
    }
    if le_u32(tail, 12) != checksum(&tail[..12]) {
        return Err(RecordFlaw::Bad("checksum of the tail is wrong".into()));
    }
    let said = le_u64(tail, 0);
    if said != file_len {
        return Err(RecordFlaw::Bad(format!("it was {said} bytes long and is now {file_len}")));
    }
    let record = le_u32(tail, 8) as usize;
    let room = file_len.saturating_sub(BLOCK + TAIL as u64);
    if !(FIXED + SUM..=MAX_RECORD).contains(&record) || record as u64 > room {
        return Err(RecordFlaw::Bad(format!("a trailer of {record} bytes is impossible")));
    }
    Ok(record)
}

/// Reads a record that fills `bytes`; the digests are empty for a header.
pub(crate) fn parse_record(
    bytes: &[u8],
    kind: Kind,
) -> Result<(ShardInfo, Vec<Digest>), RecordFlaw> {
    if bytes.len() < FIXED + SUM || bytes[..8] != MAGIC {
        return Err(RecordFlaw::NoMagic("it does not start like one".into()));
    }
    let (body, sum) = bytes.split_at(bytes.len() - SUM);
    if le_u32(sum, 0) != checksum(body) {
        return Err(RecordFlaw::Bad("its checksum is wrong".into()));
    }
    // Only now: a flipped bit in the version must not look like a version of the future.
    let Some(sums) = SumKind::of_version(le_u16(body, 8)) else {
        return Err(RecordFlaw::Version(le_u16(body, 8)));
    };
    if le_u16(body, 10) != kind as u16 || le_u32(body, 12) as usize != bytes.len() {
        return Err(RecordFlaw::Bad("it is another kind of record".into()));
    }
    parse_fields(body, kind, sums)
}

/// The fields of a record whose checksum and frame are right. Limits are still checked: the
/// checksum guards against accidents, not against a file made by somebody else's program.
fn parse_fields(
    body: &[u8],
    kind: Kind,
    sums: SumKind,
) -> Result<(ShardInfo, Vec<Digest>), RecordFlaw> {
    let flags = le_u16(body, 54);
    let size = le_u64(body, 72);
    let known = flags & SIZE_KNOWN != 0;
    if flags & !SIZE_KNOWN != 0 || (!known && size != 0) || (!known && kind == Kind::Trailer) {
        return Err(RecordFlaw::Bad(format!("flags {flags:#06x} are impossible here")));
    }
    let mut rest = &body[FIXED..];
    let info = ShardInfo {
        spec: take_text(&mut rest, le_u16(body, 68).into(), MAX_SPEC)?,
        object: take_text(&mut rest, le_u16(body, 70).into(), MAX_OBJECT)?,
        run: array16(&body[16..32]),
        source: array16(&body[32..48]),
        index: le_u16(body, 48),
        k: le_u16(body, 50),
        n: le_u16(body, 52),
        alpha: le_u32(body, 56),
        sub_chunk: le_u32(body, 60),
        segment_stripes: le_u32(body, 64),
        size: known.then_some(size),
        sums,
    };
    info.check().map_err(|error| RecordFlaw::Bad(error.to_string()))?;
    let mut digests = Vec::new();
    if kind == Kind::Trailer {
        if rest.len() != info.digests_len() {
            return Err(RecordFlaw::Bad("the number of digests is not n".into()));
        }
        let each = rest.chunks_exact(sums.digest_len());
        digests = each.filter_map(|bytes| Digest::new(sums, bytes)).collect();
    } else if rest.iter().any(|&byte| byte != 0) {
        return Err(RecordFlaw::Bad("padding is not zero".into()));
    }
    Ok((info, digests))
}

fn take_text(rest: &mut &[u8], len: usize, most: usize) -> Result<String, RecordFlaw> {
    if len > most || len > rest.len() {
        return Err(RecordFlaw::Bad(format!("a text of {len} bytes is impossible")));
    }
    let (text, after) = rest.split_at(len);
    *rest = after;
    String::from_utf8(text.to_vec()).map_err(|_| RecordFlaw::Bad("a text is not UTF-8".into()))
}

fn array16(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|i| bytes[i])
}

fn le_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn le_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
