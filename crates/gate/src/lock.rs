//! Object lock: versions that stay until a time, or as long as they are held.

use crate::error::{Code, GateError, Result};
use crate::record::{BucketRecord, Mode, ObjectRecord, Retention};
use crate::xml::{self, Element};

const DAY_MS: u64 = 86_400_000;
/// Most days of a bucket's retention.
const MAX_DAYS: u64 = 36_500;

const LOCKED: &str = "Access Denied because object protected by object lock.";
/// The document of a bucket that was made with object lock.
pub(crate) const ENABLED: &str = "<ObjectLockConfiguration>\
    <ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";

fn malformed(why: &str) -> GateError {
    Code::MalformedXML.error(format!("object lock: {why}"))
}

/// Reads a mode of retention.
pub(crate) fn mode(text: Option<&str>) -> Result<Mode> {
    match text {
        Some("GOVERNANCE") => Ok(Mode::Governance),
        Some("COMPLIANCE") => Ok(Mode::Compliance),
        _ => Err(malformed("Mode is GOVERNANCE or COMPLIANCE")),
    }
}

/// Refuses a bucket that was never given object lock.
pub(crate) fn need(at: &BucketRecord) -> Result<()> {
    match at.settings.contains_key("object-lock") {
        true => Ok(()),
        false => Code::InvalidRequest.err("Bucket is missing Object Lock Configuration"),
    }
}

/// Returns the mode and the time of a bucket's document, which new versions get.
fn rule(document: &Element) -> Result<Option<(Mode, u64)>> {
    if document.child("ObjectLockEnabled") != Some("Enabled") {
        return Err(malformed("ObjectLockEnabled is Enabled"));
    }
    let Some(rule) = document.all("Rule").next() else { return Ok(None) };
    let default = rule.all("DefaultRetention").next();
    let default = default.ok_or_else(|| malformed("the rule has no DefaultRetention"))?;
    let mode = mode(default.child("Mode"))?;
    let (number, days) = match (default.child("Days"), default.child("Years")) {
        (Some(days), None) => (days, 1),
        (None, Some(years)) => (years, 365),
        _ => return Err(malformed("DefaultRetention has either Days or Years")),
    };
    let number: i64 = number.parse().map_err(|_| malformed("Days or Years is no number"))?;
    match u64::try_from(number).ok().and_then(|number| number.checked_mul(days)) {
        Some(days @ 1..=MAX_DAYS) => Ok(Some((mode, days * DAY_MS))),
        _ => Code::InvalidRetentionPeriod
            .err("object lock: Days or Years is not positive, or over 100 years"),
    }
}

/// Refuses a document that cannot be a bucket's.
pub(crate) fn check(text: &str) -> Result<()> {
    rule(&xml::parse(text.as_bytes(), "ObjectLockConfiguration")?).map(drop)
}

/// Returns the retention of a version that is made now.
pub(crate) fn default_of(at: &BucketRecord, now_ms: u64) -> Option<Retention> {
    let text = at.settings.get("object-lock")?;
    let document = xml::parse(text.as_bytes(), "ObjectLockConfiguration").ok()?;
    let (mode, ms) = rule(&document).ok()??;
    Some(Retention { mode, until_ms: now_ms + ms })
}

/// Refuses the removal of a version that is held or retained; `bypass`: the client may end
/// governance.
pub(crate) fn check_removal(record: &ObjectRecord, now_ms: u64, bypass: bool) -> Result<()> {
    match &record.retention {
        _ if record.hold == Some(true) => Code::AccessDenied.err(LOCKED),
        Some(Retention { mode, until_ms })
            if *until_ms > now_ms && (*mode == Mode::Compliance || !bypass) =>
        {
            Code::AccessDenied.err(LOCKED)
        }
        _ => Ok(()),
    }
}

/// Refuses a change of retention that shortens it.
pub(crate) fn check_change(
    old: Option<&Retention>,
    new: Option<&Retention>,
    now_ms: u64,
    bypass: bool,
) -> Result<()> {
    let Some(old) = old.filter(|old| old.until_ms > now_ms) else { return Ok(()) };
    let longer = new.is_some_and(|new| new.mode == old.mode && new.until_ms >= old.until_ms);
    match longer || (bypass && old.mode == Mode::Governance) {
        true => Ok(()),
        false => Code::AccessDenied.err(LOCKED),
    }
}
