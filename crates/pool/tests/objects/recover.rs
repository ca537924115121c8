//! The repair of a pool as `kiln repair` makes it, without the crate that does: what a survey
//! finds, in the order of the queue, each object once.

use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{Index, Pool, RepairRequest};
use kiln_stripe::{PoolError, Result, Settings, Silent};

#[derive(Debug, Default)]
pub struct Recovered {
    pub damaged: u64,
    pub repaired: u64,
    pub waiting: u64,
    pub unreadable: u64,
    pub failed: Vec<(String, String)>,
    pub failed_count: u64,
    pub settled: Option<u64>,
}

/// Repairs everything; the index must be fresh.
pub fn recover(
    pool: &Pool,
    index: &Index,
    (now_ms, away): (u64, bool),
    settings: &Settings<'_>,
) -> Result<Recovered> {
    let (mut report, repairer) = (Recovered::default(), pool.repairer());
    let mut queue = RepairQueue::new(Rules { transient_wait_ms: 0, ..Rules::default() });
    report.unreadable = pool.repairer().survey(index, &mut queue, now_ms)?.unreadable;
    report.damaged = queue.len() as u64;
    let (mut names, mut due) = (Vec::new(), Vec::new());
    while let Some(damaged) = queue.next(now_ms) {
        let key = damaged.key;
        queue.done(&key);
        let Some(listed) = index.by_key(&key)? else { continue };
        let (name, suspects) = (listed.name, index.damage_of(&key)?);
        if damaged.transient && !away {
            report.waiting += 1;
            if repairer.renew_copies(&name, now_ms, settings)? {
                report.repaired += 1;
                repairer.note_renewed(&key, index)?;
            }
            continue;
        }
        names.push((key, name));
        due.push(RepairRequest { now_ms, away, suspects, rebuild_leaving: false });
    }
    let due: Vec<_> = names.iter().map(|(_, name)| &name[..]).zip(due).collect();
    for ((key, name), end) in names.iter().zip(repairer.repair_all(&due, settings)) {
        match end {
            Ok(healed) => {
                if let Some(what) = healed.refused {
                    repairer.note_left(&[(*key, healed.left_damaged)], index)?;
                    report.failed.push((name.clone(), what));
                    continue;
                }
                repairer.note_repaired(&[*key], index)?;
                report.repaired += u64::from(healed.manifest || !healed.rebuilt.is_empty());
                report.waiting += u64::from(!healed.left.is_empty());
            }
            Err(PoolError::NoObject { .. }) => {}
            Err(error) => report.failed.push((name.clone(), error.to_string())),
        }
    }
    report.failed_count = report.failed.len() as u64;
    if pool.is_backfilling() {
        index.refresh(pool, b"", &Silent)?;
        let status = pool.repairer().survey(index, &mut queue, now_ms)?;
        report.settled = repairer.settle(&status, index, settings)?.map(|map| map.revision);
    }
    Ok(report)
}
