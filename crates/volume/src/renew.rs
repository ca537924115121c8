//! A writer goes on after a node of its log has failed or left, or learns that it is deposed.

use crate::descriptor::{Descriptor, Era, LogCopy};
use crate::generation::{Failed, Generation, begin, closed_name, trust_now};
use crate::{Result, VolumeError, description::look_up, kept::lock, volume::Volume};
use std::{collections::BTreeSet, sync::atomic::Ordering};

impl Volume {
    /// Copies of the log failed: goes on with a new one, on other nodes.
    /// Errors: [`VolumeError::Deposed`]; [`VolumeError::TooFewNodes`].
    pub(crate) fn renew(&self, generation: &mut Generation, failed: &Failed) -> Result<()> {
        if failed.iter().any(|(node, error)| error.is_fenced() && self.was_closed(generation, node))
        {
            return Err(self.depose());
        }
        self.move_log(generation, failed.iter().map(|(node, _)| node.clone()).collect())
    }

    /// Returns whether another writer took the log on a node over. A file that is merely gone was
    /// lost with its disk: should there be another writer all the same, its description cannot be
    /// replaced.
    fn was_closed(&self, generation: &Generation, node: &str) -> bool {
        let copy = generation.places.iter().find(|copy| copy.node == node);
        let store = self.rim.pool().place(node);
        let closed = copy.zip(store).map(|(copy, store)| store.open(&closed_name(&copy.file)));
        closed.is_some_and(|closed| closed.is_ok())
    }

    /// Looks whether the pool has changed, and whether nodes that were away are back. A log must
    /// not stay on a node that is being emptied, or is no part of the pool any more: a process that
    /// opens
    /// the volume later would not look there. Nor may it stay sealed by a key that seals no more,
    /// which the next process that opens the volume may not have.
    /// Returns whether the log was moved.
    pub fn attend(&self) -> Result<bool> {
        self.forget_failed();
        self.rim.look_for_nodes()?;
        self.rim.with(|pool| pool.check_map())?;
        let pool = self.rim.pool();
        let nodes = &pool.config().node;
        let stays =
            |copy: &LogCopy| nodes.iter().any(|node| node.id == copy.node && !node.is_leaving());
        let mut generation = lock(&self.generation);
        if generation.places.is_empty() {
            // Opened to read, without a log of its own.
            let (known, found) = (lock(&self.held).run, look_up(&self.rim, &self.name)?);
            return if found.run == known { Ok(false) } else { Err(self.depose()) };
        }
        let gone: BTreeSet<String> =
            generation.places.iter().filter(|copy| !stays(copy)).map(|c| c.node.clone()).collect();
        let same_key = generation.trust == trust_now(&self.rim);
        if (gone.is_empty() && same_key) || self.closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.move_log(&mut generation, gone).map(|()| true)
    }

    /// Goes on with a new log, not on these nodes.
    fn move_log(&self, generation: &mut Generation, without: BTreeSet<String>) -> Result<()> {
        // What is on its way into the pool gets there, or not, before its number is given up. Reads
        // wait meanwhile, too.
        self.waiting.store(true, Ordering::Release);
        let (_sealer, _keeper) = (lock(&self.sealer), lock(&self.keeper));
        self.waiting.store(false, Ordering::Release);
        let (mut held, mut state) = (lock(&self.held), lock(&self.state));
        let number = held.descriptor.generation + 1;
        let first = state.next_number();
        let closed = state.closed.iter().map(|closed| closed.id.number);
        let absent: Vec<u64> = closed.chain(state.abandoned.iter().copied()).collect();
        let change = |new: &mut Descriptor| {
            absent.iter().for_each(|number| new.note_absent(*number));
            new.era.push(Era { generation: number, first, absent: Vec::new() });
        };
        let mut begun = begin(&self.rim, &self.name, &mut held, &mut state, change, &without);
        if matches!(begun, Err(VolumeError::Deposed { .. }))
            && matches!(held.catch_up(&self.rim, &self.name), Ok(true))
        {
            begun = begin(&self.rim, &self.name, &mut held, &mut state, change, &without);
        }
        if begun.is_ok() {
            state.renumber(number);
            state.abandoned.clear();
        }
        drop((state, held));
        match begun {
            Ok(fresh) => {
                *generation = fresh;
                self.without_log.store(false, Ordering::Release);
                Ok(())
            }
            Err(VolumeError::Deposed { .. }) => Err(self.depose()),
            Err(error) => {
                generation.unsure = true;
                Err(error)
            }
        }
    }

    /// Another process writes this volume now.
    pub(crate) fn depose(&self) -> VolumeError {
        self.deposed.store(true, Ordering::Release);
        VolumeError::Deposed { name: self.name.clone() }
    }
}
