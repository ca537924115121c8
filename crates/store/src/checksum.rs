//! Checksums of sub-chunks (CRC-32C) and digests of whole shards (XXH3-128).

/// Digest of a whole shard: XXH3-128 over all its table entries, in the canonical byte order
/// (most significant byte first).
pub type Digest = [u8; 16];

/// The checksum of one sub-chunk: CRC-32C (Castagnoli), as in iSCSI and ext4.
///
/// ```
/// assert_eq!(kiln_store::checksum(b"123456789"), 0xe306_9283);
/// ```
#[must_use]
pub fn checksum(sub_chunk: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(sub_chunk)
}

/// Appends the checksums of a chunk's sub-chunks, in order of position, to `out`.
///
/// `sub_len` is the length in bytes of a sub-chunk (at least 1); a last, shorter piece of `chunk`
/// gets a checksum too.
///
/// ```
/// let mut sums = Vec::new();
/// kiln_store::checksums(b"aabb", 2, &mut sums);
/// assert_eq!(sums, [kiln_store::checksum(b"aa"), kiln_store::checksum(b"bb")]);
/// ```
pub fn checksums(chunk: &[u8], sub_len: usize, out: &mut Vec<u32>) {
    out.extend(chunk.chunks(sub_len.max(1)).map(checksum));
}

/// Builds a [`Digest`] from table entries as they come.
///
/// ```
/// use kiln_store::DigestBuilder;
/// let (mut one, mut two) = (DigestBuilder::default(), DigestBuilder::default());
/// one.add(&[1, 2, 3]);
/// two.add(&[1]);
/// two.add(&[2, 3]);
/// assert_eq!(one.digest(), two.digest());
/// ```
#[derive(Clone, Default)]
pub struct DigestBuilder(Box<xxhash_rust::xxh3::Xxh3>);

impl DigestBuilder {
    /// Adds the next checksums of the shard.
    pub fn add(&mut self, sums: &[u32]) {
        // In pieces: the hash is several times faster on long inputs.
        let mut bytes = [0; 1024];
        for piece in sums.chunks(bytes.len() / 4) {
            for (slot, sum) in bytes.chunks_exact_mut(4).zip(piece) {
                slot.copy_from_slice(&sum.to_le_bytes());
            }
            self.0.update(&bytes[..4 * piece.len()]);
        }
    }

    /// The digest of everything added so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest128().to_be_bytes()
    }
}

impl std::fmt::Debug for DigestBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DigestBuilder").finish()
    }
}
