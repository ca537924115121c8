//! Record of one object in a pool: the manifest, of which copies lie on several nodes.
//!
//! The bytes are described in `docs/reference/formats.md`. A manifest is written whole, under a
//! temporary name, synced and renamed over the one before: a reader gets the old or the new one.

use std::cmp::Ordering;

use kiln_code::{CodeSpec, Shape};
use kiln_store::{Digest, ShardInfo, SumKind, checksum};

use crate::layout::data_key::{self, WRAPPED, WrappedKey};
use crate::layout::key::{check_name, kept_parts, object_name};
use crate::layout::seal::{KEY_ID, Purpose, SEAL, Seal, Seals};

/// The latest version. It is the first of manifests without a seal, one more with one, and two more
/// of encrypted objects.
pub const MANIFEST_VERSION: u16 = 4;
/// The version without seals.
const UNSEALED_VERSION: u16 = 1;
/// Most bytes of an object that lies in its manifest.
pub const MAX_INLINE: usize = 64 << 10;
/// Most bytes of a node's id.
pub const MAX_NODE_ID: usize = 64;
/// Most copies of a manifest.
pub const MAX_COPIES: usize = 64;
/// Most bytes of a manifest: all fields at their longest.
pub const MAX_MANIFEST: usize = FIXED
    + 2048
    + MAX_COPIES * 65
    + 256 * (65 + 32)
    + MAX_INLINE
    + KEY_ID
    + SEAL
    + 4
    + KEPT
    + CIPHER;
/// Most bytes that a kept version adds: to the name its run, then its version and end.
const KEPT: usize = 34 + 16;

/// Most bytes that encryption adds: the wrapped key, and tags of the data within.
const CIPHER: usize = WRAPPED + MAX_INLINE / data_key::CELL * data_key::TAG;

const MAGIC: [u8; 8] = *b"\x89KMAN\r\n\x1a";
/// Bytes before the texts.
const FIXED: usize = 96;
const MAX_SPEC: usize = 1024;

/// One object as the pool records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The pool it belongs to.
    pub pool: [u8; 16],
    /// The object's name.
    pub name: String,
    /// Counts the manifests of this name, from 1: the highest is in force.
    pub version: u64,
    /// Identity of the data: new with every put, kept when shards move.
    pub run: [u8; 16],
    /// When the data was put, in ms since 1970.
    pub created_ms: u64,
    /// Bytes of the object.
    pub size: u64,
    /// Ids of the nodes that hold a copy of this manifest.
    pub copies: Vec<String>,
    /// Place of the data.
    pub body: Body,
    /// Past of a version that is kept; none of objects.
    pub kept: Option<Kept>,
    /// The key of its data, in pools that are encrypted.
    pub key: Option<WrappedKey>,
}

/// Past of a version of an object that was replaced or removed, and is kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Version of the object.
    pub version: u64,
    /// When it was replaced or removed, in ms since 1970.
    pub until_ms: u64,
}

/// Place of an object's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In shards.
    Shards(Placed),
    /// Here, in every copy of the manifest: objects so small that shards would be mostly headers.
    Inline(Vec<u8>),
    /// Nowhere: the object was removed. This tombstone is kept for a while, so that a node that was
    /// unavailable cannot bring an old version back.
    Deleted,
}

impl Body {
    /// Returns whether there is an object to read.
    pub fn is_data(&self) -> bool {
        !matches!(self, Body::Deleted)
    }
}

/// An object in shards: its code, geometry and places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The code with every parameter written out.
    pub spec: String,
    /// Data chunks of a stripe.
    pub k: u16,
    /// Sub-chunks of a chunk.
    pub alpha: u32,
    /// Bytes of a sub-chunk of every stripe but perhaps the last.
    pub sub_chunk: u32,
    /// Stripes of a segment of the shard files.
    pub segment_stripes: u32,
    /// Checksums of sub-chunks.
    pub sums: SumKind,
    /// The n shards, in order of index.
    pub places: Vec<Place>,
}

/// Place of one shard, and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Id of the node.
    pub node: String,
    /// Digest of the shard, as its siblings' trailers have it too.
    pub digest: Digest,
}

impl Placed {
    /// The numbers of its code.
    pub fn shape(&self) -> Shape {
        let k = usize::from(self.k);
        Shape { k, m: self.places.len().saturating_sub(k), alpha: self.alpha as usize }
    }
}

impl Manifest {
    /// Returns what the header of a shard of this object says; `None` when it is not in shards.
    pub fn shard_info(&self, index: u16) -> Option<ShardInfo> {
        let Body::Shards(placed) = &self.body else { return None };
        Some(ShardInfo {
            spec: placed.spec.clone(),
            object: object_name(&self.name).to_owned(),
            run: self.run,
            source: [0; 16],
            index,
            k: placed.k,
            n: placed.places.len() as u16,
            alpha: placed.alpha,
            sub_chunk: placed.sub_chunk,
            segment_stripes: placed.segment_stripes,
            size: Some(self.stored_size()),
            sums: placed.sums,
        })
    }

    /// Returns its name and size.
    pub(crate) fn object(&self) -> (&str, u64) {
        (&self.name, self.size)
    }

    /// Returns how many bytes are stored of the object, before they are coded.
    pub fn stored_size(&self) -> u64 {
        if self.key.is_some() { data_key::stored_len(self.size) } else { self.size }
    }

    /// Returns which of two manifests of one name is in force: the greater. Equal numbers can only
    /// come from writers that did not see each other; then one of them wins everywhere, always the
    /// same.
    pub fn order(&self, other: &Manifest) -> Ordering {
        let order = (self.version, self.run).cmp(&(other.version, other.run));
        let bytes = |manifest: &Manifest| manifest.encode(true);
        order.then_with(|| bytes(self).cmp(&bytes(other)))
    }

    /// The bytes of the format, without a seal.
    pub fn to_bytes(&self) -> Vec<u8> {
        with_checksum(self.encode(false))
    }

    /// The bytes of the format as a pool writes them that has these seals.
    pub fn sealed_bytes(&self, seals: &Seals) -> Vec<u8> {
        if !seals.is_sealing() {
            return self.to_bytes();
        }
        let mut out = self.encode(true);
        if let Some(seal) = seals.seal(Purpose::Manifest, &[&out]) {
            out.extend(seal.id);
            out.extend(seal.mac);
        }
        with_checksum(out)
    }

    /// All but seal and checksum. The length is that of the whole.
    fn encode(&self, sealed: bool) -> Vec<u8> {
        let version = UNSEALED_VERSION + u16::from(sealed) + 2 * u16::from(self.key.is_some());
        let mut out = Vec::with_capacity(1024);
        let (kind, inline): (u16, &[u8]) = match &self.body {
            Body::Shards(_) => (1, &[]),
            Body::Inline(bytes) => (2, bytes),
            Body::Deleted => (3, &[]),
        };
        out.extend(MAGIC);
        out.extend(version.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend([0; 4]); // The length follows below.
        out.extend(self.pool);
        out.extend(self.run);
        for number in [self.version, self.created_ms, self.size] {
            out.extend(number.to_le_bytes());
        }
        out.extend((self.name.len() as u16).to_le_bytes());
        out.extend((self.copies.len() as u16).to_le_bytes());
        let none = Placed {
            spec: String::new(),
            k: 0,
            alpha: 0,
            sub_chunk: 0,
            segment_stripes: 0,
            sums: SumKind::default(),
            places: Vec::new(),
        };
        let placed = if let Body::Shards(placed) = &self.body { placed } else { &none };
        out.extend(placed.k.to_le_bytes());
        out.extend((placed.places.len() as u16).to_le_bytes());
        for number in [placed.alpha, placed.sub_chunk, placed.segment_stripes] {
            out.extend(number.to_le_bytes());
        }
        out.extend((placed.spec.len() as u16).to_le_bytes());
        // 0 for CRCs: all that the first version has.
        out.extend((placed.sums.version() - 1).to_le_bytes());
        debug_assert_eq!(out.len(), FIXED);
        out.extend(self.name.as_bytes());
        out.extend(placed.spec.as_bytes());
        self.copies.iter().for_each(|id| push_id(&mut out, id));
        for place in &placed.places {
            push_id(&mut out, &place.node);
            out.extend(place.digest.as_bytes());
        }
        if let Some(Kept { version, until_ms }) = self.kept {
            out.extend(version.to_le_bytes());
            out.extend(until_ms.to_le_bytes());
        }
        out.extend(self.key.iter().flat_map(|key| *key.0));
        out.extend(inline);
        let len = (out.len() + seal_len(sealed) + 4) as u32;
        out[12..16].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// Reads and checks the bytes of the format; a seal, if there is one, is not looked at.
    pub fn from_bytes(bytes: &[u8]) -> Result<Manifest, String> {
        Ok(Manifest::parse(bytes)?.0)
    }

    /// As [`Manifest::from_bytes`], and refuses what these seals do not accept.
    pub fn unseal(bytes: &[u8], seals: &Seals) -> Result<Manifest, String> {
        let (manifest, sealed, seal) = Manifest::parse(bytes)?;
        seals.check(Purpose::Manifest, &[sealed], seal.as_ref())?;
        Ok(manifest)
    }

    fn parse(bytes: &[u8]) -> Result<(Manifest, &[u8], Option<Seal>), String> {
        if bytes.len() < FIXED + 4 || bytes[..8] != MAGIC {
            return Err("it does not start like a manifest".into());
        }
        if bytes.len() > MAX_MANIFEST {
            return Err(format!("{} bytes are too many for a manifest", bytes.len()));
        }
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        if sum != checksum(body).to_le_bytes() {
            return Err("its checksum is wrong".into());
        }
        let format = u16::from_le_bytes([body[8], body[9]]);
        if !(UNSEALED_VERSION..=MANIFEST_VERSION).contains(&format) {
            return Err(format!(
                "manifest version {format} is not known, only those up to {MANIFEST_VERSION}"
            ));
        }
        let (is_sealed, is_encrypted) = ((format - 1) & 1 == 1, (format - 1) & 2 == 2);
        let (body, seal) = if is_sealed { split_seal(body)? } else { (body, None) };
        let (sealed, mut rest) = (body, Fields(&body[10..]));
        let kind = rest.u16()?;
        if rest.u32()? as usize != bytes.len() {
            return Err("it has another length than it says".into());
        }
        let (pool, run) = (rest.array()?, rest.array()?);
        let (version, created_ms, size) = (rest.u64()?, rest.u64()?, rest.u64()?);
        let (name_len, copies) = (rest.u16()?, rest.u16()?);
        let (k, n) = (rest.u16()?, rest.u16()?);
        let (alpha, sub_chunk, segment_stripes) = (rest.u32()?, rest.u32()?, rest.u32()?);
        let (spec_len, sums) = (rest.u16()?, rest.u16()?);
        let name = rest.text(name_len.into())?;
        let spec = rest.text(spec_len.into())?;
        let sums = sums
            .checked_add(1)
            .and_then(SumKind::of_version)
            .filter(|sums| is_sealed || *sums == SumKind::default());
        let sums = sums.ok_or("its shards have checksums that are not known")?;
        if usize::from(copies) > MAX_COPIES || n > 256 || spec.len() > MAX_SPEC {
            return Err("a field is outside its limits".into());
        }
        let copies = (0..copies).map(|_| rest.id()).collect::<Result<Vec<_>, _>>()?;
        let places = (0..n)
            .map(|_| Ok(Place { node: rest.id()?, digest: rest.digest(sums)? }))
            .collect::<Result<Vec<_>, String>>()?;
        let kept = match kept_parts(&name) {
            Some(_) => Some(Kept { version: rest.u64()?, until_ms: rest.u64()? }),
            None => None,
        };
        let key =
            is_encrypted.then(|| rest.array()).transpose()?.map(|key| WrappedKey(Box::new(key)));
        let body = match kind {
            1 => Body::Shards(Placed { spec, k, alpha, sub_chunk, segment_stripes, sums, places }),
            2 => Body::Inline(std::mem::take(&mut rest.0).to_vec()),
            3 => Body::Deleted,
            kind => return Err(format!("kind {kind} is not known")),
        };
        let plain = (k, n, alpha, sub_chunk, segment_stripes, spec_len) == (0, 0, 0, 0, 0, 0)
            && sums == SumKind::default();
        if !rest.0.is_empty() || (kind != 1 && !plain) {
            return Err("there are bytes that do not belong to it".into());
        }
        let manifest =
            Manifest { pool, name, version, run, created_ms, size, copies, body, kept, key };
        manifest.check()?;
        Ok((manifest, sealed, seal))
    }

    /// Returns what the fields must fulfil together.
    fn check(&self) -> Result<(), String> {
        check_name(object_name(&self.name)).map_err(|error| error.to_string())?;
        match &self.body {
            Body::Deleted if self.size != 0 => Err("a removed object has a size".into()),
            Body::Deleted if self.key.is_some() => Err("a removed object has a key".into()),
            Body::Inline(bytes)
                if bytes.len() as u64 != self.stored_size() || self.size > MAX_INLINE as u64 =>
            {
                Err("the data within is not the object's size".into())
            }
            Body::Shards(placed) => {
                let _: CodeSpec = placed.spec.parse().map_err(|e| format!("its code: {e}"))?;
                let info = self.shard_info(0).ok_or("it has no shards")?;
                info.check().map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}

/// The bytes that a seal is of, and the seal.
fn split_seal(body: &[u8]) -> Result<(&[u8], Option<Seal>), String> {
    let end = body.len().checked_sub(seal_len(true)).filter(|end| *end >= FIXED);
    let (before, after) = body.split_at(end.ok_or("it ends too early")?);
    let mut after = Fields(after);
    Ok((before, Some(Seal { id: after.array()?, mac: after.array()? })))
}

/// Bytes of the id of a key and a seal, in versions that have them.
fn seal_len(sealed: bool) -> usize {
    if sealed { KEY_ID + SEAL } else { 0 }
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn push_id(out: &mut Vec<u8>, id: &str) {
    debug_assert!(id.len() <= MAX_NODE_ID);
    out.push(id.len() as u8);
    out.extend(id.as_bytes());
}

/// Rest of the bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or_else(|| "it ends too early".to_string())?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N)?;
        Ok(std::array::from_fn(|at| bytes[at]))
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self, len: usize) -> Result<String, String> {
        let bytes = self.take(len)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_string())
    }

    fn digest(&mut self, sums: SumKind) -> Result<Digest, String> {
        let bytes = self.take(sums.digest_len())?;
        Digest::new(sums, bytes).ok_or_else(|| "a digest has the wrong length".to_string())
    }

    fn id(&mut self) -> Result<String, String> {
        let len = usize::from(self.array::<1>()?[0]);
        if len == 0 || len > MAX_NODE_ID {
            return Err("the id of a node has an impossible length".into());
        }
        self.text(len)
    }
}

#[cfg(test)]
mod tests;
