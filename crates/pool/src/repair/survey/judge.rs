//! Judgement of a survey on one object, by what the index and the lists of the nodes have of it.

use std::collections::BTreeMap;

use kiln_stripe::{Depth, Result, Settings, Silent};

use super::{NodeStatus, PoolStatus};
use crate::index::{ASKED, Index};
use crate::repair::queue::{Damaged, RepairQueue};
use crate::{Key, Listed, repair::repairer::Repairer};

/// Damage of one object, while nodes are gone through.
#[derive(Clone, Debug, Default)]
pub(super) struct Lack {
    pub lost: Vec<u16>,
    pub away: Vec<u16>,
    pub manifests: u16,
    /// A copy of the manifest is damaged: perhaps one that is counted above.
    pub under_replicated: bool,
}

impl Lack {
    /// Returns whether all shards that are lost may come back with their nodes.
    fn is_transient(&self) -> bool {
        !self.lost.is_empty() && self.away.len() == self.lost.len()
    }
}

/// Nodes that can be used, as a survey found it.
pub(super) struct Seen {
    present: Vec<bool>,
    /// All are, and no disk is new: nothing has to be computed for each object.
    all: bool,
}

/// One object.
pub(super) struct Judged {
    size: u64,
    lack: Lack,
    margin: i32,
    bytes: u64,
    /// Nodes are unavailable that have copies of its manifest, or would be asked for it.
    is_exposed: bool,
    /// Record of what is here can be read, but not whether it is in force.
    is_unasked: bool,
}

impl Judged {
    /// Returns whether it is to be looked at before it is reported as lacking something. The
    /// index is older than the lists of the nodes: what was removed or replaced in between is in
    /// the one, and not in the others. `changed`: whether that is known of it.
    pub fn is_doubtful(&self, changed: Option<bool>) -> bool {
        let is_lost = self.margin < 0 && !self.lack.is_transient();
        self.lacks_something() && (changed != Some(false) || is_lost)
    }

    /// Returns whether a repair has something to do.
    pub fn lacks_something(&self) -> bool {
        !self.lack.lost.is_empty() || self.lack.under_replicated
    }

    fn is_whole(&self) -> bool {
        !self.lacks_something() && !self.is_exposed && self.margin >= 0
    }
}

/// Counts over all objects.
pub(super) struct Counted<'a> {
    pub status: &'a mut PoolStatus,
    pub queue: &'a mut RepairQueue,
    pub now_ms: u64,
}

impl Counted<'_> {
    /// Counts an object, and reports it when it lacks something.
    pub fn count(&mut self, key: Key, judged: Judged) {
        self.status.objects += 1;
        self.status.bytes += judged.size;
        if judged.is_whole() {
            self.status.whole += 1;
            return;
        }
        let lacks_something = judged.lacks_something();
        let Judged { lack, margin, bytes, is_unasked, .. } = judged;
        self.status.under_replicated += u64::from(lack.under_replicated);
        if is_unasked {
            self.status.unasked += 1;
        } else if margin < 0 {
            self.status.unreadable += 1;
        } else {
            *self.status.endangered.entry(margin).or_default() += 1;
            self.status.waiting += u64::from(!lacks_something);
        }
        if !lacks_something {
            return;
        }
        self.status.to_rebuild += bytes;
        let transient = lack.is_transient();
        self.queue.report(Damaged { key, lost: lack.lost, margin, bytes, transient }, self.now_ms);
    }
}

impl Repairer<'_> {
    /// Returns which nodes can be used.
    pub(super) fn seen(&self, status: &PoolStatus) -> Seen {
        // A node that would not tell of a newer map does not say that a copy is in force.
        let sees = |row: &NodeStatus| row.present && !row.blind;
        let present: Vec<bool> = status.nodes.iter().map(sees).collect();
        let all = present.iter().all(|here| *here) && !self.map.is_backfilling();
        Seen { present, all }
    }

    /// Returns what one object lacks, and how many further losses it tolerates: by what can be had
    /// now.
    pub(super) fn judge(
        &self,
        listed: &Listed,
        lacks: &BTreeMap<Key, Lack>,
        seen: &Seen,
    ) -> Result<(Key, Judged)> {
        let key = Key::of(&listed.name)?;
        let mut lack = lacks.get(&key).cloned().unwrap_or_default();
        // Nodes that left the pool altogether hold nothing.
        for (at, node) in listed.nodes.iter().enumerate() {
            if self.map.config.position(node).is_none() {
                lack.lost.push(at as u16);
            }
        }
        lack.lost.sort_unstable();
        lack.lost.dedup();
        let gone = |id: &&String| self.map.config.position(id).is_none();
        // Damage that a scrub found may be among those counted here.
        let manifests = usize::from(lack.manifests) + listed.manifests.iter().filter(gone).count();
        let manifests = manifests.max(usize::from(lack.under_replicated));
        lack.under_replicated = manifests > 0 || self.is_misplaced(&key, listed);
        let lacks_something = !lack.lost.is_empty() || lack.under_replicated;
        if seen.all && !lacks_something {
            let (size, margin) = (listed.size, 0);
            let (is_exposed, is_unasked) = (false, false);
            return Ok((key, Judged { size, lack, margin, bytes: 0, is_exposed, is_unasked }));
        }
        let unreachable = self.unreachable(listed, &lack.lost);
        // A code that this program cannot do is counted as if any k shards were enough.
        let of_data = self.map.codec(&listed.code).map_or_else(
            |_| listed.m() as i32 - unreachable.len() as i32,
            |codec| codec.margin(&unreachable),
        );
        let away = |id: &&String| self.map.config.position(id).is_some_and(|at| !seen.present[at]);
        let copies_away = listed.manifests.iter().filter(away).count();
        let mut margin = listed.manifests.len() as i32 - 1 - (manifests + copies_away) as i32;
        if listed.k > 0 {
            // The index may not know where copies are.
            margin = if listed.manifests.is_empty() { of_data } else { of_data.min(margin) };
        }
        let (spare, silent) = self.spare_homes(&key, listed, seen);
        let is_unasked = margin >= 0 && spare < 0;
        let shard = listed.size.div_ceil(u64::from(listed.k.max(1)));
        let bytes = shard * lack.lost.len() as u64;
        let (size, margin) = (listed.size, margin.min(spare));
        let is_exposed = copies_away > 0 || silent;
        Ok((key, Judged { size, lack, margin, bytes, is_exposed, is_unasked }))
    }

    /// Returns how many more homes of an object may be silent before it cannot be said which
    /// version is in force, and whether some are.
    fn spare_homes(&self, key: &Key, listed: &Listed, seen: &Seen) -> (i32, bool) {
        let (mut least, mut any) = (i32::MAX, false);
        for homes in self.map.config.homes(key) {
            let answers = |at: usize| {
                let has = || listed.manifests.contains(&self.map.nodes[at].config.id);
                seen.present[at] && (!self.map.is_newer_than(at, homes.since) || has())
            };
            let spare = homes.spare(answers);
            any |= spare + 1 < homes.copies as i32;
            least = least.min(spare);
        }
        (least, any)
    }

    /// Counts objects by what they are now, and brings the index up to date with that. What is the
    /// same as before lacks what the lists say.
    pub(super) fn look_again(
        &self,
        doubtful: &[Key],
        mut lacks: BTreeMap<Key, Lack>,
        seen: &Seen,
        index: &Index,
        all: &mut Counted<'_>,
    ) -> Result<()> {
        for keys in doubtful.chunks(ASKED) {
            let (mut renewed, mut forgotten) = (Vec::new(), Vec::new());
            for (key, now) in keys.iter().zip(self.manifests.found_now(keys)?) {
                let Some(mut listed) = index.by_key(key)? else { continue };
                if now.is_removed(&self.map.config, &listed)
                    && self.has_no_shard(&listed, lacks.get(key))
                {
                    forgotten.push(listed.name);
                    continue;
                }
                if let Some(now) = now.listed().filter(|now| *now != listed) {
                    renewed.push((*key, now.clone()));
                    if now.deleted {
                        continue;
                    }
                    // Where that cannot be told it counts as what the lists say.
                    if let Ok(lack) = self.lack_now(key) {
                        lacks.insert(*key, lack);
                    }
                    listed = now;
                }
                let (key, judged) = self.judge(&listed, &lacks, seen)?;
                all.count(key, judged);
            }
            index.forget(&forgotten)?;
            index.store(&renewed)?;
        }
        Ok(())
    }

    /// Returns whether the lists of the nodes have none of an object's shards, and all that should
    /// were read.
    fn has_no_shard(&self, listed: &Listed, lack: Option<&Lack>) -> bool {
        let gone = listed.nodes.iter().filter(|id| self.map.config.position(id).is_none()).count();
        let mut lost = lack.map_or(Vec::new(), |lack| lack.lost.clone());
        lost.sort_unstable();
        lost.dedup();
        lack.is_none_or(|lack| lack.away.is_empty()) && lost.len() + gone >= listed.nodes.len()
    }

    /// Returns what an object lacks, by a look at its shards and manifests.
    fn lack_now(&self, key: &Key) -> Result<Lack> {
        let found = self.manifests.ask(key, true)?;
        let health = self.health(&found, Depth::Headers, &[], &Settings::new(&Silent))?;
        let (lost, away) = (health.targets, health.away);
        Ok(Lack { lost, away, manifests: 0, under_replicated: health.under_replicated })
    }

    /// Returns whether copies of a manifest are missing; asks the object's homes.
    pub(super) fn lacks_copies(&self, key: &Key) -> Result<bool> {
        let found = self.manifests.ask(key, true)?;
        let Some(manifest) = &found.newest else { return Ok(false) };
        Ok(self.manifest_health(&found, manifest, key).under_replicated)
    }

    /// Returns whether copies of a manifest must be written where every later reader looks: nodes
    /// joined or left, or there are to be more of them.
    pub(super) fn is_misplaced(&self, key: &Key, listed: &Listed) -> bool {
        let homes = self.map.config.homes_now(key);
        let at_home = |id: &String| {
            self.map.config.position(id).is_some_and(|at| homes.positions().any(|home| home == at))
        };
        listed.manifests.len() < homes.copies || !listed.manifests.iter().all(at_home)
    }

    /// Returns which of these shards cannot be read: those on nodes to be drained still can.
    fn unreachable(&self, listed: &Listed, lost: &[u16]) -> Vec<usize> {
        let drains = |index: &usize| {
            let at = listed.nodes.get(*index).and_then(|id| self.map.config.position(id));
            at.is_some_and(|at| {
                self.map.nodes[at].config.is_leaving() && self.map.nodes[at].is_here()
            })
        };
        lost.iter().map(|&index| usize::from(index)).filter(|index| !drains(index)).collect()
    }
}
