//! Keys for objects whose names begin with a prefix: what both sides remember of names, and which
//! files a request is about.

use std::collections::BTreeMap;

use crate::proto::Message;

/// Names that a client takes for shown on a connection, and those that an agent remembers of it.
pub(crate) const SHOWN: usize = 1024;
pub(crate) const REMEMBERED: usize = 2 * SHOWN;

/// Names of what the program itself keeps in a pool.
const INTERNAL: [&str; 3] = [".volumes/", ".s3/", ".kiln-attributes"];
/// The log of changes of a node, its map, and its identity.
pub(crate) const CHANGES: &str = ".kiln-changes";
const READABLE: [&str; 3] = [CHANGES, "kiln-pool.toml", "kiln-node.toml"];

/// Values noted last by key: as many as it is for at least, and twice as many at most.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    least: usize,
    new: BTreeMap<[u8; 16], V>,
    old: BTreeMap<[u8; 16], V>,
}

impl<V> Recent<V> {
    pub fn of(least: usize) -> Recent<V> {
        Recent { least, new: BTreeMap::new(), old: BTreeMap::new() }
    }

    pub fn get(&self, key: &[u8; 16]) -> Option<&V> {
        self.new.get(key).or_else(|| self.old.get(key))
    }

    pub fn note(&mut self, key: [u8; 16], value: V) {
        if self.new.len() >= self.least {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, value);
    }
}

/// Returns why no key is limited to a prefix; `None`: one can be.
pub(crate) fn flaw(prefix: &str) -> Option<&'static str> {
    if prefix.is_empty() {
        Some("it is empty; leave --prefix out for a key of all objects")
    } else if prefix.len() > 100 {
        // It must fit a name in a certificate.
        Some("it is longer than 100 bytes")
    } else if prefix.contains(char::is_control) {
        Some("it contains a control character")
    } else if prefix.rsplit('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        Some("no object's name begins so: it has a part '', '.' or '..'")
    } else if INTERNAL.iter().any(|own| own.starts_with(prefix) || prefix.starts_with(own)) {
        Some("names that begin so are kiln's own")
    } else {
        None
    }
}

/// Returns the files of objects that a request names; `None`: a limited key may not make it,
/// whatever it names.
pub(crate) fn files(message: &Message) -> Option<Vec<&str>> {
    use Message as M;
    Some(match message {
        // Files of no object: they are read, and the log of changes is measured and appended to.
        M::Open { name } if READABLE.contains(&&name[..]) => vec![],
        M::Append { name, .. } if name == CHANGES => vec![],
        M::Open { name } | M::Append { name, .. } | M::Remove { name } | M::Locate { name } => {
            vec![name]
        }
        M::Rename { from, to } | M::CopyHome { from, to } => vec![from, to],
        M::Ping {} | M::Cancel { .. } | M::Name { .. } | M::Space {} | M::Reads {} => vec![],
        // By handles of what was opened. An assignment's files are looked at when it is whole.
        M::Lock { .. } | M::Read { .. } | M::Write { .. } | M::Sync { .. } => vec![],
        M::Close { .. } | M::Assign { .. } | M::Start { .. } | M::Watch { .. } => vec![],
        M::Fetch { .. } | M::Abort { .. } => vec![],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_remembers_what_its_client_takes_for_shown() {
        let (mut client, mut agent) = (Recent::of(SHOWN), Recent::of(REMEMBERED));
        for turn in 0..20_000_u128 {
            let key = if turn % 3 == 0 { turn % 700 } else { turn }.to_le_bytes();
            if client.get(&key).is_none() {
                client.note(key, ());
                agent.note(key, ());
            }
            assert!(agent.get(&key).is_some() && agent.old.len() <= REMEMBERED, "{turn}");
        }
    }
}
