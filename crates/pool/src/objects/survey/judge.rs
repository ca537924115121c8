//! What a survey says of one object, by what the index and the lists of the nodes have of it.

use std::collections::BTreeMap;

use super::PoolStatus;
use crate::objects::health::Health;
use crate::objects::index::{ASKED, Index};
use crate::objects::{Listed, Pool};
use crate::queue::{Damaged, RepairQueue};
use crate::{Depth, Key, Result, Settings, Silent};

/// What is wrong with one object, while nodes are gone through.
#[derive(Clone, Debug, Default)]
pub(super) struct Lack {
    pub lost: Vec<u16>,
    pub away: Vec<u16>,
    pub manifests: u16,
    /// A copy of the manifest is damaged: perhaps one that is counted above.
    pub under_replicated: bool,
}

impl Lack {
    /// As somebody found who looked at the object itself.
    fn of(health: &Health) -> Lack {
        Lack {
            lost: health.targets.clone(),
            away: health.away.clone(),
            manifests: 0,
            under_replicated: health.under_replicated,
        }
    }
}

/// One object.
pub(super) struct Judged {
    size: u64,
    lack: Lack,
    margin: i32,
    pub is_whole: bool,
    bytes: u64,
}

impl Judged {
    /// Whether it is to be looked at before anybody is told that it lacks something. The index is
    /// older than the lists of the nodes: what was removed or replaced in between is in the one,
    /// and not in the others. `changed`: whether that is known of it.
    pub fn is_doubtful(&self, changed: Option<bool>) -> bool {
        let only_away = self.lack.away.len() == self.lack.lost.len();
        !self.is_whole && (changed != Some(false) || (self.margin < 0 && !only_away))
    }
}

/// What is known of all objects.
pub(super) struct Counted<'a> {
    pub status: &'a mut PoolStatus,
    pub queue: &'a mut RepairQueue,
    pub now_ms: u64,
}

impl Counted<'_> {
    /// Counts an object, and reports it when it lacks something.
    pub fn count(&mut self, key: Key, judged: Judged) {
        let Judged { size, lack, margin, is_whole, bytes } = judged;
        self.status.objects += 1;
        self.status.bytes += size;
        if is_whole {
            self.status.whole += 1;
            return;
        }
        self.status.under_replicated += u64::from(lack.under_replicated);
        if margin < 0 {
            self.status.unreadable += 1;
        } else {
            *self.status.endangered.entry(margin).or_default() += 1;
        }
        self.status.to_rebuild += bytes;
        let transient = !lack.lost.is_empty() && lack.away.len() == lack.lost.len();
        self.queue.report(Damaged { key, lost: lack.lost, margin, bytes, transient }, self.now_ms);
    }
}

impl Pool {
    /// What one object lacks.
    pub(super) fn judge(
        &self,
        listed: &Listed,
        lacks: &BTreeMap<Key, Lack>,
    ) -> Result<(Key, Judged)> {
        let key = Key::of(&listed.name)?;
        let mut lack = lacks.get(&key).cloned().unwrap_or_default();
        // Nodes that left the pool altogether hold nothing.
        for (at, node) in listed.nodes.iter().enumerate() {
            if self.config.position(node).is_none() {
                lack.lost.push(at as u16);
            }
        }
        lack.lost.sort_unstable();
        lack.lost.dedup();
        let gone = |id: &&String| self.config.position(id).is_none();
        // What a scrub found may be one of those that are counted here.
        let manifests = usize::from(lack.manifests) + listed.manifests.iter().filter(gone).count();
        let manifests = manifests.max(usize::from(lack.under_replicated));
        lack.under_replicated = manifests > 0 || self.is_misplaced(&key, listed);
        if lack.lost.is_empty() && !lack.under_replicated {
            return Ok((
                key,
                Judged { size: listed.size, lack, margin: 0, is_whole: true, bytes: 0 },
            ));
        }
        let unreachable = self.unreachable(listed, &lack.lost);
        // A code that this program cannot do is counted as if any k shards were enough.
        let of_data = self.codec(&listed.code).map_or_else(
            |_| listed.m() as i32 - unreachable.len() as i32,
            |codec| codec.margin(&unreachable),
        );
        let of_manifest = (listed.manifests.len() as i32 - 1) - manifests as i32;
        let margin = if listed.k == 0 { of_manifest } else { of_data.min(of_manifest.max(0)) };
        let shard = listed.size.div_ceil(u64::from(listed.k.max(1)));
        let bytes = shard * lack.lost.len() as u64;
        Ok((key, Judged { size: listed.size, lack, margin, is_whole: false, bytes }))
    }

    /// Counts objects by what they are now, and brings the index up to date with that. What is the
    /// same as before lacks what the lists say.
    pub(super) fn look_again(
        &self,
        doubtful: &[Key],
        mut lacks: BTreeMap<Key, Lack>,
        index: &Index,
        all: &mut Counted<'_>,
    ) -> Result<()> {
        for keys in doubtful.chunks(ASKED) {
            let wanted: Vec<(Key, bool)> = keys.iter().map(|key| (*key, false)).collect();
            for (key, found) in keys.iter().zip(self.ask_each(&wanted)?) {
                let Some(mut listed) = index.by_key(key)? else { continue };
                let now = found.newest.as_ref().map(Listed::of).filter(|now| *now != listed);
                if let Some(now) = now {
                    index.store(&[(*key, now.clone())])?;
                    if now.deleted {
                        continue;
                    }
                    // Where that cannot be told it counts as what the lists say.
                    if let Ok(lack) = self.lack_now(key) {
                        lacks.insert(*key, lack);
                    }
                    listed = now;
                }
                let (key, judged) = self.judge(&listed, &lacks)?;
                all.count(key, judged);
            }
        }
        Ok(())
    }

    /// What an object lacks, by a look at its shards and manifests.
    fn lack_now(&self, key: &Key) -> Result<Lack> {
        let health =
            self.health(&self.ask(key, true)?, Depth::Headers, &[], &Settings::new(&Silent))?;
        Ok(Lack::of(&health))
    }

    /// Whether copies of a manifest are missing; asks the object's homes.
    pub(super) fn lacks_copies(&self, key: &Key) -> Result<bool> {
        let found = self.ask(key, true)?;
        let Some(manifest) = &found.newest else { return Ok(false) };
        Ok(self.manifest_health(&found, manifest, key).under_replicated)
    }

    /// Whether copies of a manifest must be written where every later reader looks: nodes joined or
    /// left, or there are to be more of them.
    pub(super) fn is_misplaced(&self, key: &Key, listed: &Listed) -> bool {
        let homes = self.config.homes_now(key);
        let at_home = |id: &String| {
            self.config.position(id).is_some_and(|at| homes.positions().any(|home| home == at))
        };
        listed.manifests.len() < homes.copies || !listed.manifests.iter().all(at_home)
    }

    /// Which of these shards cannot be read: those on nodes to be drained still can.
    fn unreachable(&self, listed: &Listed, lost: &[u16]) -> Vec<usize> {
        let drains = |index: &usize| {
            let at = listed.nodes.get(*index).and_then(|id| self.config.position(id));
            at.is_some_and(|at| self.nodes[at].config.is_leaving() && self.nodes[at].is_here())
        };
        lost.iter().map(|&index| usize::from(index)).filter(|index| !drains(index)).collect()
    }
}
