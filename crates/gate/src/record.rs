//! Records: what the pool keeps of an object, an upload, a part, a bucket, an access key.
//!
//! A record is one object of the pool: magic, version, length of the text, the text (JSON), and for
//! small objects the data itself. It is replaced as a whole over the one that its writer saw, so of
//! several writers one succeeds. Formats are in `docs/reference/formats.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{Code, Result};

const MAGIC: [u8; 6] = *b"\x89KS3\r\n";
const VERSION: u16 = 1;
/// Bytes before the text.
const HEAD: usize = 12;

/// Id of versions that were put while a bucket's versioning was off.
pub(crate) const NULL: &str = "null";

/// An object of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Bytes of the object.
    pub size: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// When it was made, in ms since 1970.
    pub modified_ms: u64,
    /// Headers that are given back as they came, by lower-case name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The user's own metadata, by name without `x-amz-meta-`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
    /// Checksum of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// Pieces of its data, in order; none: it stands behind the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRecord>,
    /// The upload in parts that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Identity of this version; none: it is the one called `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// It is a delete marker: the object is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marker: bool,
    /// Retention: until when it is not removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// True while a legal hold keeps it; none: that was never said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    /// Versions before this one, the newest last: the last words of their records' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
}

impl ObjectRecord {
    /// Returns the id of this version as clients see it.
    pub fn id(&self) -> &str {
        self.version.as_deref().unwrap_or(NULL)
    }
}

/// The way in which a version is retained.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// An owner of the bucket may end it.
    Governance,
    /// Nothing but time ends it.
    Compliance,
}

/// Retention of a version.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The way.
    pub mode: Mode,
    /// Its end, in ms since 1970.
    pub until_ms: u64,
}

/// A checksum that a client gave and the server verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Algorithm, as S3 names it: `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1`, `SHA256`.
    pub kind: String,
    /// Its value in base64, `-N` behind it where it is one of N parts' checksums.
    pub value: String,
}

impl Checksum {
    /// Returns the type that S3 has for it.
    pub fn of_type(&self) -> &'static str {
        if self.value.contains('-') { "COMPOSITE" } else { "FULL_OBJECT" }
    }
}

/// A piece of an object's data: an object of the pool of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Last word of the name of its data.
    pub id: String,
    /// Its number in the upload, from 1; 0 for data put as a whole.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// Entity tag.
    pub etag: String,
    /// When it was put, in ms since 1970.
    pub modified_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
}

/// An upload in parts that was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UploadRecord {
    /// When it was begun, in ms since 1970.
    pub begun_ms: u64,
    /// Headers of the object that it will be.
    pub headers: BTreeMap<String, String>,
    /// Metadata of the object that it will be.
    pub meta: BTreeMap<String, String>,
    /// Tags of the object that it will be.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Retention of the object that it will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Legal hold of the object that it will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    /// Algorithm of checksums that the client announced.
    pub checksum_kind: Option<String>,
    /// They are to be of the whole object.
    pub checksum_full: bool,
    /// True from the moment at which its completion may take effect: it is aborted no more.
    pub completing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRecord {
    /// Identity, new for every bucket made: objects of a removed one never come back.
    pub id: String,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// True while it is being removed: no put is acknowledged then.
    pub removing: bool,
    /// Id of the access key that made it, which may do everything with it; empty: of none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Documents that clients set and get back, by subresource: `policy`, `tagging`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// The document of a bucket that keeps versions.
pub(crate) const VERSIONED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
    <Status>Enabled</Status></VersioningConfiguration>";

/// The way in which a bucket keeps versions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Versioning {
    /// It never did.
    Never,
    /// Every put makes a version.
    Enabled,
    /// Every put replaces the version called `null`; others stay.
    Suspended,
}

/// The record of a bucket, and the key of an object.
pub(crate) type At<'a> = (&'a BucketRecord, &'a str);

impl BucketRecord {
    /// Returns how the bucket keeps versions.
    pub(crate) fn versioning(&self) -> Versioning {
        match self.settings.get("versioning") {
            None => Versioning::Never,
            Some(text) if text.contains("<Status>Enabled</Status>") => Versioning::Enabled,
            Some(_) => Versioning::Suspended,
        }
    }
}

/// Makes a record's bytes.
pub(crate) fn to_bytes(record: &impl Serialize, data: &[u8]) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(record)
        .map_err(|error| Code::InternalError.error(format!("record: {error}")))?;
    let mut bytes = Vec::with_capacity(HEAD + text.len() + data.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&text);
    bytes.extend_from_slice(data);
    Ok(bytes)
}

/// Reads a record, and says where data begins behind it.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize)> {
    let broken = |why: String| Code::InternalError.error(format!("record: {why}"));
    let head = bytes.get(..HEAD).filter(|head| head[..6] == MAGIC);
    let head = head.ok_or_else(|| broken("its head is invalid".into()))?;
    let version = u16::from_le_bytes([head[6], head[7]]);
    if version != VERSION {
        return Err(broken(format!("version {version} is newer than this server")));
    }
    let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let text = bytes.get(HEAD..HEAD.saturating_add(len));
    let text = text.ok_or_else(|| broken("it is cut off".into()))?;
    let record = serde_json::from_slice(text).map_err(|error| broken(error.to_string()))?;
    Ok((record, HEAD + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_with_the_data_behind_them() {
        let record = ObjectRecord { size: 3, etag: "x".into(), ..ObjectRecord::default() };
        let bytes = to_bytes(&record, b"abc").unwrap();
        let (back, at): (ObjectRecord, usize) = from_bytes(&bytes).unwrap();
        assert_eq!((back, &bytes[at..]), (record, &b"abc"[..]));
        for cut in 0..at {
            assert!(from_bytes::<ObjectRecord>(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut newer = bytes.clone();
        newer[6] = 2;
        assert!(from_bytes::<ObjectRecord>(&newer).is_err());
    }
}
