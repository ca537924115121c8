//! Retention and legal hold of versions.

use http::Method;

use crate::calls::{Call, not_allowed};
use crate::error::{Code, GateError, Result};
use crate::record::{Mode, ObjectRecord, Retention};
use crate::{access::Right, gate::now_ms, lock, reply::Reply, times, xml::Writer};

const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const HOLD: &str = "x-amz-object-lock-legal-hold";

fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Governance => "GOVERNANCE",
        Mode::Compliance => "COMPLIANCE",
    }
}

/// Adds what locks a version to an answer.
pub(super) fn with_lock(mut reply: Reply, record: &ObjectRecord) -> Reply {
    if let Some(Retention { mode, until_ms }) = record.retention {
        reply = reply.with(MODE, name_of(mode)).with(UNTIL, times::iso(until_ms));
    }
    match record.hold {
        Some(on) => reply.with(HOLD, if on { "ON" } else { "OFF" }),
        None => reply,
    }
}

fn held(status: Option<&str>) -> Result<bool> {
    match status {
        Some("ON") => Ok(true),
        Some("OFF") => Ok(false),
        _ => Code::MalformedXML.err("legal hold: Status is ON or OFF"),
    }
}

fn until(text: Option<&str>) -> Result<u64> {
    let time = text.and_then(times::parse_iso);
    let time =
        time.ok_or_else(|| Code::MalformedXML.error("retention: RetainUntilDate is no time"))?;
    match time > now_ms() {
        true => Ok(time),
        false => Code::InvalidArgument.err("The retain until date must be in the future!"),
    }
}

impl Call<'_> {
    /// Returns whether the client ends governance, and may.
    pub(super) fn bypasses(&self, bucket: &str) -> Result<bool> {
        let header = self.req.header("x-amz-bypass-governance-retention");
        if !header.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let at = self.gate.bucket(bucket)?;
        Ok(self.key.may(bucket, Right::Owner) || self.is_owner(&at))
    }

    /// Returns the lock that a request gives to the version that it makes.
    pub(super) fn lock_of(&self, bucket: &str) -> Result<(Option<Retention>, Option<bool>)> {
        let header = |name| self.req.header(name);
        let wrong = |why: &str| Code::InvalidArgument.error(why);
        let retention = match (header(MODE), header(UNTIL)) {
            (None, None) => None,
            (Some(mode), Some(time)) => {
                let mode =
                    lock::mode(Some(mode)).map_err(|_| wrong("Unknown wormMode directive."))?;
                let until_ms = until(Some(time)).map_err(|error| match error.code {
                    Code::MalformedXML => {
                        wrong("The retain until date must be provided in ISO 8601 format")
                            .argument(UNTIL, time)
                    }
                    _ => error,
                })?;
                Some(Retention { mode, until_ms })
            }
            _ => {
                return Code::InvalidArgument
                    .err(format!("{UNTIL} and {MODE} must both be supplied."));
            }
        };
        let hold = header(HOLD).map(|status| held(Some(status))).transpose();
        let hold = hold.map_err(|_| wrong("Legal Hold must be either of 'ON' or 'OFF'"))?;
        if retention.is_some() || hold.is_some() {
            lock::need(&self.gate.bucket(bucket)?).map_err(|error| GateError {
                message: "Bucket is missing ObjectLockConfiguration".into(),
                ..error
            })?;
        }
        Ok((retention, hold))
    }

    /// Reads or changes the retention or the legal hold of a version.
    pub(super) fn object_lock(&mut self, method: &Method, hold: bool) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let right = if *method == Method::GET { Right::Read } else { Right::Write };
        let at = self.need(bucket, right)?;
        lock::need(&at)?;
        let id = self.version_id()?.map(str::to_owned);
        match *method {
            Method::GET => shown(&self.gate.there((&at, key), id.as_deref())?.record, hold),
            Method::PUT if hold => {
                let on = held(self.document("LegalHold", true)?.child("Status"))?;
                self.gate.amend((&at, key), id.as_deref(), |record| {
                    record.hold = Some(on);
                    Ok(())
                })?;
                Ok(Reply::new(200))
            }
            Method::PUT => {
                let bypass = self.bypasses(bucket)?;
                let document = self.document("Retention", true)?;
                let new = match document.children.is_empty() {
                    true => None,
                    false => {
                        let mode = lock::mode(document.child("Mode"))?;
                        let until_ms = until(document.child("RetainUntilDate"))?;
                        Some(Retention { mode, until_ms })
                    }
                };
                self.gate.amend((&at, key), id.as_deref(), |record| {
                    lock::check_change(record.retention.as_ref(), new.as_ref(), now_ms(), bypass)?;
                    record.retention = new;
                    Ok(())
                })?;
                Ok(Reply::new(200))
            }
            _ => Err(not_allowed()),
        }
    }
}

/// The document of a version's retention, or legal hold.
fn shown(record: &ObjectRecord, hold: bool) -> Result<Reply> {
    let none = || Code::NoSuchObjectLockConfiguration.error("version: none was ever set");
    if hold {
        let on = record.hold.ok_or_else(none)?;
        let mut document = Writer::new("LegalHold");
        document.text("Status", if on { "ON" } else { "OFF" });
        return Ok(Reply::xml(document));
    }
    let Retention { mode, until_ms } = record.retention.ok_or_else(none)?;
    let mut document = Writer::new("Retention");
    document.text("Mode", name_of(mode)).text("RetainUntilDate", times::iso(until_ms));
    Ok(Reply::xml(document))
}
