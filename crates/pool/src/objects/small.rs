//! Small files, read whole.

use kiln_store::{Backend, checksum, write_whole};

use crate::engine::names::DESCRIPTION;
use crate::{PoolConfig, PoolError, Result};

/// Reads a file of at most `limit` bytes; `None` when it is not there.
pub(crate) fn read_small(store: &dyn Backend, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let file = match store.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if file.len() > limit {
        let what = format!("{name} in {} has {} bytes", store.place(), file.len());
        return Err(PoolError::Refused { what: format!("{what}, more than the limit of {limit}") });
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// The epoch stands in the first lines of a description.
const HEAD: usize = 512;

/// The epoch of a node's copy of the map; `None`: it has none.
pub(super) fn epoch_of(store: &dyn Backend) -> Result<Option<u64>> {
    let file = match store.open(DESCRIPTION) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut head = vec![0; file.len().min(HEAD as u64) as usize];
    file.read_at(0, &mut head)?;
    let text = String::from_utf8_lossy(&head);
    let number = text.lines().find_map(|line| line.strip_prefix("revision = "));
    Ok(number.and_then(|number| number.trim().parse().ok()))
}

/// What the last line of a node's copy of the map begins with; a comment for who reads TOML.
const CHECKSUM: &str = "# checksum = ";

/// Writes a node's copy of the map: text with its checksum, so that a flipped bit makes no map.
pub(super) fn write_map(store: &dyn Backend, map: &PoolConfig) -> Result<()> {
    let text = with_checksum(map.to_toml()?);
    Ok(write_whole(store, DESCRIPTION, text.as_bytes())?)
}

fn with_checksum(text: String) -> String {
    let sum = checksum(text.as_bytes());
    text + &format!("{CHECKSUM}{sum:08x}\n")
}

/// Whether a copy is as it was written, as far as it says: copies of before there were checksums
/// do not.
pub(super) fn is_intact(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((map, sum)) = text.rsplit_once(CHECKSUM) else { return true };
    sum.trim_end() == format!("{:08x}", checksum(map.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_of_a_map_is_noticed() {
        let map = "version = 2\nurl = \"kiln://host:1\"\n";
        let text = with_checksum(map.to_owned()).into_bytes();
        assert!(is_intact(&text) && is_intact(map.as_bytes()));
        for at in 0..map.len() {
            for bit in 0..8 {
                let mut bad = text.clone();
                bad[at] ^= 1 << bit;
                assert!(!is_intact(&bad), "{at} {bit}");
            }
        }
    }
}
