//! Marks on nodes of damage that scrubs found and names do not show: any client sees it.

use crate::index::{Index, THE_MANIFEST, suspected};
use crate::{Key, NodeFile, repair::repairer::Repairer};
use kiln_store::write_whole;
use kiln_stripe::{Result, Settings};

/// Damage of an object as marks tell of it: the object, its run, and what is damaged.
pub(crate) type Mark = (Key, [u8; 16], u16);

impl Repairer<'_> {
    /// Marks damage of an object that has shards on these nodes: each mark is on the node of its
    /// shard, or on another one that takes it.
    pub(crate) fn mark_damage(
        &self,
        (key, shards): (&Key, &Key),
        run: &[u8; 16],
        nodes: &[String],
        damage: &[u16],
        settings: &Settings<'_>,
    ) {
        for &index in damage {
            let shard = suspected(index).0;
            let own = nodes.get(shard).and_then(|id| self.map.config.position(id));
            let file = NodeFile::Shard { key: *shards, run: *run, index: shard as u16 }.name();
            let disk = own.and_then(|at| self.map.usable(at).ok());
            if disk.is_some_and(|disk| disk.open(&file).is_err_and(|e| e.is_not_found())) {
                // Its name is missing, which any survey sees.
                continue;
            }
            let homes = self.map.config.homes_now(key);
            let name = NodeFile::Damaged { key: *key, run: *run, index }.name();
            let write =
                |at| self.map.usable(at).is_ok_and(|disk| write_whole(disk, &name, b"").is_ok());
            if !own.into_iter().chain(homes.positions()).any(write) {
                let text = "damage was found that could not be marked; other clients miss it";
                settings.observer.warn(text);
            }
        }
    }

    /// Notes that repairs healed what an index knew of objects' damage.
    pub fn note_repaired(&self, keys: &[Key], index: &Index) -> Result<()> {
        self.note_left(&keys.iter().map(|key| (*key, Vec::new())).collect::<Vec<_>>(), index)
    }

    /// Notes that what an index knew of damage of an object's manifest was healed.
    pub fn note_renewed(&self, key: &Key, index: &Index) -> Result<()> {
        let mut damage = index.damage_of(key)?;
        damage.retain(|index| *index != THE_MANIFEST);
        self.note_left(&[(*key, damage)], index)
    }

    /// Notes what damage objects have after repairs: marks of all else that an index knew go.
    pub fn note_left(&self, left: &[(Key, Vec<u16>)], index: &Index) -> Result<()> {
        let mut names: Vec<String> = Vec::new();
        for (key, left) in left {
            let mut healed = index.damage_of(key)?;
            healed.retain(|one| !left.contains(one));
            if let Some(listed) = index.by_key(key)?.filter(|_| !healed.is_empty()) {
                let run = kiln_stripe::names::unhex(&listed.run).unwrap_or_default();
                let name = |index| NodeFile::Damaged { key: *key, run, index }.name();
                names.extend(healed.into_iter().map(name));
            }
        }
        let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
        if !names.is_empty() {
            let _ = self.map.in_parallel(self.map.present().collect(), |_, (_, disk)| {
                Ok::<_, std::convert::Infallible>(disk.remove_all(&names))
            });
        }
        index.set_damage(left)
    }

    /// Marks damage of objects that repairs found, and notes it; none: what was known is healed.
    pub fn note_damage(
        &self,
        found: &[(Key, Vec<u16>)],
        index: &Index,
        settings: &Settings<'_>,
    ) -> Result<()> {
        for (key, damage) in found {
            if let Some(listed) = index.by_key(key)?.filter(|_| !damage.is_empty()) {
                let run = kiln_stripe::names::unhex(&listed.run).unwrap_or_default();
                let keys = (key, &Key::of_shards(&listed.name)?);
                self.mark_damage(keys, &run, &listed.nodes, damage, settings);
            }
        }
        self.note_left(found, index)
    }

    /// Has an index know what marks tell of objects as they are now.
    pub(crate) fn take_up_marks(&self, index: &Index, marks: Vec<Mark>) -> Result<()> {
        let mut damage = std::collections::BTreeMap::<Key, Vec<u16>>::new();
        for (key, run, one) in marks {
            let run = kiln_stripe::names::hex(&run);
            if !index.by_key(&key)?.is_some_and(|listed| listed.run == run && !listed.deleted) {
                continue;
            }
            let known = match damage.entry(key) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => {
                    new.insert(index.damage_of(&key)?)
                }
            };
            if !known.contains(&one) {
                known.push(one);
            }
        }
        index.set_damage(&damage.into_iter().collect::<Vec<_>>())
    }
}
