//! Properties of the block device under a file, from Linux.

use std::path::{Path, PathBuf};

/// Bytes of a page: the smallest piece of memory of a request.
const PAGE: u64 = 4096;

/// Reads that a device completed, and their bytes, since it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads completed, as the device was handed them.
    pub reads: u64,
    /// Reads that the block layer made part of another one before it.
    pub merged: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Returns the system's counters of the device that this file or folder is on, or that it is, for
/// all processes together. `None` where the system does not tell: no Linux, or no block device.
pub fn device_counted(path: &Path) -> Option<DeviceCounters> {
    parse_stat(&std::fs::read_to_string(about(path)?.join("stat")).ok()?)
}

/// Sizes into which the block layer may cut longer reads of the device that this file or folder is
/// on, or that it is: the longest request, and what the most separate pages of one hold,
/// wherever its memory begins. Empty where the system does not tell.
pub fn request_limits(path: &Path) -> Vec<u64> {
    let Some(about) = about(path) else { return Vec::new() };
    // A partition has the queue of its device.
    let queue = [about.join("queue"), about.join("../queue")];
    let number = |name: &str| {
        let text = queue.iter().find_map(|queue| std::fs::read_to_string(queue.join(name)).ok());
        text.and_then(|text| text.trim().parse::<u64>().ok())
    };
    let longest = number("max_sectors_kb").and_then(|kib| kib.checked_mul(1024));
    // Memory that does not begin with a page has a piece of one more.
    let pages = number("max_segments").and_then(|pages| pages.checked_sub(1)?.checked_mul(PAGE));
    [longest, pages].into_iter().flatten().filter(|&limit| limit >= 512).collect()
}

/// Returns a name of the disk that this file or folder is on: one for all partitions, and for what
/// LVM or encryption made of that disk alone. Where the system tells no disk it is the file
/// system's number; `None`: nothing is there.
pub fn disk_under(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    let Some(mut about) = about(path) else { return Some(found.dev().to_string()) };
    loop {
        if about.join("partition").exists() {
            about.pop();
        }
        let mut below = std::fs::read_dir(about.join("slaves")).into_iter().flatten();
        match (below.next(), below.next()) {
            (Some(Ok(one)), None) => about = one.path().canonicalize().ok()?,
            _ => return Some(about.file_name()?.to_string_lossy().into_owned()),
        }
    }
}

/// Returns the system's folder of the device.
#[cfg(target_os = "linux")]
fn about(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let found = std::fs::metadata(path).ok()?;
    let device = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let about = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // The link is followed, so that `..` is the device of a partition.
    about.canonicalize().ok()
}

#[cfg(not(target_os = "linux"))]
fn about(_path: &Path) -> Option<PathBuf> {
    None
}

/// The first fields are reads, those merged into others, and sectors, which always have 512 bytes.
fn parse_stat(text: &str) -> Option<DeviceCounters> {
    let mut fields = text.split_whitespace().map(str::parse::<u64>);
    let (reads, merged) = (fields.next()?.ok()?, fields.next()?.ok()?);
    let sectors = fields.next()?.ok()?;
    Some(DeviceCounters { reads, merged, bytes: sectors.checked_mul(512)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_as_the_kernel_writes_them() {
        let line = "    1024      7     8192      55        0        0 0 0 0 40 55";
        assert_eq!(
            parse_stat(line),
            Some(DeviceCounters { reads: 1024, merged: 7, bytes: 8192 * 512 })
        );
        for wrong in ["", "1024 7", "1024 seven", "a b c", "1 1 18446744073709551615"] {
            assert_eq!(parse_stat(wrong), None, "{wrong:?}");
        }
    }
}
