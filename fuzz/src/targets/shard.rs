//! Shard files: a valid shard with any bytes changed, header checksum forged or not, is a shard
//! whose reads verify, or an error; never a panic, never an allocation by a number that lies.

use std::sync::OnceLock;

use kiln_store::{MemoryBackend, ShardInfo, ShardReader, ShardWriter, StoreError, checksum};

use crate::Target;

/// Bytes of the header block; its last four are its checksum.
const HEADER: usize = 4096;
/// Longer reads would only test the allocator.
const READ_MAX: usize = 1 << 20;

/// A shard of three stripes, the last one short.
fn valid() -> Result<Vec<u8>, StoreError> {
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
    };
    let backend = MemoryBackend::new();
    let mut writer = ShardWriter::create(&backend, "shard", &info)?;
    for (stripe, len) in [(0, 64), (1, 64), (2, 16)] {
        let chunk: Vec<u8> = (0..2 * len).map(|i| (i * 31 + stripe * 7) as u8).collect();
        let sums: Vec<u32> = chunk.chunks(len).map(checksum).collect();
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

pub const TARGET: Target = Target { name: "shard", run, seeds };

fn run(input: &[u8]) {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    let mut bytes = VALID.get_or_init(|| valid().unwrap_or_default()).clone();
    assert!(!bytes.is_empty());
    let Some((&mode, patches)) = input.split_first() else { return };
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
}

/// A mode, and patches of header, data, table and trailer.
fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0],
        vec![2, 48, 0, 2, 60, 0, 128],
        vec![0, 10, 16, 1, 90, 17, 7],
        vec![1, 3, 0, 9, 60, 0, 1],
        vec![4, 1, 2, 3],
    ]
}
