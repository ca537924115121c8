//! Default sizes, and limits.

use kiln_code::Shape;
use kiln_store::MAX_STRIPE;

use crate::{PoolError, Result, Settings};

/// Bytes of all chunks of a stripe.
pub fn stripe_memory(shape: Shape, sub_chunk: u64) -> u64 {
    (shape.n() as u64).saturating_mul(shape.alpha as u64).saturating_mul(sub_chunk)
}

/// The most bytes that a sub-chunk may have.
pub fn most_sub_chunk(shape: Shape) -> u64 {
    MAX_STRIPE / stripe_memory(shape, 1).max(1)
}

/// Refuses what shards or a manifest say of their stripes, before buffers of that size are made.
pub fn check_stripes(object: &str, shape: Shape, sub_chunk: u32) -> Result<()> {
    let stripe = stripe_memory(shape, sub_chunk.into());
    if stripe <= MAX_STRIPE {
        return Ok(());
    }
    let detail = format!(
        "its stripes have {stripe} bytes, parity included; kiln holds a stripe in memory, and \
         takes {MAX_STRIPE} bytes at most"
    );
    Err(PoolError::NotRecoverable { object: object.to_owned(), detail })
}

/// Default bytes of a sub-chunk for a code of this shape.
///
/// Small alpha: chunks of 1 MiB, so plain codes read and write large blocks. From alpha = 64:
/// 4 KiB, the unit in which disks read; halved while a stripe's data exceeds 64 MiB.
pub fn default_sub_chunk(shape: Shape) -> u32 {
    const STRIPE_LIMIT: u64 = 64 << 20;
    let stripe = |sub: u64| (shape.alpha as u64).saturating_mul(shape.k as u64).saturating_mul(sub);
    let mut sub = match shape.alpha {
        0..64 => 1 << (1u64 << 20).div_euclid(shape.alpha.max(1) as u64).ilog2(),
        _ => 4096,
    };
    while sub > 64 && stripe(sub) > STRIPE_LIMIT {
        sub /= 2;
    }
    sub as u32
}

/// As [`default_sub_chunk`], smaller where a stripe, parity included, would be larger than a budget
/// permits, but never below 4 KiB for it.
pub fn shared_sub_chunk(shape: Shape, settings: &Settings<'_>) -> u32 {
    let most = settings.budget.map_or(u64::MAX, |budget| budget.stripe());
    let mut sub = default_sub_chunk(shape);
    while sub / 2 >= 4096 && stripe_memory(shape, sub.into()) > most {
        sub /= 2;
    }
    sub
}
