//! Holders of locks of folders, as far as the system tells.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// The process that holds the lock of a folder, for messages; `None` where that cannot be known.
pub(super) fn of(folder: &Path) -> Option<String> {
    let file = fs::metadata(folder).ok()?.ino();
    let process = flock_holder(&fs::read_to_string("/proc/locks").ok()?, file)?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(match name.trim() {
        "" => format!("process {process}"),
        name => format!("process {process} ({name})"),
    })
}

/// The process with the one lock on a file of this number in the system's list. The list also
/// tells devices, but not always those that the file itself tells.
fn flock_holder(locks: &str, file: u64) -> Option<u32> {
    let holder = |line: &str| {
        let mut words = line.split_whitespace();
        // Lines of who waits have an arrow after their number.
        let kind = words.nth(1)?;
        let (process, place) = (words.nth(2)?, words.next()?);
        let number: u64 = place.rsplit(':').next()?.parse().ok()?;
        (kind == "FLOCK" && number == file).then_some(())?;
        process.parse().ok()
    };
    let mut holders = locks.lines().filter_map(holder);
    let first = holders.next()?;
    holders.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_list_names_who_holds_a_lock_and_not_who_waits() {
        let locks = "1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 709 08:01:1234 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 710 08:01:99 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 711 08:01:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 712 08:02:77 0 EOF\n";
        assert_eq!(flock_holder(locks, 1234), Some(708));
        assert_eq!(flock_holder(locks, 99), None);
        // Two files of one number on two devices: better nobody than the wrong one.
        assert_eq!(flock_holder(locks, 77), None);
        assert_eq!(flock_holder("no such list", 1), None);
    }
}
