//! Small files, read whole.

use crate::PoolConfig;
use crate::layout::seal::{Purpose, Seal, Seals};
use kiln_store::{Backend, Capability, Existing, NewFile, ReadAt, checksum};
use kiln_stripe::{PoolError, Result, names::DESCRIPTION};

/// Reads a file of at most `limit` bytes; `None` when it is not there.
pub(crate) fn read_small(store: &dyn Backend, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let file = match store.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(whole(store, &*file, name, limit)?))
}

fn whole(store: &dyn Backend, file: &dyn ReadAt, name: &str, limit: u64) -> Result<Vec<u8>> {
    if file.len() > limit {
        let what = format!("{name} in {} has {} bytes", store.place(), file.len());
        return Err(PoolError::Refused { what: format!("{what}, more than the limit of {limit}") });
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// As [`read_small`], with what a conditional write expects that puts something in its place.
pub(crate) fn read_tagged(
    store: &dyn Backend,
    name: &str,
    limit: u64,
) -> Result<(Option<Vec<u8>>, Existing)> {
    let file = match store.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok((None, Existing::Keep)),
        Err(error) => return Err(error.into()),
    };
    // Where there are no tags nothing is conditional.
    let existing = file.tag().map_or(Existing::Replace, Existing::Same);
    Ok((Some(whole(store, &*file, name, limit)?), existing))
}

/// Most bytes of a description, and of what tells whose disk it is.
pub(crate) const MAX_TEXT: u64 = 1 << 20;
/// A node's copy of the map begins with its epoch, its version and the pool's id.
const HEAD: usize = 128;

/// The epoch of a node's copy of the map; `None`: it has none. Every operation reads it, so one
/// that is known is read from the first line, which has a checksum of its own. A newer one has
/// all clients stop, so it counts only of a copy that is whole and accepted.
/// Errors: the copy cannot be read, or is not as it was written: then it says nothing.
pub(crate) fn epoch_of(store: &dyn Backend, known: &PoolConfig) -> Result<Option<u64>> {
    let file = match store.open(DESCRIPTION) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut head = vec![0; file.len().min(HEAD as u64) as usize];
    file.read_at(0, &mut head)?;
    let id = format!("\nid = \"{}\"\n", known.id);
    let is_ours = |text: &[u8]| String::from_utf8_lossy(text).contains(&id);
    if let Some(epoch) = named_epoch(&head).filter(|epoch| *epoch <= known.revision)
        && is_ours(&head)
    {
        return Ok(Some(epoch));
    }
    let Some(text) = read_small(store, DESCRIPTION, MAX_TEXT)? else { return Ok(None) };
    let refused = |why: &str| {
        let what = format!("{DESCRIPTION} in {} {why}; a scrub writes it again", store.place());
        Err(PoolError::Refused { what })
    };
    if !is_intact(&text) {
        return refused("is not as it was written");
    }
    if !is_accepted(&text, &known.map_seals()) {
        return refused("has no seal of this pool");
    }
    let words = String::from_utf8_lossy(&text);
    let number = words.lines().find_map(|line| line.strip_prefix("revision = "));
    // Writes that went to the wrong place leave something else, or the map of another pool.
    match number.and_then(|number| number.trim().parse().ok()).filter(|_| is_ours(&text)) {
        Some(epoch) => Ok(Some(epoch)),
        None => refused("is no map of this pool"),
    }
}

/// Prefix of the first line of a node's copy of the map; comments, for parsers of TOML.
const EPOCH: &str = "# epoch = ";
/// Prefix of its last line, and of the text after the epoch in the first.
const CHECKSUM: &str = "# checksum = ";

/// Prefix of a line with a seal.
const SEALED: &str = "# seal = ";

/// The map that a node's copy is, where that is as it was written, of this pool, and accepted by
/// the keys at hand: the one way from bytes to a map, for every command.
pub(crate) fn parse_map(bytes: &[u8], known: &PoolConfig) -> Option<PoolConfig> {
    if !is_intact(bytes) || !is_accepted(bytes, &known.map_seals()) {
        return None;
    }
    let config = PoolConfig::from_toml(&String::from_utf8_lossy(bytes)).ok()?;
    let (keys, data_keys) = (known.keys.clone(), known.data_keys.clone());
    // A node that has the pool encrypted no more would have clients write their data in clear.
    let is_accepted = config.id == known.id && (config.is_encrypted() || !known.is_encrypted());
    is_accepted.then_some(PoolConfig { keys, data_keys, repairer: known.repairer, ..config })
}

/// Refuses to go on, or to write, where a later release has changed a node's copy of the map: what
/// the pool asks of its users by now is not known here.
/// Errors: [`PoolError::Refused`].
pub(crate) fn refuse_later(bytes: &[u8], known: &PoolConfig, node: &str) -> Result<()> {
    if !is_intact(bytes) || !is_accepted(bytes, &known.map_seals()) {
        return Ok(());
    }
    match known.later_version(&String::from_utf8_lossy(bytes)) {
        None => Ok(()),
        Some(version) => Err(PoolError::Refused {
            what: format!(
                "a later release changed the pool: node {node} has its map in version {version}, \
                 which this program does not read; use that release"
            ),
        }),
    }
}

/// Writes a node's copy of the map: text with its checksums, so that a flipped bit makes no map,
/// and with a seal by each key at hand, so that a client with any of them accepts it.
///
/// It replaces older maps only, judged at the moment of writing: the caller may have stood still
/// since it looked, and others gone on. What is there already of the same epoch stays: `change`
/// says that the caller proposes this map, and then another one of that epoch is an error.
/// Errors: [`PoolError::MapChanged`]: a newer map is there, or another change was first; as
/// [`refuse_later`].
pub(crate) fn write_map(
    store: &dyn Backend,
    node: &str,
    map: &PoolConfig,
    change: bool,
) -> Result<()> {
    let (there, existing) = match read_tagged(store, DESCRIPTION, MAX_TEXT) {
        // Too long for a map.
        Err(PoolError::Refused { .. }) => (None, Existing::Replace),
        read => read?,
    };
    let parsed = there.as_deref().and_then(|bytes| parse_map(bytes, map));
    if let (Some(bytes), None) = (&there, &parsed) {
        refuse_later(bytes, map, node)?;
    }
    if let Some(there) = parsed {
        let same = there.revision == map.revision && there.is_same_map(map);
        if same {
            return Ok(());
        }
        if there.revision > map.revision || (change && there.revision == map.revision) {
            let (have, newest, node) = (map.revision, there.revision, node.to_owned());
            return Err(PoolError::MapChanged { have, newest, node });
        }
    }
    let mut text = first_line(map.revision) + &map.to_toml()?;
    let seals = map.keys.seals(Purpose::Map, text.as_bytes());
    for seal in seals.iter().filter(|_| !map.sealed.is_empty()) {
        text += &format!("{SEALED}{}\n", seal.words());
    }
    let text = summed(text);
    // Places with renames have locks that outlast a pause; others have tags.
    let renames = store.capabilities().has(Capability::Rename);
    let existing = if renames { Existing::Replace } else { existing };
    let mut file = store.create(&NewFile { existing, ..NewFile::named(DESCRIPTION) })?;
    file.write(text.as_bytes())?;
    Ok(file.complete()?)
}

fn first_line(epoch: u64) -> String {
    summed(format!("{EPOCH}{epoch} "))
}

fn summed(text: String) -> String {
    let sum = checksum(text.as_bytes());
    text + &format!("{CHECKSUM}{sum:08x}\n")
}

/// The epoch that the first line of a copy names, if that is as it was written.
fn named_epoch(head: &[u8]) -> Option<u64> {
    let line = head.split_inclusive(|byte| *byte == b'\n').next()?;
    let epoch = std::str::from_utf8(line).ok()?.strip_prefix(EPOCH)?.split(' ').next()?;
    let epoch = epoch.parse().ok()?;
    (first_line(epoch).as_bytes() == line).then_some(epoch)
}

/// Returns whether a copy is as it was written, as far as it says: copies of before there were
/// checksums do not.
pub(crate) fn is_intact(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some((map, sum)) = text.rsplit_once(CHECKSUM) else { return true };
    sum.trim_end() == format!("{:08x}", checksum(map.as_bytes()))
}

/// Returns whether a copy is accepted: one of its seals is, or none is asked for.
pub(crate) fn is_accepted(text: &[u8], seals: &Seals) -> bool {
    let text = String::from_utf8_lossy(text);
    let map = text.rsplit_once(CHECKSUM).map_or(&text[..], |(map, _)| map);
    // At the beginning of a line: no field of a description has one in it.
    let first = map.find(&format!("\n{SEALED}")).map_or(map.len(), |at| at + 1);
    let (map, lines) = map.split_at(first);
    let found: Vec<Seal> =
        lines.lines().filter_map(|line| Seal::parse(line.strip_prefix(SEALED)?)).collect();
    let accepts = |seal: Option<&Seal>| seals.check(Purpose::Map, &[map.as_bytes()], seal).is_ok();
    accepts(None) || found.iter().any(|seal| accepts(Some(seal)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, example_pool, members::membership::Membership};
    use kiln_store::MemoryBackend;
    use kiln_stripe::{Settings, Silent};

    /// A map of a version that is not known: a client that knows the one before does not go on by
    /// that, and writes nothing over the later one.
    #[test]
    fn a_map_of_a_later_release_is_refused_and_kept() {
        let pool = example_pool().unwrap();
        let known = pool.config().clone();
        let later = PoolConfig { revision: known.revision + 1, ..known.clone() };
        let text = later.to_toml().unwrap().replace("version = 2", "version = 5\nfeatures = [1]");
        let text = summed(first_line(later.revision) + &text).into_bytes();
        for (_, store) in pool.map().present() {
            kiln_store::write_whole(store, DESCRIPTION, &text).unwrap();
        }
        assert!(matches!(pool.check_map(), Err(PoolError::MapChanged { .. })));
        let open = |node: &crate::NodeConfig| Ok(pool.place(&node.id).unwrap());
        let settings = Settings::new(&Silent);
        let newest = Membership::newest(known.clone(), false, &open, &settings);
        let words = newest.unwrap_err().to_string();
        assert!(words.contains("later release") && words.contains("version 5"), "{words}");
        let newer = PoolConfig { revision: 9, ..known };
        for (_, store) in pool.map().present() {
            assert!(matches!(write_map(store, "a", &newer, false), Err(PoolError::Refused { .. })));
            assert_eq!(read_small(store, DESCRIPTION, MAX_TEXT).unwrap().as_ref(), Some(&text));
        }
    }

    #[test]
    fn a_flipped_bit_of_a_map_is_noticed() {
        let id = kiln_stripe::names::hex(&[7; 16]);
        let map = format!("version = 2\nid = \"{id}\"\nrevision = 1234\nurl = \"kiln://host:1\"\n");
        let text = summed(first_line(1234) + &map).into_bytes();
        assert!(is_intact(&text) && is_intact(map.as_bytes()));
        let disk = MemoryBackend::new();
        let policy = Policy::for_code("rep:2").unwrap();
        let known = PoolConfig::new([7; 16], "test", policy);
        let epoch_of = |disk: &MemoryBackend, revision| {
            super::epoch_of(disk, &PoolConfig { revision, ..known.clone() })
        };
        assert_eq!(epoch_of(&disk, 7).unwrap(), None);
        // A copy of before there were checksums.
        disk.put(DESCRIPTION, map.into());
        assert_eq!(epoch_of(&disk, 7).unwrap(), Some(1234));
        for at in 0..text.len() - 1 {
            for bit in 0..8 {
                let mut bad = text.clone();
                bad[at] ^= 1 << bit;
                assert!(!is_intact(&bad), "{at} {bit}");
                disk.put(DESCRIPTION, bad);
                // The epoch of the map in force, an older one, and newer ones.
                for known in [1233, 1234, 1235, u64::MAX] {
                    let epoch = epoch_of(&disk, known);
                    assert!(matches!(epoch, Ok(Some(1234)) | Err(_)), "{at} {bit}: {epoch:?}");
                }
            }
        }
    }
}
