//! Files of a pool: descriptions, manifests, names, identities of places. Any bytes are a file that
//! prints back, or an error.

use std::sync::Arc;

use kiln_pool::layout::Seals;
use kiln_pool::layout::{Body, Place, Placed};
use kiln_pool::{Key, Manifest, NodeConfig, NodeFile, Policy, Pool, PoolConfig, PoolKeys};
use kiln_store::{Backend, Digest, MemoryBackend, SumKind};

/// Gives bytes the length and checksum that they should have, to get at the parser behind them.
fn forged(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(end) = bytes.len().checked_sub(4).filter(|end| *end >= 16) else { return bytes };
    bytes[..8].copy_from_slice(b"\x89KMAN\r\n\x1a");
    // Either version: with a seal or without.
    (bytes[8], bytes[9]) = (1 + bytes[8] % 2, 0);
    let len = (bytes.len() as u32).to_le_bytes();
    bytes[12..16].copy_from_slice(&len);
    let sum = kiln_store::checksum(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    bytes
}

/// Opens a pool of places that all say the same of themselves: one of them at most is what it
/// should be, whatever they say.
fn entered(said: &[u8]) -> Option<()> {
    let policy = Policy::for_code("rep:2").ok()?;
    let mut config = PoolConfig::new([0x5a; 16], "fuzzed", policy);
    for at in 0..3 {
        config.node.push(NodeConfig::new(&format!("n{at}"), &format!("memory://{at}")));
    }
    let place = MemoryBackend::new();
    place.append("kiln-node.toml", 0).ok()?.append(said).ok()?;
    let place: Arc<dyn Backend> = Arc::new(place);
    let pool = Pool::open(config, &|_| Ok(place.clone())).ok()?;
    assert!(pool.away().len() >= 2, "one place is several nodes");
    Some(())
}

pub fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Ok(config) = PoolConfig::from_toml(text)
            && let Ok(again) = config.to_toml()
        {
            assert_eq!(PoolConfig::from_toml(&again).ok(), Some(config));
        }
        if let Some(file) = NodeFile::parse(text) {
            assert_eq!(file.name(), text);
        }
    }
    entered(input);
    // The same behind what a right one begins with, to get at what a new disk says.
    let right = format!("version = 1\npool = \"{}\"\nnode = \"n0\"\n", "5a".repeat(16));
    entered(&[right.as_bytes(), input].concat());
    let _ = Manifest::from_bytes(input);
    let bytes = forged(input.to_vec());
    if let Ok(manifest) = Manifest::from_bytes(&bytes) {
        assert!(bytes[8] == 2 || manifest.to_bytes() == bytes);
    }
    // A seal cannot be guessed.
    assert!(Manifest::unseal(&bytes, &sealed()).is_err());
    assert!(Manifest::unseal(input, &sealed()).is_err());
}

/// Seals of a pool with a key that no input knows.
fn sealed() -> Seals {
    // A known code.
    let policy = Policy::for_code("rep:2").expect("a code");
    // As kiln writes it.
    let keys = PoolKeys::parse(&PoolKeys::text_of(&[0xa5; 32])).expect("a key");
    let mut config = PoolConfig::new([0x5a; 16], "sealed", policy);
    (config.sealed, config.keys) = (keys.ids(), keys);
    config.seals()
}

/// Names of all kinds, what a place says of itself, and manifests.
pub fn seeds() -> Vec<Vec<u8>> {
    let (key, run) = (Key([0xab; 16]), [2; 16]);
    let shard = NodeFile::Shard { key, run, index: 3 };
    let mut seeds: Vec<Vec<u8>> =
        [NodeFile::Manifest { key }, shard].iter().map(|file| file.name().into_bytes()).collect();
    let said = "[disk]\nbackfilling = true\n";
    seeds.push(said.into());
    // As many bytes as a digest of these has.
    let digest = |at: u8| Digest::new(SumKind::Crc32c, &[at; 16]).expect("16 bytes");
    let place = |at: u8| Place { node: format!("n{at}"), digest: digest(at) };
    let placed = Placed {
        spec: "rs:2+1,matrix=cauchy".into(),
        k: 2,
        alpha: 1,
        sub_chunk: 4096,
        segment_stripes: 8,
        sums: SumKind::Crc32c,
        places: (0..3).map(place).collect(),
    };
    for body in [Body::Shards(placed), Body::Inline(b"abc".to_vec()), Body::Deleted] {
        let size = if let Body::Inline(bytes) = &body { bytes.len() as u64 } else { 0 };
        let manifest = Manifest {
            pool: [0x5a; 16],
            name: "photos/beach.jpg".into(),
            version: 7,
            run,
            created_ms: 1_700_000_000_000,
            size,
            copies: vec!["n0".into(), "n1".into()],
            body,
            kept: None,
            key: None,
        };
        seeds.push(manifest.to_bytes());
    }
    seeds
}
