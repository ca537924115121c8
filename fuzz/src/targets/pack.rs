//! Pack files, which many small files of a node share: what is found lies in the file, and under
//! the stem that was asked for.

use kiln_store::backends::pack;
use std::io;

const NAMES: [&str; 3] = ["aa.manifest", ".b7.run.17.manifest.part", "c.manifest"];

pub fn run(input: &[u8]) {
    let read = |at: u64, buf: &mut [u8]| {
        let end = (at as usize).checked_add(buf.len());
        let there = end.and_then(|end| input.get(at as usize..end));
        buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let Ok(Some(table)) = pack::table(input.len() as u64, read) else { return };
    for name in NAMES {
        let stem = pack::stem(name).unwrap_or_default();
        if let Ok((start, len)) = pack::find_in(&table, stem, input.len() as u64, read) {
            assert!(start + len <= input.len() as u64);
            assert_eq!(&input[start as usize - stem.len()..start as usize], stem.as_bytes());
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let (some, more) = (vec![7; 40], vec![9; 300]);
    let files: [(&str, &[u8]); 3] = [(NAMES[0], &some), (NAMES[1], &more), (NAMES[2], b"")];
    vec![pack::bytes(&files), pack::bytes(&files[1..]), b"KILNPACK".to_vec()]
}
