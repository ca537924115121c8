//! Manifests come back, damaged ones do not, and whatever comes is no panic.

use super::*;
use proptest::prelude::*;

fn placed() -> Manifest {
    let digest = |at: u8| Digest::new(SumKind::Crc32c, &[at; 16]).unwrap();
    let place = |at: u8| Place { node: format!("n{at:02}"), digest: digest(at) };
    Manifest {
        pool: [1; 16],
        name: "photos/2024/beach.jpg".into(),
        version: 7,
        run: [2; 16],
        created_ms: 1_700_000_000_000,
        size: 12_345_678,
        kept: None,
        key: None,
        copies: (0..5).map(|at| format!("n{at:02}")).collect(),
        body: Body::Shards(Placed {
            spec: "rs:4+2,matrix=cauchy".into(),
            k: 4,
            alpha: 1,
            sub_chunk: 65536,
            segment_stripes: 64,
            sums: SumKind::Crc32c,
            places: (0..6).map(place).collect(),
        }),
    }
}

fn all() -> [Manifest; 5] {
    let inline = Manifest { size: 3, body: Body::Inline(b"abc".to_vec()), ..placed() };
    let key = || Some(WrappedKey(Box::new([3; 88])));
    let encrypted = Manifest { body: Body::Inline(vec![6; 19]), key: key(), ..inline.clone() };
    let removed = Manifest { size: 0, body: Body::Deleted, ..placed() };
    [placed(), inline, removed, Manifest { key: key(), ..placed() }, encrypted]
}

#[test]
fn all_kinds_come_back() {
    for manifest in all() {
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::from_bytes(&bytes), Ok(manifest));
    }
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let bytes = all()[1].to_bytes();
    assert_eq!(bytes[..12], *b"\x89KMAN\r\n\x1a\x01\0\x02\0");
    assert_eq!(u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize, bytes.len());
    assert_eq!(bytes[16..32], [1; 16]);
    assert_eq!(bytes[32..48], [2; 16]);
    assert_eq!(bytes[48], 7);
    assert_eq!(bytes[72..76], [21, 0, 5, 0]);
    assert_eq!(bytes[76..96], [0; 20]);
    assert_eq!(&bytes[96..117], b"photos/2024/beach.jpg");
    assert_eq!(&bytes[117..125], b"\x03n00\x03n01");
    assert_eq!(&bytes[bytes.len() - 7..bytes.len() - 4], b"abc");
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    for manifest in all() {
        let bytes = manifest.to_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1 << bit;
                assert!(Manifest::from_bytes(&wrong).is_err(), "byte {at}, bit {bit}");
            }
            assert!(Manifest::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn the_newest_wins_and_ties_have_one_winner() {
    let (a, b) = (placed(), Manifest { version: 8, run: [0; 16], ..placed() });
    assert_eq!(a.order(&b), Ordering::Less);
    let tie = Manifest { copies: vec!["x".into()], ..placed() };
    assert_eq!(a.order(&tie), tie.order(&a).reverse());
    assert_ne!(a.order(&tie), Ordering::Equal);
    assert_eq!(a.order(&a.clone()), Ordering::Equal);
}

/// Gives changed bytes a right length and checksum, to get at the parser behind them.
fn forge(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let len = (bytes.len() as u32).to_le_bytes();
    bytes[12..16].copy_from_slice(&len);
    let sum = checksum(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_forged_manifest_is_one_or_an_error(
        which in 0usize..5,
        patches in proptest::collection::vec((8usize..300, any::<u8>()), 0..6),
        cut in 0usize..40,
    ) {
        let mut bytes = all()[which].to_bytes();
        for (at, byte) in patches {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len() - FIXED - 4));
        if let Ok(manifest) = Manifest::from_bytes(&forge(bytes.clone())) {
            prop_assert_eq!(manifest.to_bytes(), forge(bytes));
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Manifest::from_bytes(&bytes);
    }
}
