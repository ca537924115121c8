//! Shard files: a valid shard with any bytes changed, header checksum forged or not, is a shard
//! whose reads verify, or an error; never a panic, never an allocation by a number that lies.

use kiln_store::{
    MemoryBackend, ShardInfo, ShardReader, ShardWriter, StoreError, SumKind, checksum, checksums,
};
use std::sync::OnceLock;

/// Bytes of the header block; its last four are its checksum.
const HEADER: usize = 4096;
/// Longer reads would only test the allocator.
const READ_MAX: usize = 1 << 20;

/// A shard of three stripes, the last one short.
fn valid(sums: SumKind) -> Result<Vec<u8>, StoreError> {
    let info = ShardInfo {
        spec: "rs:2+1,matrix=cauchy".into(),
        object: "fuzz".into(),
        run: [7; 16],
        source: [0; 16],
        index: 1,
        k: 2,
        n: 3,
        alpha: 2,
        sub_chunk: 64,
        segment_stripes: 2,
        size: None,
        sums,
    };
    let backend = MemoryBackend::new();
    let mut writer = ShardWriter::create(&backend, "shard", &info)?;
    for (stripe, len) in [(0, 64), (1, 64), (2, 16)] {
        let chunk: Vec<u8> = (0..2 * len).map(|i| (i * 31 + stripe * 7) as u8).collect();
        let mut sums = Vec::new();
        checksums(info.sums, &chunk, len, &mut sums);
        writer.append_chunk(&chunk, &sums)?;
    }
    let digest = writer.seal()?;
    writer.finish(2 * 256 + 50, &[digest; 3])?;
    Ok(backend.bytes("shard").unwrap_or_default())
}

fn read_all(backend: &MemoryBackend) -> Result<(), StoreError> {
    let mut reader = ShardReader::open(backend, "shard")?;
    if reader.size().is_none() {
        reader.with_size(500)?;
    }
    let layout = reader.info().layout()?;
    let alpha = reader.info().alpha;
    for stripe in 0..layout.stripes().min(4) {
        let chunk = layout.sub_len(stripe).saturating_mul(alpha as usize);
        if chunk <= READ_MAX {
            let runs = std::iter::once(0..alpha).collect::<Vec<_>>();
            let _ = reader.read_runs(stripe, &runs, &mut vec![0; chunk]);
        }
        let _ = reader.sums(stripe);
    }
    kiln_store::digest_of(&reader)?;
    Ok(())
}

pub fn run(input: &[u8]) {
    static VALID: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let valid = VALID.get_or_init(|| SumKind::ALL.map(|kind| valid(kind).unwrap_or_default()));
    assert!(valid.iter().all(|bytes| !bytes.is_empty()));
    let Some((&mode, patches)) = input.split_first() else { return };
    let original = &valid[usize::from(mode & 8 != 0)];
    let mut bytes = original.clone();
    // Each patch: two bytes of place, from the front or from the end, and the new byte.
    for patch in patches.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([patch[0], patch[1]]));
        let last = bytes.len() - 1;
        let at = if mode & 1 == 0 { place.min(last) } else { last - place.min(last) };
        bytes[at] = patch[2];
    }
    if mode & 2 != 0 {
        let sum = checksum(&bytes[..HEADER - 4]).to_le_bytes();
        bytes[HEADER - 4..HEADER].copy_from_slice(&sum);
    }
    if mode & 4 != 0 {
        bytes.truncate(bytes.len() - patches.len().min(bytes.len()));
    }
    let backend = MemoryBackend::new();
    backend.put("shard", bytes);
    let _ = read_all(&backend);
    if mode & 8 != 0 {
        backend.put("original", original.clone());
        let _ = read_sealed(&backend);
    }
}

/// Checks that a reader with the digest of a shard with hashes gets the written bytes or an error.
fn read_sealed(backend: &MemoryBackend) -> Result<(), StoreError> {
    let original = ShardReader::open(backend, "original")?;
    let digest = original.digests().unwrap_or_default()[1];
    let reader = ShardReader::open(backend, "shard")?.expecting(digest);
    if reader.info() != original.info() {
        return Ok(());
    }
    for stripe in 0..reader.layout().stripes() {
        let mut right = vec![0; reader.layout().chunk_len(stripe)];
        let mut found = right.clone();
        let all = 0..reader.info().alpha;
        let runs = std::slice::from_ref(&all);
        original.read_runs(stripe, runs, &mut right)?;
        if reader.read_runs(stripe, runs, &mut found).is_ok() {
            assert_eq!(found, right, "stripe {stripe} is not what was written");
        }
    }
    Ok(())
}

/// A mode, and patches of header, data, table and trailer.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0],
        vec![2, 48, 0, 2, 60, 0, 128],
        vec![0, 10, 16, 1, 90, 17, 7],
        vec![1, 3, 0, 9, 60, 0, 1],
        vec![4, 1, 2, 3],
        vec![8, 10, 16, 1, 90, 17, 7],
        vec![9, 3, 0, 9, 60, 0, 1, 140, 0, 5],
    ]
}
