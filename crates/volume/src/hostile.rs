//! Entry points of the fuzzer: bytes that claim to be parts of a volume, with checksums made right
//! so that what is behind them is reached.

use crate::{
    BLOCK, bytes::Fields, checkpoint, descriptor::Descriptor, map::PAGE, record, record::Trust,
    segment::SegmentHead,
};
use kiln_store::checksum;

/// Puts the checksum of `of` at a position, where both lie within.
fn seal(bytes: &mut [u8], of: std::ops::Range<usize>, at: usize) {
    let Some(sum) = bytes.get(of).map(checksum) else { return };
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    let field = bytes.get(at..).and_then(|rest| Fields::new(rest).u32());
    // Far beyond what any of the formats allows, and far from an overflow.
    field.map_or(0, |number| (number as usize).min(1 << 20))
}

/// Reads bytes as all that a volume is made of.
///
/// # Panics
/// When something was accepted that cannot be.
pub fn read(bytes: &[u8]) {
    let mut batch = bytes.to_vec();
    let (entries, blocks) = (number(&batch, 40), number(&batch, 44));
    let (sums, data) = (64 + entries * 24, 64 + entries * 24 + blocks * 4);
    for block in 0..blocks.min(8) {
        let start = data + block * BLOCK;
        seal(&mut batch, start..start + BLOCK, sums + block * 4);
    }
    if let Some(table) = batch.get(64..data) {
        let head: Vec<u8> = batch[..52].iter().chain(table).copied().collect();
        batch[52..56].copy_from_slice(&checksum(&head).to_le_bytes());
    }
    if let Some(found) = record::parse(&batch, &Trust::Checksums) {
        let blocks: usize = found.changes.iter().map(record::Change::data_blocks).sum();
        assert!(found.len <= batch.len() && blocks <= record::MAX_BLOCKS);
        let mut again = Vec::new();
        record::encode(&found.id, &found.changes, &Trust::Checksums, &mut again);
        // It may have room for a seal.
        assert!(again.len() <= found.len);
    }
    let mut segment = bytes.to_vec();
    let each = if number(&segment, 56) == 2 { 24 } else { 12 };
    let len = 80 + number(&segment, 48) * each + number(&segment, 52) * 16;
    seal(&mut segment, 0..len, len);
    if let Some(head) = SegmentHead::parse(&segment) {
        assert_eq!(head.blocks.len(), head.sums.len());
        assert_eq!(SegmentHead::parse(&head.bytes()), Some(head));
    }
    let mut map = bytes.to_vec();
    seal(&mut map, 0..56, 56);
    let table = 64 + number(&map, 48) * 40;
    seal(&mut map, 64..table, table);
    let page = 4 + PAGE * 12;
    for start in (table + 4..map.len().max(table + 4)).step_by(page + 4) {
        seal(&mut map, start..start + page, start + page);
    }
    if let Some(found) = checkpoint::parse(&map) {
        let all = found.map.pages().flat_map(|(_, blocks)| blocks).flatten();
        all.for_each(|at| assert!((at.at.slot as usize) < found.segments.len()));
    }
    if let Ok(found) = Descriptor::parse("fuzzed", &String::from_utf8_lossy(bytes)) {
        let text = found.to_text().unwrap_or_default();
        assert_eq!(Descriptor::parse("fuzzed", &text).ok(), Some(found));
    }
}

/// Bytes that get far, to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    use crate::record::{BatchId, Change};
    use crate::segment::{Freed, Origin, SegmentId};
    let data = vec![7; BLOCK];
    let changes = [Change::Data { block: 3, bytes: &data }, Change::Freed { block: 9, count: 4 }];
    let mut batch = Vec::new();
    let batch_id = BatchId { volume: [1; 16], generation: 2, seq: 3 };
    record::encode(&batch_id, &changes, &Trust::Checksums, &mut batch);
    let id = SegmentId { volume: [1; 16], generation: 2, number: 5 };
    let mut freed = Freed::default();
    freed.add(100, 7);
    let segment = |moved: bool, seq: Option<u64>| {
        let origins = if moved { vec![Origin { number: 4, index: 1 }; 2] } else { Vec::new() };
        let (blocks, sums, freed) = (vec![4, 9], vec![1, 2], freed.clone());
        SegmentHead { id, log_seq: 8, seq, blocks, sums, origins, freed }.bytes()
    };
    let mut map = crate::map::BlockMap::new(600);
    let at = crate::map::Location { slot: 0, index: 1 };
    map.set(5, Some(crate::map::Mapped { at, sum: 6 }));
    let segments = [Some(checkpoint::Referenced { id, blocks: 2, head: 1 })];
    let size = 600 * BLOCK as u64;
    let head = checkpoint::CheckpointHead { volume: [1; 16], size, next_number: 6, log_seq: 8 };
    let mut bytes = Vec::new();
    let mut reader = checkpoint::CheckpointReader::new(&head, &segments, &map);
    // Reading from memory cannot fail.
    let _ = std::io::Read::read_to_end(&mut reader, &mut bytes);
    let text = Descriptor::new([1; 16], 1 << 20, 64 << 10, 256 << 10, 3).to_text();
    vec![
        batch,
        segment(false, None),
        segment(true, None),
        segment(false, Some(6)),
        bytes,
        text.unwrap_or_default().into_bytes(),
    ]
}
