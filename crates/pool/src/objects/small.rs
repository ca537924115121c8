//! Small files, read whole.

use kiln_store::Backend;

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
