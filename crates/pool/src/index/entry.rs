//! Entry of the index for one object.

use crate::{Kept, Manifest, layout::Body};
use kiln_stripe::names;
use serde::Serialize;

/// An object as a listing shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was put, in ms since 1970.
    pub created_ms: u64,
    /// Version of its manifest.
    pub version: u64,
    /// The code with all parameters, or `inline`.
    pub code: String,
    /// Data shards; 0 for `inline`.
    pub k: u16,
    /// Nodes of its shards, by index.
    pub nodes: Vec<String>,
    /// Nodes with its manifest.
    pub manifests: Vec<String>,
    /// Identity of its data, 32 hex digits.
    pub run: String,
    /// It was removed; such entries are never shown.
    #[serde(skip)]
    pub deleted: bool,
    /// Past of a kept version.
    #[serde(skip)]
    pub kept: Option<Kept>,
}

impl Listed {
    pub(crate) fn of(manifest: &Manifest) -> Listed {
        let (code, k, nodes) = match &manifest.body {
            Body::Shards(placed) => {
                let nodes = placed.places.iter().map(|place| place.node.clone()).collect();
                (placed.spec.clone(), placed.k, nodes)
            }
            _ => (crate::layout::INLINE.to_owned(), 0, Vec::new()),
        };
        Listed {
            name: manifest.name.clone(),
            size: manifest.size,
            created_ms: manifest.created_ms,
            version: manifest.version,
            code,
            k,
            nodes,
            manifests: manifest.copies.clone(),
            run: names::hex(&manifest.run),
            deleted: matches!(manifest.body, Body::Deleted),
            kept: manifest.kept,
        }
    }

    /// Parity shards.
    pub(crate) fn m(&self) -> usize {
        self.nodes.len().saturating_sub(usize::from(self.k))
    }

    /// Bytes for the database. Ids and specs have no line breaks or blanks in them.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (size, created, version) = (self.size, self.created_ms, self.version);
        let kept = self.kept.map(|kept| format!(" {} {}", kept.version, kept.until_ms));
        let kept = kept.unwrap_or_default();
        let text = format!(
            "{size} {created} {version} {} {}{kept}\n{}\n{}\n{}\n{}",
            self.k,
            u8::from(self.deleted),
            self.run,
            self.code,
            self.nodes.join(" "),
            self.manifests.join(" "),
        );
        text.into_bytes()
    }

    pub(super) fn from_bytes(name: &str, bytes: &[u8]) -> Option<Listed> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split('\n');
        let numbers: Vec<u64> =
            lines.next()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let (numbers, kept) = numbers.split_at_checked(5)?;
        let &[size, created_ms, version, k, deleted] = numbers else { return None };
        let kept = match *kept {
            [] => None,
            [version, until_ms] => Some(Kept { version, until_ms }),
            _ => return None,
        };
        let (run, code) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let mut ids = || {
            let words = lines.next()?.split(' ').filter(|word| !word.is_empty());
            Some(words.map(str::to_owned).collect::<Vec<_>>())
        };
        let (nodes, manifests) = (ids()?, ids()?);
        let (name, k, deleted) = (name.to_owned(), k as u16, deleted != 0);
        Some(Listed {
            name,
            size,
            created_ms,
            version,
            code,
            k,
            nodes,
            manifests,
            run,
            deleted,
            kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let listed = Listed {
            name: "a/b".into(),
            size: 1 << 40,
            created_ms: 3,
            version: 9,
            code: "rs:2+1,matrix=cauchy".into(),
            k: 2,
            nodes: vec!["a".into(), "b".into(), "c".into()],
            manifests: vec!["a".into()],
            run: "0".repeat(32),
            deleted: false,
            kept: None,
        };
        let kept = Some(Kept { version: 3, until_ms: 4 });
        let removed = Listed { nodes: vec![], deleted: true, ..listed.clone() };
        for listed in [listed.clone(), removed, Listed { kept, ..listed }] {
            assert_eq!(Listed::from_bytes("a/b", &listed.to_bytes()), Some(listed));
        }
        assert_eq!(Listed::from_bytes("x", b"1 2 3"), None);
    }
}
