//! Writing out what the page cache has, before anybody waits for it.

use std::{fs::File, io, ops::Range};

/// Asks the system to begin writing these bytes of a file to its device, and does not wait: a
/// later sync finds most of its work done. Nothing is durable by this, nor is the device's cache
/// flushed. Systems and files that know no such request ignore it.
/// Errors: the system's error when it began: no space for blocks that were put off until now, say.
pub fn start_writing(file: &File, bytes: Range<u64>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // A length of 0 would mean all of the file from there on.
        if bytes.is_empty() {
            return Ok(());
        }
        let (from, len) = (signed(bytes.start), signed(bytes.end - bytes.start));
        // SAFETY: the call takes numbers only, and the file is open as long as it is borrowed.
        let end = unsafe {
            libc::sync_file_range(file.as_raw_fd(), from, len, libc::SYNC_FILE_RANGE_WRITE)
        };
        if end != 0 {
            let error = io::Error::last_os_error();
            let unknown = [libc::ENOSYS, libc::EINVAL, libc::ESPIPE, libc::EOPNOTSUPP, libc::EPERM];
            if !error.raw_os_error().is_some_and(|code| unknown.contains(&code)) {
                return Err(error);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn what_is_written_early_is_what_was_written() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at * 7 + at / 256 * 3) as u8).collect();
        for (at, part) in bytes.chunks(70_001).enumerate() {
            file.write_all(part).unwrap();
            let from = at as u64 * 70_001;
            start_writing(&file, from..from + part.len() as u64).unwrap();
        }
        file.sync_all().unwrap();
        file.rewind().unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }

    #[test]
    fn ranges_beyond_files_and_files_without_devices_are_left_alone() {
        let file = tempfile::tempfile().unwrap();
        for range in [0..0, 5..5, 0..1, u64::MAX - 1..u64::MAX] {
            start_writing(&file, range).unwrap();
        }
        if let Ok(null) = File::options().write(true).open("/dev/null") {
            start_writing(&null, 0..4096).unwrap();
        }
    }
}
