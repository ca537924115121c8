//! Finding the manifest in force: homes of the object are asked, the newest answer counts.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use kiln_store::{Backend, Existing};
use kiln_stripe::{PoolError, Purpose, Race, Result, Settings, Silent};

use crate::layout::seal::Seals;
use crate::layout::{Body, MAX_MANIFEST};
use crate::manifest::conditional_put::Expected;
use crate::manifest::store::ManifestStore;
use crate::map::homes::Homes;
use crate::map::meta_files::{epoch_of, read_tagged};
use crate::{Key, Manifest, NodeFile, PoolConfig};

/// Answer of the nodes about one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The newest manifest; it may say that the object was removed.
    pub newest: Option<Manifest>,
    /// Nodes (by position) that hold just this one.
    pub copies: Vec<usize>,
    /// Nodes that hold an older one.
    pub stale: Vec<usize>,
    /// Older manifests, one of each.
    pub older: Vec<Manifest>,
    /// Nodes that hold a manifest of a time before the object was removed and forgotten.
    pub ghosts: Vec<usize>,
    /// Nodes whose copy cannot be read, and why.
    pub corrupt: Vec<(usize, String)>,
    /// Domains of homes that are unavailable, have a corrupt copy, or a new disk and no copy.
    pub away: Vec<String>,
    /// Enough homes answered: no newer version can hide.
    pub certain: bool,
    /// The newest version is on so many homes that every later reader will find it.
    pub stable: bool,
    /// So many homes have no manifest at all that none was ever acknowledged.
    pub denied: bool,
    /// Expectations of conditional writes to homes that were asked.
    pub expected: Expected,
    /// Homes that are no nodes any more: their disks were lost since the pool was opened.
    pub gone: Vec<usize>,
}

impl Found {
    /// Returns whether there may be an object although no manifest of it can be read.
    pub(crate) fn may_hide(&self) -> bool {
        self.newest.is_none() && !self.corrupt.is_empty() && !self.denied
    }

    /// Returns whether no other home has to be asked.
    fn is_plain(&self) -> bool {
        let plain = self.stale.is_empty() && self.ghosts.is_empty();
        self.certain && plain && self.stable
    }

    /// The manifest of an object that is there.
    pub(crate) fn data(&self) -> Option<&Manifest> {
        self.newest.as_ref().filter(|manifest| manifest.body.is_data())
    }

    /// As [`Found::data`], of what is not looked at any more.
    pub(crate) fn into_data(self) -> Option<Manifest> {
        self.newest.filter(|manifest| manifest.body.is_data())
    }
}

/// One node's answer.
#[derive(Debug)]
struct Answer {
    copy: Copy,
    /// Expectation of a conditional write in its place.
    expected: Option<Existing>,
    /// The node's copy of the map is of a time before removals were last forgotten: its disk was
    /// rolled back, and may have what was removed.
    rolled_back: bool,
    /// The node's copy of the map cannot be read: it would not tell of a newer one. So what it has
    /// counts, and that it has nothing newer does not.
    blind: bool,
    /// It has no map: since the pool was opened its disk was exchanged for an empty one, or is not
    /// mounted any more.
    gone: bool,
}

/// Copy on a node.
#[derive(Debug)]
enum Copy {
    Some(Manifest),
    None,
    Corrupt(String),
}

/// Answers of nodes, by position.
type Answers = BTreeMap<usize, Arc<Answer>>;
/// Objects that are asked about: whether all homes are.
type Wanted = [(Key, bool)];
/// One node's answers about objects, named by position, and the epoch of its map.
type Told = (u64, Vec<(usize, Arc<Answer>)>);

impl Answer {
    fn manifest(&self) -> Option<&Manifest> {
        match &self.copy {
            Copy::Some(manifest) => Some(manifest),
            _ => None,
        }
    }
}

/// Returns what conditional writes to homes that were asked expect there.
fn expected(answers: &Answers) -> Expected {
    answers.iter().filter_map(|(at, answer)| Some((*at, answer.expected?))).collect()
}

/// Nodes that are none any more.
fn gone(answers: &Answers) -> Vec<usize> {
    answers.iter().filter(|(_, answer)| answer.gone).map(|(at, _)| *at).collect()
}

/// Nodes whose copy cannot be read, and why.
fn corrupt(answers: &Answers) -> Vec<(usize, String)> {
    let why = |answer: &Answer| match &answer.copy {
        Copy::Corrupt(why) => Some(why.clone()),
        _ => None,
    };
    answers.iter().filter_map(|(at, answer)| Some((*at, why(answer)?))).collect()
}

/// Reads one node's copy.
pub(crate) fn read_copy(
    store: &dyn Backend,
    key: &Key,
    pool: &[u8; 16],
    seals: &Seals,
) -> std::result::Result<Option<Manifest>, String> {
    read_copy_tagged(store, key, pool, seals, &mut None)
}

/// As [`read_copy`]; notes also what a conditional write expects that puts something in its place.
fn read_copy_tagged(
    store: &dyn Backend,
    key: &Key,
    pool: &[u8; 16],
    seals: &Seals,
    expected: &mut Option<Existing>,
) -> std::result::Result<Option<Manifest>, String> {
    let name = NodeFile::Manifest { key: *key }.name();
    let found = read_tagged(store, &name, MAX_MANIFEST as u64).map_err(|e| e.to_string())?;
    *expected = Some(found.1);
    let Some(bytes) = found.0 else { return Ok(None) };
    let at = |why: String| format!("{name} in {}: {why}", store.place());
    let manifest = Manifest::unseal(&bytes, seals).map_err(at)?;
    if manifest.pool != *pool || Key::of(&manifest.name).ok() != Some(*key) {
        return Err(at("it is the manifest of something else".into()));
    }
    Ok(Some(manifest))
}

/// The newest of these copies. Of two of one version, which only writers without a common lock can
/// have made, the one that was acknowledged, if any.
fn newest_of<'m>(held: &[(usize, &'m Manifest)], homes: &[Homes<'_>]) -> Option<&'m Manifest> {
    let newest = held.iter().map(|(_, manifest)| *manifest).max_by(|a, b| a.order(b))?;
    let is_held = |manifest: &Manifest| {
        let has = |at: usize| held.iter().any(|(of, other)| *of == at && *other == manifest);
        homes.iter().any(|homes| homes.hold(has))
    };
    let rivals = held.iter().map(|(_, manifest)| *manifest).filter(|manifest| {
        manifest.version == newest.version && manifest.order(newest) != Ordering::Equal
    });
    Some(rivals.into_iter().find(|rival| is_held(rival)).unwrap_or(newest))
}

/// Returns which homes to ask first, of every epoch that counts: as many as have a copy of what is
/// in force.
fn first(homes: &[Homes<'_>], here: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut first: Vec<usize> = Vec::new();
    for homes in homes {
        let count =
            if homes.copies * 2 > homes.nodes.len() + 1 { usize::MAX } else { homes.copies };
        first.extend(homes.positions().filter(|at| here(*at)).take(count));
    }
    first.sort_unstable();
    first.dedup();
    first
}

/// Asks a node about objects. The epoch of its map is read before: whatever it answers is of that
/// epoch or a later one.
fn ask_node(
    store: &dyn Backend,
    config: &PoolConfig,
    wanted: &Wanted,
    objects: Vec<usize>,
    locked: bool,
) -> Told {
    let (pool, seals) = (config.id_bytes(), config.seals());
    // Every node has a map. Where there is none, all else is gone as well.
    let epoch = epoch_of(store, config);
    let gone = matches!(epoch, Ok(None));
    let epoch = epoch.ok().flatten();
    let blind = epoch.is_none();
    let epoch = epoch.unwrap_or(0);
    let rolled_back = epoch < config.floored;
    if epoch > config.revision {
        // The caller's map is not the one in force.
        return (epoch, Vec::new());
    }
    let name = |of: &usize| NodeFile::Manifest { key: wanted[*of].0 }.name();
    // Most of what is new is known to be by one look at the folder.
    let absent = match locked && objects.len() > 1 {
        true => store.missing(&objects.iter().map(name).collect::<Vec<_>>()),
        false => None,
    };
    let answer = |(nth, of): (usize, usize)| {
        let (key, mut expected) = (&wanted[of].0, None);
        if absent.as_ref().is_some_and(|absent| absent[nth]) {
            let expected = Some(Existing::Keep);
            return (of, Arc::new(Answer { copy: Copy::None, expected, rolled_back, blind, gone }));
        }
        let copy = match read_copy_tagged(store, key, &pool, &seals, &mut expected) {
            Ok(Some(manifest)) => Copy::Some(manifest),
            Ok(None) => Copy::None,
            Err(why) => Copy::Corrupt(why),
        };
        (of, Arc::new(Answer { copy, expected, rolled_back, blind, gone }))
    };
    (epoch, objects.into_iter().enumerate().map(answer).collect())
}

/// Notes that these nodes are asked about an object.
fn ask_of(asked: &mut BTreeMap<usize, Vec<usize>>, nodes: Vec<usize>, object: usize) {
    nodes.into_iter().for_each(|at| asked.entry(at).or_default().push(object));
}

impl ManifestStore<'_> {
    /// Asks the homes of an object; `all` of them, or only as many as make the answer certain and
    /// say that it is stable. That there is nothing only all of them say: as many as there are
    /// copies may include every copy that is lost, and disks that were rolled back do not know
    /// what they lack. Whether the answer can be relied upon is for [`ManifestStore::look`] to say.
    /// Errors: [`PoolError::MapChanged`] when a node knows a newer map.
    pub(crate) fn ask(&self, key: &Key, all: bool) -> Result<Found> {
        let found = self.ask_each(&[(*key, all)])?;
        found.into_iter().next().ok_or_else(|| PoolError::Internal { what: "no answer".into() })
    }

    /// As [`ManifestStore::ask`], for many objects at once: what every node is asked for all of
    /// them it is asked once.
    pub(crate) fn ask_each(&self, wanted: &[(Key, bool)]) -> Result<Vec<Found>> {
        self.ask_many(wanted, false)
    }

    /// As [`ManifestStore::ask_each`]; `locked`: the caller has the locks of all homes, so that no
    /// name changes while a node is looked through.
    pub(crate) fn ask_many(&self, wanted: &[(Key, bool)], locked: bool) -> Result<Vec<Found>> {
        let homes: Vec<Vec<Homes<'_>>> =
            wanted.iter().map(|(key, _)| self.map.config.homes(key)).collect();
        let hedge = self.map.hedge().filter(|_| !locked && wanted.iter().all(|(_, all)| !all));
        let nodes = &self.map.nodes;
        let some = homes.iter().zip(wanted).filter(|(_, (_, all))| !all);
        if hedge.is_none() {
            self.map.enter(some.flat_map(|(homes, _)| first(homes, |_| true)));
        }
        let slow = |at: &usize| hedge.is_some() && self.map.is_slow(&nodes[*at]);
        let (mut asked, mut before) = (BTreeMap::new(), Vec::with_capacity(wanted.len()));
        for (of, (homes, (_, all))) in homes.iter().zip(wanted).enumerate() {
            let quick = |at: usize| !all && self.is_usable(at) && !slow(&at);
            before.push(first(homes, quick));
            ask_of(&mut asked, before[of].clone(), of);
        }
        let mut answers: Vec<Answers> = wanted.iter().map(|_| Answers::new()).collect();
        let mut race = hedge.map(Race::new);
        if let Some(hedge) = hedge {
            for at in homes.iter().flatten().flat_map(Homes::positions).filter(slow) {
                let (node, config) = (Arc::clone(&nodes[at]), self.map.config.clone());
                let look = move || _ = node.store().map(|store| epoch_of(&**store, &config));
                hedge.probe((&nodes[at].config.id, 0), look);
            }
        }
        for last in [false, true] {
            match &mut race {
                Some(race) => self.ask_quick(race, (wanted, &homes), asked, last, &mut answers)?,
                None => self.ask_nodes(wanted, asked, locked, &mut answers)?,
            }
            let found = self.judge(wanted, &homes, &answers, race.is_some());
            if last || found.iter().all(Found::is_plain) {
                return Ok(found);
            }
            asked = BTreeMap::new();
            for (of, _) in found.iter().enumerate().filter(|(_, found)| !found.is_plain()) {
                ask_of(&mut asked, self.rest(&homes[of], &before[of], race.is_some()), of);
            }
        }
        Ok(Vec::new())
    }

    /// Returns whether a node can be used, as far as that is known where nothing waits for it.
    fn is_usable(&self, at: usize) -> bool {
        let node = &self.map.nodes[at];
        self.map.hedge().map_or_else(|| node.is_here(), |_| node.may_be_here())
    }

    /// Homes of an object that were not asked yet.
    fn rest(&self, homes: &[Homes<'_>], asked: &[usize], quick: bool) -> Vec<usize> {
        if !quick {
            self.map.enter(homes.iter().flat_map(Homes::positions));
        }
        let mut rest: Vec<usize> = homes.iter().flat_map(Homes::positions).collect();
        rest.retain(|at| self.is_usable(*at) && !asked.contains(at));
        rest.sort_unstable();
        rest.dedup();
        rest
    }

    /// Asks without waiting for late nodes. The `last` time it waits for those without which it is
    /// not certain what is in force, or that there is nothing.
    fn ask_quick(
        &self,
        race: &mut Race<Option<Told>>,
        (wanted, homes): (&Wanted, &[Vec<Homes<'_>>]),
        asked: BTreeMap<usize, Vec<usize>>,
        last: bool,
        answers: &mut [Answers],
    ) -> Result<()> {
        let purpose = if race.is_over() { Purpose::Wanted } else { Purpose::Instead };
        let shared = Arc::<Wanted>::from(wanted);
        for (at, objects) in asked {
            let node = Arc::clone(&self.map.nodes[at]);
            let (shared, config) = (Arc::clone(&shared), Arc::clone(&self.map.config));
            let id = node.config.id.clone();
            let ask = move || {
                let store = node.store().ok()?;
                Some(ask_node(&**store, &config, &shared, objects, false))
            };
            race.begin(at, &id, purpose, ask);
        }
        let mut enough = !last;
        while let Some((at, told)) = race.next(enough) {
            let Some((epoch, told)) = told else { continue };
            self.map.refuse_newer(at, epoch)?;
            told.into_iter().for_each(|(of, answer)| drop(answers[of].insert(at, answer)));
            if last {
                let found = self.judge(wanted, homes, answers, true);
                if found.iter().all(Found::is_plain) {
                    break;
                }
                enough = found.iter().all(|found| found.certain && found.newest.is_some());
            }
        }
        Ok(())
    }

    /// Judges the answers about each object. Where late homes did not answer, that a version is
    /// stable is known only if it was seen to be: that a late home has a copy the others do not
    /// tell.
    fn judge(
        &self,
        wanted: &Wanted,
        homes: &[Vec<Homes<'_>>],
        answers: &[Answers],
        quick: bool,
    ) -> Vec<Found> {
        let judge = |((key, homes), answers): ((&Key, &Vec<Homes<'_>>), &Answers)| {
            let mut one = self.judge_answers(homes, answers);
            match one.newest.as_ref().filter(|_| quick && one.certain) {
                Some(newest) if one.stable => self.map.note_committed(*key, newest),
                Some(newest) => one.stable = self.map.is_committed(key, newest),
                None => {}
            }
            one
        };
        wanted.iter().map(|(key, _)| key).zip(homes).zip(answers).map(judge).collect()
    }

    /// Asks each node about objects, named by their positions among those wanted.
    fn ask_nodes(
        &self,
        wanted: &[(Key, bool)],
        asked: BTreeMap<usize, Vec<usize>>,
        locked: bool,
        answers: &mut [Answers],
    ) -> Result<()> {
        let asked: Vec<(usize, Vec<usize>)> = asked.into_iter().collect();
        let found = self.map.in_parallel(asked, |_, (at, objects)| {
            let store = self.map.usable(at)?;
            let (epoch, told) = ask_node(store, &self.map.config, wanted, objects, locked);
            self.map.refuse_newer(at, epoch)?;
            Ok::<_, PoolError>((at, told))
        })?;
        for (at, told) in found {
            for (of, answer) in told {
                answers[of].insert(at, answer);
            }
        }
        Ok(())
    }

    /// Domains of homes of which no answer says anything.
    fn silent_domains(
        &self,
        homes: &[Homes<'_>],
        answers: &Answers,
        sure: impl Fn(&Homes<'_>, usize) -> bool,
    ) -> Vec<String> {
        let asked = |at: usize| answers.contains_key(&at);
        let silent =
            |homes: &Homes<'_>, at: usize| !sure(homes, at) && (asked(at) || !self.is_usable(at));
        let mut away = Vec::new();
        for homes in homes {
            let silent = homes.nodes.iter().filter(|(at, _)| at.is_none_or(|at| silent(homes, at)));
            away.extend(silent.map(|(_, domain)| (*domain).to_owned()));
        }
        away.sort();
        away.dedup();
        away
    }

    /// Returns what follows from the answers.
    fn judge_answers(&self, homes: &[Homes<'_>], answers: &Answers) -> Found {
        let mut found = Found { expected: expected(answers), ..Found::default() };
        let seeing = |at: usize| answers.get(&at).filter(|answer| !answer.blind);
        let sure = |homes: &Homes<'_>, at: usize| match seeing(at).map(|answer| &answer.copy) {
            Some(Copy::Some(_)) => true,
            Some(Copy::None) => !self.map.is_newer_than(at, homes.since),
            _ => false,
        };
        found.certain = homes.iter().all(|homes| homes.answered(|at| sure(homes, at)));
        let nothing = |at: usize| matches!(answers.get(&at).map(|a| &a.copy), Some(Copy::None));
        let denied = |homes: &Homes<'_>| homes.deny(|at| sure(homes, at) && nothing(at));
        found.denied = homes.iter().all(denied);
        let all = || answers.iter().filter_map(|(at, answer)| Some((*at, answer.manifest()?)));
        let mut held: Vec<(usize, &Manifest)> = all().collect();
        // A version that was given out before the floor, and that hardly a node has, on disks alone
        // that were rolled back, was removed, and its removal forgotten. Had it been acknowledged
        // and not been removed, more homes would have it, or one that was not rolled back.
        while let Some(newest) = newest_of(&held, homes) {
            let older = |other: &Manifest| other.order(newest) == Ordering::Less;
            let denies = |homes: &Homes<'_>, at: usize| {
                let answer = answers.get(&at).filter(|answer| !answer.rolled_back);
                answer.is_some_and(|answer| sure(homes, at) && answer.manifest().is_none_or(older))
            };
            let same = |(at, other): &&(usize, &Manifest)| {
                other.order(newest) == Ordering::Equal && !answers[at].rolled_back
            };
            let never = newest.version <= self.map.config.floor
                && !held.iter().any(|copy| same(&copy))
                && homes.iter().all(|homes| homes.deny(|at| denies(homes, at)));
            if !never {
                found.newest = Some(newest.clone());
                break;
            }
            let newest = newest.clone();
            held.retain(|(at, manifest)| {
                let ghost = manifest.order(&newest) == Ordering::Equal;
                found.ghosts.extend(ghost.then_some(*at));
                !ghost
            });
        }
        // What is left must be nothing, or be in force: an older version on few homes was replaced
        // by what seems to be a ghost, which then was none.
        let has = |at: usize| {
            let held = held.iter().find(|(of, _)| *of == at);
            held.is_some_and(|(_, manifest)| Some(*manifest) == found.newest.as_ref())
        };
        if !found.ghosts.is_empty()
            && found.newest.is_some()
            && !homes.iter().any(|homes| homes.hold(has))
        {
            held = all().collect();
            found.newest = newest_of(&held, homes).cloned();
            found.ghosts.clear();
        }
        for (at, manifest) in held {
            if found.newest.as_ref().is_some_and(|new| new.order(manifest) == Ordering::Equal) {
                found.copies.push(at);
            } else {
                found.stale.push(at);
                if !found.older.contains(manifest) {
                    found.older.push(manifest.clone());
                }
            }
        }
        found.stable = homes.iter().any(|homes| homes.hold(|at| found.copies.contains(&at)));
        found.certain &= !self.are_rivals(&found, homes, answers);
        (found.corrupt, found.gone) = (corrupt(answers), gone(answers));
        found.away = self.silent_domains(homes, answers, sure);
        found
    }

    /// Returns whether two versions were written at once, of which it cannot be said which one
    /// counts: a writer stood still for longer than its lock lasts, and another one was at work
    /// meanwhile. Where places have renames no writer goes on after another one has taken the lock.
    fn are_rivals(&self, found: &Found, homes: &[Homes<'_>], answers: &Answers) -> bool {
        let newest = found.newest.as_ref().map(|newest| newest.version);
        let rivals = found.older.iter().any(|older| Some(older.version) == newest);
        if !rivals || found.stable {
            return false;
        }
        let positions = || homes.iter().flat_map(Homes::positions);
        positions().any(|at| self.is_direct(at)) && !positions().all(|at| answers.contains_key(&at))
    }

    /// Asks homes and makes sure that no newer version can hide, and that every later reader will
    /// find this one: a version that a commit cut short left on too few homes is given to more of
    /// them first.
    /// Errors: [`PoolError::Uncertain`] when too many homes are unavailable;
    /// [`PoolError::MapChanged`].
    pub(crate) fn look(&self, key: &Key, name: &str) -> Result<Found> {
        self.map.use_object(name)?;
        self.settled(key, name, self.ask(key, false)?)
    }

    /// The manifests of several names at once; `None`: no object of that name has data. Each node
    /// is asked for its map once.
    ///
    /// # Errors
    /// As [`ManifestStore::manifest`], but for [`PoolError::NoObject`].
    pub fn manifests(&self, names: &[&str]) -> Result<Vec<Option<Manifest>>> {
        let key = |name: &&str| self.map.use_object(name).and_then(|()| Key::of(name));
        let keys = names.iter().map(key).collect::<Result<Vec<Key>>>()?;
        let wanted: Vec<(Key, bool)> = keys.iter().map(|key| (*key, false)).collect();
        let found = self.ask_each(&wanted)?.into_iter().zip(keys.iter().zip(names));
        found.map(|(found, (key, name))| Ok(self.settled(key, name, found)?.into_data())).collect()
    }

    /// As [`ManifestStore::look`]; every home that can be is asked: for repairs and scrubs.
    pub(crate) fn look_at_all(&self, key: &Key, name: &str) -> Result<Found> {
        self.settled(key, name, self.ask(key, true)?)
    }

    /// Returns what was found, as [`ManifestStore::look`] gives it.
    pub(crate) fn settled(&self, key: &Key, name: &str, found: Found) -> Result<Found> {
        let found = self.sure(found, name)?;
        if found.stable || found.newest.is_none() {
            return Ok(found);
        }
        match self.complete(key, name) {
            // A client that only reads takes what it found; one that writes completes it.
            Err(PoolError::Store(error)) if error.is_denied() => Ok(found),
            complete => complete,
        }
    }

    /// Returns what was found, where it can be relied upon: as [`ManifestStore::look`] does, and
    /// under the locks, when the version found is to be replaced anyway.
    pub(crate) fn sure(&self, found: Found, name: &str) -> Result<Found> {
        let copies = self.map.config.policy.manifest_copies;
        if !found.certain {
            self.map.any_here()?;
            let (name, away) = (name.to_owned(), found.away);
            return Err(PoolError::Uncertain { name, away, copies });
        }
        if let Some(manifest) = &found.newest
            && manifest.name != name
        {
            let what =
                format!("{name:?} and {:?} have the same key; choose another name", manifest.name);
            return Err(PoolError::Refused { what });
        }
        Ok(found)
    }

    /// Gives a version that is on too few homes to more of them, so that no later reader finds an
    /// older one. Its shards are all in place: manifests are renamed after them. Slow homes are as
    /// good as unavailable, where the others are enough.
    fn complete(&self, key: &Key, name: &str) -> Result<Found> {
        let homes = self.map.config.homes_now(key);
        let quick = self.map.without_slow(homes.positions());
        let found = match quick.as_ref().map(|map| ManifestStore::new(map).give(key, name)) {
            None | Some(Err(PoolError::Uncertain { .. })) => self.give(key, name)?,
            Some(end) => end?,
        };
        if let Some(newest) = found.newest.as_ref().filter(|_| found.stable) {
            self.map.note_committed(*key, newest);
        }
        Ok(found)
    }

    fn give(&self, key: &Key, name: &str) -> Result<Found> {
        let homes = self.map.config.homes_now(key);
        let _locks =
            self.map.lock(homes.positions(), &self.map.settings(&Settings::new(&Silent)))?;
        let mut found = self.sure(self.ask(key, true)?, name)?;
        let Some(newest) = found.newest.clone().filter(|_| !found.stable) else {
            return Ok(found);
        };
        let here = |at: &usize| self.map.nodes[*at].is_here() && !found.gone.contains(at);
        let here: Vec<usize> = homes.positions().filter(here).collect();
        if here.len() < homes.copies {
            // With fewer domains than 2m + 1 a version is on all that can be reached, or it cannot
            // be said whether it was acknowledged: then it is read as it is.
            let (name, away, copies) = (name.to_owned(), found.away.clone(), homes.copies);
            return match homes.nodes.len() >= crate::map::homes::homes_for(homes.copies) {
                true => Err(PoolError::Uncertain { name, away, copies }),
                false => Ok(found),
            };
        }
        let lacking =
            homes.copies.saturating_sub(here.iter().filter(|at| found.copies.contains(at)).count());
        let bytes = newest.sealed_bytes(&self.map.config.seals());
        // Those first that it names itself.
        let mut here = here;
        here.sort_by_key(|at| !newest.copies.contains(&self.map.nodes[*at].config.id));
        let mut to: Vec<usize> = here.into_iter().filter(|at| !found.copies.contains(at)).collect();
        let (mut written, mut failed) = (Vec::new(), None);
        while written.len() < lacking && !to.is_empty() {
            let rest = to.split_off(to.len().min(lacking - written.len()));
            let put = |_, at| {
                Ok::<_, PoolError>((at, self.put_manifest(at, &newest, &bytes, &found.expected)))
            };
            for (at, end) in self.map.in_parallel(to, put)? {
                match end {
                    Ok(()) => written.push(at),
                    // Its disk takes nothing: another home may.
                    Err(error @ PoolError::Store(_)) => failed = Some(error),
                    Err(error) => return Err(error),
                }
            }
            to = rest;
        }
        if let Some(error) = failed.filter(|_| written.len() < lacking) {
            return Err(error);
        }
        found.stale.retain(|at| !written.contains(at));
        found.copies.extend(written);
        found.stable = true;
        Ok(found)
    }

    /// The manifest of an object that is there.
    ///
    /// # Errors
    /// [`PoolError::NoObject`]; [`PoolError::Uncertain`] while too many nodes do not answer;
    /// [`PoolError::Refused`] where another name has the same key.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        let found = self.look(&Key::of(name)?, name)?;
        match found.newest {
            Some(manifest) if !matches!(manifest.body, Body::Deleted) => Ok(manifest),
            _ => Err(PoolError::NoObject { name: name.to_owned() }),
        }
    }
}
