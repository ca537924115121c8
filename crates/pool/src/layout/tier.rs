//! Codes that objects get when they have been there for a while.

use crate::{Policy, layout::Class};
use kiln_code::Codec;
use kiln_stripe::{PoolError, Result};
use serde::{Deserialize, Serialize};

/// One rule: objects of this age and size have this code. What lies in its manifest stays there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Seconds since the object was put, at least.
    pub after_seconds: u64,
    /// Bytes of the object, at least.
    #[serde(default, skip_serializing_if = "crate::map::config::is_zero")]
    pub at_least: u64,
    /// A code's spec.
    pub code: String,
}

impl Tier {
    /// Refuses impossible rules.
    pub(crate) fn check(&self, policy: &Policy) -> Result<()> {
        let Tier { code, after_seconds, .. } = self;
        let m = Codec::new(&code.parse()?)?.shape().m;
        if m < policy.manifest_copies {
            return Ok(());
        }
        let what = format!(
            "pool description: tier after {after_seconds} s: {code} may lose {m} shards, and with \
             them the {} copies of a manifest",
            policy.manifest_copies
        );
        Err(PoolError::Usage { what })
    }
}

/// The class of an object: of the tiers that it has reached the one after the longest time, else by
/// its size.
pub(crate) fn class_of(policy: &Policy, tiers: &[Tier], size: u64, age_ms: u64) -> Class {
    let class = policy.class_of(size);
    let reached = |tier: &&Tier| age_ms / 1000 >= tier.after_seconds && size >= tier.at_least;
    match tiers.iter().filter(reached).max_by_key(|tier| tier.after_seconds) {
        Some(tier) if !class.is_inline() && tier.code != class.code => {
            Class { below: None, code: tier.code.clone(), sub_chunk: None }
        }
        _ => class.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_tier_that_is_reached_counts() {
        let policy = Policy::for_code("clay:4+2").unwrap();
        let tier = |after_seconds, at_least, code: &str| Tier {
            after_seconds,
            at_least,
            code: code.to_owned(),
        };
        let tiers = [tier(100, 0, "rs:8+2"), tier(10, 1 << 20, "rs:6+2"), tier(10, 0, "clay:4+2")];
        let code = |size, age_ms| class_of(&policy, &tiers, size, age_ms).code;
        let cases = [
            (100, 1_000_000, "inline"),
            (100_000, 9_999, "rs:4+2"),
            (100_000, 10_000, "clay:4+2"),
            (8 << 20, 9_999, "clay:4+2"),
            (100_000, 100_000, "rs:8+2"),
            (8 << 20, u64::MAX, "rs:8+2"),
        ];
        for (size, age, wanted) in cases {
            assert_eq!(code(size, age), wanted, "{size} {age}");
        }
        assert!(tiers.iter().all(|tier| tier.check(&policy).is_ok()));
        for bad in ["rs:4+3", "inline", "magic:2+1"] {
            assert!(tier(1, 0, bad).check(&policy).is_err(), "{bad}");
        }
    }
}
