//! Shared parts of the tests: shards with position-dependent bytes.
#![allow(dead_code, reason = "every test binary uses a part")]

use kiln_store::{
    Backend, Digest, Layout, MemoryBackend, Result, ShardInfo, ShardReader, ShardState,
    ShardWriter, SumKind, checksum, checksums, digest_of,
};

/// Five stripes, the last one short: three segments.
pub const SIZE: u64 = 4 * 192 + 100;
/// Name under which shards are written.
pub const PART: &str = ".object.01.kiln.part";
/// Name of finished shards.
pub const NAME: &str = "object.01.kiln";

/// A small shard: chunks of 4 sub-chunks of 24 bytes, 2 stripes per segment.
pub fn small(size: Option<u64>) -> ShardInfo {
    ShardInfo {
        spec: "clay:2+2,d=3".into(),
        object: "object".into(),
        run: std::array::from_fn(|i| i as u8 + 1),
        source: std::array::from_fn(|i| 255 - i as u8),
        index: 1,
        k: 2,
        n: 4,
        alpha: 4,
        sub_chunk: 24,
        segment_stripes: 2,
        size,
        sums: SumKind::Crc32c,
    }
}

/// The same, with a hash for each sub-chunk.
pub fn hashed(size: Option<u64>) -> ShardInfo {
    ShardInfo { sums: SumKind::Blake3, ..small(size) }
}

/// A chunk whose every byte depends on stripe and position.
pub fn chunk(stripe: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| {
            let x = (stripe * 1_000_003 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (x >> 56) as u8
        })
        .collect()
}

/// Digests of all shards: `own` in its place.
pub fn digests(info: &ShardInfo, own: Digest) -> Vec<Digest> {
    (0..info.n).map(|i| if i == info.index { own } else { other(info, i as u8) }).collect()
}

/// A digest that no shard here has.
fn other(info: &ShardInfo, index: u8) -> Digest {
    let bytes = vec![index ^ 0x5a; info.sums.digest_len()];
    Digest::new(info.sums, &bytes).unwrap()
}

/// Appends the chunks that are missing before a stripe.
pub fn append(writer: &mut ShardWriter, sums: SumKind, layout: &Layout, until: u64) -> Result<()> {
    for stripe in writer.stripes()..until {
        let bytes = chunk(stripe, layout.chunk_len(stripe));
        writer.append_chunk(&bytes, &sums_of(sums, &bytes, layout.sub_len(stripe)))?;
    }
    Ok(())
}

/// Checksums of a chunk.
pub fn sums_of(kind: SumKind, bytes: &[u8], sub_len: usize) -> Vec<u8> {
    let mut sums = Vec::new();
    checksums(kind, bytes, sub_len, &mut sums);
    sums
}

/// Appends the chunks that are missing, seals and finishes.
pub fn complete(mut writer: ShardWriter, info: &ShardInfo, size: u64) -> Result<()> {
    let layout = ShardInfo { size: Some(size), ..info.clone() }.layout()?;
    append(&mut writer, info.sums, &layout, layout.stripes())?;
    let own = writer.seal()?;
    writer.finish(size, &digests(info, own))
}

/// Writes a whole shard under its temporary name and renames it.
pub fn write(disk: &dyn Backend, info: &ShardInfo, size: u64) -> Result<()> {
    complete(ShardWriter::create(disk, PART, info)?, info, size)?;
    disk.rename(PART, NAME)
}

/// The bytes of a whole shard.
pub fn image(info: &ShardInfo, size: u64) -> Vec<u8> {
    let disk = MemoryBackend::new();
    write(&disk, info, size).unwrap();
    disk.bytes(NAME).unwrap()
}

/// A place with one shard of these bytes.
pub fn disk_with(bytes: Vec<u8>) -> MemoryBackend {
    let disk = MemoryBackend::new();
    disk.put(NAME, bytes);
    disk
}

/// Reads everything there is to read; an error or a description of what is wrong.
pub fn verify(disk: &dyn Backend, name: &str) -> Result<(), String> {
    let reader = ShardReader::open(disk, name).map_err(|error| error.to_string())?;
    if reader.state() != ShardState::Complete {
        return Err(reader.damage().unwrap_or("no reason").to_string());
    }
    let own = digest_of(&reader).map_err(|error| error.to_string())?;
    if reader.digests().unwrap()[usize::from(reader.info().index)] != own {
        return Err("digest".into());
    }
    for stripe in 0..reader.layout().stripes() {
        let bytes = read_chunk(&reader, stripe).map_err(|error| error.to_string())?;
        assert_eq!(bytes, chunk(stripe, bytes.len()), "wrong bytes were let through");
    }
    Ok(())
}

/// Every single flipped bit of a shard is found when all of it is read.
pub fn flips_are_found(clean: &[u8]) {
    let disk = disk_with(clean.to_vec());
    verify(&disk, NAME).unwrap();
    for bit in 0..clean.len() * 8 {
        let mut bytes = clean.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        disk.put(NAME, bytes);
        assert!(verify(&disk, NAME).is_err(), "bit {bit} of {} unseen", clean.len() * 8);
    }
}

/// One whole chunk.
pub fn read_chunk(reader: &ShardReader, stripe: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; reader.layout().chunk_len(stripe)];
    let alpha = reader.info().alpha;
    reader.read_runs(stripe, std::slice::from_ref(&(0..alpha)), &mut bytes)?;
    Ok(bytes)
}

/// Bytes of the trailer record of [`small`] shards.
pub const RECORD: usize = 80 + 18 + 4 * 16 + 4;

/// Repairs the checksums of header and trailer, so that changed fields reach the parser.
pub fn reseal(bytes: &mut [u8], record: usize) {
    let len = bytes.len();
    for range in [0..4096, len - 24 - record..len - 24] {
        let end = range.end - 4;
        let sum = checksum(&bytes[range.start..end]).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&sum);
    }
    let sum = checksum(&bytes[len - 24..len - 12]).to_le_bytes();
    bytes[len - 12..len - 8].copy_from_slice(&sum);
}
