//! A file in which long zeros are holes: they take no room on the disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Unit of holes: file systems know no smaller ones.
const BLOCK: usize = 4096;

/// A file that is written from its beginning on.
pub struct SparseFile {
    pub file: File,
    /// Offset of the next byte; `None` where there can be no holes, as in pipes and devices.
    at: Option<u64>,
}

impl SparseFile {
    /// An empty regular file.
    pub fn in_file(file: File) -> SparseFile {
        SparseFile { file, at: Some(0) }
    }

    /// Something else, where zeros must be written.
    pub fn none(file: File) -> SparseFile {
        SparseFile { file, at: None }
    }

    /// Gives the file its length, which a hole at its end does not.
    pub fn end(&self) -> io::Result<()> {
        self.at.map_or(Ok(()), |at| self.file.set_len(at))
    }
}

impl Write for SparseFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(at) = self.at else { return self.file.write(bytes) };
        // Up to the next block's beginning nothing can be a hole.
        let odd = (BLOCK - (at % BLOCK as u64) as usize) % BLOCK;
        let zeros = match odd {
            0 => bytes.chunks_exact(BLOCK).take_while(|block| is_zero(block)).count() * BLOCK,
            _ => 0,
        };
        let count = if zeros > 0 {
            self.file.seek(SeekFrom::Current(zeros as i64))?;
            zeros
        } else {
            let (first, rest) = bytes.split_at(odd.min(bytes.len()));
            let blocks = rest.chunks(BLOCK);
            let full = blocks.take_while(|block| block.len() < BLOCK || !is_zero(block));
            let len = first.len() + full.map(<[u8]>::len).sum::<usize>();
            self.file.write(&bytes[..len])?
        };
        self.at = Some(at + count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn is_zero(block: &[u8]) -> bool {
    let (words, rest) = block.as_chunks::<8>();
    rest.iter().all(|&byte| byte == 0) && words.iter().all(|word| u64::from_ne_bytes(*word) == 0)
}
