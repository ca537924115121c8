//! What a pool reads that others wrote: descriptions, manifests, names of files. Whatever comes is
//! one that prints back, or an error.
#![no_main]
#![forbid(unsafe_code)]

use kiln_pool::{Manifest, NodeFile, PoolConfig};
use libfuzzer_sys::fuzz_target;

/// Gives bytes the length and checksum that they should have, to get at the parser behind them.
fn forged(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(end) = bytes.len().checked_sub(4).filter(|end| *end >= 16) else { return bytes };
    let magic = *b"\x89KMAN\r\n\x1a\x01\0";
    bytes[..10].copy_from_slice(&magic);
    let len = (bytes.len() as u32).to_le_bytes();
    bytes[12..16].copy_from_slice(&len);
    let sum = kiln_store::checksum(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    bytes
}

fuzz_target!(|input: &[u8]| {
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
    let _ = Manifest::from_bytes(input);
    let bytes = forged(input.to_vec());
    if let Ok(manifest) = Manifest::from_bytes(&bytes) {
        assert_eq!(manifest.to_bytes(), bytes);
    }
});
