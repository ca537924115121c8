//! Repair of a whole pool: what the queue says, one object after the other.

use kiln_stripe::{PoolError, Quiet, Result, Settings};
use serde::Serialize;

use crate::Key;
use crate::Listed;
use crate::index::{Index, THE_MANIFEST};
use crate::repair::object_repair::{ExpectedReads, HealRequest, Healed};
use crate::repair::queue::{Damaged, RepairQueue, Rules};
use crate::repair::repairer::Repairer;

/// Objects that a report tells in detail at most.
const MAX_TOLD: usize = 1000;

/// Entries of the index between two writes.
const BATCH: usize = 1000;

/// Request to repair a pool.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverRequest {
    /// The time, in ms since 1970.
    pub now_ms: u64,
    /// Rebuild the shards of unavailable nodes on other nodes.
    pub away: bool,
    /// Write nothing, tell what would be done.
    pub dry_run: bool,
}

/// Report of a repair of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecoverReport {
    /// Objects in the pool.
    pub objects: u64,
    /// Objects that lacked something.
    pub damaged: u64,
    /// Objects repaired (or, in a dry run, that would be).
    pub repaired: u64,
    /// Objects not repaired because what they lack is on unavailable nodes.
    pub waiting: u64,
    /// Objects that could not be repaired, and why; at most 1000.
    pub failed: Vec<(String, String)>,
    /// Number that could not be repaired.
    pub failed_count: u64,
    /// Of these, how many are lost.
    pub unreadable: u64,
    /// Ids of nodes that take part and cannot be used: fewer further losses are survived until
    /// they are back, or the pool does without them.
    pub missing: Vec<String>,
    /// So many nodes are unavailable that there may be objects which only they know.
    pub incomplete: bool,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Contiguous reads of chunk bytes.
    pub read_runs: u64,
    /// Chunk bytes written (in a dry run, that would be).
    pub bytes_written: u64,
    /// Of these, kept from an interrupted repair.
    pub resumed_bytes: u64,
    /// The epoch from which on all manifests are in place, when this repair brought that about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// Expected cost of all reads (also in a dry run), where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedReads>,
    /// Details of at most 1000 objects.
    pub details: Vec<Healed>,
    /// A dry run.
    pub dry_run: bool,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

impl Repairer<'_> {
    /// Repairs all objects, the most endangered first. The index must be fresh.
    ///
    /// # Errors
    /// The index. An object that cannot be repaired is in the report, and the others are.
    pub fn recover(
        &self,
        index: &Index,
        req: &RecoverRequest,
        settings: &Settings<'_>,
    ) -> Result<RecoverReport> {
        let missing = self.map.missing();
        let mut report =
            RecoverReport { missing, dry_run: req.dry_run, ..RecoverReport::default() };
        loop {
            // A repair that was asked for skips the waits, and does not retry an object.
            let rules = Rules {
                transient_wait_ms: 0,
                first_backoff_ms: u64::MAX,
                most_backoff_ms: u64::MAX,
                in_flight: 1,
                ..Rules::default()
            };
            let mut queue = RepairQueue::new(rules);
            let status = self.survey(index, &mut queue, req.now_ms)?;
            report.objects = status.objects;
            report.incomplete = status.incomplete;
            report.damaged += queue.len() as u64;
            report.unreadable += status.unreadable;
            settings.observer.begin("repair", Some(queue.bytes()));
            let before = report.repaired;
            self.work_off(index, &mut queue, req, &mut report, settings)?;
            // More was damaged than the queue could hold: go on as long as that helps.
            if !queue.overflowed() || report.repaired == before || req.dry_run {
                break;
            }
        }
        if self.map.is_backfilling() && !req.dry_run {
            let mut queue = RepairQueue::new(Rules::default());
            report.settled = self
                .settle(&self.survey(index, &mut queue, req.now_ms)?, index, settings)?
                .map(|map| map.revision);
        }
        Ok(report)
    }

    fn work_off(
        &self,
        index: &Index,
        queue: &mut RepairQueue,
        req: &RecoverRequest,
        report: &mut RecoverReport,
        settings: &Settings<'_>,
    ) -> Result<()> {
        let quiet = Quiet(settings.observer);
        let inner = Settings { observer: &quiet, ..*settings };
        let unsettled = self.map.is_backfilling();
        // The survey that follows asks the index where manifests are.
        let mut renewed = Vec::new();
        while let Some(damaged) = queue.next(req.now_ms) {
            let key = damaged.key;
            let Some(listed) = index.by_key(&key)? else {
                queue.withdraw(&key);
                continue;
            };
            if damaged.transient && !req.away {
                // Copies of its manifest need not wait for the nodes with its shards.
                if unsettled
                    && !req.dry_run
                    && self.renew_copies(&listed.name, req.now_ms, settings)?
                {
                    report.repaired += 1;
                    renewed.extend(self.listed(&key)?);
                    let mut left = index.damage_of(&key)?;
                    left.retain(|index| *index != THE_MANIFEST);
                    index.set_damage(&[(key, left)])?;
                }
                report.waiting += 1;
                queue.done(&key);
                continue;
            }
            let heal = HealRequest {
                now_ms: req.now_ms,
                away: req.away,
                suspects: index.damage_of(&key)?,
                rebuild_leaving: false,
            };
            if req.dry_run {
                report.would(&damaged, self.expected_reads(&listed.name, &heal, settings)?);
                queue.done(&key);
                continue;
            }
            match self.heal(&listed.name, &heal, &inner) {
                Ok(healed) => {
                    self.note_healed(&key, index, false)?;
                    // Where nothing was lacking, the index has an earlier version of it.
                    if healed.manifest || healed.rebuilt.is_empty() {
                        renewed.extend(self.listed(&key)?);
                    }
                    report.add(healed);
                    queue.done(&key);
                }
                Err(PoolError::NoObject { .. }) => queue.done(&key),
                Err(error) => {
                    renewed.extend(self.listed(&key).ok().flatten()); // part of it may be done
                    settings.observer.warn(&error.to_string());
                    report.failed_count += 1;
                    if report.failed.len() < MAX_TOLD {
                        report.failed.push((listed.name, error.to_string()));
                    }
                    queue.failed(&key, req.now_ms);
                }
            }
            if renewed.len() >= BATCH {
                index.store(&std::mem::take(&mut renewed))?;
            }
        }
        index.store(&renewed)
    }

    /// An object as the index has it.
    fn listed(&self, key: &Key) -> Result<Option<(Key, Listed)>> {
        Ok(self
            .manifests
            .listed_now(&[*key])?
            .into_iter()
            .flatten()
            .next()
            .map(|listed| (*key, listed)))
    }
}

impl RecoverReport {
    /// Of a dry run.
    fn would(&mut self, damaged: &Damaged, expected: Option<ExpectedReads>) {
        self.repaired += 1;
        self.bytes_written += damaged.bytes;
        ExpectedReads::add(&mut self.expected, expected);
    }

    fn add(&mut self, healed: Healed) {
        self.repaired += u64::from(healed.manifest || !healed.rebuilt.is_empty());
        self.waiting += u64::from(!healed.left.is_empty());
        self.bytes_read += healed.bytes_read;
        self.read_runs += healed.read_runs;
        self.bytes_written += healed.bytes_written;
        self.resumed_bytes += healed.resumed_bytes;
        ExpectedReads::add(&mut self.expected, healed.expected);
        if self.details.len() < MAX_TOLD {
            self.details.push(healed);
        }
    }
}
