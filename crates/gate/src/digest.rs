//! Checksums of payloads: the entity tag, and those that clients name.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::{fmt, io};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::{CrcAlgorithm, Digest as Crc};
use kiln_stripe::{Budget, Share};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

use crate::error::{Code, Result};
use crate::record::Checksum;

pub(crate) use kiln_stripe::names::{from_hex as unhex, hex};

/// Bytes of a block whose sums are made at a time, and blocks of one payload beside the one that is
/// being filled; more where memory is free.
const BLOCK: usize = 128 << 10;
const BLOCKS: usize = 2;

/// An algorithm of S3's additional checksums.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Crc32,
    Crc32C,
    Crc64Nvme,
    Md5,
    Sha1,
    Sha256,
    Sha512,
    Xxhash128,
    Xxhash3,
    Xxhash64,
}

const UNKNOWN: &str = "Checksum algorithm provided is unsupported. Please try again with any of \
    the valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, \
    XXHASH64]";

impl Kind {
    /// Every kind with its name, as S3 writes it, and the bytes of its value.
    const ROWS: [(Kind, &str, usize); 10] = [
        (Kind::Crc32, "CRC32", 4),
        (Kind::Crc32C, "CRC32C", 4),
        (Kind::Crc64Nvme, "CRC64NVME", 8),
        (Kind::Md5, "MD5", 16),
        (Kind::Sha1, "SHA1", 20),
        (Kind::Sha256, "SHA256", 32),
        (Kind::Sha512, "SHA512", 64),
        (Kind::Xxhash128, "XXHASH128", 16),
        (Kind::Xxhash3, "XXHASH3", 8),
        (Kind::Xxhash64, "XXHASH64", 8),
    ];

    /// Returns all of them.
    pub(crate) fn all() -> impl Iterator<Item = Kind> {
        Kind::ROWS.into_iter().map(|row| row.0)
    }

    /// Returns its name, as S3 writes it.
    pub(crate) fn name(self) -> &'static str {
        Kind::ROWS[self as usize].1
    }

    /// Returns the header that has its value.
    pub(crate) fn header(self) -> String {
        format!("x-amz-checksum-{}", self.name().to_ascii_lowercase())
    }

    /// Reads a name.
    pub(crate) fn parse(name: &str) -> Option<Kind> {
        Kind::all().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Reads a name that a client gives.
    /// Errors: [`Code::InvalidRequest`]: it is unknown.
    pub(crate) fn named(name: &str) -> Result<Kind> {
        Kind::parse(name).ok_or_else(|| Code::InvalidRequest.error(UNKNOWN))
    }

    /// Reads the name of a header.
    pub(crate) fn of_header(header: &str) -> Option<Kind> {
        Kind::parse(header.strip_prefix("x-amz-checksum-")?)
    }

    /// Returns the CRC that it is, whose pieces can be joined.
    pub(crate) fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Kind::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Kind::Crc32C => Some(CrcAlgorithm::Crc32Iscsi),
            Kind::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            _ => None,
        }
    }

    /// Returns how many bytes its value has.
    pub(crate) fn bytes(self) -> usize {
        Kind::ROWS[self as usize].2
    }
}

/// One checksum in the making.
#[derive(Clone)]
pub(crate) struct Hasher(Kind, State);

#[derive(Clone)]
enum State {
    Crc(Crc),
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
    Xxh3(Box<Xxh3>),
    Xxh64(Xxh64),
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Hasher {
    /// Begins one.
    pub(crate) fn new(kind: Kind) -> Hasher {
        let state = match (kind, kind.crc()) {
            (_, Some(crc)) => State::Crc(Crc::new(crc)),
            (Kind::Md5, _) => State::Md5(Md5::new()),
            (Kind::Sha1, _) => State::Sha1(Sha1::new()),
            (Kind::Sha512, _) => State::Sha512(Sha512::new()),
            (Kind::Xxhash128 | Kind::Xxhash3, _) => State::Xxh3(Box::default()),
            (Kind::Xxhash64, _) => State::Xxh64(Xxh64::default()),
            _ => State::Sha256(Sha256::new()),
        };
        Hasher(kind, state)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.1 {
            State::Crc(hash) => hash.update(bytes),
            State::Md5(hash) => hash.update(bytes),
            State::Sha1(hash) => hash.update(bytes),
            State::Sha256(hash) => hash.update(bytes),
            State::Sha512(hash) => hash.update(bytes),
            State::Xxh3(hash) => hash.update(bytes),
            State::Xxh64(hash) => hash.update(bytes),
        }
    }

    /// Returns the value, most significant byte first.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self.1 {
            State::Crc(hash) => hash.finalize().to_be_bytes()[8 - self.0.bytes()..].to_vec(),
            State::Md5(hash) => hash.finalize().to_vec(),
            State::Sha1(hash) => hash.finalize().to_vec(),
            State::Sha256(hash) => hash.finalize().to_vec(),
            State::Sha512(hash) => hash.finalize().to_vec(),
            State::Xxh3(hash) if self.0 == Kind::Xxhash3 => hash.digest().to_be_bytes().to_vec(),
            State::Xxh3(hash) => hash.digest128().to_be_bytes().to_vec(),
            State::Xxh64(hash) => hash.digest().to_be_bytes().to_vec(),
        }
    }

    /// Returns the value, as records and answers have it.
    pub(crate) fn checksum(self) -> Checksum {
        let kind = self.0.name().to_owned();
        Checksum { kind, value: to_base64(&self.finish()) }
    }
}

/// Computes a checksum of bytes at hand.
pub(crate) fn checksum(kind: Kind, bytes: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(kind);
    hasher.update(bytes);
    hasher.checksum()
}

/// The checksum of two pieces from those of each; `None`: the algorithm cannot do that.
pub(crate) fn joined(kind: Kind, first: &[u8], second: &[u8], second_len: u64) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let sum = crc_fast::checksum_combine(kind.crc()?, number(first), number(second), second_len);
    Some(sum.to_be_bytes()[8 - kind.bytes()..].to_vec())
}

/// All digests of one payload, of the bytes so far.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    md5: Md5,
    /// Of the payload as it was signed.
    signed: Option<Hasher>,
    /// The one that the client named.
    named: Option<Hasher>,
    /// One that is kept in its place.
    kept: Option<Hasher>,
}

impl Sums {
    fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        for hasher in self.signed.iter_mut().chain(&mut self.named).chain(&mut self.kept) {
            hasher.update(bytes);
        }
    }

    pub(crate) fn md5(&self) -> [u8; 16] {
        let digest = self.md5.clone().finalize();
        std::array::from_fn(|at| digest[at])
    }

    /// Returns the SHA-256 of the payload as it was signed, in hex.
    pub(crate) fn signed(&self) -> Option<String> {
        self.signed.clone().map(|hasher| hex(&hasher.finish()))
    }

    /// Returns the checksum that the client named.
    pub(crate) fn named(&self) -> Option<Checksum> {
        self.named.clone().map(Hasher::checksum)
    }

    /// Returns the checksum for the record of the payload.
    pub(crate) fn kept(&self) -> Option<Checksum> {
        self.kept.clone().map(Hasher::checksum).or_else(|| self.named())
    }
}

/// The making of [`Sums`], on a thread of its own as soon as there is more than a block: an MD5
/// takes longer than all that the pool does with the bytes.
#[derive(Debug)]
pub(crate) struct Digests {
    sums: Sums,
    block: Vec<u8>,
    budget: Option<Arc<Budget>>,
    beside: Option<Beside>,
}

/// A block with its memory, where that is shared with puts.
type Full = (Vec<u8>, Option<Share>);

/// The thread, and blocks on their way to it and back; those with a share do not come back.
#[derive(Debug)]
struct Beside {
    full: Sender<Full>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Sums>,
}

impl Beside {
    fn start(mut sums: Sums) -> io::Result<Beside> {
        let ((full, filled), (back, empty)) = (channel::<Full>(), channel());
        (0..BLOCKS).for_each(|_| drop(back.send(Vec::new())));
        let thread = Builder::new().name("kiln-s3-sums".into()).spawn(move || {
            for (mut block, share) in filled {
                sums.update(&block);
                if share.is_none() {
                    block.clear();
                    let _ = back.send(block);
                }
            }
            sums
        })?;
        Ok(Beside { full, empty, thread })
    }
}

impl Digests {
    pub(crate) fn new(signed: bool, named: Option<Kind>) -> Digests {
        let signed = signed.then(|| Hasher::new(Kind::Sha256));
        let sums = Sums { md5: Md5::new(), signed, named: named.map(Hasher::new), kept: None };
        Digests { sums, block: Vec::new(), budget: None, beside: None }
    }

    /// Makes a checksum for the record where the client named another one.
    pub(crate) fn keep(&mut self, kind: Kind) {
        if self.sums.named.as_ref().is_none_or(|named| named.0 != kind) {
            self.sums.kept = Some(Hasher::new(kind));
        }
    }

    /// Lets the sums come later than the bytes, as long as memory is free.
    pub(crate) fn lag(&mut self, budget: &Arc<Budget>) {
        self.budget = Some(Arc::clone(budget));
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.block.len() == BLOCK {
                self.pass_on();
            }
            let taken = bytes.len().min(BLOCK - self.block.len());
            self.block.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
    }

    /// Passes the block on to the thread; where the system gives none, the sums are made here.
    fn pass_on(&mut self) {
        if self.beside.is_none() {
            self.beside = Beside::start(self.sums.clone()).ok();
        }
        let passed = self.beside.as_ref().and_then(|beside| {
            let (next, share) = match beside.empty.try_recv() {
                Ok(block) => (block, None),
                // A share is of a block that is full: nothing that waits for its turn has one.
                _ => match self.budget.as_ref().and_then(|all| all.try_take(BLOCK as u64)) {
                    None => (beside.empty.recv().ok()?, None),
                    share => (Vec::with_capacity(BLOCK), share),
                },
            };
            beside.full.send((std::mem::replace(&mut self.block, next), share)).ok()
        });
        if passed.is_none() {
            self.sums.update(&self.block);
        }
        self.block.clear();
    }

    /// Waits until all that came is in the sums.
    pub(crate) fn sums(&mut self) -> &Sums {
        if let Some(Beside { full, thread, .. }) = self.beside.take() {
            drop(full);
            self.sums = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        self.sums.update(&self.block);
        self.block.clear();
        &self.sums
    }
}

/// The MD5 of bytes at hand.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    let digest = Md5::digest(bytes);
    std::array::from_fn(|at| digest[at])
}

/// The SHA-256 of bytes at hand, in hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in base64.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Bytes of base64; `None`: the text is invalid.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_are_made_beside_are_those_of_all_bytes() {
        let bytes: Vec<u8> = (0..6 * BLOCK + 7).map(|at| (at * 7) as u8).collect();
        let whole = (md5(&bytes), sha256_hex(&bytes), checksum(Kind::Crc32, &bytes));
        for piece in [1000, BLOCK, 3 * BLOCK + 1, bytes.len()] {
            let mut digests = Digests::new(true, Some(Kind::Crc32));
            bytes.chunks(piece).for_each(|piece| digests.update(piece));
            for _ in 0..2 {
                let sums = digests.sums();
                let found = (sums.md5(), sums.signed().unwrap(), sums.named().unwrap());
                assert_eq!(found, whole, "{piece}");
            }
        }
    }

    /// Check values of `123456789` from the catalogue of CRCs and the standards of the hashes.
    #[test]
    fn checksums_are_the_known_ones() {
        let of = |kind| {
            let mut hasher = Hasher::new(kind);
            hasher.update(b"1234");
            hasher.update(b"56789");
            hex(&hasher.finish())
        };
        assert_eq!(of(Kind::Crc32), "cbf43926");
        assert_eq!(of(Kind::Crc32C), "e3069283");
        assert_eq!(of(Kind::Crc64Nvme), "ae8b14860a799888");
        assert_eq!(of(Kind::Sha1), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
        assert_eq!(of(Kind::Md5), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(of(Kind::Xxhash64), "8cb841db40e6ae83");
        // XXH3 and SHA-512 of nothing, as their authors give them.
        let empty = |kind| hex(&Hasher::new(kind).finish());
        assert_eq!(empty(Kind::Xxhash3), "2d06800538d394c2");
        assert_eq!(empty(Kind::Xxhash128), "99aa06d3014798d86001c324468d497f");
        assert!(empty(Kind::Sha512).starts_with("cf83e1357eefb8bdf1542850d66d8007"));
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(unhex("cbF4"), Some(vec![0xcb, 0xf4]));
        assert_eq!((unhex("c"), unhex("zz")), (None, None));
        for kind in [Kind::Crc32, Kind::Crc32C, Kind::Crc64Nvme] {
            let of = |bytes: &[u8]| from_base64(&checksum(kind, bytes).value).unwrap();
            let both = joined(kind, &of(b"1234"), &of(b"56789"), 5);
            assert_eq!(both, Some(of(b"123456789")));
        }
        for kind in Kind::all() {
            assert_eq!(Hasher::new(kind).finish().len(), kind.bytes());
            assert_eq!(Kind::of_header(&kind.header()), Some(kind));
        }
    }
}
