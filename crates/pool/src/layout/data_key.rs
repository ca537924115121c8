//! Keys of encrypted pools: one of the pool, and one of each object, which the pool's wraps.
//!
//! An object's key is random and encrypts that object's bytes alone; the manifest has it wrapped.
//! So the pool's key is exchanged by writing manifests again, and no data. It lies on the machines
//! of those who read and write objects; whatever moves, checks or rebuilds shards needs none.
//!
//! Bytes are encrypted by AES-256-GCM in cells of [`CELL`] bytes, each with a tag behind it. The
//! nonce is the cell's number and whether it is the last one (STREAM of Hoang, Reyhanitabar,
//! Rogaway and Vizár): cells cannot be exchanged, left out or cut off.

use std::ops::Range;

use kiln_stripe::names::{hex, unhex};
use kiln_stripe::{PoolError, Result};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::layout::key::object_name;
use crate::layout::seal::{KEY_ID, PoolKeys, Purpose};

/// Bytes of an object in a cell.
pub(crate) const CELL: usize = 16 << 10;
/// Bytes of a cell's tag.
pub(crate) const TAG: usize = 16;
/// Bytes of a wrapped key: the id of the key that wraps it, a salt, the key and its tag.
pub(crate) const WRAPPED: usize = KEY_ID + KEY + KEY + TAG;
const KEY: usize = 32;

/// Bytes that are stored of an encrypted object of so many bytes.
pub(crate) fn stored_len(bytes: u64) -> u64 {
    bytes.saturating_add(bytes.div_ceil(CELL as u64).max(1).saturating_mul(TAG as u64))
}

/// The stored bytes that hold these bytes of an object of that size.
pub(crate) fn stored_range(bytes: &Range<u64>, size: u64) -> Range<u64> {
    let (cell, stored) = (CELL as u64, (CELL + TAG) as u64);
    let start = bytes.start / cell * stored;
    let end = bytes.end.div_ceil(cell).max(1).saturating_mul(stored).min(stored_len(size));
    if bytes.is_empty() && size > 0 { start..start } else { start..end }
}

/// Fresh random bytes for keys.
pub fn random() -> Result<[u8; KEY]> {
    let mut bytes = [0; KEY];
    let what = |_| PoolError::Internal { what: "the system gave no random bytes".into() };
    SystemRandom::new().fill(&mut bytes).map(|()| bytes).map_err(what)
}

/// An object's key as its manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey(pub(crate) Box<[u8; WRAPPED]>);

impl WrappedKey {
    /// Returns the id of the key that wraps it, in hex digits.
    pub(crate) fn key_id(&self) -> String {
        hex(&self.0[..KEY_ID])
    }
}

/// The object that a wrapped key is bound to: pool, name (a kept version has that of its object),
/// size.
pub(crate) type Bound<'a> = ([u8; 16], &'a str, u64);

fn bound((pool, name, size): Bound<'_>) -> Aad<Vec<u8>> {
    Aad::from([&pool[..], &size.to_le_bytes(), object_name(name).as_bytes()].concat())
}

impl PoolKeys {
    /// The key that wraps one object's key.
    fn wrapping(&self, id: &[u8], salt: &[u8]) -> Option<ObjectKey> {
        let key = Zeroizing::new(self.derived(id, Purpose::ObjectKey)?);
        let key = blake3::Hasher::new_keyed(&key).update(salt).finalize();
        Some(ObjectKey::new(Zeroizing::new(*key.as_bytes())))
    }

    /// Wraps an object's key by the key of this id; `None`: that is not at hand.
    pub(crate) fn wrap(
        &self,
        id: &str,
        key: &ObjectKey,
        of: Bound<'_>,
        salt: &[u8; KEY],
    ) -> Option<WrappedKey> {
        let id = unhex::<KEY_ID>(id)?;
        let wrapping = self.wrapping(&id, salt)?;
        let mut bytes = Zeroizing::new(*key.bytes);
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let tag = wrapping.cipher.seal_in_place_separate_tag(nonce, bound(of), &mut bytes[..]);
        let all = [&id[..], salt, &bytes[..], tag.ok()?.as_ref()].concat();
        Some(WrappedKey(Box::new(all.try_into().ok()?)))
    }

    /// Returns an object's key, unwrapped; `None`: the key that wraps it is not at hand. `None`
    /// within: it is another object's.
    pub(crate) fn unwrap(&self, wrapped: &WrappedKey, of: Bound<'_>) -> Option<Option<ObjectKey>> {
        let (id, rest) = wrapped.0.split_at(KEY_ID);
        let (salt, rest) = rest.split_at(KEY);
        let mut bytes = Zeroizing::new(rest.to_vec());
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let wrapping = self.wrapping(id, salt)?;
        let opened = wrapping.cipher.open_in_place(nonce, bound(of), &mut bytes).ok();
        Some(opened.and_then(|key| Some(ObjectKey::new(Zeroizing::new((&*key).try_into().ok()?)))))
    }
}

pub(crate) struct ObjectKey {
    bytes: Zeroizing<[u8; KEY]>,
    cipher: LessSafeKey,
}

impl ObjectKey {
    pub fn new(bytes: Zeroizing<[u8; KEY]>) -> ObjectKey {
        // Only a key of another length is refused.
        let key = UnboundKey::new(&AES_256_GCM, &bytes[..]).expect("32 bytes");
        ObjectKey { bytes, cipher: LessSafeKey::new(key) }
    }

    /// Encrypts a cell, and puts its tag behind it.
    pub fn encrypt(&self, number: u64, last: bool, cell: &mut Vec<u8>) {
        let tag = self.cipher.seal_in_place_separate_tag(nonce(number, last), Aad::empty(), cell);
        // Only more than 64 GiB are refused.
        cell.extend_from_slice(tag.expect("a cell").as_ref());
    }

    /// Decrypts a cell with its tag behind it; `None`: it is not this cell of the object.
    pub fn decrypt<'c>(&self, number: u64, last: bool, cell: &'c mut [u8]) -> Option<&'c [u8]> {
        let opened = self.cipher.open_in_place(nonce(number, last), Aad::empty(), cell);
        opened.ok().map(|plain| &*plain)
    }
}

fn nonce(number: u64, last: bool) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[3..11].copy_from_slice(&number.to_be_bytes());
    nonce[11] = u8::from(last);
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format: what is stored of a known key stays what it is. A wrapped key is one object's.
    #[test]
    fn known_answers() {
        let keys = |secret| PoolKeys::parse(&PoolKeys::text_of(&[secret; 32])).unwrap();
        let (key, id, of) = (ObjectKey::new([9; KEY].into()), &keys(7).ids()[0], ([1; 16], "a", 5));
        let wrapped = keys(7).wrap(id, &key, of, &[3; KEY]).unwrap();
        let mut cell = b"a cell".to_vec();
        key.encrypt(5, true, &mut cell);
        // As Python's cryptography and blake3 have them.
        let known = "01f1b8863a9d7189d0e49aaa3f0d5495fe9f3a789b6d34244d49864f2ef7dc66\
                     7cbf5adf799708f030a4ebff0b9d8e12";
        assert_eq!(hex(&wrapped.0[..]), format!("494f1ad8c500289a{}{known}", "03".repeat(KEY)));
        assert_eq!(hex(&cell), "587277f1f4a1ee3ebd8e4939f879bdea4b701515fc69");
        let unwrap = |wrapped: &WrappedKey, of| keys(7).unwrap(wrapped, of).unwrap().is_some();
        let kept = crate::layout::kept_name("a", &[3; 16]);
        assert!(unwrap(&wrapped, of) && unwrap(&wrapped, (of.0, &kept, 5)));
        for other in [([2; 16], "a", 5), (of.0, "b", 5), (of.0, "a", 6)] {
            assert!(!unwrap(&wrapped, other));
        }
        for at in KEY_ID..WRAPPED {
            let mut wrong = wrapped.clone();
            wrong.0[at] ^= 1;
            assert!(!unwrap(&wrong, of), "{at}");
        }
        assert!(keys(8).unwrap(&wrapped, of).is_none());
    }
}
