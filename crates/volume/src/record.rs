//! Records of a log: batches of writes, each valid as a whole or not there.
//!
//! A batch begins at a multiple of 4096 bytes, so that no page of a disk is ever written by two of
//! them. It has a header of 64 bytes, a table of entries, a checksum for every block of data, and
//! the data. All numbers are little-endian:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `kilnvlog` |
//! | 8 | 16 | the volume's id |
//! | 24 | 8 | generation of the log |
//! | 32 | 8 | sequence number, one more than the batch before has |
//! | 40 | 4 | entries |
//! | 44 | 4 | blocks of data |
//! | 48 | 4 | bytes of the batch, a multiple of 4096 |
//! | 52 | 4 | CRC-32C of the 52 bytes before and of the table |
//! | 56 | 8 | id of the key that it is sealed by; zeros: of none |
//! | 64 | 24 each | entries: first block (8), blocks (8), 1: data, 2: freed (4), zeros (4) |
//! | | 4 each | CRC-32C of the blocks of data |
//! | | 4096 each | data |
//! | | 32 | where it is sealed: keyed BLAKE3 of all before; then zeros up to the batch's end |
//!
//! In a pool with a key logs are sealed, which the volume's description says (it is an object, and
//! sealed as such): what has no seal by that key is no batch then, whatever its checksums.
//!
//! The next batch is written only after this one is durable in all copies of the log. So a batch
//! that is there proves that all before it were acknowledged, and only the last one can be torn.

use crate::BLOCK;
use crate::bytes::{Fields, Push};
use kiln_pool::layout::Sealer;
use kiln_store::checksum;

/// Batches begin at multiples of this many bytes: whole pages, which need not be read first.
pub(crate) const ALIGN: usize = BLOCK;
/// Bytes of a batch without changes, sealed or not.
pub(crate) const EMPTY: usize = ALIGN;
/// Most blocks of data in a batch.
pub(crate) const MAX_BLOCKS: usize = 1024;
/// Most entries in a batch.
pub(crate) const MAX_ENTRIES: usize = 4096;

const MAGIC: [u8; 8] = *b"kilnvlog";
const HEADER: usize = 64;
const KEY: usize = HEADER - Sealer::ID;
const ENTRY: usize = 24;
const DATA: u32 = 1;
const FREED: u32 = 2;

/// Authentication of batches, against writes of others to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Their checksums: no forgery is expected.
    #[default]
    Checksums,
    /// The seal of a key.
    Seal(Sealer),
}

impl Trust {
    /// The id of the key, as descriptions have it; empty: none.
    pub fn key(&self) -> String {
        match self {
            Trust::Checksums => String::new(),
            Trust::Seal(sealer) => sealer.name(),
        }
    }

    fn tail(&self) -> usize {
        match self {
            Trust::Checksums => 0,
            Trust::Seal(_) => Sealer::SEAL,
        }
    }
}

/// Identity of a batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchId {
    pub volume: [u8; 16],
    pub generation: u64,
    pub seq: u64,
}

/// A change of adjacent blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Their new bytes, whole blocks.
    Data { block: u64, bytes: &'a [u8] },
    /// They read as zeros from now on.
    Freed { block: u64, count: u64 },
}

impl Change<'_> {
    pub fn data_blocks(&self) -> usize {
        match self {
            Change::Data { bytes, .. } => bytes.len() / BLOCK,
            Change::Freed { .. } => 0,
        }
    }
}

/// Bytes of a batch with these changes.
pub(crate) fn batch_len(changes: &[Change<'_>], trust: &Trust) -> usize {
    let blocks: usize = changes.iter().map(Change::data_blocks).sum();
    let used = HEADER + changes.len() * ENTRY + blocks * (4 + BLOCK) + trust.tail();
    used.next_multiple_of(ALIGN)
}

/// Writes a batch to `out`, which is cleared before, and gives the checksums of its blocks of data.
pub(crate) fn encode(
    id: &BatchId,
    changes: &[Change<'_>],
    trust: &Trust,
    out: &mut Vec<u8>,
) -> Vec<u32> {
    let sums: Vec<u32> = changes
        .iter()
        .flat_map(|change| match change {
            Change::Data { bytes, .. } => bytes.chunks_exact(BLOCK),
            Change::Freed { .. } => [].chunks_exact(BLOCK),
        })
        .map(checksum)
        .collect();
    let len = batch_len(changes, trust);
    out.clear();
    out.reserve(len);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&id.volume);
    out.put64(id.generation);
    out.put64(id.seq);
    out.put32(changes.len() as u32);
    out.put32(sums.len() as u32);
    out.put32(len as u32);
    out.resize(HEADER, 0);
    if let Trust::Seal(sealer) = trust {
        out[KEY..HEADER].copy_from_slice(&sealer.id());
    }
    for change in changes {
        let (block, count, kind) = match change {
            Change::Data { block, bytes } => (*block, (bytes.len() / BLOCK) as u64, DATA),
            Change::Freed { block, count } => (*block, *count, FREED),
        };
        out.put64(block);
        out.put64(count);
        out.put32(kind);
        out.put32(0);
    }
    sums.iter().for_each(|sum| out.put32(*sum));
    let sum = head_sum(out);
    out[52..56].copy_from_slice(&sum.to_le_bytes());
    for change in changes {
        if let Change::Data { bytes, .. } = change {
            out.extend_from_slice(bytes);
        }
    }
    if let Trust::Seal(sealer) = trust {
        let seal = sealer.seal(out);
        out.extend_from_slice(&seal);
    }
    out.resize(len, 0);
    sums
}

/// The checksum of a header and its table, which `head` ends with.
fn head_sum(head: &[u8]) -> u32 {
    let bytes: Vec<u8> = head[..52].iter().chain(&head[HEADER..]).copied().collect();
    checksum(&bytes)
}

/// A batch as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    pub id: BatchId,
    pub changes: Vec<Change<'a>>,
    /// Checksums of its blocks of data, which were compared.
    pub sums: Vec<u32>,
    /// Bytes of it.
    pub len: usize,
}

/// The batch that `bytes` begin with; `None`: there is none, or not all of it, or it cannot be
/// trusted.
pub(crate) fn parse<'a>(bytes: &'a [u8], trust: &Trust) -> Option<Batch<'a>> {
    let mut head = Fields::new(bytes.get(..HEADER)?);
    if head.array()? != MAGIC {
        return None;
    }
    let id = BatchId { volume: head.array()?, generation: head.u64()?, seq: head.u64()? };
    let (entries, blocks, len) = (head.u32()? as usize, head.u32()? as usize, head.u32()? as usize);
    let sum = head.u32()?;
    if entries > MAX_ENTRIES || blocks > MAX_BLOCKS {
        return None;
    }
    let table = entries * ENTRY + blocks * 4;
    let (start, end) = (HEADER + table, HEADER + table + blocks * BLOCK);
    let key = &bytes[KEY..HEADER];
    let tail = if key == [0; Sealer::ID] { 0 } else { Sealer::SEAL };
    if len != (end + tail).next_multiple_of(ALIGN) || bytes.len() < len {
        return None;
    }
    if head_sum(&bytes[..start]) != sum {
        return None;
    }
    if let Trust::Seal(sealer) = trust {
        let seal = bytes[end..end + tail].try_into().ok()?;
        if key != sealer.id() || !sealer.is_right(&bytes[..end], seal) {
            return None;
        }
    }
    let mut table = Fields::new(&bytes[HEADER..start]);
    let mut data = Fields::new(&bytes[start..end]);
    let mut changes = Vec::with_capacity(entries);
    for _ in 0..entries {
        let (block, count, kind) = (table.u64()?, table.u64()?, table.u32()?);
        table.u32()?;
        block.checked_add(count)?;
        changes.push(match kind {
            DATA => {
                let want = usize::try_from(count).ok()?.checked_mul(BLOCK)?;
                Change::Data { block, bytes: data.take(want)? }
            }
            FREED => Change::Freed { block, count },
            _ => return None,
        });
    }
    let sums: Vec<u32> = bytes[start..end].chunks_exact(BLOCK).map(checksum).collect();
    let right = sums.iter().all(|sum| table.u32() == Some(*sum));
    (right && data.is_empty() && table.is_empty()).then_some(Batch { id, changes, sums, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(blocks: usize, seed: usize) -> Vec<u8> {
        (0..blocks * BLOCK).map(|i| (i * 167 + i / 256 * 13 + seed * 31 + 5) as u8).collect()
    }

    #[test]
    fn batches_are_read_back_and_no_flipped_byte_passes() {
        let id = BatchId { volume: [7; 16], generation: 3, seq: 9 };
        let (one, three) = (pattern(1, 1), pattern(3, 2));
        let changes = [
            Change::Data { block: 5, bytes: &one },
            Change::Freed { block: 1 << 40, count: 77 },
            Change::Data { block: 6, bytes: &three },
        ];
        let mut bytes = Vec::new();
        let sums = encode(&id, &changes, &Trust::Checksums, &mut bytes);
        assert_eq!((sums.len(), bytes.len()), (4, batch_len(&changes, &Trust::Checksums)));
        let batch = parse(&bytes, &Trust::Checksums).unwrap();
        assert_eq!((batch.id, batch.len), (id, bytes.len()));
        assert_eq!((&batch.changes[..], batch.sums), (&changes[..], sums));
        let used = HEADER + 3 * ENTRY + 4 * (4 + BLOCK);
        for at in (0..used).filter(|at| !(56..64).contains(at)).step_by(7).chain(0..56) {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(parse(&bad, &Trust::Checksums), None, "byte {at}");
        }
        for len in (0..bytes.len()).step_by(97) {
            assert_eq!(parse(&bytes[..len], &Trust::Checksums), None, "{len} bytes");
        }
    }

    #[test]
    fn a_batch_without_data_is_short() {
        let id = BatchId { volume: [7; 16], generation: 3, seq: 9 };
        let changes = [Change::Freed { block: 0, count: 1 }];
        let mut bytes = Vec::new();
        encode(&id, &changes, &Trust::Checksums, &mut bytes);
        assert_eq!(
            (bytes.len(), &parse(&bytes, &Trust::Checksums).unwrap().changes[..]),
            (ALIGN, &changes[..])
        );
        assert_eq!(
            [Trust::Checksums, sealed_by(1)].map(|trust| batch_len(&[], &trust)),
            [EMPTY; 2]
        );
    }

    fn sealed_by(byte: u8) -> Trust {
        let keys = kiln_pool::PoolKeys::parse(&kiln_pool::PoolKeys::text_of(&[byte; 32])).unwrap();
        let policy = kiln_pool::Policy::for_code("rs:2+1").unwrap();
        let mut config = kiln_pool::PoolConfig::new([1; 16], "test", policy);
        (config.sealed, config.keys) = (keys.ids(), keys);
        Trust::Seal(config.log_sealer().unwrap())
    }

    #[test]
    fn of_a_sealed_batch_no_bit_passes_and_nothing_without_the_seal_does() {
        let id = BatchId { volume: [7; 16], generation: 3, seq: 9 };
        let (one, two) = (pattern(1, 1), pattern(2, 2));
        let changes = [
            Change::Data { block: 5, bytes: &one },
            Change::Freed { block: 8, count: 77 },
            Change::Data { block: 6, bytes: &two },
        ];
        let (ours, other) = (sealed_by(1), sealed_by(2));
        let (mut plain, mut bytes, mut forged) = (Vec::new(), Vec::new(), Vec::new());
        encode(&id, &changes, &Trust::Checksums, &mut plain);
        let sums = encode(&id, &changes, &ours, &mut bytes);
        encode(&id, &changes, &other, &mut forged);
        let used = HEADER + 3 * ENTRY + 3 * (4 + BLOCK) + Sealer::SEAL;
        assert_eq!(
            (bytes.len(), batch_len(&changes, &ours)),
            (used.next_multiple_of(ALIGN), bytes.len())
        );
        let batch = parse(&bytes, &ours).unwrap();
        assert_eq!((batch.id, &batch.changes[..], batch.sums), (id, &changes[..], sums));
        // A reader without keys reads it all the same.
        assert!(parse(&bytes, &Trust::Checksums).is_some());
        for wrong in [&plain, &forged] {
            assert_eq!(parse(wrong, &ours), None);
        }
        for at in (0..HEADER).chain((HEADER..used).step_by(7)).chain(used - Sealer::SEAL..used) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert_eq!(parse(&bad, &ours), None, "byte {at}");
        }
        for len in (0..bytes.len()).step_by(97) {
            assert_eq!(parse(&bytes[..len], &ours), None, "{len} bytes");
        }
        // One that only says that others count.
        encode(&id, &[], &ours, &mut bytes);
        assert_eq!(bytes.len(), ALIGN);
        assert!(parse(&bytes, &ours).is_some_and(|batch| batch.changes.is_empty()));
    }
}
