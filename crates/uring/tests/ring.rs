//! The ring against plain reads of the same file.

use kiln_uring::{MAX_READ, Read, Ring};
use std::{io::Write, os::unix::fs::FileExt};

/// Bytes that differ at every position a test could confuse.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 167 + i / 256 * 13 + 5) as u8).collect()
}

/// A ring, or a loud word that nothing was tested.
fn ring(depth: u32) -> Option<Ring> {
    Ring::new(depth)
        .map_err(|error| eprintln!("SKIPPED: io_uring is not permitted here: {error}"))
        .ok()
}

#[test]
fn any_number_of_reads_through_any_depth() {
    let bytes = pattern(300_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    for depth in [1, 2, 8, 128] {
        let Some(mut ring) = ring(depth) else { return };
        for count in [0usize, 1, 2, 7, 128, 500] {
            let mut bufs: Vec<Vec<u8>> = (0..count).map(|i| vec![0xaa; i * 7 % 400]).collect();
            let offset = |i: usize| (i * 577 % 299_000) as u64;
            let mut reads: Vec<Read<'_>> =
                bufs.iter_mut().enumerate().map(|(i, b)| Read::new(offset(i), b)).collect();
            ring.read_all(&file, &mut reads).unwrap();
            assert!(reads.iter().all(|read| read.filled == read.buf.len()));
            for (i, buf) in bufs.iter().enumerate() {
                let at = offset(i) as usize;
                assert_eq!(buf[..], bytes[at..at + buf.len()], "read {i} of {count}");
            }
        }
    }
}

#[test]
fn the_end_of_the_file_gives_less() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&pattern(1000)).unwrap();
    let Some(mut ring) = ring(4) else { return };
    let (mut across, mut beyond) = ([0xaa; 100], [0xaa; 10]);
    let mut reads = [Read::new(950, &mut across), Read::new(1000, &mut beyond)];
    ring.read_all(&file, &mut reads).unwrap();
    assert_eq!((reads[0].filled, reads[1].filled), (50, 0));
    let mut plain = [0; 50];
    file.read_exact_at(&mut plain, 950).unwrap();
    assert_eq!(across[..50], plain);
    assert!(across[50..].iter().chain(&beyond).all(|&byte| byte == 0xaa));
}

#[test]
fn a_failed_read_is_told_and_the_ring_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, pattern(10_000)).unwrap();
    let closed_to_reads = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let open = std::fs::File::open(&path).unwrap();
    let Some(mut ring) = ring(2) else { return };
    let mut bufs = [[0; 64]; 9];
    let mut reads: Vec<Read<'_>> =
        bufs.iter_mut().enumerate().map(|(i, b)| Read::new(i as u64 * 64, b)).collect();
    assert!(ring.read_all(&closed_to_reads, &mut reads).is_err());
    ring.read_all(&open, &mut reads).unwrap();
    assert_eq!(bufs.concat(), pattern(10_000)[..9 * 64]);
    // Not reserved, so it costs no memory: the length alone is refused.
    let mut huge = vec![0; MAX_READ + 1];
    assert!(ring.read_all(&open, &mut [Read::new(0, &mut huge)]).is_err());
}
