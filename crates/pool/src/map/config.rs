//! `pool.toml`: what a pool is made of. It is the pool's map: its revision is the map's epoch, the
//! nodes keep the copies that count, and the file is only where a person's commands begin.

use std::io;

use kiln_code::Codec;
use kiln_store::SumKind;
use kiln_stripe::{PoolError, Result, names, names::unhex};
use serde::{Deserialize, Serialize};

use crate::layout::data_key::{ObjectKey, random};
use crate::layout::manifest::{MAX_COPIES, MAX_NODE_ID};
use crate::layout::seal::{self, PoolKeys, Sealer, Seals};
use crate::layout::{Candidate, KeepRule, Snapshot, Tier, WrappedKey, keep, object_name};
use crate::{Manifest, Policy};

/// Version of a new pool; the version of a pool says what earlier releases have to refuse it for.
pub(crate) const FIRST: u32 = 2;
/// Version of pools with kept versions, tiers, or codes of after 27c0d83, the first release.
const KEEPING: u32 = 3;
/// Version of encrypted pools.
const ENCRYPTED: u32 = 4;
/// The latest version that is read.
pub const LATEST: u32 = ENCRYPTED;
/// The version whose pools had no history: manifests were on any nodes.
const WITHOUT_HISTORY: u32 = 1;
/// Most names of nodes that are gone for good.
const MAX_GONE: usize = 4096;
/// Most keys whose seals are accepted.
const MAX_SEALED: usize = 8;
/// Most snapshots.
const MAX_SNAPSHOTS: usize = 500;
/// Most bytes of the file.
const MAX_FILE: usize = 1 << 20;
/// Most nodes of a pool: every look at an object asks all of them.
pub const MAX_NODES: usize = 256;
/// Most bytes of a URL.
const MAX_URL: usize = 1024;

/// Most epochs whose members are remembered: with more unsettled changes the next one waits for a
/// repair.
pub(crate) const MAX_PAST: usize = 16;

/// Participation of a node.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It holds what falls to it.
    #[default]
    In,
    /// It is to be emptied: nothing new is put there, and what is there is moved away.
    Leaving,
    /// It was unavailable for so long that what it held is made up for elsewhere. It may come back.
    Out,
}

impl NodeState {
    /// Returns whether new data may go there.
    #[allow(clippy::trivially_copy_pass_by_ref)] // what serde passes
    pub fn is_in(&self) -> bool {
        *self == NodeState::In
    }
}

/// A member as it was in an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastNode {
    /// Its id.
    pub id: String,
    /// Its failure domain.
    pub domain: String,
    /// Its weight.
    pub weight: f64,
    /// It was given up since, and what only it had. A node that has its id now is another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl PastNode {
    pub(crate) fn of(node: &NodeConfig) -> PastNode {
        let (id, domain) = (node.id.clone(), node.domain.clone());
        PastNode { id, domain, weight: node.weight, gone: false }
    }
}

/// Members up to an epoch, where manifests of that time may still be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastMap {
    /// The last epoch in which this was so.
    pub epoch: u64,
    /// Copies of a manifest.
    pub copies: usize,
    /// Manifests were put on any members that could be reached, not on homes: as before there was
    /// a map.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anywhere: bool,
    /// The members.
    #[serde(default)]
    pub node: Vec<PastNode>,
}

/// The description of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Version of this description's format.
    pub version: u32,
    /// The pool's identity: 32 hex digits, never changed.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The epoch: counts changes of this description; of two copies the higher one is in force.
    pub revision: u64,
    /// Up to this epoch's changes all manifests are where they belong.
    #[serde(default)]
    pub settled: u64,
    /// Versions of objects up to this one were given out: new ones are higher, so that what was
    /// removed and forgotten cannot look new when an old disk comes back.
    #[serde(default)]
    pub floor: u64,
    /// The epoch in which removals were last forgotten: a node whose copy of the map is older was
    /// rolled back to before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub floored: u64,
    /// Ids of the keys whose seals are accepted, the first of which is the one to seal with; `none`
    /// stands for what has no seal, or one by a key that is not at hand. Empty: a pool without a
    /// key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<String>,
    /// Ids of the keys that wrap keys of objects, the first of which wraps new ones. Empty: a pool
    /// that is not encrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encrypted: Vec<String>,
    /// The keys that the holder of this description has. They are no part of it, and are never
    /// written to a node.
    #[serde(skip)]
    pub keys: PoolKeys,
    /// As [`PoolConfig::keys`], those that wrap keys of objects.
    #[serde(skip)]
    pub data_keys: PoolKeys,
    /// Number of the repairer by this description: repairs by another one never write into the
    /// files of these, and these go on with their own. No part of the description either.
    #[serde(skip)]
    pub repairer: u64,
    /// Ids of nodes that are gone for good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Codes by size.
    pub policy: Policy,
    /// Rules of which versions are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<KeepRule>,
    /// Times that are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot: Vec<Snapshot>,
    /// Codes that objects get later, by age and size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier: Vec<Tier>,
    /// The nodes.
    #[serde(default)]
    pub node: Vec<NodeConfig>,
    /// Members in epochs after which not everything is settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastMap>,
}

/// One node of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its id, never changed: 1 to 64 letters, digits, `.`, `_` or `-`.
    pub id: String,
    /// URL of its place: `file:///folder` or `kiln://host:port`.
    pub url: String,
    /// Failure domain of it (a host, a rack); shards of a stripe are in distinct domains.
    pub domain: String,
    /// Its share relative to the others'.
    pub weight: f64,
    /// Its participation.
    #[serde(default, skip_serializing_if = "NodeState::is_in")]
    pub state: NodeState,
    /// Incarnation of its disk, 32 hex digits: another disk under its name is not used. Empty for
    /// disks of pools from before there were incarnations.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub disk: String,
    /// The epoch in which this disk began to take part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u64,
    /// As descriptions of version 1 said that it is to be emptied.
    #[serde(default, skip_serializing)]
    draining: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde passes
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl NodeConfig {
    /// A node that is a domain of its own, of weight 1.
    pub fn new(id: &str, url: &str) -> NodeConfig {
        let (id, url) = (id.to_owned(), url.to_owned());
        NodeConfig {
            domain: id.clone(),
            id,
            url,
            weight: 1.0,
            state: NodeState::In,
            disk: String::new(),
            since: 0,
            draining: false,
        }
    }

    /// Nothing new is put here, and what is here is moved away.
    pub fn is_leaving(&self) -> bool {
        !self.state.is_in()
    }

    /// As version 1 said it.
    pub(crate) fn begin_history(&mut self) {
        if std::mem::take(&mut self.draining) {
            self.state = NodeState::Leaving;
        }
    }

    /// As placement sees it.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate { id: &self.id, domain: &self.domain, weight: self.weight }
    }
}

impl PoolConfig {
    /// A pool without nodes.
    pub fn new(id: [u8; 16], name: &str, policy: Policy) -> PoolConfig {
        let mut config = PoolConfig {
            version: FIRST,
            id: names::hex(&id),
            name: name.to_owned(),
            revision: 1,
            settled: 1,
            floor: 0,
            floored: 0,
            sealed: Vec::new(),
            encrypted: Vec::new(),
            keys: PoolKeys::default(),
            data_keys: PoolKeys::default(),
            repairer: 0,
            gone: Vec::new(),
            policy,
            keep: Vec::new(),
            snapshot: Vec::new(),
            tier: Vec::new(),
            node: Vec::new(),
            past: Vec::new(),
        };
        config.raise_version();
        config
    }

    /// The pool's identity as bytes.
    pub fn id_bytes(&self) -> [u8; 16] {
        // Checked when it was read or made.
        unhex(&self.id).unwrap_or_default()
    }

    /// Returns what the pool accepts, with the keys that are at hand.
    pub fn seals(&self) -> Seals {
        Seals::of(&self.sealed, &self.keys)
    }

    /// As [`PoolConfig::seals`], for maps: every key at hand counts, since a map that is newer than
    /// this one may not name those that this one does.
    pub(crate) fn map_seals(&self) -> Seals {
        let mut ids = self.keys.ids();
        if !self.seals().is_strict() {
            ids.push(seal::UNSEALED.to_owned());
        }
        Seals::of(&ids, &self.keys)
    }

    /// Returns what logs that are begun now are sealed by; `None` in a pool that seals nothing.
    pub fn log_sealer(&self) -> Option<Sealer> {
        self.seals().log_sealer()
    }

    /// Returns what a log was sealed by that was begun with the key of this id, whether new things
    /// are sealed by it still or not. `None`: that key is not at hand, and the pool accepts what
    /// has no seal, so the log need not be checked.
    /// Errors: [`PoolError::NoKey`].
    pub fn log_sealer_by(&self, id: &str) -> Result<Option<Sealer>> {
        match self.keys.log_sealer(id) {
            None if self.seals().is_strict() => {
                Err(PoolError::NoKey { pool: self.name.clone(), id: id.to_owned() })
            }
            sealer => Ok(sealer),
        }
    }

    /// Returns how new shards are checked: by hashes that cannot be forged, where manifests are
    /// sealed.
    pub(crate) fn sums(&self) -> SumKind {
        if self.seals().is_sealing() { SumKind::Blake3 } else { SumKind::Crc32c }
    }

    /// Refuses to use a pool without the key to seal with.
    /// Errors: [`PoolError::NoKey`].
    pub fn check_keys(&self) -> Result<()> {
        let Some(id) = self.sealed.first().filter(|id| *id != seal::UNSEALED) else {
            return Ok(());
        };
        match self.keys.ids().contains(id) {
            true => Ok(()),
            false => Err(PoolError::NoKey { pool: self.name.clone(), id: id.clone() }),
        }
    }

    /// Has a new pool encrypted by the first of its data keys.
    /// Errors: [`PoolError::Usage`] without one.
    pub fn encrypt(&mut self) -> Result<()> {
        let id = self.data_keys.ids().into_iter().next();
        let what = || PoolError::Usage { what: "an encrypted pool needs a data key".into() };
        self.encrypted = vec![id.ok_or_else(what)?];
        self.raise_version();
        Ok(())
    }

    /// Returns whether the pool is encrypted.
    pub fn is_encrypted(&self) -> bool {
        !self.encrypted.is_empty()
    }

    /// Returns the key of a new object; `None` in a pool that is not encrypted.
    pub(crate) fn new_object_key(&self) -> Result<Option<ObjectKey>> {
        self.check_data_key()?;
        self.is_encrypted().then(|| Ok(ObjectKey::new(random()?.into()))).transpose()
    }

    /// Refuses to read or write objects without the key that wraps what is new.
    /// Errors: [`PoolError::NoDataKey`].
    pub fn check_data_key(&self) -> Result<()> {
        match self.encrypted.first() {
            Some(id) if !self.data_keys.ids().contains(id) => Err(self.no_data_key(id)),
            _ => Ok(()),
        }
    }

    pub(crate) fn wrap(&self, key: &ObjectKey, name: &str, size: u64) -> Result<WrappedKey> {
        let id = self.encrypted.first().map_or("", |id| &id[..]);
        let wrapped = self.data_keys.wrap(id, key, (self.id_bytes(), name, size), &random()?);
        wrapped.ok_or_else(|| self.no_data_key(id))
    }

    /// Returns the key of an object; `None` in a pool that is not encrypted.
    pub(crate) fn object_key(&self, manifest: &Manifest) -> Result<Option<ObjectKey>> {
        let (name, size) = manifest.object();
        let forged = || PoolError::Forged { object: object_name(name).to_owned(), offset: 0 };
        let Some(wrapped) = &manifest.key else {
            return if self.is_encrypted() { Err(forged()) } else { Ok(None) };
        };
        let key = self.data_keys.unwrap(wrapped, (self.id_bytes(), name, size));
        key.ok_or_else(|| self.no_data_key(&wrapped.key_id()))?.map(Some).ok_or_else(forged)
    }

    pub(crate) fn no_data_key(&self, id: &str) -> PoolError {
        PoolError::NoDataKey { pool: self.name.clone(), id: id.to_owned() }
    }

    /// Why a description could not be read; where there is none, with what to do.
    pub fn unread(error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound {
            return error;
        }
        let todo = "--pool or KILN_POOL names a pool's description, kiln pool create makes one, \
                    kiln pool restore brings a lost one back";
        io::Error::new(error.kind(), format!("there is none; {todo}"))
    }

    /// Reads and checks a description.
    /// Errors: [`PoolError::Usage`] in one line, with the field at fault.
    pub fn from_toml(text: &str) -> Result<PoolConfig> {
        if text.len() > MAX_FILE {
            return Err(wrong(format!("{} bytes, the limit is {MAX_FILE}", text.len())));
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let flat = |error: toml::de::Error| {
            wrong(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let parsed = toml::from_str::<PoolConfig>(text);
        // A later version may have other fields: its number says more than they do.
        let version = match &parsed {
            Ok(config) => config.version,
            Err(_) => toml::from_str::<Versioned>(text).map_err(flat)?.version,
        };
        if !(WITHOUT_HISTORY..=LATEST).contains(&version) {
            return Err(wrong(format!("version {version}; this program reads up to {LATEST}")));
        }
        let mut config = parsed.map_err(flat)?;
        if version == WITHOUT_HISTORY {
            config.begin_history();
        }
        config.raise_version();
        config.check()?;
        Ok(config)
    }

    /// Returns the version of a description of this pool that a later release wrote.
    pub(crate) fn later_version(&self, text: &str) -> Option<u32> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
            id: String,
        }
        let Versioned { version, id } = toml::from_str(text).ok()?;
        (version > LATEST && id == self.id).then_some(version)
    }

    /// The text of the file.
    pub fn to_toml(&self) -> Result<String> {
        self.check()?;
        let text = toml::to_string(self).map_err(|error| wrong(error.to_string()))?;
        match text.len() > MAX_FILE {
            true => Err(wrong(format!("{} bytes, the limit is {MAX_FILE}", text.len()))),
            false => Ok(text),
        }
    }

    /// Refuses what cannot be a pool.
    /// Errors: [`PoolError::Usage`] with the field at fault.
    pub fn check(&self) -> Result<()> {
        if unhex::<16>(&self.id).is_none() {
            return Err(wrong(format!("id {:?} is not 32 hex digits", self.id)));
        }
        check_word("name", &self.name)?;
        self.policy.check()?;
        self.keep.iter().try_for_each(KeepRule::check)?;
        if self.snapshot.len() > MAX_SNAPSHOTS {
            return Err(wrong(format!("more than {MAX_SNAPSHOTS} snapshots")));
        }
        for one in &self.snapshot {
            check_word("snapshot", &one.name)?;
            let twice = self.snapshot.iter().filter(|other| other.name == one.name).count() > 1;
            if twice || !one.name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                let what =
                    format!("snapshot {:?} is there twice, or begins with no letter", one.name);
                return Err(wrong(what));
            }
        }
        self.tier.iter().try_for_each(|tier| tier.check(&self.policy))?;
        if self.node.len() > MAX_NODES {
            return Err(wrong(format!("{} nodes, the limit is {MAX_NODES}", self.node.len())));
        }
        if self.settled > self.revision || self.past.len() > MAX_PAST {
            return Err(wrong("its history is not of this revision".into()));
        }
        if self.gone.len() > MAX_GONE {
            return Err(wrong(format!("{} nodes are gone, the limit is {MAX_GONE}", MAX_GONE)));
        }
        if self.sealed.len() > MAX_SEALED || !self.sealed.iter().all(|id| seal::is_listable(id)) {
            return Err(wrong("sealed: ids of keys are 16 hex digits, or none".into()));
        }
        let ids = self.encrypted.iter().all(|id| seal::is_listable(id) && id != seal::UNSEALED);
        if (self.version >= ENCRYPTED) != self.is_encrypted() || !ids {
            let what = "encrypted: ids of keys are 16 hex digits, and version 4 has one";
            return Err(wrong(what.into()));
        }
        for past in &self.past {
            if past.copies == 0 || past.copies > MAX_COPIES || past.node.len() > MAX_NODES {
                return Err(wrong(format!("the members of epoch {} are impossible", past.epoch)));
            }
        }
        for (at, node) in self.node.iter().enumerate() {
            if !node.disk.is_empty() && unhex::<16>(&node.disk).is_none() {
                return Err(wrong(format!("node {}: disk is not 32 hex digits", node.id)));
            }
            if self.gone.contains(&node.id) {
                return Err(wrong(format!("node id {} is of a node that is gone", node.id)));
            }
            check_word("node id", &node.id)?;
            check_word("domain", &node.domain)?;
            let before = &self.node[..at];
            if before.iter().any(|other| other.id == node.id || other.url == node.url) {
                return Err(wrong(format!("node {} ({}) is there twice", node.id, node.url)));
            }
            if !node.url.contains("://") || node.url.len() > MAX_URL {
                let what =
                    format!("node {}: {:?} is no URL like file:///folder", node.id, node.url);
                return Err(wrong(what));
            }
            if !(node.weight > 0.0 && node.weight <= 1e6) {
                return Err(wrong(format!("node {}: weight must be above 0, to 1e6", node.id)));
            }
        }
        Ok(())
    }

    /// Features that the pool uses and the first release did not know, and the version that each
    /// of them needs.
    pub fn features(&self) -> Vec<(&'static str, u32)> {
        let codes = self.policy.class.iter().any(|class| is_new_code(&class.code));
        [
            ("kept versions", KEEPING, !self.keep.is_empty() || !self.snapshot.is_empty()),
            ("tiers", KEEPING, !self.tier.is_empty()),
            ("a code less or wide lrc", KEEPING, codes),
            ("encryption", ENCRYPTED, self.is_encrypted()),
        ]
        .into_iter()
        .filter_map(|(name, version, is_used)| is_used.then_some((name, version)))
        .collect()
    }

    /// Takes the version that its features need; a later one stays, since traces of what had needed
    /// it may be left.
    pub(crate) fn raise_version(&mut self) {
        let needed = self.features().into_iter().map(|(_, version)| version);
        self.version = needed.fold(self.version, u32::max);
    }

    /// Returns whether versions may be kept in the pool.
    pub fn has_versions(&self) -> bool {
        self.version >= KEEPING
    }

    /// The rule for an object, if there is one.
    pub fn keep_rule(&self, name: &str) -> Option<&KeepRule> {
        keep::rule_for(&self.keep, name)
    }

    /// Returns whether a version of an object is kept that was in force from `since` until `until`
    /// (ms since 1970), and that `newer` kept versions followed.
    pub(crate) fn keeps(
        &self,
        name: &str,
        (since, until): (u64, u64),
        newer: u64,
        now: u64,
    ) -> bool {
        let has = |one: &Snapshot| since <= one.at_ms && one.at_ms < until && one.fits(name);
        self.keep_rule(name).is_some_and(|rule| rule.keeps(since, until, newer, now))
            || self.snapshot.iter().any(has)
    }

    /// The first time after all snapshots of an object: no change of it from now on is earlier.
    pub(crate) fn after_snapshots(&self, name: &str) -> u64 {
        let times = self.snapshot.iter().filter(|one| one.fits(name)).map(|one| one.at_ms);
        times.max().map_or(0, |at| at.saturating_add(1))
    }

    /// Position of a node.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.node.iter().position(|node| node.id == id)
    }
}

/// Returns whether the first release does not know a code.
fn is_new_code(spec: &str) -> bool {
    let codec = || Codec::new(&spec.parse().ok()?).ok();
    let is_wide = |codec: Codec| {
        let spec = codec.spec().explicit();
        ["azure", "uniform", "cascaded"].iter().any(|layout| spec.contains(layout))
    };
    spec.starts_with("less") || (spec.starts_with("lrc") && codec().is_some_and(is_wide))
}

fn wrong(what: String) -> PoolError {
    PoolError::Usage { what: format!("pool description: {what}") }
}

fn check_word(field: &str, word: &str) -> Result<()> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    if !word.is_empty() && word.len() <= MAX_NODE_ID && word.bytes().all(plain) {
        return Ok(());
    }
    let shown: String = word.chars().take(80).collect();
    let what =
        format!("{field} {shown:?} must have 1 to {MAX_NODE_ID} letters, digits, '.', '_' or '-'");
    Err(wrong(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config() -> PoolConfig {
        let mut config = PoolConfig::new([9; 16], "test", Policy::for_code("clay:4+2").unwrap());
        for at in 0..6 {
            config.node.push(NodeConfig::new(&format!("n{at}"), &format!("file:///d/{at}")));
        }
        config
    }

    #[test]
    fn what_cannot_be_a_pool_is_refused() {
        type Change<'a> = &'a dyn Fn(&mut PoolConfig);
        let cases: [(&str, Change<'_>); 9] = [
            ("32 hex", &|c| c.id = "x".into()),
            ("name", &|c| c.name = String::new()),
            ("twice", &|c| c.node[1].id = "n0".into()),
            ("twice", &|c| c.node[1].url = c.node[0].url.clone()),
            ("URL", &|c| c.node[1].url = "/disk".into()),
            ("weight", &|c| c.node[1].weight = 0.0),
            ("weight", &|c| c.node[1].weight = f64::NAN),
            ("node id", &|c| c.node[1].id = "a/b".into()),
            ("domain", &|c| c.node[1].domain = "x".repeat(65)),
        ];
        for (word, change) in cases {
            let mut config = config();
            change(&mut config);
            let error = config.to_toml().unwrap_err().to_string();
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn unknown_fields_and_versions_are_errors_of_one_line() {
        let text = config().to_toml().unwrap();
        for (wrong, word) in [
            (text.replace("version = 2", "version = 5"), "version 5"),
            (text.replace("name = ", "nmae = "), "nmae"),
            (text.replace("weight = 1.0", "weight = \"heavy\""), "weight"),
            (String::new(), "version"),
            (format!("{text}{}", " ".repeat(MAX_FILE)), "limit"),
        ] {
            let error = PoolConfig::from_toml(&wrong).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{word}: {error}");
        }
    }

    #[test]
    fn what_the_first_release_does_not_know_raises_the_version_for_good() {
        let of = |code| PoolConfig::new([1; 16], "test", Policy::for_code(code).unwrap());
        for (spec, version) in [("rs:4+2", 2), ("lrc:4+2+2", 2), ("less:4+2", 3), ("lrc:7+3+3", 3)]
        {
            assert_eq!(of(spec).version, version, "{spec}");
        }
        let changed = |config: PoolConfig, keep: Vec<KeepRule>| {
            let edit = |next: &mut PoolConfig| {
                next.keep = keep;
                Ok(())
            };
            config.next(edit).unwrap()
        };
        let kept = changed(of("rs:4+2"), vec![KeepRule { last: 1, ..KeepRule::default() }]);
        let not_kept = changed(kept.clone(), Vec::new());
        assert_eq!((kept.version, not_kept.version), (3, 3));
        let mut tiered = of("rs:4+2");
        tiered.tier.push(Tier { after_seconds: 1, at_least: 0, code: "clay:4+2".into() });
        // As an earlier build wrote it.
        let text = tiered.to_toml().unwrap();
        assert!(text.starts_with("version = 2"));
        assert_eq!(PoolConfig::from_toml(&text).unwrap().version, 3);
    }

    proptest! {
        #[test]
        fn changed_text_is_a_pool_or_an_error(
            patches in proptest::collection::vec((0usize..600, "[ -~\\n]{0,3}"), 0..4),
        ) {
            let mut text = config().to_toml().unwrap();
            for (at, patch) in patches {
                let at = at % text.len();
                text.replace_range(at..at + 1, &patch);
                if text.is_empty() { break }
            }
            if let Ok(config) = PoolConfig::from_toml(&text) {
                let again = PoolConfig::from_toml(&config.to_toml().unwrap()).unwrap();
                prop_assert_eq!(again, config);
            }
        }
    }
}
