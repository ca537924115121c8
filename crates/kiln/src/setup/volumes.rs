//! Volumes of the pool that a command works on.

use std::sync::Arc;

use kiln_pool::Pool;
use kiln_stripe::PoolError;
use kiln_volume::Rim;

use crate::exit::{Failure, Result};
use crate::setup::{PoolFlags, Setup, fresh_run, now_ms};

/// Opens the context of volumes: the pool, which is opened again when its members change.
pub fn rim(flags: &PoolFlags, setup: &Setup) -> Result<Arc<Rim>> {
    let pool = flags.open(setup)?;
    setup.observer.finish();
    Ok(rim_over(pool, flags, setup))
}

/// As [`rim`], over a pool that is open.
pub fn rim_over(pool: Pool, flags: &PoolFlags, setup: &Setup) -> Arc<Rim> {
    let (flags, quiet) = (flags.clone(), setup.background());
    let reopen = move || flags.open_quietly(&quiet).map_err(of_pool);
    Arc::new(Rim::new(pool, fresh_run, now_ms).reopening(Box::new(reopen)))
}

/// Returns the name of a volume's writer, for messages to others.
pub fn writer(command: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{command} on {}, process {}", host.trim(), std::process::id())
}

/// The objects of a pool that begin with a prefix, as its nodes have them now.
pub fn listed(
    flags: &PoolFlags,
    pool: &Pool,
    setup: &Setup,
    prefix: &str,
) -> Result<Vec<String>, PoolError> {
    let mut names = Vec::new();
    flags.index(pool, setup).map_err(of_pool)?.each(prefix, None, |listed| {
        names.push(listed.name);
        Ok(true)
    })?;
    Ok(names)
}

/// A failure where the pool's own errors are wanted.
pub fn of_pool(failure: Failure) -> PoolError {
    match failure {
        Failure::Pool(error) => error,
        other => PoolError::Internal { what: other.to_string() },
    }
}
