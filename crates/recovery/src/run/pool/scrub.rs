//! A part of a scrub on a schedule, between surveys.

use std::time::Duration;

use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{ScrubReport, ScrubRequest};

use super::Shared;
use crate::Result;

/// A part ends with the object at which it has taken so long: then others may use the index, and
/// it is seen whether a node was lost.
const PART: Duration = Duration::from_secs(10);

/// Reads what is stored behind the object `after`, for a while. What is damaged is remembered, and
/// repaired after the next survey.
pub(super) fn part(shared: &Shared<'_>, after: Option<&str>) {
    let recovery = shared.recovery;
    shared.scheduler().begin_scrub(recovery.now());
    shared.tell(true);
    match read(shared, after) {
        Ok((report, last)) => {
            let findings = report.damaged + report.unreadable;
            // While a node is away, what it has looks damaged: the survey tells of that.
            if findings > 0 && report.away.is_empty() {
                let what = format!("a scrub found {findings} damaged objects, which are repaired");
                recovery.control.warn(&what);
                recovery.control.found(&report);
            }
            let position = shared.scheduler().scrubbed(recovery.now(), &report, last);
            let kept = position.map(|position| recovery.control.keep_scrub(&position));
            if let Some(Err(why)) = kept {
                recovery.control.warn(&why);
            }
        }
        Err(error) => {
            recovery.control.warn(&format!("a scrub waits: {error}"));
            shared.scheduler().scrub_failed(recovery.now());
        }
    }
    shared.tell(true);
}

fn read(shared: &Shared<'_>, after: Option<&str>) -> Result<(ScrubReport, Option<String>)> {
    let recovery = shared.recovery;
    let Some(scrubbing) = &recovery.scrubbing else { return Ok((ScrubReport::default(), None)) };
    let pool = (scrubbing.open)()?;
    let index = (recovery.index)(&pool)?;
    let until = recovery.network.now() + PART;
    let go_on = || {
        shared.tell(false);
        recovery.network.now() < until && !recovery.control.stopped()
    };
    let now_ms = recovery.control.now_ms();
    let req = ScrubRequest { depth: scrubbing.depth, now_ms, ..ScrubRequest::default() };
    let mut queue = RepairQueue::new(Rules::default());
    Ok(pool.repairer().scrub_part(&index, &mut queue, &req, after, &go_on, &recovery.settings)?)
}
