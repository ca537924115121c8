//! The buckets of the pool that a command works on.

use crate::exit::Result;
use kiln_gate::Gate;
use kiln_pool::Index;
use kiln_stripe::PoolError;

use crate::setup::{PoolFlags, Setup};
use crate::{names, setup::volumes::of_pool};

/// Opens the pool for one change or look.
pub fn gate(flags: &PoolFlags, setup: &Setup) -> Result<Gate> {
    let pool = flags.open(setup)?;
    pool.config().check_data_key()?;
    let index = flags.index_to_list(&pool, setup)?;
    setup.observer.finish();
    Ok(Gate::new(pool, index, &boot()))
}

/// Opens the pool for a server, which opens it again when its members change. The server has an
/// index of its own: the pool's is for repairs, which would wait for the server's end.
pub fn gate_to_serve(flags: &PoolFlags, setup: &Setup) -> Result<Gate> {
    let pool = flags.open(setup)?;
    pool.config().check_data_key()?;
    setup.observer.finish();
    let index = index_to_serve(flags)?;
    let (flags, quiet) = (flags.clone(), setup.background());
    let reopen = move || flags.open_quietly(&quiet).map_err(of_pool);
    Ok(Gate::new(pool, index, &boot()).reopening(Box::new(reopen)))
}

/// Opens the index of a server.
pub fn index_to_serve(flags: &PoolFlags) -> Result<Index> {
    Ok(match Index::try_open(&names::bucket_index(&flags.path())) {
        Ok(Some(index)) => index,
        // Another server on this machine has it, or nothing can be written there.
        Ok(None) | Err(PoolError::Index { .. }) => Index::in_memory()?,
        Err(error) => return Err(error.into()),
    })
}

/// Returns the identity of this boot of the machine.
pub fn boot() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
