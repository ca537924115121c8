//! Work of operators with a pool, as the commands of `kiln` do it. Whatever was done before, or
//! done in part, doing it again completes it.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, sync::Arc};

use kiln_pool::map::Opener;
use kiln_pool::{
    GetRequest, Index, Membership, NodeConfig, NodeState, Pool, PutRequest, RebalanceRequest,
    ScrubReport,
};
use kiln_store::Backend;
use kiln_stripe::{PoolError, Result, Sequence, Settings, Silent, StreamSource};

use crate::recover::{Recovered, recover};
use crate::world::{World, at_once, scrub, settings};

/// When what is done here is done.
const NOW_MS: u64 = 5_000;

pub struct Hands<'a> {
    pub world: &'a World,
    pub open: Opener<'a>,
    /// Index kept from one command to the next.
    index: Index,
    pool: RefCell<Option<Rc<Pool>>>,
    /// Objects that were put, as far as that was acknowledged.
    pub acknowledged: RefCell<BTreeSet<String>>,
}

fn refused(what: String) -> PoolError {
    PoolError::Refused { what }
}

impl Hands<'_> {
    /// The pool by its map in force, on one thread; opened anew where that changed.
    pub fn pool(&self) -> Result<Rc<Pool>> {
        let known = self.pool.borrow().clone();
        if let Some(pool) = known
            && pool.check_map().is_ok()
        {
            return Ok(pool);
        }
        let sequence = Sequence::new(|_| 0);
        let settings = Settings { sequence: Some(&sequence), ..settings() };
        let map = Membership::newest(self.world.config.clone(), false, self.open, &settings)?;
        let pool = Rc::new(Pool::open(map, self.open)?.in_sequence(sequence));
        *self.pool.borrow_mut() = Some(Rc::clone(&pool));
        Ok(pool)
    }

    fn index(&self, pool: &Pool) -> Result<&Index> {
        self.index.refresh(pool, b"", &Silent)?;
        Ok(&self.index)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let run = self.world.run();
        let req = PutRequest { name, run, now_ms: NOW_MS, replace: true };
        self.pool()?.put(&req, &mut StreamSource::new(bytes), &settings())?;
        self.acknowledged.borrow_mut().insert(name.to_owned());
        Ok(())
    }

    /// Puts objects together; an error where any of them was not put.
    pub fn put_all(&self, objects: &[(&str, Vec<u8>)]) -> Result<()> {
        let ends = self.world.put_all(&*self.pool()?, objects, true)?;
        let put = ends.iter().zip(objects).filter(|(end, _)| end.is_ok());
        self.acknowledged.borrow_mut().extend(put.map(|(_, (name, _))| (*name).to_owned()));
        ends.into_iter().try_for_each(|end| end.map(drop))
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        match self.pool()?.remove(name, self.world.run(), NOW_MS, &settings()) {
            Err(PoolError::NoObject { .. }) => Ok(()),
            end => end,
        }
    }

    /// `kiln repair`, or `kiln repair --away`.
    pub fn repair(&self, away: bool) -> Result<Recovered> {
        self.pool()?.members().attend(|_| away, &settings())?;
        let pool = self.pool()?;
        let report = recover(&pool, self.index(&pool)?, (NOW_MS, away), &settings())?;
        match report.failed.first() {
            Some((name, why)) => Err(refused(format!("{name}: {why}"))),
            None => Ok(report),
        }
    }

    /// A coordinator: it gives up nodes that stay away, and repairs what a survey finds.
    pub fn coordinate(&self) -> Result<()> {
        self.repair(true).map(drop)
    }

    /// `kiln pool drain`.
    pub fn drain(&self, id: &str) -> Result<()> {
        let Some(node) = self.node(id)? else { return Ok(()) };
        let ids = [id.to_owned()];
        if node.state != NodeState::Leaving {
            self.pool()?.members().set_state(&ids, NodeState::Leaving, false, &settings())?;
        }
        self.repair(false)?;
        let pool = self.pool()?;
        let mut left = 0;
        self.index(&pool)?.each_version("", None, |listed| {
            left += u64::from(listed.nodes.contains(&ids[0]) || listed.manifests.contains(&ids[0]));
            Ok(true)
        })?;
        if left > 0 || !pool.config().is_settled() {
            return Err(refused(format!("{left} objects are still on {id}")));
        }
        pool.members().forget(&ids, false, &settings())?;
        Ok(())
    }

    /// `kiln pool forget` and `kiln repair`.
    pub fn forget(&self, id: &str) -> Result<()> {
        if self.node(id)?.is_some() {
            let ids = [id.to_owned()];
            let pool = self.pool()?;
            let (lost, _) = pool.members().lost_without(&ids, self.index(&pool)?, 1)?;
            if let Some(name) = lost.first() {
                return Err(refused(format!("{name} would be lost")));
            }
            pool.members().forget(&ids, false, &settings())?;
        }
        self.repair(false).map(drop)
    }

    /// `kiln pool add-node` and `kiln repair`. A disk that an attempt before has marked is emptied.
    pub fn add_node(&self, at: usize) -> Result<()> {
        let node = NodeConfig::new(&format!("n{at:02}"), &format!("memory://{at}"));
        if self.node(&node.id)?.is_none() {
            let disk = (self.open)(&node)?;
            for name in disk.list()? {
                disk.remove(&name)?;
            }
            self.pool()?.members().add_node(node, self.world.run(), self.open, &settings())?;
        }
        self.repair(false).map(drop)
    }

    /// An empty disk takes the place of a lost one, and `kiln repair`.
    pub fn replace(&self, id: &str) -> Result<()> {
        let pool = self.pool()?;
        if let (Some(node), None) = (self.node(id)?, pool.place(id)) {
            pool.members().replace_disk(node, self.world.run(), self.open, &settings())?;
        }
        self.repair(false).map(drop)
    }

    /// `kiln pool rebalance`.
    pub fn rebalance(&self) -> Result<()> {
        let pool = self.pool()?;
        let req = RebalanceRequest { now_ms: NOW_MS, dry_run: false };
        let report = pool.repairer().rebalance(self.index(&pool)?, &req, &settings())?;
        match report.failed.first() {
            Some((name, why)) => Err(refused(format!("{name}: {why}"))),
            None => Ok(()),
        }
    }

    /// `kiln pool recode`; an error where the object has another code afterwards.
    pub fn recode(&self, name: &str, to: &str) -> Result<()> {
        let pool = self.pool()?;
        let report = self.world.recode(&pool, self.index(&pool)?, name, to)?;
        match report.failed.first() {
            Some((name, why)) => Err(refused(format!("{name}: {why}"))),
            None if report.recoded + report.already == 1 => Ok(()),
            None => Err(refused(format!("{report:?}"))),
        }
    }

    /// `kiln pool rekey`.
    pub fn rekey(&self) -> Result<()> {
        self.pool()?.members().begin_rekeying(&settings())?;
        let pool = self.pool()?;
        pool.members().rewrap_all(self.index(&pool)?, NOW_MS, &settings()).map(drop)
    }

    pub fn scrub(&self, now_ms: u64) -> Result<ScrubReport> {
        let pool = self.pool()?;
        scrub(&pool, self.index(&pool)?, &at_once(now_ms))
    }

    /// `kiln pool prune`.
    pub fn prune(&self) -> Result<()> {
        let pool = self.pool()?;
        pool.repairer().prune(self.index(&pool)?, (NOW_MS, false), &settings()).map(drop)
    }

    /// Has an object back that was removed last; whether nothing had to be copied.
    pub fn undelete(&self, name: &str) -> Result<bool, PoolError> {
        let pool = self.pool()?;
        let newest = self.index(&pool)?.versions_of(name)?.into_iter().next();
        let Some(newest) = newest.filter(|one| one.until_ms.is_some()) else { return Ok(false) };
        let mut ends = pool.writer().restore_all(&[&newest.object], NOW_MS, &settings())?;
        ends.remove(0).map(|restored| restored.is_some())
    }

    /// Contents of the versions that are kept of an object, the newest first.
    pub fn past(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let pool = self.pool()?;
        let versions = self.index(&pool)?.versions_of(name)?.into_iter();
        let kept = versions.filter(|version| version.until_ms.is_some());
        kept.map(|version| Ok(get(&pool, &version.object)?.unwrap_or_default())).collect()
    }

    fn node(&self, id: &str) -> Result<Option<NodeConfig>> {
        let pool = self.pool()?;
        Ok(pool.config().position(id).map(|at| pool.config().node[at].clone()))
    }
}

/// An object's bytes; `None`: there is no such object.
pub fn get(pool: &Pool, name: &str) -> Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    match pool.get(&GetRequest { name, range: None }, &mut out, &settings()) {
        Ok(_) => Ok(Some(out)),
        Err(PoolError::NoObject { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Does something with a world as it is.
pub fn with_hands<R>(world: &World, act: impl FnOnce(&Hands<'_>) -> R) -> R {
    through(world, |_, disk| disk, act)
}

/// As [`with_hands`], through other disks.
pub fn through<R>(
    world: &World,
    wrap: impl Fn(usize, Arc<dyn Backend>) -> Arc<dyn Backend>,
    act: impl FnOnce(&Hands<'_>) -> R,
) -> R {
    let open = |node: &NodeConfig| {
        let at = node.url.trim_start_matches("memory://").parse().unwrap();
        Ok(wrap(at, world.open_node(node)?))
    };
    let (index, pool) = (Index::in_memory().unwrap(), RefCell::default());
    act(&Hands { world, open: &open, index, pool, acknowledged: RefCell::default() })
}
