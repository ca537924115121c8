//! Another data key for an encrypted pool: keys of objects are wrapped anew in their manifests.
//!
//! First the map says which key wraps what is new, then all manifests are renewed whose key another
//! one wraps, then the map forgets the others. Data stays as it is. What is cut short goes on when
//! it is run again; until the end both keys are needed.

use kiln_stripe::{PoolError, Result, Settings};
use serde::Serialize;

use crate::index::Index;
use crate::manifest::quorum::Found;
use crate::members::membership::Membership;
use crate::members::sealing::{Renewal, TOGETHER};
use crate::{Manifest, PoolConfig};

/// Report of an exchange of the data key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RekeyReport {
    /// The id of the key that wraps keys of objects now.
    pub key: String,
    /// Manifests looked at, those of removed objects and of kept versions among them.
    pub manifests: u64,
    /// Manifests whose key was wrapped anew by this run.
    pub rewrapped: u64,
}

impl<'a> Membership<'a> {
    /// Returns the id of the key that wraps what is new.
    ///
    /// # Errors
    /// [`PoolError::Refused`] in a pool that is not encrypted; [`PoolError::NoDataKey`] where one
    /// of its keys is not at hand.
    pub fn data_key(&self) -> Result<&'a str> {
        let config = &self.map.config;
        let ids = config.data_keys.ids();
        let lacking = config.encrypted.iter().find(|id| !ids.contains(id));
        match (lacking, config.encrypted.first()) {
            (Some(id), _) => Err(config.no_data_key(id)),
            (None, Some(current)) => Ok(current),
            (None, None) => {
                let what = "the pool is not encrypted; kiln pool create --encrypted makes one";
                Err(PoolError::Refused { what: what.into() })
            }
        }
    }

    /// Makes the map by which the first data key at hand wraps what is new; `None` when it is so
    /// already.
    ///
    /// # Errors
    /// [`PoolError::Refused`] while nodes are unavailable; as [`Membership::data_key`] and
    /// [`Membership::change`].
    pub fn begin_rekeying(&self, settings: &Settings<'_>) -> Result<Option<PoolConfig>> {
        let current = self.data_key()?;
        self.all_here()?;
        let first = self.map.config.data_keys.ids().into_iter().next();
        let Some(first) = first.filter(|first| first != current) else { return Ok(None) };
        let next = self.change(false, settings, |next| {
            next.encrypted.retain(|known| *known != first);
            next.encrypted.insert(0, first);
            Ok(())
        })?;
        Ok(Some(next))
    }

    /// Has the keys of all objects wrapped by the first key, and then lists no other; the map that
    /// says so is returned with the report. The index must be fresh.
    ///
    /// # Errors
    /// As [`Membership::begin_rekeying`]; stores.
    pub fn rewrap_all(
        &self,
        index: &Index,
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<(PoolConfig, RekeyReport)> {
        let config = &self.map.config;
        let first = self.data_key()?.to_owned();
        let is_old = |manifest: &&Manifest| {
            manifest.key.as_ref().is_some_and(|wrapped| wrapped.key_id() != first)
        };
        let is_right = |found: &Found| {
            let is_sure = found.certain && found.stable;
            is_sure && found.newest.as_ref().filter(is_old).is_none()
        };
        let rewrapped = |found: &Found| {
            let Some(old) = found.newest.as_ref().filter(is_old) else { return Ok(None) };
            let wrap = |key| config.wrap(&key, &old.name, old.size);
            let key = config.object_key(old)?.map(wrap).transpose()?;
            Ok(Some(Manifest { key, ..old.clone() }))
        };
        let mut report = RekeyReport { key: first.clone(), ..RekeyReport::default() };
        settings.observer.begin("rekey", None);
        let renewal = Renewal { by: self.manifests, now_ms, settings };
        index.in_batches("", TOGETHER, true, |batch| {
            report.manifests += batch.len() as u64;
            report.rewrapped += self.renew(&renewal, batch, is_right, rewrapped)?.len() as u64;
            Ok(true)
        })?;
        if config.encrypted.len() == 1 {
            return Ok(((**config).clone(), report));
        }
        self.all_here()?;
        let config = self.change(false, settings, |next| {
            next.encrypted = vec![first];
            Ok(())
        })?;
        Ok((config, report))
    }
}
