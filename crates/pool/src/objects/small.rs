//! Small files, read whole.

use kiln_store::Backend;

use crate::engine::names::DESCRIPTION;
use crate::{PoolError, Result};

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
