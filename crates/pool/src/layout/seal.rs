//! Seals: what a pool's manifests and map are signed with, where the pool has a key.
//!
//! A seal is a keyed BLAKE3 hash (its section 2.3) of what is sealed. The key lies beside the
//! description on the machines of those who use the pool, never on its nodes, so a client that can
//! write to a node can neither make a manifest nor change one. It is no key of the cluster: that
//! one may be exchanged without touching what is stored.

use kiln_stripe::names::{hex, unhex};
use kiln_stripe::{PoolError, Result};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a key.
const KEY: usize = 32;
/// Bytes of a key's id, which tells keys apart and says nothing of them.
pub(crate) const KEY_ID: usize = 8;
/// Bytes of a seal.
pub(crate) const SEAL: usize = 32;
/// Stands for what has no seal, in the list of what a pool accepts.
pub(crate) const UNSEALED: &str = "none";
/// Keys of one file.
const MAX_KEYS: usize = 8;

/// Kind of a sealed file: a seal of one kind is none of the other.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Purpose {
    Manifest,
    Map,
    Batch,
    /// Keys of objects are wrapped by a key of it.
    ObjectKey,
}

impl Purpose {
    fn context(self) -> &'static str {
        match self {
            Purpose::Manifest => "kiln 2026-11-22 seal of a manifest",
            Purpose::Map => "kiln 2026-11-22 seal of a pool's map",
            Purpose::Batch => "kiln 2026-11-25 seal of a batch of a volume's log",
            Purpose::ObjectKey => "kiln 2026-11-29 wraps keys of objects",
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
struct PoolKey {
    id: [u8; KEY_ID],
    secret: Zeroizing<[u8; KEY]>,
}

impl PoolKey {
    /// Returns what seals are made with for one purpose.
    fn derived(&self, purpose: Purpose) -> [u8; KEY] {
        blake3::derive_key(purpose.context(), &self.secret[..])
    }

    fn seal(&self, purpose: Purpose, parts: &[&[u8]]) -> Seal {
        let mut hasher = blake3::Hasher::new_keyed(&self.derived(purpose));
        for part in parts {
            hasher.update(part);
        }
        Seal { id: self.id, mac: *hasher.finalize().as_bytes() }
    }
}

/// The keys at hand of a pool: a file of lines of 64 hex digits, of which the first is
/// the one to seal with and the others are still accepted. Lines that begin with `#` are for
/// people.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PoolKeys(Vec<PoolKey>);

impl fmt::Debug for PoolKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoolKeys").field(&self.ids()).finish()
    }
}

impl PoolKeys {
    /// Reads the text of a key's file.
    /// Errors: [`PoolError::Usage`] when a line is no key, or there are none or too many.
    pub fn parse(text: &str) -> Result<PoolKeys> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut keys = Vec::new();
        for line in lines {
            let secret = unhex(&line.to_ascii_lowercase())
                .ok_or_else(|| wrong("a line is not 64 hex digits"))?;
            let mut id = [0; KEY_ID];
            let secret = Zeroizing::new(secret);
            let known = blake3::derive_key("kiln 2026-11-22 id of a pool's key", &secret[..]);
            id.copy_from_slice(&known[..KEY_ID]);
            keys.push(PoolKey { id, secret });
        }
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(wrong(&format!("it must have 1 to {MAX_KEYS} keys")));
        }
        Ok(PoolKeys(keys))
    }

    /// The text of a file with one key.
    pub fn text_of(secret: &[u8; 32]) -> String {
        let digits = hex(secret);
        let about = "# Key of a kiln pool. Keep it secret, and a copy of it safe.";
        format!("{about}\n{digits}\n")
    }

    /// Returns the text of a file without the keys that come after the one of this id: those
    /// before it may have been added for the next exchange. `None`: it is not there.
    pub fn text_up_to(&self, id: &str) -> Option<String> {
        let last = self.0.iter().position(|key| hex(&key.id) == id)?;
        Some(self.0[..=last].iter().map(|key| PoolKeys::text_of(&key.secret)).collect())
    }

    /// The ids of the keys, as a pool's description names them; the first is the one to seal with.
    pub fn ids(&self) -> Vec<String> {
        self.0.iter().map(|key| hex(&key.id)).collect()
    }

    /// A seal by each of them.
    pub(crate) fn seals(&self, purpose: Purpose, bytes: &[u8]) -> Vec<Seal> {
        self.0.iter().map(|key| key.seal(purpose, &[bytes])).collect()
    }

    /// Returns the key for one purpose that follows from the one of this id, if it is at hand.
    pub(crate) fn derived(&self, id: &[u8], purpose: Purpose) -> Option<[u8; KEY]> {
        self.0.iter().find(|key| key.id == id).map(|key| key.derived(purpose))
    }

    /// Returns what seals logs by the key of this id, if it is at hand.
    pub(crate) fn log_sealer(&self, id: &str) -> Option<Sealer> {
        self.named(id).map(Sealer::of)
    }

    fn named(&self, id: &str) -> Option<&PoolKey> {
        self.0.iter().find(|key| hex(&key.id) == id)
    }
}

/// Seals that a pool accepts, with the keys at hand: see [`crate::PoolConfig::sealed`].
#[derive(Clone, Debug)]
pub struct Seals {
    /// Of the keys that the pool names, those that are at hand, in its order.
    keys: PoolKeys,
    /// Files without a seal are accepted too.
    unsealed: bool,
    /// New things have no seal.
    writes_unsealed: bool,
}

impl Seals {
    /// Returns what a pool accepts that lists these ids of keys.
    pub(crate) fn of(listed: &[String], keys: &PoolKeys) -> Seals {
        let first = listed.first().map(|id| &id[..]);
        Seals {
            keys: PoolKeys(listed.iter().filter_map(|id| keys.named(id)).cloned().collect()),
            unsealed: listed.is_empty() || listed.iter().any(|id| id == UNSEALED),
            writes_unsealed: first.is_none_or(|id| id == UNSEALED),
        }
    }

    /// Returns whether nothing without a seal is accepted.
    pub(crate) fn is_strict(&self) -> bool {
        !self.unsealed
    }

    /// Returns whether new things get a seal.
    pub(crate) fn is_sealing(&self) -> bool {
        !self.writes_unsealed
    }

    /// The key of new things.
    fn sealing_key(&self) -> Option<&PoolKey> {
        self.keys.0.first().filter(|_| self.is_sealing())
    }

    /// Returns what seals new logs; `None` in a pool without a key.
    pub(crate) fn log_sealer(&self) -> Option<Sealer> {
        self.sealing_key().map(Sealer::of)
    }

    /// The seal of new things: the id of its key and the seal; `None` in a pool without a key.
    pub(crate) fn seal(&self, purpose: Purpose, parts: &[&[u8]]) -> Option<Seal> {
        Some(self.sealing_key()?.seal(purpose, parts))
    }

    /// Returns whether something is accepted that has this seal, or none.
    pub(crate) fn check(
        &self,
        purpose: Purpose,
        parts: &[&[u8]],
        seal: Option<&Seal>,
    ) -> Result<(), String> {
        let Some(seal) = seal else {
            return match self.unsealed {
                true => Ok(()),
                false => Err("it has no seal: its writer had no key of the pool".into()),
            };
        };
        let Some(key) = self.keys.0.iter().find(|key| key.id == seal.id) else {
            // Its writer could as well have left the seal out.
            return match self.unsealed {
                true => Ok(()),
                false => Err(format!("its seal is of key {}, which does not count", hex(&seal.id))),
            };
        };
        let expected = blake3::Hash::from_bytes(key.seal(purpose, parts).mac);
        // The comparison of this type takes the same time wherever they differ.
        match expected == blake3::Hash::from_bytes(seal.mac) {
            true => Ok(()),
            false => Err("its seal is wrong: its writer had no key of the pool".into()),
        }
    }
}

/// Seals what volumes write to their logs, with one key of a pool.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealer {
    id: [u8; KEY_ID],
    /// Of this purpose; the pool's own cannot be told from it.
    key: [u8; KEY],
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealer").field(&self.name()).finish()
    }
}

impl Sealer {
    /// Bytes of a key's id.
    pub const ID: usize = KEY_ID;
    /// Bytes of a seal.
    pub const SEAL: usize = SEAL;

    fn of(key: &PoolKey) -> Sealer {
        Sealer { id: key.id, key: key.derived(Purpose::Batch) }
    }

    /// The id of the key, never zeros only.
    pub fn id(&self) -> [u8; KEY_ID] {
        self.id
    }

    /// The id in hex digits, as a pool's description lists it.
    pub fn name(&self) -> String {
        hex(&self.id)
    }

    /// The seal of these bytes.
    pub fn seal(&self, bytes: &[u8]) -> [u8; SEAL] {
        *blake3::keyed_hash(&self.key, bytes).as_bytes()
    }

    /// Returns whether it is their seal; that takes the same time wherever it is not.
    pub fn is_right(&self, bytes: &[u8], seal: &[u8; SEAL]) -> bool {
        blake3::keyed_hash(&self.key, bytes) == blake3::Hash::from_bytes(*seal)
    }
}

/// A seal with the id of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub id: [u8; KEY_ID],
    pub mac: [u8; SEAL],
}

impl Seal {
    /// The id of its key and the seal, as words of a text.
    pub fn words(&self) -> String {
        format!("{} {}", hex(&self.id), hex(&self.mac))
    }

    /// Reads what [`Seal::words`] wrote.
    pub fn parse(words: &str) -> Option<Seal> {
        let (id, mac) = words.trim().split_once(' ')?;
        Some(Seal { id: unhex(id)?, mac: unhex(mac)? })
    }
}

fn wrong(what: &str) -> PoolError {
    PoolError::Usage { what: format!("key of the pool: {what}") }
}

/// Returns whether a text can be in the list of what a pool accepts.
pub(crate) fn is_listable(id: &str) -> bool {
    id == UNSEALED || unhex::<KEY_ID>(id).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[u8]) -> PoolKeys {
        let text: String = secrets.iter().map(|byte| PoolKeys::text_of(&[*byte; 32])).collect();
        PoolKeys::parse(&text).unwrap()
    }

    #[test]
    fn a_seal_is_of_one_key_one_purpose_and_these_bytes() {
        let keys = keys(&[1, 2]);
        let seals = Seals::of(&keys.ids()[..1], &keys);
        let seal = seals.seal(Purpose::Manifest, &[b"abc"]).unwrap();
        let check = |seals: &Seals, purpose, bytes: &[u8], seal: &Seal| {
            seals.check(purpose, &[bytes], Some(seal)).is_ok()
        };
        assert!(check(&seals, Purpose::Manifest, b"abc", &seal));
        assert!(!check(&seals, Purpose::Map, b"abc", &seal));
        assert!(!check(&seals, Purpose::Manifest, b"abd", &seal));
        let other = Seals::of(&keys.ids()[1..], &keys);
        assert!(!check(&other, Purpose::Manifest, b"abc", &seal));
        assert!(seals.check(Purpose::Manifest, &[b"abc"], None).is_err());
        assert_eq!(Seal::parse(&seal.words()), Some(seal.clone()));
        for at in 0..SEAL {
            let mut wrong = seal.clone();
            wrong.mac[at] ^= 1;
            assert!(!check(&seals, Purpose::Manifest, b"abc", &wrong), "{at}");
        }
    }

    #[test]
    fn while_keys_are_exchanged_both_are_accepted_and_the_first_seals() {
        let keys = keys(&[1, 2]);
        let both = Seals::of(&keys.ids(), &keys);
        let old = Seals::of(&keys.ids()[1..], &keys);
        let seal = old.seal(Purpose::Manifest, &[b"x"]).unwrap();
        both.check(Purpose::Manifest, &[b"x"], Some(&seal)).unwrap();
        let new = both.seal(Purpose::Manifest, &[b"x"]).unwrap();
        assert!(old.check(Purpose::Manifest, &[b"x"], Some(&new)).is_err());
        let first = Seals::of(&[keys.ids()[0].clone(), UNSEALED.into()], &keys);
        first.check(Purpose::Manifest, &[b"x"], None).unwrap();
        // Of a key that is lost.
        first.check(Purpose::Manifest, &[b"x"], Some(&seal)).unwrap();
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "ab".repeat(32);
        for text in ["", "# nothing", &long[1..], &format!("{long}a"), &"zz".repeat(32)] {
            assert!(PoolKeys::parse(text).is_err(), "{text}");
        }
        assert!(PoolKeys::parse(&format!("{long}\n").repeat(9)).is_err());
    }
}
